"""Run compiled executables without the launcher: args by hand, canaries around every output.

Tasks run in several odd pieces and out of order, workspaces are poisoned, so that a nest that
leans on who runs what gives a wrong answer here.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.device.turns import in_order
from tcdsl.codegen.library import load as loading
from tcdsl.codegen.library.load import load
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.codegen.machine.spec import Layout, Spec
from tcdsl.codegen.preludes.abi import MAX_LOOPS, TcArgs, TcError, TcExecutable, TcPlan, TcScalar
from tcdsl.codegen.program.dtypes import identity, numpy_dtype
from tcdsl.codegen.program.program import Program
from tcdsl.codegen.program.ssa import program_of
from tcdsl.codegen.reference.evaluator import evaluate, sizes_of
from tcdsl.codegen.toolchain.cc import Compiler
from tcdsl.codegen.toolchain.host import detect
from tcdsl.codegen.toolchain.objects import compile_source
from tcdsl.codegen.toolchain.source import Source
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.errors import BoundsError
from tcdsl.grammar.text.parser import parse
from tcdsl.grammar.types.typed import CheckedDef, statements

Array = np.ndarray[Any, np.dtype[Any]]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Problem:
    """A definition with arguments; outs are views of the wanted layout, None for contiguous."""

    checked: CheckedDef
    args: tuple[Any, ...]
    outs: tuple[Array | None, ...] = ()

    @property
    def program(self) -> Program:
        return _of(self.checked, "program", lambda: program_of(self.checked))

    @property
    def sizes(self) -> dict[str, int]:
        return sizes_of(self.checked, self.args)

    def fresh_outputs(self) -> tuple[Array, ...]:
        """Return outputs to write into: views into canaries, or the initial values to update."""
        made = []
        given = self.outs or (None,) * len(self.checked.returns)
        for t, out in zip(self.checked.returns, given, strict=True):
            shape = tuple(s.evaluate(self.sizes) for s in t.shape)
            dtype = numpy_dtype(t.dtype)
            if out is not None:
                made.append(out)
                continue
            view = guarded(shape, dtype)
            if t.is_updated:
                view[...] = identity(_first_op(self.checked, t.name).rstrip("!"), dtype)
            made.append(view)
        return tuple(made)


def _first_op(checked: CheckedDef, name: str) -> str:
    return next(s.op for s in statements(checked.body) if s.target == name)


def problem(text: str, *args: Any, outs: Sequence[Array | None] = (), **generics: Any) -> Problem:
    return Problem(_checked(text, tuple(generics.items())), args, tuple(outs))


@functools.lru_cache(maxsize=256)
def _checked(text: str, generics: tuple[tuple[str, Any], ...]) -> CheckedDef:
    return check(parse(text), generics=dict(generics) or None)


_known: dict[object, tuple[CheckedDef, Any]] = {}


def _of(checked: CheckedDef, what: object, make: Callable[[], T]) -> T:
    """Return what is made of a definition, once: tests ask again for each case of a problem."""
    key = id(checked), what
    found = _known.get(key)
    if found is None or found[0] is not checked:
        if len(_known) >= 512:
            _known.clear()
        found = _known[key] = checked, make()
    return found[1]


def rand(*shape: int, seed: int = 0, dtype: str = "float32") -> Array:
    """Return normal numbers that follow from the shape and a seed."""
    rng = np.random.default_rng((seed, *shape))
    return rng.standard_normal(shape).astype(dtype)


def guarded(shape: tuple[int, ...], dtype: np.dtype[Any], pad: int = 64) -> Array:
    """Return an array inside a larger one; everything is poisoned."""
    size = int(np.prod(shape))
    base = np.frombuffer(bytearray(b"\xa5" * ((size + 2 * pad) * dtype.itemsize)), dtype)
    return base[pad : pad + size].reshape(shape)


def whole(view: Array) -> Array:
    """Return all bytes of the memory behind a view."""
    base = view
    while isinstance(base.base, np.ndarray):
        base = base.base
    return np.frombuffer(base.data, np.uint8) if base.flags.c_contiguous else base.view(np.uint8)


def layout_of(a: Array) -> Layout:
    strides = tuple(s // a.itemsize for s in a.strides)
    contiguous = bool(a.flags.c_contiguous)
    unit = next((d for d in reversed(range(a.ndim)) if strides[d] == 1), None)
    if contiguous:
        return Layout(a.ndim, True, a.ndim - 1 if a.ndim else None)
    zeros = tuple(d for d in range(a.ndim) if strides[d] == 0)
    joined = tuple(strides[d] == strides[d + 1] * a.shape[d + 1] for d in range(a.ndim - 1))
    return Layout(a.ndim, False, unit, zeros, joined)


def arrays_of(p: Problem) -> tuple[Array, ...]:
    return tuple(
        np.asarray(a, numpy_dtype(t.dtype)) for t, a in zip(p.checked.params, p.args, strict=True)
    )


def spec_of(p: Problem, *, exact: bool, threads: int = 2, left_open: tuple[str, ...] = ()) -> Spec:
    operands = (*arrays_of(p), *p.fresh_outputs())
    program = p.program
    extents = tuple((n, p.sizes[n]) for n in program.sizes if n not in program.scalars)
    sizes = tuple(x for x in extents if x[0] not in left_open) if exact else None
    return Spec(sizes, tuple(map(layout_of, operands)), threads, open=left_open)


@dataclass(frozen=True, slots=True)
class Case:
    """One executable to compile and the problem to run it on.

    left_open: sizes that it is not for in particular; then config is its analytic choice. of_call:
    so it is where no size is known, for all sizes of the regime of the problem's.
    """

    problem: Problem
    exact: bool
    config: Config = field(default_factory=Config)
    threads: int = 2
    left_open: tuple[str, ...] = ()
    of_call: bool = False


def run_cases(
    cases: Sequence[Case],
    *,
    cc: Compiler | None = None,
    machine: Machine | None = None,
    seed: int = 0,
) -> list[tuple[Array, ...]]:
    """Compile all cases in one unit and return the outputs of each."""
    machine = machine or detect()
    made: dict[tuple[Program, Spec, Config | None], str] = {}
    texts: list[str] = []
    names: list[str] = []
    for c in cases:
        program = c.problem.program
        spec = spec_of(c.problem, exact=c.exact, threads=c.threads, left_open=c.left_open)
        config: Config | None = c.config
        if c.of_call:
            config, _ = compiler.generic_choice(program, spec, machine, c.problem.sizes)
        key = (program, spec, config)  # its text leaves out which types it was made for
        if key not in made:  # a size-generic executable serves many sizes
            made[key] = f"k{len(made)}"
            what = machine, c.problem.sizes, made[key]
            if c.left_open:
                opened = compiler.open_choice(program, spec, *what[:2])
                config = None if opened is None else opened[0]
            if c.left_open or c.of_call:
                assert config is not None, program.text
                unit = compiler.lower_generic(program, spec, config, *what)
            else:
                unit = compiler.lower(program, spec, c.config, *what)
            texts.append(compiler.emit_c(unit))
        names.append(made[key])
    path = compile_source(Source("cases", "\n".join(texts)), cc)
    rng = np.random.default_rng(seed)
    with _imports_by(cc):
        return [
            call(load(path, name).address, c.problem, c.threads, rng)
            for name, c in zip(names, cases, strict=True)
        ]


@contextmanager
def _imports_by(cc: Compiler | None) -> Iterator[None]:
    """Have what executables import compiled by this compiler too: its vectors may be narrower."""
    with pytest.MonkeyPatch.context() as patch:
        if cc is not None:
            patch.setattr(loading, "addresses", lambda names: [_address(n, cc) for n in names])
        yield


def _address(name: str, cc: Compiler) -> int:
    source = Source(name, compiler.emit_c(compiler.lower_library(name)))
    function = getattr(ctypes.CDLL(str(compile_source(source, cc))), name)
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def call(
    address: int,
    p: Problem,
    threads: int,
    rng: np.random.Generator,
    *,
    writes_inputs: bool = False,
) -> tuple[Array, ...]:
    """Run an executable once.

    writes_inputs: somebody does meanwhile; then a fault is nothing to raise.
    """
    exe = TcExecutable.from_address(address)
    inputs, outputs = arrays_of(p), p.fresh_outputs()
    program = p.program
    operands = (*inputs, *outputs)
    by_value = [program.buffer(n).role == "param" and not program.buffer(n).shape
                for n in program.operands]  # fmt: skip
    data = np.array(
        [0 if v else a.ctypes.data for v, a in zip(by_value, operands, strict=True)], np.uintp
    )
    sizes = np.array([p.sizes[n] for n in program.sizes], np.int64)
    strides = np.array([s // a.itemsize for a in operands for s in a.strides], np.int64)
    scalars = (TcScalar * max(1, len(program.scalars)))()
    for i, name in enumerate(program.scalars):
        value = inputs[program.inputs.index(name)]
        kind = program.buffer(name).dtype
        member = "d" if kind.bits == 64 and kind.is_float else "f" if kind.is_float else "i"
        if kind.kind == "uint":
            member = "u"
        setattr(scalars[i], member, float(value) if kind.is_float else int(value))
    plan, error, turn = TcPlan(), TcError(), np.zeros(MAX_LOOPS, np.int64)
    args = TcArgs(
        data.ctypes.data, sizes.ctypes.data, strides.ctypes.data, ctypes.addressof(scalars),
        0, 0, ctypes.addressof(error), threads, turn.ctypes.data,
    )  # fmt: skip
    assert exe.plan(ctypes.addressof(args), ctypes.addressof(plan)) == 0
    shared, shared_canary = _poisoned(plan.shared_bytes)
    args.plan, args.shared = ctypes.addressof(plan), shared
    margins = [_margins(o) for o in outputs]
    before = [m.copy() for m in margins]
    watched = [a for a in inputs if a.nbytes < 1 << 26 and not writes_inputs]
    held = [a.copy() for a in watched]

    def range_of(loop: int) -> tuple[int, int]:
        found = np.zeros(2, np.int64)
        assert exe.loop[loop].range(ctypes.addressof(args), found.ctypes.data) == 0
        return int(found[0]), int(found[1])

    spans = [(x.first, x.last) for x in exe.loop[: exe.loops]]
    for k in in_order(spans, range_of, turn, 0, exe.phases):
        for begin, end in _pieces(plan.tasks[k], rng):
            workspace, canary = _poisoned(plan.thread_bytes)
            code = exe.phase[k](ctypes.addressof(args), workspace, begin, end)
            assert (canary == 0xFF).all(), f"phase {k} wrote outside its workspace"
            if code and not writes_inputs:
                raise BoundsError(
                    f"operand {error.tensor} dim {error.dim}: {error.value} of {error.extent}"
                )
    assert (shared_canary == 0xFF).all(), "wrote outside the shared memory"
    for m, was in zip(margins, before, strict=True):
        assert (m == was).all(), "wrote outside an output"
    for a, was in zip(watched, held, strict=True):
        assert a.tobytes() == was.tobytes(), "wrote to an input"
    return tuple(o.copy() for o in outputs)


def _pieces(tasks: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Return [0, tasks) in a few pieces, in any order."""
    if tasks <= 0:
        return []
    cuts = sorted({0, tasks, *(int(c) for c in rng.integers(0, tasks + 1, 3))})
    pieces = list(pairwise(cuts))
    return [pieces[i] for i in rng.permutation(len(pieces))]


