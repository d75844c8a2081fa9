"""How far an output may be from the reference in float64: from the number of summed terms."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from tcdsl.autotune.worker.case import Array
from tcdsl.codegen.program.expressions import walk_typed
from tcdsl.codegen.program.program import Program, Statement
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.builtins import BUILTINS, STEPS
from tcdsl.grammar.types.dtypes import DType

# Rounding errors of n random terms grow as sqrt(n) times the size of the partial sums. The factor
# covers the few operations per term, builtins of 4 ulp, and the tails over a million elements.
_FACTOR = 16.0
_JUMPING = STEPS | {"nextafter"} | {f.name for f in BUILTINS.values() if f.result == "bool"}
_EPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}


def relative_errors(program: Program, sizes: Mapping[str, int]) -> tuple[float, ...]:
    """Return the tolerated error of each output, relative to its largest value; 0 for integers.

    ``16 sqrt(terms) eps + 4 eps_stored``, with the terms summed on the longest way from an input
    to the output, eps of the coarsest type that is computed in, and eps_stored of the coarsest
    half type that something is stored in on the way.
    """
    terms: dict[str, float] = {}
    for stmt in program.statements:
        extents = [r.extent.evaluate(sizes) for r in stmt.reductions]
        own = float(math.prod(extents)) if extents else 0.0
        read = [terms.get(r.tensor, 0.0) for r in stmt.reads()]
        base = terms.get(stmt.base, 0.0) if stmt.base is not None else 0.0
        terms[stmt.target] = own + max([*read, base], default=0.0)
    types = [program.buffer(s.target).dtype for s in program.statements]
    computed = max((_computing_eps(d) for d in types), default=0.0)
    stored = max((_EPS[d.name] for d in types if d.is_half), default=0.0)
    return tuple(
        _FACTOR * math.sqrt(max(terms.get(name, 1.0), 1.0)) * computed + 4 * stored
        if program.buffer(name).dtype.is_float
        else 0.0
        for name in program.outputs
    )


def absolute(relative: float, wanted: Array) -> float:
    """Return the absolute tolerance of an output from its relative one and its expected values."""
    finite = wanted[np.isfinite(wanted)] if wanted.dtype.kind == "f" else wanted[:0]
    return relative * float(np.abs(finite).max(initial=0.0))


DEVIATIONS = 8.0  # of the reference: rounding errors are random, and only a few were drawn
_MEANINGFUL = 1e-3  # of the largest value
_JUMPS = 0.1  # of the values


def perturbed(array: Array, rng: np.random.Generator) -> Array:
    """Return floats that differ from those of an array by at most half an ulp of their type."""
    if array.dtype.kind not in "fV" or array.dtype.name not in _EPS:
        return array
    half = _EPS[array.dtype.name] / 2
    exact = np.asarray(array, np.float64)
    return exact * (1 + rng.uniform(-half, half, array.shape))


def deviation(got: Array, wanted: Array, *, may_jump: bool) -> float:
    """Return how far values are from others at most, inf where these say nothing any more.

    may_jump: whether a few values may fall the other way of a comparison; they do not count.
    """
    if wanted.dtype.kind != "f" or not wanted.size:
        return 0.0
    limit = absolute(_MEANINGFUL, wanted)
    with np.errstate(invalid="ignore"):
        off = np.abs(np.asarray(got, np.float64) - wanted)
    same = (got == wanted) | (np.isnan(got) & np.isnan(wanted))
    off = np.where(same, 0.0, np.where(np.isnan(off), np.inf, off))
    near = off <= limit
    if near.mean() < (1 - _JUMPS if may_jump else 1):
        return math.inf
    return float(off[near].max(initial=0.0))


def is_discontinuous(program: Program) -> bool:
    """Whether a rounding error can change an output by a jump: a comparison, a cast, an argmax."""
    return any(_steps(stmt) for stmt in program.statements)


def _steps(stmt: Statement) -> bool:
    if stmt.op.startswith("arg"):
        return True
    for root in (stmt.value, *stmt.subs):
        for e in walk_typed(root):
            match e:
                case typed.Binary(op, lhs) if op in ("<", "<=", ">", ">=", "==", "!=", "/", "%"):
                    if lhs.dtype.is_float and op not in ("/",):
                        return True
                case typed.Cast(operand, dtype) if operand.dtype.is_float and not dtype.is_float:
                    return True
                case typed.Builtin(name) if name in _JUMPING:
                    return True
                case _:
                    pass
    return False


def _computing_eps(dtype: DType) -> float:
    if not dtype.is_float:
        return 0.0
    return _EPS["float32"] if dtype.is_half else _EPS[dtype.name]
