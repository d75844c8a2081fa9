"""Whether integers of a statement fit their type: proved, demanded of each call, or neither.

An index or a size used as a value, and what a condition compares, has to fit int32; calls check
it, so that guards mean what they say. Subscripts are int64.
"""

from __future__ import annotations

import re

from tcdsl.grammar.check.comprehension import Comprehension
from tcdsl.grammar.check.exact import magnitude
from tcdsl.grammar.check.state import CheckState
from tcdsl.grammar.check.symbolic import of_type
from tcdsl.grammar.proofs.ranges import Interval, Prover
from tcdsl.grammar.proofs.signs import is_nonnegative
from tcdsl.grammar.proofs.sizes import Size, Symbol
from tcdsl.grammar.text.errors import Note
from tcdsl.grammar.text.fault import FaultError
from tcdsl.grammar.types import typed as t
from tcdsl.grammar.types.dtypes import INT32, INT64

INT32_MAX = 2**31 - 1


def fits(work: Comprehension, value: Size, e: t.Expr) -> bool:
    """Whether a sum or product of indices, sizes and data keeps to its type at every point.

    What is made of indices and sizes each call can check, so it is demanded of them if it may
    hold; of data nothing is demanded.
    """
    if work.state.is_trial:
        return True
    return fits_in(work.state, work.prover(), value, e)


def fits_in(state: CheckState, prover: Prover, value: Size, e: t.Expr) -> bool:
    """Whether a value keeps to a type where the prover's facts hold, demanding what calls check."""
    dtype = e.dtype
    at, limits = prover.interval(value), of_type(dtype)
    if at.low is None or at.high is None or limits.low is None or limits.high is None:
        return False
    if dtype == INT64 and max(magnitude(at.low), magnitude(at.high)) < 2**63:
        return True
    sides = [at.low - limits.low, limits.high - at.high]
    open_sides = [s for s in sides if not is_nonnegative(s, prover.given)]
    if not open_sides:
        return True
    if dtype not in (INT32, INT64) or any(name.startswith("?") for name in value.symbols()):
        return False
    if any(is_nonnegative(-s - 1) for s in open_sides):
        return False
    text = e.span.text if e.span is not None else str(value)
    message = f"'{text}' does not fit {dtype}{_cure(value, e, text)}"
    for s in open_sides:
        state.demand(s, message, e.span)
    return True


def _cure(value: Size, e: t.Expr, text: str) -> str:
    if e.dtype != INT32:
        return ""
    if isinstance(e, t.Cast):
        return ": write int64 for int32"
    names = [n for n in value.symbols() if re.search(rf"\b{re.escape(n)}\b", text)]
    return f": convert its indices, as in int64({names[0] if names else 'i'})"


def values_fit(work: Comprehension) -> None:
    """Require that sizes and indices used as int32 values fit; calls say which does not."""
    for size, span in work.typer.wide:
        at = work.prover().interval(size)
        text = span.text if span is not None else str(size)
        message = f"'{text}' does not fit int32, as which it is used: write int64({text})"
        if not work.unbounded.isdisjoint(size.symbols()) and not _fits_int32(at):
            cure = Note(f"write int64({text})")
            raise FaultError(
                "TC211", f"'{text}' may not fit int32, as which it is used", span, "", cure
            )
        if at.high is not None:
            work.state.require(-at.high + INT32_MAX, message, span)
        if at.low is not None and _is_signed(size):
            work.state.require(at.low + INT32_MAX + 1, message, span)


def _fits_int32(at: Interval) -> bool:
    if at.low is None or at.high is None:
        return False
    return is_nonnegative(at.low + INT32_MAX + 1) and is_nonnegative(-at.high + INT32_MAX)


def _is_signed(size: Size) -> bool:
    match size.terms:
        case (((Symbol(_, signed),), 1),):
            return signed
        case _:
            return False
