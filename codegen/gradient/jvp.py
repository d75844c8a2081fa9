"""The Jacobian-vector product of a definition as TC text: forward-mode differentiation.

Each statement on a tensor that depends on the parameters gets one on its tangent, in the order of
the text, so nothing is kept, and loops, states and scatters stay what they are:

    O(i, j) +=! A(i, k) * B(k, j)   ->   t_O(i, j) +=! t_A(i, k) * B(k, j)
                                         t_O(i, j) += A(i, k) * t_B(k, j)
                                         O(i, j) +=! A(i, k) * B(k, j)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tcdsl.codegen.gradient.along import Along
from tcdsl.codegen.gradient.derivatives import TANGENTS, Tangents
from tcdsl.codegen.gradient.guards import padded
from tcdsl.codegen.gradient.halves import rounded
from tcdsl.codegen.gradient.shadows import without_shadows
from tcdsl.codegen.gradient.text import definition_text, head
from tcdsl.codegen.gradient.tidy import bounded, tidied, without_dead
from tcdsl.codegen.gradient.wanted import Wrt, check_floats, wanted
from tcdsl.codegen.program.expressions import reads_of
from tcdsl.codegen.program.last import with_last_points
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.errors import RangeError
from tcdsl.grammar.text.parser import parse
from tcdsl.grammar.text.stack import on_own_stack
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.typed import CheckedDef, Expr, Tensor


@on_own_stack
def tangents(checked: CheckedDef, wrt: Wrt | None = None) -> Tangents:
    """Return the Jacobian-vector product of a definition.

    Parameters
    ----------
    wrt
        The float parameters that have a tangent, in the order of the tangents; all by default.
        Others are constants.

    Raises
    ------
    TCTypeError
        If no parameter or no return is a float, or if the derivative has to pass a function that
        has none; or if wrt is not what `wanted.py` wants.

    Examples
    --------
    >>> from tcdsl.grammar.check.definition import check
    >>> from tcdsl.grammar.text.parser import parse
    >>> text = "def f(float(N) A, float c) -> (y) { y(i) = tanh(c * A(i)) }"
    >>> print(tangents(check(parse(text)), wrt="A").text, end="")
    def j_f(float32(N) A, float32 c, float32(N) t_A) -> (float32(N) y, float32(N) t_y) {
      y(i) = tanh(c * A(i))
      t_y(i) = c * t_A(i) * (1.0 - y(i) * y(i))
    }
    """
    check_floats(checked)
    checked = with_last_points(checked)
    places = [checked.params.index(t) for t in wanted(checked, wrt)]

    def made(f: CheckedDef, written: Mapping[str, str]) -> Tangents:
        inputs = [f.params[at] for at in places]
        lines = Along(f, inputs, (), written)
        result = _result(f, inputs, lines, written)
        short = _short(lines, result.text)  # a callee's return may be larger than what it writes
        if not short:
            return result
        return _result(f, inputs, Along(f, inputs, short, written), written)

    return without_shadows(checked, made)


def _result(
    f: CheckedDef, inputs: Sequence[Tensor], made: Along, written: Mapping[str, str]
) -> Tangents:
    """Return the definition; written: what the text calls tensors that have another name here."""
    scattered = [
        n
        for n, found in made.order.written.items()
        if made.tensors[n].role == "temp"
        and any(_is_open(e) for p in found for e in p.statement.subs)
    ]
    parts = made.block(f.body)
    for t in f.returns:
        if t.dtype.is_float and t.name not in made.active:
            parts.append(made.whole(made.tangents[t.name], made.zero(t.name)))
    given = tuple(made.tangents[t.name] for t in inputs)
    results = tuple(made.tangents[t.name] for t in f.returns if t.dtype.is_float)
    extra = [*scattered, *(made.active[n] for n in scattered if n in made.active)]
    names = (*(t.name for t in f.returns), *results, *extra)
    returned = {n: made.values[n] for n in names}
    parts = without_dead(tidied(parts, made.taken), returned)
    parts = bounded(parts, made.values, {*made.tensors, *made.tangents.values()})
    parts = padded(parts, made.values, made.taken, made.tensors)
    parts = rounded(parts, returned, made.versions, made.fresh)
    heads = [head(t.name, t.dtype, t.shape, t.default) for t in f.params]
    heads += [head(t, made.values[t].dtype, made.values[t].shape) for t in given]
    returns = [head(n, v.dtype, v.shape) for n, v in returned.items()]
    text = definition_text(made.name, heads, returns, parts, TANGENTS)
    wrt = tuple(written.get(t.name, t.name) for t in inputs)
    return Tangents(made.name, wrt, text, given, results, tuple(extra))


def _short(made: Along, text: str) -> frozenset[str]:
    """Return the tensors that have another box in the text than here.

    Where a box is too small for what reads it the text says no more than that: all temporaries.
    """
    try:
        found = {t.name: t.shape for t in check(parse(text)).temps}
    except RangeError:
        return frozenset(n for n in made.order.written if made.tensors[n].role == "temp")
    wanted = {n: v.shape for n, v in made.values.items()}
    short = {n for n, shape in found.items() if shape != wanted.get(n, shape)}
    origins = {t: n for n, t in made.tangents.items()}
    return frozenset(origins.get(n, n) for n in short)


def _is_open(e: Expr) -> bool:
    """Whether data says what a subscript writes, and nothing in the text where that lies."""
    is_clamped = isinstance(e, typed.Builtin) and e.name in ("clamp", "min", "max")
    return bool(reads_of(e)) and not is_clamped
