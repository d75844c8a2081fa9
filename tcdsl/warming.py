"""`warm`: compile kernels before they are called, many at a time."""

from __future__ import annotations

import itertools
import math
import operator
import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tcdsl.ahead.progress import progress
from tcdsl.ahead.task import Part, Task, Work
from tcdsl.ahead.worker import run_all
from tcdsl.codegen.toolchain.host import usable_cores
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import CompileError, ShapeError, TCError, TCTypeError, count
from tcdsl.grammar.text.heads import size_names, type_variables
from tcdsl.grammar.types.dtypes import BY_NAME, FLOAT32
from tcdsl.kernel import Kernel
from tcdsl.text.instead import instead

if TYPE_CHECKING:
    from tcdsl.codegen.gradient.wanted import Wrt

Sizes = Mapping[str, int | Iterable[int]]
_MOST_SETS = 100_000  # combinations: nobody waits for more
_LARGEST = 1 << 63
PARTS: tuple[Part, ...] = ("kernel", "forward", "backward")


@dataclass(frozen=True, slots=True)
class Warmed:
    """What was compiled for one part of a kernel.

    part: "kernel", or of its gradient the "forward" that keeps or the "backward" pass. sizes: None
    for the executable that takes any. seconds: also of what was there before. error: why it could
    not be compiled, "" where it could.
    """

    name: str
    part: Part
    sizes: Mapping[str, int] | None
    seconds: float = 0.0
    error: str = ""

    @property
    def label(self) -> str:
        """What a line says it is."""
        sizes = [f"{k}={v}" for k, v in self.sizes.items()] if self.sizes is not None else None
        what = [] if self.part == "kernel" else [self.part]
        return " ".join([self.name, *what, *(["any sizes"] if sizes is None else sizes)])


def warm(
    kernels: Kernel | Iterable[Kernel],
    sizes: Sizes | Sequence[Sizes] | None = None,
    *,
    grad: bool = False,
    wrt: Wrt | None = None,
    jobs: int | None = None,
    quiet: bool = False,
    **generics: Any,
) -> tuple[Warmed, ...]:
    """Compile kernels for later calls, in this process and in others, on all cores.

    Calls find in the cache what was compiled here, and wait for no compiler. Ctrl-C ends it; what
    is compiled by then is kept.

    Parameters
    ----------
    kernels : Kernel, or several of them
        What `define` and `define_all` give, or any iterable of kernels.
    sizes : mapping of str to int, range or list, or sequence of such, optional
        ``{"B": [1, 8], "M": 128}`` is every combination; for each calls in C order find an
        executable of their own, and the one that takes any sizes. Each kernel takes those that it
        has; one that has none of them, or all where nothing is given, is compiled for any sizes.
    grad : bool, default False
        Compile the gradient too: the forward pass that keeps what it needs, and the way back, of
        kernels that have float parameters and float returns.
    wrt : str or sequence of str, optional
        The parameters that gradients are by; by default all that are floats.
    jobs : int, optional
        How many are compiled at a time; by default as many as there are cores.
    quiet : bool, default False
        Show no progress.
    **generics
        Values of generics, for the kernels that have them; type variables are float32 otherwise.

    Returns
    -------
    tuple of Warmed
        Per kernel, part and sizes how long it took.

    Raises
    ------
    CompileError
        If something could not be compiled: it tells all that, when the rest is compiled.
    TCTypeError, ShapeError
        If no kernel has a size or generic that is named.

    Examples
    --------
    >>> import tcdsl as tc
    >>> half = tc.define("def half(float(N) A) -> (B) { B(i) = A(i) / 2 }")
    >>> [w.label for w in tc.warm(half, {"N": [10, 20]}, quiet=True)]
    ['half N=10', 'half N=20']
    """
    if not isinstance(kernels, Iterable | Kernel):
        raise TCTypeError(f"warm: expected kernels, got {type(kernels).__name__}")
    listed = [kernels] if isinstance(kernels, Kernel) else [*kernels]
    strange = next((k for k in listed if not isinstance(k, Kernel)), None)
    if strange is not None:
        raise TCTypeError(f"warm: expected kernels, got {type(strange).__name__}")
    if not isinstance(wrt, Iterable | None):
        raise TCTypeError(f"warm: wrt: expected names of parameters, got {wrt!r:.40}")
    names = None if wrt is None else (wrt,) if isinstance(wrt, str) else tuple(wrt)
    at_a_time = _at_a_time(jobs)
    sets = list(_sets(sizes))
    rows = [*warmed(listed, sets, grad, names, at_a_time, quiet, generics)]
    faults = [row for row in rows if row.error]
    if faults:
        lines = [f"{row.label}: {row.error}" for row in faults]
        raise CompileError("\n".join([failure(len(faults), len(rows)), *lines]))
    return tuple(rows)


