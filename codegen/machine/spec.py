"""What an executable is specialised for: sizes and layouts."""

from __future__ import annotations

from tcdsl.grammar.text.dataclass import dataclass

SMALL = 1 << 30  # of `Spec.is_small`: half of what 32 bits hold, so that a tile beyond still fits


@dataclass(frozen=True, slots=True)
class Layout:
    """Layout class of one operand.

    contiguous: C-contiguous, so that strides follow from the shape (with exact sizes they are
    constants). Otherwise strides are run-time values, of which only this is known: unit, the
    dimension of stride one element (None: none), zeros, the dimensions of stride 0, and joined[d],
    true where dimensions d and d+1 collapse into one (stride[d] == stride[d+1] * extent[d+1]).
    """

    rank: int
    contiguous: bool
    unit: int | None
    zeros: tuple[int, ...] = ()
    joined: tuple[bool, ...] = ()


@dataclass(frozen=True, slots=True)
class Spec:
    """sizes: exact values by symbol (baked in), or None for a size-generic executable.

    open: further symbols, any value of which that is at least 1 the executable takes: how many
    images there are, while all else is exact.

    layouts: one per operand, parameters then returns, in the order of `Program.inputs`,
    `Program.outputs` (rank-0 parameters included, with rank 0).
    threads: of the CPU; 0 for a GPU. is_small: a size-generic executable for a GPU may compute
    addresses in 32 bits. Below SMALL are then: sizes, the points of every statement's outputs and
    of its reductions, and the distance of any element of any operand or temporary from the first,
    in elements. The caller checks. is_deterministic: on a GPU, the same bits in every run, also
    where sums of floats could be faster; on the CPU they always are the same.
    """

    sizes: tuple[tuple[str, int], ...] | None
    layouts: tuple[Layout, ...]
    threads: int
    is_small: bool = False
    is_deterministic: bool = False
    open: tuple[str, ...] = ()

    @property
    def is_exact(self) -> bool:
        """Whether all sizes are constants of the executable."""
        return self.sizes is not None and not self.open
