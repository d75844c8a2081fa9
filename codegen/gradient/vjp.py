"""The vector-Jacobian product of a definition as TC text.

What the derivatives need of the forward pass is computed again where that is pointwise; results of
reductions and of loops are kept: extra outputs of the training forward, parameters of the gradient.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod

from tcdsl.codegen.gradient.backward import Backward
from tcdsl.codegen.gradient.centred import without_centred
from tcdsl.codegen.gradient.checkpoint import segmented
from tcdsl.codegen.gradient.derivatives import FORWARD, GRADIENT, Given, Gradient
from tcdsl.codegen.gradient.distribute import distributed
from tcdsl.codegen.gradient.expand import expanded
from tcdsl.codegen.gradient.forward import Axes, boxed, lines_of, scattered, turn_of, with_forward
from tcdsl.codegen.gradient.guards import padded
from tcdsl.codegen.gradient.halves import rounded
from tcdsl.codegen.gradient.joining import joined
from tcdsl.codegen.gradient.lines import Part, forwards, spread, walk
from tcdsl.codegen.gradient.normalising import normalised
from tcdsl.codegen.gradient.order import Order
from tcdsl.codegen.gradient.place import restored_apart, without_needless
from tcdsl.codegen.gradient.renaming import versions_of
from tcdsl.codegen.gradient.results import without_copied
from tcdsl.codegen.gradient.reuse import reused
from tcdsl.codegen.gradient.searched import searched_forwards
from tcdsl.codegen.gradient.shadows import without_shadows
from tcdsl.codegen.gradient.shared import shared
from tcdsl.codegen.gradient.signs import without_signs
from tcdsl.codegen.gradient.starting import started
from tcdsl.codegen.gradient.text import definition_text, head
from tcdsl.codegen.gradient.tidy import bounded, tidied, without_copies, without_dead
from tcdsl.codegen.gradient.versions import Turns, Version, Versions
from tcdsl.codegen.gradient.wanted import Wrt, check_floats, wanted
from tcdsl.codegen.gradient.zeros import with_zeros
from tcdsl.codegen.program.last import with_last_points
from tcdsl.grammar.proofs.ranges import Interval, over_turns
from tcdsl.grammar.proofs.signs import is_nonnegative, maximum
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import Diagnostic, Note, raise_one
from tcdsl.grammar.text.stack import on_own_stack
from tcdsl.grammar.types.dtypes import DType
from tcdsl.grammar.types.typed import CheckedDef, Tensor


@on_own_stack
def gradient(
    checked: CheckedDef, checkpoint: int | None = None, wrt: Wrt | None = None
) -> Gradient:
    """Return the gradient of a definition.

    Parameters
    ----------
    checkpoint
        Keep the state of loops before every so many turns only, and run each such segment again.
    wrt
        The float parameters that the gradient is by, in the order of its returns; all by default.
        What only others need is neither computed nor kept.

    Raises
    ------
    TCTypeError
        If no parameter or no return is a float, if a gradient has to pass a function that has
        none, or if nothing bounds the turns of an inner loop of which the gradient keeps something;
        or if wrt is not what `wanted.py` wants.

    Examples
    --------
    >>> from tcdsl.grammar.check.definition import check
    >>> from tcdsl.grammar.text.parser import parse
    >>> text = "def mv(float(M,K) A, float(K) x) -> (y) { y(i) +=! A(i, k) * x(k) }"
    >>> print(gradient(check(parse(text))).text, end="")
    def d_mv(float32(M, K) A, float32(K) x, float32(M) d_y) -> (float32(M, K) d_A, float32(K) d_x) {
      d_x(k) +=! d_y(i) * A(i, k)
      d_A(i, k) +=! d_y(i) * x(k)
    }
    """
    check_floats(checked)
    checked = with_last_points(checked)
    places = [checked.params.index(t) for t in wanted(checked, wrt)]

    def made(f: CheckedDef, written: Mapping[str, str]) -> Gradient:
        inputs = [f.params[at] for at in places]
        again: Collection[str] = ()
        still: Collection[str] = ()  # no way back through the loops that write these
        if wrt is not None:
            still = Order(f).apart_from(t.name for t in inputs)
        if checkpoint is not None:
            f, again = segmented(f, checkpoint, still)
        f, in_place = expanded(f, again, still)
        return _gradient(f, versions_of(f, again, in_place, still), inputs, written)

    return without_shadows(checked, made)


def _gradient(
    f: CheckedDef, versions: Versions, inputs: Sequence[Tensor], written: Mapping[str, str]
) -> Gradient:
    """Return the gradient; written: what the text calls tensors that have another name here."""
    finals = versions.finals
    outputs = [t for t in f.returns if t.dtype.is_float]
    params = tuple(t.name for t in f.params)
    back = Backward(versions)
    given = {t.name: back.fresh(f"d_{written.get(t.name, t.name)}") for t in outputs}
    results = {t.name: back.fresh(f"d_{written.get(t.name, t.name)}") for t in inputs}
    for t in inputs:
        back.result(t.name, results[t.name])
    back.activate()
    begin = [p for t in outputs for p in back.seed(finals[t.name], given[t.name])]
    lines = back.block(versions.nodes)
    versions, lines = searched_forwards(versions, lines, back)
    rest = [p for t in inputs for p in back.finished(t.name)]
    wanted = set(results.values())
    lines = [*begin, *back.zeros, *lines, *rest]
    adjoints = {back.adjoints[n] for n in versions.in_place if n in back.adjoints}
    lines = without_needless(lines, versions.in_place, adjoints, wanted)
    elsewhere = wanted | versions.in_place  # read outside of the loop that writes them
    lines = without_copies(lines, {n: v for n, v in back.values.items() if n not in elsewhere})
    # Subscripts are folded before it is known what of the forward pass they read.
    lines = tidied(lines, versions.taken)
    lines, kept, axes = with_forward(versions, lines, params, back.compared)
    values = back.values
    lines = restored_apart(lines, versions, values, back.taken)
    values |= {n: _with_turns(values[n], axes[n]) for n in axes}
    lines = forwards(started(distributed(lines, values, wanted), values))
    lines = bounded(tidied(lines, versions.taken), values, wanted)
    lines = padded(lines, values, back.taken, versions.values)
    lines = joined(lines, values, wanted | versions.in_place)
    centred = without_centred(lines, versions, wanted | versions.in_place)
    if centred != lines:
        lines = joined(centred, values, wanted | versions.in_place)
    shorter = shared(lines, values, {*params, *given.values()}, wanted | versions.in_place)
    shorter = normalised(shorter, versions, wanted | versions.in_place)
    if shorter != lines:
        shorter = without_dead(shorter, wanted | versions.in_place)
        shorter = joined(shorter, values, wanted | versions.in_place)
    shorter = reused(shorter, values)
    if shorter != lines:
        shorter = without_dead(shorter, wanted | versions.in_place)
        shorter = joined(shorter, values, wanted | versions.in_place)
        needless = _read(lines) - _read(shorter)
        also = _read(shorter) & {*finals.values()} - {line.target for line in walk(shorter)}
        kept = tuple(n for n in versions.values if n in also or (n in kept and n not in needless))
        lines = shorter
    lines = with_zeros(lines, versions.values)
    lines = without_signs(lines, wanted | versions.in_place)
    lines = without_copied(lines, values, wanted, versions.in_place)
    lines = rounded(lines, {}, replace(versions, values=values), back.fresh)
    heads = [head(t.name, t.dtype, t.shape, t.default) for t in f.params]
    sizes = _Sizes(f, back)
    heads += [sizes.parameter(n, values[n].dtype, values[n].shape) for n in kept]
    heads += [sizes.parameter(given[t.name], t.dtype, t.shape) for t in outputs]
    returns = [head(results[t.name], t.dtype, t.shape) for t in inputs]
    name = _own_name(f"d_{f.name}", back)
    text = definition_text(name, heads, returns, lines, GRADIENT)
    extra = tuple(n for n in kept if n not in finals.values())
    behind = [Given(n, "", values[n].shape) for n in kept]
    behind += [Given(given[t.name], written.get(t.name, t.name), t.shape) for t in outputs]
    memory = Size()
    for n in extra:
        memory = memory + prod(values[n].shape, start=Size.const(values[n].dtype.bits // 8))
    training = _forward(f, back, versions, extra, {n: axes[n] for n in kept if n in axes})
    wrt = tuple(written.get(t.name, t.name) for t in inputs)
    return Gradient(name, wrt, text, training, kept, extra, tuple(behind), memory)


def _forward(
    f: CheckedDef, back: Backward, versions: Versions, extra: Iterable[str], axes: Axes
) -> str:
    """Return the definition with more outputs, values under the names of versions."""
    values = {n: _with_turns(v, axes.get(n, ())) for n, v in versions.values.items()}
    finals = {final: f.tensor(name) for name, final in versions.finals.items()}
    also = tuple(dict.fromkeys((*extra, *scattered(versions))))
    parts: list[Part] = [p for n in versions.nodes for p in lines_of(n, versions)]
    for name, nodes in axes.items():
        for node in reversed(nodes):
            parts = spread(parts, name, turn_of(node))
    parts = tidied(parts, versions.taken)  # first: a condition that is folded may read no more
    parts = boxed(without_dead(parts, {*finals, *also}), versions, (*finals, *also))
    parts = padded(parts, values, versions.taken, versions.values)
    returned = {n: values[n] for n in (*finals, *also)}
    parts = rounded(parts, returned, replace(versions, values=values), back.fresh)
    heads = [head(t.name, t.dtype, t.shape, t.default) for t in f.params]
    returns = [head(final, t.dtype, t.shape) for final, t in finals.items()]
    returns += [head(n, values[n].dtype, values[n].shape) for n in also]
    name = _own_name(f"{f.name}_forward", back)
    return definition_text(name, heads, returns, parts, FORWARD)


def _read(parts: Sequence[Part]) -> set[str]:
    """Return what lines read."""
    return {r.tensor for line in walk(parts) for r in line.reads()}


def _own_name(name: str, back: Backward) -> str:
    """Return the name of a definition, another one where a tensor is called so."""
    return back.fresh(name) if name in back.values else name


def _with_turns(v: Version, loops: Sequence[Turns]) -> Version:
    """Return a value of every turn of loops, of as many as inner ones have at most."""
    return replace(v, shape=(*(_turns(x, loops[:d]) for d, x in enumerate(loops)), *v.shape))


def _turns(loop: Turns, around: Sequence[Turns]) -> Size:
    turns = loop.high - loop.low
    domain = {x.var: Interval(x.low, x.high - 1) for x in around}
    most = over_turns(Interval(turns, turns), domain).high
    if most is None or any(x.var in most.symbols() for x in around):
        kept = f"what the gradient keeps of the turns of the loop over '{loop.var}' has no extent"
        note = Note(
            "no size bounds its number of turns, which depends on loops around: count to a size or "
            "a scalar, and let a condition say what turns leave as it is: "
            f"{loop.var} < ... ? ... : ..."
        )
        raise_one(Diagnostic("TC142", kept, loop.span, "", (note,)))
    return most if is_nonnegative(most) else maximum(Size(), most)


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Heads of parameters that bring extents which are expressions of the definition's sizes."""

    checked: CheckedDef
    back: Backward

    def parameter(self, name: str, dtype: DType, shape: tuple[Size, ...]) -> str:
        """Return the head of a parameter, with a new size for each such extent."""
        scalars = {t.name for t in self.checked.params if not t.shape}
        dims = []
        for d, extent in enumerate(shape):
            is_size = str(extent) in self.checked.sizes and str(extent) not in scalars
            is_plain = extent.constant is not None or is_size
            dims.append(str(extent) if is_plain else self.back.fresh(f"{name}_n{d}"))
        return f"{dtype}({','.join(dims)}) {name}" if dims else f"{dtype} {name}"
