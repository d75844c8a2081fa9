"""The vector-Jacobian product of a definition as TC text.

Statements are gone through backwards. Each hands the adjoint of what it wrote to what it read:

    O(i, j) +=! A(i, k) * B(k, j)   ->   d_A(i, k) += d_O(i, j) * B(k, j)
                                         d_B(k, j) += d_O(i, j) * A(i, k)

What the derivatives need of the forward pass is computed again where that is pointwise; results of
reductions and of loops are kept: extra outputs of the training forward, parameters of the gradient.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tcdsl.codegen.gradient import build as g
from tcdsl.codegen.gradient.gather import gathered
from tcdsl.codegen.gradient.lines import Line, Loop, Part, map_line, text_of, walk
from tcdsl.codegen.gradient.pull import Share, pull
from tcdsl.codegen.gradient.versions import Node, Step, Turns, Value, Versions, versions_of
from tcdsl.codegen.program import reads_of
from tcdsl.grammar import typed
from tcdsl.grammar.dtypes import FLOAT32, INT64, DType
from tcdsl.grammar.errors import TCTypeError
from tcdsl.grammar.sizes import Size
from tcdsl.grammar.typed import CheckedDef, Expr, Range


@dataclass(frozen=True, slots=True)
class Gradient:
    """Two definitions as TC text.

    text: the vector-Jacobian product: its parameters are those of f, then kept, then `d_O` for each
    float return; its returns `d_X` for each float parameter. forward: f with the outputs `extra`
    besides its own. kept: what of both the gradient takes, by its name there.
    """

    name: str
    text: str
    forward: str
    kept: tuple[str, ...]
    extra: tuple[str, ...]


def gradient(checked: CheckedDef) -> Gradient:
    """Return the gradient of a definition.

    Raises
    ------
    TCTypeError
        If no parameter or no return is a float, if a gradient has to pass a function that has
        none, or if turns of a loop overwrite what the gradient needs.
    """
    return _Maker(checked).result()


@dataclass(slots=True)
class _Adjoint:
    """The adjoint of a version: what it is called, and whether anything was added to it."""

    name: str
    begun: bool = False


@dataclass(slots=True)
class _Maker:
    checked: CheckedDef
    versions: Versions = field(init=False)
    taken: set[str] = field(init=False)
    adjoints: dict[str, _Adjoint] = field(default_factory=dict)
    extra: dict[str, Value] = field(default_factory=dict)  # tensors of the gradient's own
    zeros: list[Part] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.versions = versions_of(self.checked)
        indices = {r.name for s in _steps(self.versions.nodes) for r in s.ranges}
        loops = {x.var for x in _loops(self.versions.nodes)}
        self.taken = {*self.versions.values, *self.checked.sizes, *indices, *loops}

    def fresh(self, name: str) -> str:
        """Return a name like this one that nothing else has."""
        candidate, count = name, 1
        while candidate in self.taken:
            count += 1
            candidate = f"{name}_{count}"
        self.taken.add(candidate)
        return candidate

    def result(self) -> Gradient:
        """Return both texts."""
        f, values = self.checked, self.versions.values
        inputs = [t for t in f.params if t.dtype.is_float]
        outputs = [t for t in f.returns if t.dtype.is_float]
        if not inputs or not outputs:
            what = "parameter" if not inputs else "return"
            raise TCTypeError(f"{f.name} has no float {what}, so it has no gradient")
        given = {t.name: self.fresh(f"d_{t.name}") for t in outputs}
        results = {t.name: self.fresh(f"d_{t.name}") for t in inputs}
        begin: list[Part] = []
        for t in outputs:
            final = self.versions.finals[t.name]
            name = given[t.name]
            if self._grows(final):
                name = self.fresh(f"a_{t.name}")
                seed = typed.Read(given[t.name], self._at(final), t.dtype)
                begin.append(self._full(name, final, _computed(seed)))
            self.adjoints[final] = _Adjoint(name, begun=True)
        for t in inputs:
            self.adjoints[t.name] = _Adjoint(results[t.name])
        back = self.block(self.versions.nodes, in_loop=False)
        for t in inputs:
            if not self.adjoints[t.name].begun:
                back.append(self._full(results[t.name], t.name, g.number(0, _held(t.dtype))))
        body, kept = self._with_forward([*begin, *self.zeros, *back])
        shapes = {n: v.shape for n, v in values.items()}
        shapes |= {given[t.name]: t.shape for t in outputs}
        shapes |= {n: v.shape for n, v in self.extra.items()}
        name = f"d_{f.name}"
        heads = [_head(t.name, t.dtype, t.shape) for t in f.params]
        heads += [self._parameter(n, values[n].dtype, values[n].shape) for n in kept]
        heads += [self._parameter(given[t.name], t.dtype, t.shape) for t in outputs]
        returns = [_head(results[t.name], t.dtype, t.shape) for t in inputs]
        text = _definition(name, heads, returns, text_of(body, shapes))
        finals = {final: t for t, final in self.versions.finals.items()}
        extra = tuple(n for n in kept if n not in finals)
        return Gradient(name, text, self._forward(extra), kept, extra)

    # ---- adjoints

    def _grows(self, final: str) -> bool:
        """Whether something is added to the adjoint of a return, or taken from it."""
        for s in _steps(self.versions.nodes):
            if s.base == final or any(r.tensor == final for r in _reads(s)):
                return True
        return False

    def _at(self, version: str) -> tuple[Expr, ...]:
        return tuple(g.index(n) for n in self._names(version))

    def _names(self, version: str) -> list[str]:
        return [f"i{d}" for d in range(len(self.versions.values[version].shape))]

    def _box(self, version: str) -> tuple[Range, ...]:
        shape = self.versions.values[version].shape
        pairs = zip(self._names(version), shape, strict=True)
        return tuple(Range(n, Size.const(0), extent, "output") for n, extent in pairs)

    def _full(self, name: str, version: str, value: Expr) -> Line:
        """Return `name(i0, ..) = value` over the box of a version."""
        v = self.versions.values[version]
        self.extra.setdefault(name, Value(name, version, v.dtype, v.shape))
        return Line(name, self._at(version), "=", value, self._box(version))

    def adjoint(self, version: str) -> _Adjoint:
        """Return the adjoint of a version, a new one if it has none."""
        found = self.adjoints.get(version)
        if found is None:
            v = self.versions.values[version]
            found = self.adjoints[version] = _Adjoint(self.fresh(f"a_{version}"))
            self.extra[found.name] = Value(found.name, version, _held(v.dtype), v.shape)
        return found

    def add(self, line: Line, version: str, zeros: list[Part], *, in_loop: bool) -> Line:
        """Return a line that adds to an adjoint; the first one starts it, or zeros do."""
        adjoint = self.adjoint(version)
        if adjoint.begun:
            return line
        adjoint.begun = True
        v = self.versions.values[version]
        covers = [g.index(r.name) for r in line.ranges[: len(v.shape)]] == list(line.subs) and all(
            r.low == Size.const(0) and r.high == extent
            for r, extent in zip(line.ranges, v.shape, strict=False)
        )
        if covers and not in_loop:
            return Line(line.target, line.subs, "+=!", line.value, line.ranges)
        zeros.append(self._full(adjoint.name, version, g.number(0, _held(v.dtype))))
        return line

    # ---- backwards

    def block(self, nodes: Sequence[Node], *, in_loop: bool) -> list[Part]:
        """Return the lines that go back through nodes."""
        back: list[Part] = []
        for node in reversed(nodes):
            if isinstance(node, Turns):
                back += self.turns(node)
            else:
                back += self.step(node, self.zeros, in_loop=in_loop)
        return back

    def turns(self, node: Turns) -> list[Part]:
        """Return the loop that goes back through the turns of another."""
        local: list[Part] = []
        back: list[Part] = []
        for inner in reversed(node.body):
            if isinstance(inner, Turns):
                back += self.turns(inner)
                continue
            zeros: list[Part] = []
            back += self.step(inner, zeros, in_loop=True)
            for z in zeros:
                assert isinstance(z, Line)
                (local if self.extra[z.target].tensor in node.private else self.zeros).append(z)
        again = self._again(node, [*local, *back])
        var = self.fresh(node.var)
        turn = node.high - 1 - Size.symbol(var, signed=True)
        body = _turned([*again, *local, *back], node.var, turn)
        return [Loop(var, Size.const(0), node.high - node.low, tuple(body))] if back else []

    def _again(self, node: Turns, parts: Sequence[Part]) -> list[Part]:
        """Return the private steps of a turn that parts, or each other, read the results of."""
        needed = {r.tensor for line in walk(parts) for r in line.reads()}
        out: list[Part] = []
        for inner in reversed(node.body):
            if isinstance(inner, Turns) or inner.target not in node.private & needed:
                continue
            out = [*_forward_lines(inner, self.versions), *out]
            needed |= {r.tensor for r in _reads(inner)}
            needed |= {inner.base} if inner.base is not None else set()
        return out

    def step(self, s: Step, zeros: list[Part], *, in_loop: bool) -> list[Part]:
        """Return the lines that hand the adjoint of a step's target on."""
        v = self.versions.values[s.target]
        if s.target not in self.adjoints or not v.dtype.is_float or s.op.startswith("arg"):
            return []
        name = self.adjoints[s.target].name
        seed = _computed(typed.Read(name, s.subs, self._adjoint_dtype(s.target)))
        seed = g.convert(seed, _held(s.value.dtype)) if s.value.dtype.is_float else seed
        lines: list[Part] = []
        if s.base is not None:
            lines += self._to_base(s, name, zeros, in_loop=in_loop)
        match s.op.rstrip("!"):
            case "=" | "+=":
                pass
            case "max=" | "min=":
                found, seed = self._first_extreme(s, seed)
                lines += found
            case _:
                found, seed = self._other_factors(s, seed)
                lines += found
        value = s.value
        if isinstance(value, typed.Cast) and value.dtype.is_half:
            value, seed = value.operand, seed
        for share in pull(value, seed):
            lines += self._share(s, share, zeros, in_loop=in_loop)
        return lines

    def _adjoint_dtype(self, version: str) -> DType:
        name = self.adjoints[version].name
        return self.extra[name].dtype if name in self.extra else self.versions.values[version].dtype

    def _share(self, s: Step, share: Share, zeros: list[Part], *, in_loop: bool) -> list[Part]:
        source = share.read.tensor
        v = self.versions.values[source]
        if not v.dtype.is_float or not self._wanted(source):
            return []
        value = g.convert(share.value, _held(v.dtype))
        subs, value, ranges = gathered(s, share.read, value, share.guard, v.shape, self.fresh)
        line = Line(self.adjoint(source).name, subs, "+=", value, ranges)
        return [self.add(line, source, zeros, in_loop=in_loop)]

    def _wanted(self, version: str) -> bool:
        """Whether a version depends on a float parameter."""
        return version in self.adjoints or version in self._active()

    def _active(self) -> set[str]:
        active = {t.name for t in self.checked.params if t.dtype.is_float}
        before = -1
        while len(active) != before:  # loops carry on what a later step makes
            before = len(active)
            for s in _steps(self.versions.nodes):
                if s.base in active or any(r.tensor in active for r in _reads(s)):
                    active.add(s.target)
        return active

    def _to_base(self, s: Step, name: str, zeros: list[Part], *, in_loop: bool) -> list[Part]:
        """Return how the version before gets its share: all, or what is not overwritten."""
        base = s.base
        assert base is not None
        if not self._wanted(base):
            return []
        dtype = self._adjoint_dtype(s.target)
        lines: list[Part] = []
        if s.op != "+=":
            rest = self.fresh(f"{name}_rest")
            self.extra[rest] = Value(rest, base, dtype, self.versions.values[base].shape)
            all_of_it = typed.Read(name, self._at(s.target), dtype)
            lines.append(self._full(rest, s.target, _computed(all_of_it)))
            outputs = tuple(r for r in s.ranges if r.kind == "output")
            factor: Expr = g.number(0, _held(dtype))
            if s.op == "*=":
                found, product = self._product(s)
                lines += found
                factor = g.mul(typed.Read(name, s.subs, dtype), product)
            elif s.op in ("max=", "min="):
                here = typed.Read(s.target, s.subs, self.versions.values[s.target].dtype)
                before = typed.Read(base, s.subs, self.versions.values[base].dtype)
                stays = g.compare("==", _computed(here), _computed(before))
                mine = typed.Read(name, s.subs, dtype)
                factor = g.choose(stays, _computed(mine), factor)
            lines.append(Line(rest, s.subs, "=", factor, outputs))
            name = rest
        value = g.convert(_computed(typed.Read(name, self._at(base), dtype)), _held(dtype))
        line = Line(self.adjoint(base).name, self._at(base), "+=", value, self._box(base))
        lines.append(self.add(line, base, zeros, in_loop=in_loop))
        return lines

    def _first_extreme(self, s: Step, seed: Expr) -> tuple[list[Part], Expr]:
        """Return the seed for the first point that attains an extreme, 0 for the others."""
        reductions = [r for r in s.ranges if r.kind == "reduction"]
        zero = g.number(0, seed.dtype)
        lines: list[Part] = []
        wins: Expr | None = None
        if s.base is not None:
            dtype = self.versions.values[s.target].dtype
            here = _computed(typed.Read(s.target, s.subs, dtype))
            before = _computed(typed.Read(s.base, s.subs, dtype))
            wins = typed.Unary(
                "!", g.compare("==", here, before), g.compare("==", here, before).dtype
            )
        if reductions:
            outputs = tuple(r for r in s.ranges if r.kind == "output")
            place = self.fresh(f"{s.target}_place")
            at = tuple(_minus(g.index(r.name), r.low) for r in outputs)
            op = "argmax=!" if s.op.startswith("max") else "argmin=!"
            lines.append(Line(place, at, op, s.value, s.ranges))  # type: ignore[arg-type]
            shape = tuple(r.extent for r in outputs)
            self.extra[place] = Value(place, place, INT64, shape)
            chosen = g.compare("==", _position(reductions), typed.Read(place, at, INT64))
            wins = g.both(wins, chosen)
        return lines, g.choose(wins, seed, zero)

    def _product(self, s: Step) -> tuple[list[Part], Expr]:
        """Return how to form the product of all factors of a step, and its read."""
        outputs = tuple(r for r in s.ranges if r.kind == "output")
        name = self.fresh(f"{s.target}_product")
        at = tuple(_minus(g.index(r.name), r.low) for r in outputs)
        dtype = _held(s.value.dtype)
        self.extra[name] = Value(name, name, dtype, tuple(r.extent for r in outputs))
        return [Line(name, at, "*=!", s.value, s.ranges)], typed.Read(name, at, dtype)

    def _other_factors(self, s: Step, seed: Expr) -> tuple[list[Part], Expr]:
        """Return the seed times the product of the other factors, right also where some are 0."""
        outputs = tuple(r for r in s.ranges if r.kind == "output")
        dtype = _held(s.value.dtype)
        at = tuple(_minus(g.index(r.name), r.low) for r in outputs)
        one, zero = g.number(1, dtype), g.number(0, dtype)
        is_zero = g.compare("==", s.value, zero)
        count, product = (self.fresh(f"{s.target}_{x}") for x in ("zeros", "others"))
        shape = tuple(r.extent for r in outputs)
        for name in (count, product):
            self.extra[name] = Value(name, name, dtype, shape)
        lines: list[Part] = [
            Line(count, at, "+=!", g.choose(is_zero, one, zero), s.ranges),
            Line(product, at, "*=!", g.choose(is_zero, one, s.value), s.ranges),
        ]
        zeros, others = typed.Read(count, at, dtype), typed.Read(product, at, dtype)
        alone = g.choose(g.compare("==", zeros, one), others, zero)
        rest = g.choose(g.compare("==", zeros, zero), g.div(others, s.value), zero)
        if s.base is not None:
            before = _computed(typed.Read(s.base, s.subs, self.versions.values[s.base].dtype))
            seed = g.mul(seed, before)
        return lines, g.mul(seed, g.choose(is_zero, alone, rest))

    # ---- what the backward pass needs of the forward pass

    def _with_forward(self, back: list[Part]) -> tuple[list[Part], tuple[str, ...]]:
        """Return all lines of the gradient, and the versions that it takes as parameters."""
        params = {t.name for t in self.checked.params}
        finals = set(self.versions.finals.values())
        inside = {s.target for x in _loops(self.versions.nodes) for s in _steps(x.body)}
        private = {n for x in _loops(self.versions.nodes) for n in x.private}
        needed = {r.tensor for line in walk(back) for r in line.reads()} - private
        needed &= self.versions.values.keys()
        steps = [n for n in self.versions.nodes if isinstance(n, Step)]
        again: list[Part] = []
        kept: set[str] = set()
        for s in reversed(steps):
            if s.target not in needed or s.target in finals:
                continue
            if s.op == "=" and s.base is None and s.covers and s.target not in inside:
                again = [*_forward_lines(s, self.versions), *again]
                needed |= {r.tensor for r in _reads(s)}
            else:
                kept.add(s.target)
        kept |= needed & (finals | inside)
        order = [n for n in self.versions.values if n in kept and n not in params]
        return [*again, *back], tuple(order)

    def _forward(self, extra: tuple[str, ...]) -> str:
        """Return the definition with more outputs, values under the names of versions."""
        f, values = self.checked, self.versions.values
        parts = [p for n in self.versions.nodes for p in _node_lines(n, self.versions)]
        finals = {final: name for name, final in self.versions.finals.items()}
        shapes = {n: v.shape for n, v in values.items()}
        heads = [_head(t.name, t.dtype, t.shape) for t in f.params]
        returns = [_head(final, t.dtype, t.shape) for final, t in (
            (final, f.tensor(name)) for final, name in finals.items()
        )]  # fmt: skip
        returns += [_head(n, values[n].dtype, values[n].shape) for n in extra]
        return _definition(f"{f.name}_forward", heads, returns, text_of(parts, shapes))

    def _parameter(self, name: str, dtype: DType, shape: tuple[Size, ...]) -> str:
        """Return the head of a parameter, with new sizes for extents that are expressions."""
        dims = []
        for d, extent in enumerate(shape):
            is_plain = extent.constant is not None or str(extent) in self.checked.sizes
            dims.append(str(extent) if is_plain else self.fresh(f"{name}_n{d}"))
        return f"{dtype}({', '.join(dims)}) {name}" if dims else f"{dtype} {name}"


