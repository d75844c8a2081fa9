"""Every program that users of the original wrote runs, and gives what the reference gives."""

from __future__ import annotations

import warnings
import zlib
from typing import Any

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.grammar import typed
from tcdsl.grammar.canonical import canonical
from tcdsl.grammar.errors import TCError
from tcdsl.grammar.typed import CheckedDef
from tcdsl.kernel import Kernel
from tests.tcdsl.catalog import (
    CATALOG,
    LEGAL,
    NOT_YET,
    REFUSED,
    name_of,
    points,
    small_sizes,
)
from tests.tcdsl.differential import assert_close, dtype_of, reference, results, shape_of

# Programs that differ in names only share a kernel: the later ones meet its size-generic form.
KERNELS: dict[str, Kernel] = {}


def defined(entry: dict[str, Any]) -> Kernel:
    name = name_of(entry)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kernel = tc.define(entry["tc"], name, tune="off", source=entry["name"])
    assert bool(caught) == (entry.get("status") == "warn"), [str(w.message) for w in caught]
    assert isinstance(kernel, Kernel)
    return kernel


def arguments(
    checked: CheckedDef, sizes: dict[str, int], rng: np.random.Generator
) -> list[np.ndarray[Any, Any]]:
    """Return random arguments; those that are subscripts lie inside what they index."""
    bounds: dict[str, int] = {}
    for s in checked.body:
        assert isinstance(s, typed.Statement)
        for read in reads(s.value):
            shape = shape_of(checked.tensor(read.tensor), sizes)
            for sub, extent in zip(read.subs, shape, strict=True):
                for inner in reads(sub):
                    bounds[inner.tensor] = min(bounds.get(inner.tensor, extent), extent)
    args = []
    for t in checked.params:
        shape, dtype = shape_of(t, sizes), dtype_of(t)
        if t.name in bounds:
            array = rng.integers(0, bounds[t.name], shape).astype(dtype)
        elif dtype.kind in "iu":
            array = rng.integers(0, 2 if "Mask" in t.name else 6, shape).astype(dtype)
        else:
            array = rng.uniform(0.25, 1.0, shape).astype(dtype) * rng.choice([-1, 1], shape)
            array = np.abs(array) if not t.shape else array
        args.append(np.asarray(array, dtype))
    return args


def reads(expr: typed.Expr) -> list[typed.Read]:
    """Return every read in an expression, those in subscripts too."""
    found: list[typed.Read] = []
    todo: list[typed.Expr] = [expr]
    while todo:
        match todo.pop():
            case typed.Read(_, subs) as read:
                found.append(read)
                todo += subs
            case typed.Unary(_, operand) | typed.Cast(operand):
                todo.append(operand)
            case typed.Binary(_, lhs, rhs):
                todo += [lhs, rhs]
            case typed.Select(cond, then, other):
                todo += [cond, then, other]
            case typed.Builtin(_, args):
                todo += args
            case _:
                pass
    return found


@pytest.mark.cc
@pytest.mark.parametrize("entry", LEGAL, ids=lambda e: e["name"])
def test_catalog_program_computes_what_the_reference_computes(entry: dict[str, Any]) -> None:
    rng = np.random.default_rng(zlib.crc32(entry["name"].encode()))
    new = defined(entry)
    kernel = KERNELS.setdefault("".join(map(canonical, new.session.program.defs)), new)
    checked = kernel.variant().checked
    sizes = [small_sizes(checked, entry, rng) for _ in range(2)]
    for at in sizes:  # the first has an executable of its own, the second the size-generic one
        args = arguments(checked, at, rng)
        want = reference(checked, args, float64=True)
        terms = 8 * max(points(checked, at) // max(min(w.size for w in want), 1), 8)
        for got, exact in zip(results(kernel(*args)), want, strict=True):
            assert_close(got, exact, terms)
    if kernel is new and sizes[0] != sizes[1] and checked.sizes:
        served = [e.spec.sizes is None for e in kernel.variant().executables]
        assert served == [False, True]


@pytest.mark.parametrize("name", [*REFUSED, *NOT_YET])
def test_what_is_refused_says_why(name: str) -> None:
    (entry,) = [e for e in CATALOG if e["name"] == name]
    with pytest.raises(TCError, match={**REFUSED, **NOT_YET}[name]):
        tc.define(entry["tc"], entry["def_name"])
