"""Addresses as linear forms of loop counters, and which neighbouring loops are one.

A subscript is affine and so is an address: `const + sum over loops of counter * step`, where
steps are symbolic (`N`, a constant, a run-time stride by name). Counters start at 0. Equal steps
are equal `Size`s, so that with contiguous operands `i * N + j` is found to be one loop of M*N.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tcdsl.codegen.forms.base.align import AlignedDim
from tcdsl.codegen.program.affine import affine_of
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types import typed

ZERO, ONE = Size(), Size.const(1)


@dataclass(frozen=True, slots=True)
class Linear:
    """const + sum of counter * step, in elements."""

    terms: tuple[tuple[str, Size], ...]
    const: Size

    def step(self, dim: str) -> Size:
        """Return the distance of neighbours along a loop."""
        return dict(self.terms).get(dim, ZERO)

    def without(self, dims: Sequence[str]) -> Linear:
        """Return what is left with those counters at 0."""
        return replace(self, terms=tuple(t for t in self.terms if t[0] not in dims))


def linear_of(
    subs: Sequence[typed.Expr], strides: Sequence[Size], dims: Mapping[str, AlignedDim]
) -> Linear | None:
    """Return the address of an access, or None if a subscript is not affine."""
    steps: dict[str, Size] = {}
    const = ZERO
    for sub, stride in zip(subs, strides, strict=True):
        a = affine_of(sub)
        if a is None or any(name not in dims for name, _ in a.terms):
            return None
        const += a.const * stride
        for name, k in a.terms:
            const += dims[name].low * stride * k
            steps[name] = steps.get(name, ZERO) + stride * k
    terms = tuple((name, step) for name, step in sorted(steps.items()) if step != ZERO)
    return Linear(terms, const)


@dataclass(frozen=True, slots=True)
class DimLoop:
    """A loop over a counter in [0, extent): a dimension or several joined ones."""

    name: str
    extent: Size


def join(
    order: Sequence[DimLoop], accesses: Sequence[Linear], apart: frozenset[str] = frozenset()
) -> tuple[DimLoop, ...]:
    """Return the loops, outermost first, with neighbours joined where all accesses allow it.

    `for i in M, j in N` at `i*N*s + j*s` -> `for j in M*N` at `j*s` (Halide's fuse). The inner
    name stays; terms of the outer one are to be dropped (`Linear.without`). apart: loops whose
    counter is used as a value.
    """
    done: list[DimLoop] = []
    for loop in order:
        while done and done[-1].name not in apart and loop.name not in apart:
            outer = done[-1]
            if any(a.step(outer.name) != a.step(loop.name) * loop.extent for a in accesses):
                break
            loop = DimLoop(loop.name, outer.extent * loop.extent)
            done.pop()
        done.append(loop)
    return tuple(done)


def by_step(
    dims: Sequence[str], accesses: Sequence[Linear], sizes: Mapping[str, int]
) -> tuple[str, ...]:
    """Return dims outermost first: large steps outside, by the sum over accesses at given sizes.

    Equal sums keep their order.
    """

    def weight(dim: str) -> int:
        return sum(min(abs(a.step(dim).evaluate(sizes)), 1 << 40) for a in accesses)

    return tuple(sorted(dims, key=lambda d: -weight(d)))
