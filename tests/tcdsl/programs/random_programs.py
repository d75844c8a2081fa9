"""Random programs of the language as text: what a user might write, at the edges of the rules.

Floats hold small whole numbers and halves, and no operation rounds while values stay small, so that
a kernel has to give the very bits of the reference, in any order of summation.
"""

from __future__ import annotations

import random
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pytest

import tcdsl
from tcdsl.codegen.program.expressions import indices_of
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.errors import BoundsError, TCError
from tcdsl.grammar.text.parser import parse
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.typed import CheckedDef
from tcdsl.kernel import Kernel
from tests.tcdsl.differential import (
    VIEWS,
    dtype_of,
    poisoned,
    reference,
    results,
    same,
    shape_of,
    small_numbers,
    viewed,
)

Array = np.ndarray[Any, np.dtype[Any]]

Kind = Literal["float", "int", "bool"]

_FLOATS = ("float", "float", "float", "double", "float16", "bfloat16")
_INTS = ("int32", "int32", "int64", "uint8", "int8", "int16", "uint16", "uint32", "uint64")
_REDUCING = ("+=", "+=", "+=", "*=", "min=", "max=")
_TRIES = 6  # statements proposed before a program ends early


@dataclass(slots=True)
class _Tensor:
    name: str
    dtype: str
    rank: int
    can_return: bool = True

    @property
    def kind(self) -> Kind:
        return "bool" if self.dtype == "bool" else "float" if "float" in self.dtype else "int"


@dataclass(slots=True)
class _Scope:
    """The indices of one statement and which of them an unguarded read bounds."""

    indices: list[str]
    bounded: set[str] = field(default_factory=set)
    own: str = ""  # what reads the target at the written subscripts
    own_kind: Kind = "float"
    guarded: int = 0