_keep: list[Any] = []


def _poisoned(size: int, pad: int = 256) -> tuple[int, Array]:
    """Return the 64-byte aligned address of size poisoned bytes, and the bytes after them."""
    raw = np.full(size + pad + 128, 0xFF, np.uint8)
    at = -raw.ctypes.data % 64
    _keep.append(raw)
    del _keep[:-8]
    return raw.ctypes.data + at, raw[at + size :]


def _margins(view: Array) -> Array:
    """Return the bytes around a contiguous guarded view (none for a caller's strided view)."""
    base = view
    while isinstance(base.base, np.ndarray):
        base = base.base
    if base is view or not view.flags.c_contiguous or not base.flags.c_contiguous:
        return np.zeros(0, np.uint8)
    everything = base.reshape(-1).view(np.uint8)
    start = view.ctypes.data - base.ctypes.data
    return np.concatenate([everything[:start], everything[start + view.nbytes :]])


def expected(p: Problem) -> tuple[Array, ...]:
    """Return what the reference evaluator gives."""
    initial = [
        np.array(o) if o is not None and t.is_updated else None
        for t, o in zip(p.checked.returns, p.outs or (None,) * len(p.checked.returns), strict=True)
    ]
    operands = [np.asarray(a) for a in (*p.args, *(o for o in initial if o is not None))]
    if sum(a.nbytes for a in operands) > 1 << 20:
        return evaluate(p.checked, p.args, out=initial)
    what = tuple((a.shape, a.dtype.name, a.tobytes()) for a in operands)
    made = _of(p.checked, what, lambda: evaluate(p.checked, p.args, out=initial))
    return tuple(a.copy() for a in made)