def failure(faults: int, of: int) -> str:
    """Return how a message begins that tells what could not be compiled."""
    return f"{faults} of {count(of, 'part')} could not be compiled"


def warmed(
    kernels: Sequence[Kernel],
    sets: Sequence[Mapping[str, int]],
    grad: bool,
    wrt: tuple[str, ...] | None,
    jobs: int | None,
    quiet: bool,
    generics: Mapping[str, Any],
) -> list[Warmed]:
    """Compile as `warm` says; what fails is a row with its error."""
    _check_generics(kernels, generics)
    found = [_bound(kernel, sets, generics, wrt) for kernel in kernels]
    _check_sizes(found, sets)
    rows: list[Warmed] = []
    tasks: list[tuple[int, Task]] = []
    for one, part in itertools.product(found, PARTS if grad else PARTS[:1]):
        if part != "kernel" and not one.has_gradient:
            continue
        if one.work is None:
            rows.append(Warmed(one.name, part, None, error=one.error))
            continue
        for wanted in _sets_of(one, sets):
            tasks.append((len(rows), Task(one.work, part, wanted)))
            rows.append(Warmed(one.name, part, None if wanted is None else dict(wanted)))
    failed = sum(bool(row.error) for row in rows)
    ended = run_all([task for _, task in tasks], jobs or usable_cores())
    with closing(ended), progress(len(tasks), quiet) as shown:
        for number, done in enumerate(ended, 1):
            at = tasks[done.index][0]
            rows[at] = replace(rows[at], seconds=done.seconds, error=done.error)
            failed += bool(done.error)
            shown.show(number, failed, rows[at].label)
    return rows


@dataclass(frozen=True, slots=True)
class _Bound:
    """A kernel bound to generics and a rank: its sizes, and how it travels; or why it is not."""

    name: str
    sizes: tuple[str, ...] = ()
    has_gradient: bool = False
    work: Work | None = None
    error: str = ""


def _bound(
    kernel: Kernel,
    sets: Sequence[Mapping[str, int]],
    generics: Mapping[str, Any],
    wrt: tuple[str, ...] | None,
) -> _Bound:
    """Bind a kernel to the generics that it has; one of any rank to that which sizes tell."""
    variables = type_variables(kernel.definition)
    own: dict[str, Any] = dict.fromkeys(variables, FLOAT32)
    for g in kernel.definition.generics:
        if g.name in generics:
            value = generics[g.name]
            own[g.name] = BY_NAME.get(value, value) if isinstance(value, str) else value
    try:
        if kernel.has_any_rank:
            kernel = kernel.with_rank(_rank(kernel, {n for one in sets for n in one}, own))
        checked = kernel.session.variant(kernel.definition, own).checked
    except TCError as error:
        return _Bound(kernel.name, error=str(error))
    has_gradient = all(
        any(t.dtype.is_float for t in of) for of in (checked.params, checked.returns)
    )
    return _Bound(kernel.name, tuple(checked.sizes), has_gradient, Work.of(kernel, own, wrt))