# ---- pieces


def _steps(nodes: Sequence[Node]) -> Iterable[Step]:
    for node in nodes:
        if isinstance(node, Turns):
            yield from _steps(node.body)
        else:
            yield node


def _loops(nodes: Sequence[Node]) -> Iterable[Turns]:
    for node in nodes:
        if isinstance(node, Turns):
            yield node
            yield from _loops(node.body)


def _reads(s: Step) -> list[typed.Read]:
    return [r for e in (s.value, *s.subs) for r in reads_of(e)]


def _held(dtype: DType) -> DType:
    return FLOAT32 if dtype.is_half else dtype


def _computed(read: typed.Read) -> Expr:
    """Return a read in the type in which it is computed."""
    return typed.Cast(read, FLOAT32) if read.dtype.is_half else read


def _minus(e: Expr, low: Size) -> Expr:
    if low == Size.const(0):
        return e
    return typed.Binary("-", e, g.size(low), INT64)


def _position(reductions: Sequence[Range]) -> Expr:
    """Return what an arg reduction gives for a point: the index, or its row-major place."""
    if len(reductions) == 1:
        return g.index(reductions[0].name)
    at: Expr | None = None
    for r in reductions:
        step = _minus(g.index(r.name), r.low)
        if at is None:
            at = step
        else:
            scaled = typed.Binary("*", at, g.size(r.extent), INT64)
            at = typed.Binary("+", scaled, step, INT64)
    assert at is not None
    return at