class Maker:
    """Writes one program from a seed; `refused` counts the codes of proposals the check refused."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.symbols = ["N", "M", "K"][: self.rng.randint(1, 3)]
        self.params = [self._param(f"A{i}") for i in range(self.rng.randint(1, 3))]
        if self.rng.random() < 0.25:
            self.params.append(("int32", "X", [self.rng.choice(self.symbols)]))
        if self.rng.random() < 0.25:
            self.params.append((self.rng.choice(("float", "int32", "double")), "s", []))
        used = {d for _, _, dims in self.params for d in dims}
        self.symbols = [s for s in self.symbols if s in used]
        self.body: list[str] = []
        self.written: list[str] = []
        self.tensors = [_Tensor(n, t, len(d)) for t, n, d in self.params]
        self.refused: Counter[str] = Counter()
        self.example = ""
        for _ in range(self.rng.randint(1, 6)):
            self._add_statement()

    def text(self) -> str:
        """Return the program; of what is written at least the last is a return."""
        if not self.written:
            return ""
        read = " ".join(self.body)
        keep = [
            w
            for w in self.written
            if w == self.written[-1] or self.rng.random() < 0.4 or read.count(w + "(") < 2
        ]
        for returns in (keep, self.written):
            text = self._def(self.body, returns)
            if self._check(text):
                return text
        return ""

    def _param(self, name: str) -> tuple[str, str, list[str]]:
        r = self.rng
        dtype = r.choice((*_FLOATS, *_FLOATS, *_INTS, "bool"))
        dims = [
            r.choice(self.symbols) if r.random() < 0.93 else str(r.randint(1, 4))
            for _ in range(r.choice((1, 1, 2, 2, 2, 3)))
        ]
        return dtype, name, dims

    def _def(self, body: list[str], returns: list[str]) -> str:
        params = ", ".join(
            f"{t}({', '.join(d)}) {n}" if d else f"{t} {n}" for t, n, d in self.params
        )
        return f"def f({params}) -> ({', '.join(returns)}) {{\n  " + "\n  ".join(body) + "\n}"

    def _check(self, text: str) -> CheckedDef | None:
        try:
            return check(parse(text))
        except TCError as e:
            code = str(e).partition("[")[2][:5]
            self.refused[code] += 1
            self.example = str(e)
            return None

    def _add_statement(self) -> None:
        for _ in range(_TRIES):
            target, line = self._statement()
            written = [*self.written, *([] if target in self.written else [target])]
            checked = self._check(self._def([*self.body, line], written))
            if checked is None:
                continue
            self.body.append(line)
            self.written = written
            got = checked.tensor(target)
            self.tensors = [t for t in self.tensors if t.name != target]
            self.tensors.append(_Tensor(target, got.dtype.name, len(got.shape)))
            return

    # ---- statements

    def _statement(self) -> tuple[str, str]:
        r = self.rng
        old = [t for t in self.tensors if t.name in self.written]
        if old and r.random() < 0.4:
            return self._rewrite(r.choice(old))
        name = f"T{len(self.written)}"
        rank = r.choice((0, 1, 1, 2, 2, 2, 3))
        reduces = r.random() < 0.45
        indices = list("ijl"[:rank])
        scope = _Scope(indices + (list("pq"[: r.randint(1, 2)]) if reduces else []))
        kind: Kind = r.choice(("float", "float", "float", "int", "int", "bool"))
        if reduces and kind == "bool":
            kind = "int"
        if reduces and r.random() < 0.4:
            kind = r.choice(("float", "float", "int"))
            value = self._product(kind, scope)
        else:
            value = self._value(kind, scope, 3)
        if r.random() < 0.3 and kind != "bool":
            value = f"{r.choice(_FLOATS if kind == 'float' else _INTS)}({value})"
        op = r.choice(_REDUCING) + "!" if reduces else "="
        if reduces and r.random() < 0.1:
            op = op[:-1]
        subs = [self._written_sub(i) for i in indices]
        return name, self._line(name, subs, op, value, scope)

    def _written_sub(self, index: str) -> str:
        if self.rng.random() < 0.9:
            return index
        return self.rng.choice((f"{index} + 1", f"2 * {index}", f"{index} + 2", f"3 * {index} + 1"))

    def _rewrite(self, t: _Tensor) -> tuple[str, str]:
        """A second statement on a tensor: in place, over it, more of it, or another part of it."""
        r = self.rng
        indices = list("ijl"[: t.rank])
        subs = [i if r.random() < 0.93 else f"{i} + 1" for i in indices]
        form = r.choice(("in place", "in place", "combine", "again", "over"))
        reduces = form in ("combine", "again") and r.random() < 0.7
        scope = _Scope(indices + (["p"] if reduces else []))
        if form == "in place":
            scope.own, scope.own_kind = f"{t.name}({', '.join(subs)})" if t.rank else t.name, t.kind
            scope.bounded |= {i for i, s in zip(indices, subs, strict=True) if s == i}
        op = "="
        if form == "combine" and t.kind != "bool":
            op = r.choice(_REDUCING)
        elif form == "again" and t.kind != "bool":
            op = r.choice(_REDUCING) + "!"
        if op == "=":
            scope.indices = indices
        value = f"{t.dtype}({self._value(t.kind, scope, 3)})"
        return t.name, self._line(t.name, subs, op, value, scope)

    def _line(self, name: str, subs: list[str], op: str, value: str, scope: _Scope) -> str:
        r = self.rng
        clauses = []
        used = [
            i for i in scope.indices if _mentions(value, i) or any(_mentions(s, i) for s in subs)
        ]
        for i in used:
            if i not in scope.bounded or r.random() < 0.08:
                clauses += [f"{i} in {self._bounds()}"]
        if r.random() < 0.08:
            value, clauses = value + " + v" if "bool" not in value else value, [*clauses, "v = 3"]
        line = f"{name}({', '.join(subs)}) {op} {value}" if subs else f"{name} {op} {value}"
        return line + (f" where {', '.join(clauses)}" if clauses else "")

    def _bounds(self) -> str:
        r = self.rng
        low = r.choice(("0", "0", "0", "0", "1", "2"))
        s = r.choice(self.symbols) if self.symbols else "3"
        return f"{low}:{r.choice((s, s, s, '3', f'{s} + 1', f'{s} - 1', f'{s} / 2', f'2 * {s}'))}"

    # ---- values

    def _value(self, kind: Kind, scope: _Scope, depth: int) -> str:
        if scope.own and scope.own_kind == kind and depth < 3 and self.rng.random() < 0.4:
            return scope.own
        match kind:
            case "float":
                return self._float(scope, depth)
            case "int":
                return self._int(scope, depth)
            case "bool":
                return self._bool(scope, depth)

    def _product(self, kind: Kind, s: _Scope) -> str:
        """Two or three reads multiplied: what the forms for contractions look for."""
        reads = [self._read(kind, s) for _ in range(self.rng.choice((2, 2, 2, 3)))]
        return " * ".join(x for x in reads if x) or "2"

    def _float(self, s: _Scope, depth: int) -> str:
        r = self.rng
        if depth == 0 or r.random() < 0.2:
            return self._read("float", s) or r.choice(("1.5", "-2.0", "0.5", "3.0"))
        a = self._value("float", s, depth - 1)
        match r.randrange(12):
            case 0 | 1 | 2:
                return f"({a} {r.choice('+-')} {self._value('float', s, depth - 1)})"
            case 3 | 4:
                return f"{a} * {self._value('float', s, depth - 2 if depth > 1 else 0)}"
            case 5:
                name = r.choice(("min", "max", "fmax", "fmin"))
                return f"{name}({a}, {self._value('float', s, depth - 1)})"
            case 6:
                return f"{r.choice(('fabs', 'floor', 'ceil', 'trunc', 'relu', 'sign'))}({a})"
            case 7 | 8:
                return self._select("float", s, depth)
            case 9:
                return f"{r.choice(('float', 'double', 'float16', 'bfloat16'))}({a})"
            case 10:
                return f"({a} + {self._value('int', s, depth - 1)})"
            case _:
                return f"-{a}" if not a.startswith("-") else a

    def _int(self, s: _Scope, depth: int) -> str:
        r = self.rng
        if depth == 0 or r.random() < 0.2:
            leaves = [*s.indices, *self.symbols, "2", "-3", "7"]
            return (self._read("int", s) if r.random() < 0.7 else "") or r.choice(leaves)
        a = self._value("int", s, depth - 1)
        match r.randrange(9):
            case 0 | 1 | 2:
                return f"({a} {r.choice('+-*')} {self._value('int', s, depth - 1)})"
            case 3 | 4:
                return f"({a} {r.choice('/%')} {self._value('int', s, depth - 1)})"
            case 5:
                return f"{r.choice(('min', 'max'))}({a}, {self._value('int', s, depth - 1)})"
            case 6:
                return self._select("int", s, depth)
            case 7:
                return f"{r.choice(_INTS)}({self._value('float', s, depth - 1)})"
            case _:
                return f"{r.choice(_INTS)}({a})"

    def _bool(self, s: _Scope, depth: int) -> str:
        r = self.rng
        if depth == 0 or r.random() < 0.2:
            a = self._read("bool", s)
            if a:
                return a
        depth = max(depth, 1)
        match r.randrange(6):
            case 0:
                a, b = self._value("bool", s, depth - 1), self._value("bool", s, depth - 1)
                return f"({a} {r.choice(('&&', '||'))} {b})"
            case 1:
                return f"!({self._value('bool', s, depth - 1)})"
            case _:
                kind: Kind = r.choice(("float", "int"))
                op = r.choice(("<", "<=", ">", ">=", "==", "!="))
                a, b = self._value(kind, s, depth - 1), self._value(kind, s, depth - 1)
                return f"({a} {op} {b})"

    def _select(self, kind: Kind, s: _Scope, depth: int) -> str:
        cond = self._value("bool", s, depth - 1)
        s.guarded += 1
        yes, no = self._value(kind, s, depth - 1), self._value(kind, s, depth - 1)
        s.guarded -= 1
        return f"({cond} ? {yes} : {no})"

    def _read(self, kind: Kind, s: _Scope) -> str:
        r = self.rng
        fitting = [t for t in self.tensors if t.kind == kind and not s.own.startswith(t.name + "(")]
        fitting = [t for t in fitting if t.name != s.own]
        if not fitting:
            return ""
        t = r.choice(fitting)
        if not t.rank:
            return t.name
        free = [i for i in s.indices if i not in s.bounded]
        r.shuffle(free)
        others = r.sample(s.indices, len(s.indices))
        pool = [*free, *(i for i in others if i not in free)] if r.random() < 0.7 else others
        pool = sorted(pool) if r.random() < 0.3 else pool
        subs = [self._sub(s, pool[d % len(pool)] if pool else "0") for d in range(t.rank)]
        return f"{t.name}({', '.join(subs)})"

    def _sub(self, s: _Scope, index: str) -> str:
        r = self.rng
        if index == "0" or r.random() < 0.04:
            return "0"
        if s.guarded == 0:
            s.bounded.add(index)
        other = r.choice(s.indices)
        match r.randrange(24):
            case 0:
                return f"{index} + 1"
            case 1:
                return f"{index} - 1"
            case 2:
                return f"2 * {index}"
            case 3:
                return f"{index} + {other}" if other in s.bounded and other != index else index
            case 4 if self.symbols:
                return f"{r.choice(self.symbols)} - 1 - {index}"
            case 5 if any(n == "X" for _, n, _ in self.params):
                return f"X({index})"
            case 6:
                return f"{index} / 2"
            case _:
                return index


def _mentions(text: str, index: str) -> bool:
    """Whether a one-letter index stands in a text as a name of its own."""
    padded = f" {text} "
    return any(
        c == index and not (padded[k - 1].isalnum() or padded[k + 1].isalnum())
        for k, c in enumerate(padded)
    )


# ---- running them


@dataclass(frozen=True, slots=True)
class Trial:
    """What happened to one program: how often it was compared to the bit, what went wrong."""

    text: str
    exact: int
    rounded: int
    refused: int
    faults: tuple[str, ...]


_EXTENTS = (0, 1, 2, 3, 4, 5)
_LONG = (17, 33)
_POINTS = 300_000


def run_program(
    seed: int, *, calls: int = 6, face: Callable[[Kernel], Any] = lambda k: k
) -> Trial | None:
    """Make a program and call it in many ways; None if the seed gives no legal program."""
    text = Maker(seed).text()
    return run_text(text, seed, calls=calls, face=face) if text else None


def run_text(
    text: str, seed: int, *, calls: int = 6, face: Callable[[Kernel], Any] = lambda k: k
) -> Trial:
    """Call a program in many ways and hold each result against the reference.

    face gives what is called in place of a kernel, with the same arrays.
    """
    rng = np.random.default_rng(seed)
    faults: list[str] = []
    counts = [0, 0, 0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        threads = int(rng.integers(1, 3))
        kernel = tcdsl.define(text, tune="off", threads=threads, check="sync")
        assert isinstance(kernel, Kernel)
        checked = kernel.variant().checked
        for n in range(calls):
            sizes = _sizes(checked, rng, first=n == 0)
            try:
                kind = _compare(face(kernel), checked, sizes, rng)
            except Exception as e:  # a defect of any kind, reported with what shows it
                faults.append(f"seed {seed} call {n} sizes {sizes}: {type(e).__name__}: {e}")
                break
            counts[kind] += 1
    return Trial(text, counts[0], counts[1], counts[2], tuple(faults))


def _sizes(checked: CheckedDef, rng: np.random.Generator, *, first: bool) -> dict[str, int]:
    names = [s for s in checked.sizes if s not in checked.scalars]
    low = 2 if first or rng.random() < 0.5 else 0
    sizes = {s: int(rng.choice(_EXTENTS[low:])) for s in names}
    if names and rng.random() < 0.6:
        sizes[str(rng.choice(names))] = int(rng.choice(_LONG))
    return sizes


def points_of(checked: CheckedDef, sizes: dict[str, int]) -> int:
    most = 0
    for s in checked.body:
        assert isinstance(s, typed.Statement)
        most = max(most, int(np.prod([max(r.extent.evaluate(sizes), 0) for r in s.ranges] or [1])))
    return most


def _arguments(checked: CheckedDef, sizes: dict[str, int], rng: np.random.Generator) -> list[Array]:
    special = 0.05 if rng.random() < 0.2 else 0.0
    args = []
    for t in checked.params:
        a = small_numbers(shape_of(t, sizes), dtype_of(t), rng, special if t.shape else 0.0)
        if t.name == "X":  # subscripts
            bound = max(1, min(sizes.values(), default=1) - int(rng.integers(0, 2)))
            a = rng.integers(0, bound, a.shape).astype(a.dtype)
        view = str(rng.choice(VIEWS)) if rng.random() < 0.5 else "c"
        args.append(viewed(a, view))
    return args


def with_scalars(
    checked: CheckedDef, sizes: dict[str, int], args: Sequence[Array]
) -> dict[str, int]:
    """Return sizes with the scalars among the arguments that ranges depend on."""
    named = zip(checked.params, args, strict=True)
    return sizes | {p.name: int(a) for p, a in named if p.name in checked.scalars}


def fits(checked: CheckedDef, sizes: dict[str, int], args: Sequence[Array]) -> bool:
    """Whether a call with these arguments is legal."""
    known = with_scalars(checked, sizes, args)
    values = [(c.relation, c.size.evaluate(known)) for c in checked.constraints]
    return all(v >= 0 if relation == ">=0" else v == 0 for relation, v in values)


def distributes(checked: CheckedDef) -> bool:
    """Whether a sum of floats may be formed as products of sums, of which infinity times 0 is NaN.

    So may one of a product in which a factor has not all the indices that are summed over.
    """
    sums = [s for s in typed.statements(checked.body) if s.op in ("+=", "+=!")]
    for s in sums:
        factors = _factors(s.value)
        summed = {r.name for r in s.ranges if r.kind == "reduction"}
        is_whole = len(factors) == 1 or all(summed <= indices_of(f) for f in factors)
        if s.value.dtype.is_float and not is_whole:
            return True
    return False


def _factors(e: typed.Expr) -> list[typed.Expr]:
    match e:
        case typed.Binary("*" | "/", lhs, rhs):
            return [*_factors(lhs), *_factors(rhs)]
        case typed.Unary("-", x) | typed.Cast(x):
            return _factors(x)
        case _:
            return [e]


def are_finite(arrays: Sequence[Array]) -> bool:
    """Whether all numbers of arrays are finite."""
    floats = (a.astype(np.float64) for a in arrays if a.dtype.kind not in "biu")
    return all(bool(np.isfinite(a).all()) for a in floats)


def _compare(
    kernel: Callable[..., Any],
    checked: CheckedDef,
    sizes: dict[str, int],
    rng: np.random.Generator,
) -> int:
    """Return 0 if the values had to be equal, 1 if they may round, 2 if the call was refused."""
    args = _arguments(checked, sizes, rng)
    sizes = with_scalars(checked, sizes, args)
    legal = fits(checked, sizes, args)
    if not legal:
        with pytest.raises(TCError):
            kernel(*args)
        return 2
    while points_of(checked, sizes) > _POINTS:
        longest = max(sizes, key=lambda s: sizes[s])
        sizes[longest] //= 3
        args = _arguments(checked, sizes, rng)
    outs = _outputs(checked, sizes, args, rng)
    initial = [o.copy() for o in outs] if outs else None
    held = [a.copy() for a in args]
    try:
        want = reference(checked, held, out=initial)
    except BoundsError:
        with pytest.raises(BoundsError):
            kernel(*args, out=tuple(outs) if outs else None)
        return 2
    wide = reference(checked, held, float64=True, out=initial)
    got = results(kernel(*args, out=tuple(outs))) if outs else results(kernel(*args))
    again = results(kernel(*held)) if not outs else got
    for a, h in zip(args, held, strict=True):
        shared = any(np.may_share_memory(a, o) for o in outs or ())
        assert shared or np.asarray(a).tobytes() == h.tobytes(), "wrote to an input"
    is_exact = all(
        same(w.astype(np.float64), x.astype(np.float64)) for w, x in zip(want, wide, strict=True)
    )
    largest = [np.abs(x[np.isfinite(x)]).max(initial=0) for x in wide if x.dtype.kind == "f"]
    is_exact &= max(largest, default=0) < 1 << 22  # beyond, float64 may round as float32 does
    is_exact &= not distributes(checked) or are_finite((*held, *want, *got))
    for g, a, w, x in zip(got, again, want, wide, strict=True):
        if same(g, w) and same(a, w):
            continue
        views = [v.strides for v in args], [o.strides for o in outs or ()]
        bad = ~(g.astype(np.float64) == w.astype(np.float64)) if g.shape == w.shape else None
        where = (
            f"{int(bad.sum())} of {w.size} differ, first {np.argwhere(bad)[:1]}"
            if (bad is not None)
            else ""
        )
        shown = f"got {g.dtype}{g.shape}\n{g}\nwant {w.dtype}{w.shape}\n{w}\n{where} {views}"
        assert not is_exact, shown
        assert (g.shape, g.dtype) == (w.shape, w.dtype), shown
        if loose_faults is not None and w.dtype.kind not in "biu":
            f = np.isfinite(x) & np.isfinite(w.astype(np.float64))
            scale = float(np.abs(x[f]).max()) if f.any() else 0.0
            d = np.abs(g.astype(np.float64) - w.astype(np.float64))[f]
            if d.size and not (d <= 1e-2 * scale).all():
                loose_faults.append(shown)
    return 0 if is_exact else 1


loose_faults: list[str] | None = None


def _outputs(
    checked: CheckedDef, sizes: dict[str, int], args: list[Array], rng: np.random.Generator
) -> list[Array] | None:
    """Return the caller's buffers: none, fresh ones of any layout, or parts of an input."""
    if rng.random() < 0.4:
        return None
    outs: list[Array] = []
    for t in checked.returns:
        shape, dtype = shape_of(t, sizes), dtype_of(t)
        out = small_numbers(shape, dtype, rng) if t.is_updated else poisoned(shape, dtype)
        view = str(rng.choice([v for v in VIEWS if v != "broadcast"]))
        out = viewed(out, view if rng.random() < 0.6 else "c")
        fitting = [
            n
            for n, a in enumerate(args)
            if a.dtype == dtype and a.shape == shape and shape and a.flags.writeable
            and not any(s == 0 and e > 1 for s, e in zip(a.strides, a.shape, strict=True))
            and not any(np.may_share_memory(a, o) for o in outs)
        ]  # fmt: skip
        if fitting and rng.random() < 0.4:
            n = int(rng.choice(fitting))
            out = args[n]
            if rng.random() < 0.4 and shape[0] > 1:  # overlaps, but is not the same view
                base = np.concatenate([out, out[:1]])
                args[n], out = base[:-1], base[1:]
        outs.append(out)
    return outs