def assert_same(got: Sequence[Array], want: Sequence[Array], terms: int = 1) -> None:
    """Compare results: integers exactly, floats within the rounding of a sum of terms."""
    for g, w in zip(got, want, strict=True):
        assert g.shape == w.shape
        if w.dtype.kind in "biu":
            np.testing.assert_array_equal(g, w)
            continue
        kind = w.dtype if w.dtype.kind == "f" else np.dtype(np.float16)
        eps = float(np.finfo(kind).eps) if w.dtype.kind == "f" else 2.0**-8
        wide = w.astype(np.float64)
        finite = wide[np.isfinite(wide)]
        scale = float(np.abs(finite).max()) if finite.size else 1.0
        np.testing.assert_allclose(
            g.astype(np.float64), wide, rtol=16 * eps, atol=(4 + terms) * eps * max(scale, 1e-30)
        )


def differential(
    cases: Mapping[str, Case] | Sequence[Case],
    terms: int = 1,
    cc: Compiler | None = None,
    machine: Machine | None = None,
) -> None:
    """Run cases in one unit, for a machine made up too, and hold each against the reference."""
    listed = list(cases.values()) if isinstance(cases, Mapping) else list(cases)
    wanted = [expected(c.problem) for c in listed]
    made = run_cases(listed, cc=cc, machine=machine)
    for c, got, want in zip(listed, made, wanted, strict=True):
        try:
            assert_same(got, want, terms)
        except AssertionError as e:
            kind = "exact" if c.exact else "generic"
            shapes = [np.shape(a) for a in c.problem.args]
            raise AssertionError(f"{kind} {c.config} {shapes}\n{e}") from e