def _turned(parts: Sequence[Part], var: str, turn: Size) -> list[Part]:
    """Return parts with another turn in place of a loop's variable."""

    def size(x: Size) -> Size:
        return x.substitute({var: turn})

    out: list[Part] = []
    for part in parts:
        if isinstance(part, Line):
            out.append(map_line(part, lambda e: e, size))
        else:
            body = tuple(_turned(part.body, var, turn))
            out.append(Loop(part.var, size(part.low), size(part.high), body))
    return out


def _forward_lines(s: Step, versions: Versions) -> list[Part]:
    """Return a step as lines: one that goes on from another version copies that first."""
    line = Line(s.target, s.subs, s.op, s.value, s.ranges)
    if s.base is None:
        return [line]
    v = versions.values[s.base]
    names = [f"i{d}" for d in range(len(v.shape))]
    at = tuple(map(g.index, names))
    ranges = tuple(
        Range(n, Size.const(0), extent, "output") for n, extent in zip(names, v.shape, strict=True)
    )
    return [Line(s.target, at, "=", _computed(typed.Read(s.base, at, v.dtype)), ranges), line]


def _node_lines(node: Node, versions: Versions) -> list[Part]:
    if isinstance(node, Step):
        return _forward_lines(node, versions)
    body = tuple(p for n in node.body for p in _node_lines(n, versions))
    return [Loop(node.var, node.low, node.high, body)]


def _head(name: str, dtype: DType, shape: tuple[Size, ...]) -> str:
    dims = ", ".join(map(str, shape))
    return f"{dtype}({dims}) {name}" if dims else f"{dtype} {name}"


def _definition(name: str, params: Iterable[str], returns: Iterable[str], body: str) -> str:
    head = f"def {name}({', '.join(params)})\n    -> ({', '.join(returns)})"
    return f"{head} {{\n{body}}}\n"