def _rank(kernel: Kernel, named: Set[str], generics: Mapping[str, Any]) -> int:
    """Return the rank at which a kernel has some of the sizes, or a usual one."""
    if named:
        rank = kernel.session.ranks.named(kernel.definition, named)
        if named & size_names(kernel.with_rank(rank).definition):
            return rank
    return kernel.session.check_now(kernel.definition, generics)


def _sets_of(
    bound: _Bound, sets: Sequence[Mapping[str, int]]
) -> list[tuple[tuple[str, int], ...] | None]:
    """Return the sets of sizes that a kernel is compiled for, each once; None for any."""
    own = [tuple((n, v) for n, v in one.items() if n in bound.sizes) for one in sets]
    return [*dict.fromkeys(one or None for one in own)] or [None]


def _check_generics(kernels: Sequence[Kernel], generics: Mapping[str, Any]) -> None:
    known = {g.name: None for k in kernels for g in k.definition.generics}
    for name in generics:
        if name not in known:
            raise TCTypeError(f"no kernel has a generic '{name}'{instead(name, known)}")


def _check_sizes(bound: Sequence[_Bound], sets: Sequence[Mapping[str, int]]) -> None:
    """Refuse sizes that no kernel has."""
    known = {n: None for one in bound for n in one.sizes}
    if any(one.error for one in bound):  # it may be the one that has them
        return
    for name in {n: None for one in sets for n in one}:
        if name not in known:
            raise ShapeError(f"no kernel has a size '{name}'{instead(name, known)}")


def _sets(sizes: Sizes | Sequence[Sizes] | None) -> Iterator[dict[str, int]]:
    """Yield every combination that is asked for."""
    given = [] if sizes is None else [sizes] if isinstance(sizes, Mapping) else sizes
    if not isinstance(given, Sequence) or not all(isinstance(one, Mapping) for one in given):
        raise TCTypeError(
            f"expected sizes by name, or a list of such, got {reprlib.repr(sizes)}\n"
            '  as in {"B": [1, 8], "M": 128}'
        )
    lists = [{str(name): _values(name, value) for name, value in one.items()} for one in given]
    total = sum(math.prod(map(len, one.values())) for one in lists)
    if total > _MOST_SETS:
        raise ShapeError(
            f"these are {total:,} combinations of sizes, at most {_MOST_SETS:,} at a time"
        )
    for one in lists:
        for choice in itertools.product(*one.values()):
            yield dict(zip(one, choice, strict=True))


def _values(name: object, value: object) -> list[int]:
    values = [value] if isinstance(value, int | np.integer) else value
    if not isinstance(values, Iterable) or isinstance(values, str | bytes | Mapping):
        raise TCTypeError(f"expected a size or sizes for '{name}', got {type(value).__name__}")
    found = [_size(name, v) for v in itertools.islice(values, _MOST_SETS + 1)]
    if not found:
        raise ShapeError(f"'{name}' names no size at all")
    if len(found) > _MOST_SETS:
        raise ShapeError(f"'{name}' names more than {_MOST_SETS:,} sizes, the most at a time")
    return found


def _size(name: object, value: object) -> int:
    try:
        size = operator.index(value)  # type: ignore[arg-type]  # TypeError is asked for
    except TypeError:
        raise TCTypeError(
            f"expected whole numbers for '{name}', got {reprlib.repr(value)}"
        ) from None
    if not -_LARGEST <= size < _LARGEST:  # of scalars that bounds depend on too
        raise ShapeError(f"'{name}' is a number of {size.bit_length()} bits, at most 63 are taken")
    return size


def _at_a_time(jobs: object) -> int:
    if jobs is None:
        return usable_cores()
    try:
        number = operator.index(jobs)  # type: ignore[arg-type]  # TypeError is asked for
    except TypeError:
        number = 0
    if number < 1:
        raise TCTypeError(
            f"jobs is {reprlib.repr(jobs)}; expected an int from 1 on, or None for as many as cores"
        )
    return number
