"""The CPU a kernel is compiled for: vector width, registers, caches, threads, peak."""

from __future__ import annotations

from tcdsl.grammar.text.dataclass import dataclass

LINE = 64  # bytes of a cache line, where a workspace and all that lies in it begin
CORE_L3 = 8 << 20  # bytes of the third level that a core has at most, of nearly all processors


def has_few(registers: int) -> bool:
    """Whether so many vector registers are all taken by a tile: 16 of AVX2, not 32."""
    return registers <= 16


@dataclass(frozen=True, slots=True)
class Machine:
    """What analytic schedules and the tuner's model need to know."""

    isa: str  # "avx512", "avx2", "sse", "neon", "generic": chosen by the compiler's macros
    vector_bytes: int
    registers: int
    l1_bytes: int
    l1_ways: int
    l2_bytes: int
    l3_bytes: int
    cores: int
    frequency_ghz: float
    fma_per_cycle: int  # vector FMAs a core starts per cycle
    crosses_lines: bool = False  # vectors across two lines are read as fast as others
    shares_ports: bool = False  # scalar operations are done where vector FMAs are, and delay them
    l2_keeps_up: bool = False  # vectors come from the second level as fast as FMAs want them
    # what dot instructions take: "bytes" by fours, "bfloat16" by twos; "tiles" of either, and
    # "float16 tiles"
    dots: tuple[str, ...] = ()

    @property
    def has_masks(self) -> bool:
        """Whether masks have registers of their own: a store under one costs no more then."""
        return self.isa == "avx512"

    @property
    def has_few_registers(self) -> bool:
        """Whether register tiles take all vector registers, so that nothing is done beside them."""
        return has_few(self.registers)

    @property
    def own_l3_bytes(self) -> int:
        """How much of the third level may be ours: a rented part of a processor shows all of it."""
        return min(self.l3_bytes, CORE_L3 * self.cores)

    def lanes(self, element_bytes: int) -> int:
        """Return how many elements a vector holds."""
        return self.vector_bytes // element_bytes

    def peak_gflops(self, element_bytes: int = 4, threads: int = 1) -> float:
        """Return the FMA peak, multiplication and addition counted."""
        return 2 * self.lanes(element_bytes) * self.fma_per_cycle * self.frequency_ghz * threads
