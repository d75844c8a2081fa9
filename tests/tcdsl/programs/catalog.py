"""The programs that users of the original wrote, small sizes and random arguments for them."""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.parser import parse
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.typed import CheckedDef
from tests.tcdsl.differential import dtype_of, shape_of

DATA = Path(__file__).parents[2] / "data"
CATALOG: list[dict[str, Any]] = json.loads((DATA / "tc_catalog.json").read_text())
# These two entries of the catalog are named after the page they are from, not after their def.
NAMES = {"docs_fixed/lut_clamped": "lut", "docs_fixed/average_pool_2_where": "average_pool_2"}
REFUSED = {"coding_conventions/matmul#2": "TC203"}  # by design: two ranges of one index
NOT_YET: dict[str, str] = {}  # code of the answer; may only shrink
POINTS = 200_000
LEGAL = [e for e in CATALOG if e["name"] not in {*REFUSED, *NOT_YET}]
OF_INTEGERS = {  # what they take or give has no gradient
    *(f"min_distance/argmin_{n}" for n in ("2d", "2d#2", "2d#3", "1d", "1d#2")),
    "tum/make_idx", "tum/make_alpha", "test_cast/test_cast.cast",
}  # fmt: skip
DIFFERENTIABLE = [e for e in LEGAL if e["name"] not in OF_INTEGERS]
KERNEL_SIZES = {"KH", "KW", "KH1", "KW1", "L", "L1", "L2"}  # stay small, so that domains do not end


def name_of(entry: dict[str, Any]) -> str:
    """Return the name of the definition that an entry is about."""
    return str(NAMES.get(entry["name"], entry["def_name"]))


def checked_of(entry: dict[str, Any]) -> CheckedDef:
    """Return the definition that an entry is about, checked once; lists of tests are of texts."""
    return _checked(entry["tc"], entry["name"], name_of(entry))


@cache
def _checked(text: str, source: str, name: str) -> CheckedDef:
    return check(parse(text, source), name)


def points(checked: CheckedDef, sizes: dict[str, int]) -> int:
    """Return the points of the largest statement."""
    return max(
        math.prod(max(r.extent.evaluate(sizes), 0) for r in s.ranges)
        for s in checked.body
        if isinstance(s, typed.Statement)
    )


def holds(checked: CheckedDef, sizes: dict[str, int]) -> bool:
    values = [(c.relation, c.size.evaluate(sizes)) for c in checked.constraints]
    filled = all(
        d.evaluate(sizes) > 0 for t in (*checked.params, *checked.returns) for d in t.shape
    )
    return filled and all(v >= 0 if r == ">=0" else v == 0 for r, v in values)


def small_sizes(
    checked: CheckedDef, entry: dict[str, Any], rng: np.random.Generator
) -> dict[str, int]:
    """Return ragged sizes of the order of the entry's own, that are legal and quick."""
    own: dict[str, int] = entry.get("sizes") or entry["suggested_sizes"]
    names = [s for s in checked.sizes if s not in checked.scalars]
    for limit in (23, 19, 13, 11, 9, 7, 6, 5, 4, 3, 2):
        for _ in range(20):
            sizes = {
                n: min(own.get(n, 3), 3) if n in KERNEL_SIZES else int(rng.integers(2, limit + 2))
                for n in names
            }
            if "KP1" in sizes and "K" in sizes:
                sizes["KP1"] = sizes["K"] + 1
            if points(checked, sizes) <= POINTS and holds(checked, sizes):
                return sizes
    raise AssertionError(f"no small sizes for {entry['name']}")


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
