"""What a whole definition leaves over: returns not written, temporaries and generics not used."""

from __future__ import annotations

from tcdsl.grammar.check.scope import Frame, near
from tcdsl.grammar.check.state import CheckState
from tcdsl.grammar.check.unwritten import report_unwritten
from tcdsl.grammar.text.errors import Diagnostic, Note
from tcdsl.grammar.text.walk import targets_of


def report_leftovers(state: CheckState, frame: Frame) -> None:
    """Report returns never written, temporaries never read, generics never used."""
    had_errors = state.error_count > 0
    results = [p.name for p in frame.definition.returns]
    attempted = set(targets_of(frame.definition.body))
    for name, tensor in frame.tensors.items():
        if tensor.is_poisoned or name in frame.inputs:
            continue
        if name in results and not tensor.is_written and name not in attempted:
            written = [k for k in frame.tensors if k not in results and k not in frame.inputs]
            message = f"the return '{name}' is never written"
            hint = near(name, written)
            state.report(
                Diagnostic("TC110", message, frame.where[name], "", (hint,) if hint else ())
            )
        if name not in results and not tensor.is_read and not had_errors:
            cure = Note("list it among the returns if the caller wants it")
            hint = near(name, results)
            message = f"'{name}' is written, but never read and not returned"
            notes = (hint, cure) if hint else (cure,)
            state.report(Diagnostic("TC111", message, tensor.span, "", notes))
        if name in results:
            report_unwritten(state, tensor)
    if had_errors:
        return
    for generic in frame.definition.generics:
        if generic.name not in frame.used_generics:
            message = f"the generic '{generic.name}' is never used"
            state.report(
                Diagnostic("TC115", message, generic.span, "", (Note("remove it, or use it"),))
            )
