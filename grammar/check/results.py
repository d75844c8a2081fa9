"""Results of a call: the callee writes the caller's tensors, or temporaries that are copied.

They write the caller's tensor in place if it is fresh. Results keep their box; `op=` onto a fresh
one starts from the identity. A name for one of several results need not be used.
"""

from __future__ import annotations

from collections.abc import Sequence

from tcdsl.grammar.check.call import Call
from tcdsl.grammar.check.declare import annotate
from tcdsl.grammar.check.scope import Tensor
from tcdsl.grammar.check.statement import check_comprehension
from tcdsl.grammar.check.target import declare
from tcdsl.grammar.check.wording import declared_here
from tcdsl.grammar.text import nodes as n
from tcdsl.grammar.text.errors import Note
from tcdsl.grammar.text.fault import FaultError
from tcdsl.grammar.text.source import Span


def want_distinct(targets: Sequence[n.Target]) -> None:
    """Refuse a target that takes two results."""
    seen: dict[str, Span | None] = {}
    for target in targets:
        if target.name in seen:
            note = Note("the first is here", seen[target.name])
            raise FaultError("TC101", f"'{target.name}' takes two results", target.span, "", note)
        seen[target.name] = target.span


def result_of(call: Call, param: n.Param, outer: Tensor, passed: Sequence[Tensor]) -> Tensor:
    """Return the tensor that the callee writes: the caller's own if nothing is in the way."""
    declare(call.state, call.inner, param.name, param.name_span)
    is_free = not outer.is_written and outer.type is None and outer not in passed
    if is_free:
        result = outer
    else:
        name = call.state.fresh(f"{call.callee}_{param.name}")
        result = Tensor(name, "temp", param.span)
        call.add_temporary(name, result)
    call.inner.tensors[param.name] = result
    call.inner.results.add(param.name)
    call.inner.where[param.name] = param.span
    annotate(call.state, call.inner, result, param)
    return result


def hand_back(call: Call, target: n.Target, outer: Tensor, result: Tensor) -> None:
    """Copy a result that the callee could not write in place."""
    if result is outer:
        return
    if outer.dims is not None and len(outer.dims) == result.rank:
        for d, (want, got) in enumerate(zip(outer.dims, result.extents(), strict=True)):
            message = f"dimension {d} of '{outer.name}' is {want}, but the result has {got}"
            if not call.state.demand(got - want, message, target.span, "==0"):
                raise FaultError("TC210", message, target.span, "", declared_here(outer))
    names = [call.state.fresh(f"i{d}") for d in range(result.rank or 0)]
    subs = tuple(n.Name(name, span=target.span) for name in names)
    value = n.Apply(result.name, subs, span=call.span)
    left = n.Target(target.name, subs, span=target.span, name_span=target.name_span)
    node = n.Comprehension(left, "=", value, span=call.span, op_span=call.span)
    call.statements.append(check_comprehension(call.state, call.frame, node))
