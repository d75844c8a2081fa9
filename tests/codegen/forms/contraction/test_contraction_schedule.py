"""The analytic schedule of contractions on machines made up for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tcdsl.codegen.forms.contraction import choice
from tcdsl.codegen.forms.contraction.blocking import DOT, PANEL, Extents
from tcdsl.codegen.forms.contraction.choice import (
    ContractionChoice,
    blocking_of,
    choose,
    least_cost,
    number,
)
from tcdsl.codegen.forms.contraction.schedule import (
    kernel_set,
    panel_step,
    register_tiles,
    tile_cost,
)
from tcdsl.codegen.loops.build import c64, value_of
from tcdsl.codegen.loops.loopir import Expr
from tcdsl.codegen.machine.cpu import Machine

WAY = 4096  # bytes
INTEL = Machine("avx512", 64, 32, 8 * WAY, 8, 1 << 20, 36 << 20, 2, 3.75, 2)
AMD = replace(INTEL, l1_bytes=12 * WAY, l1_ways=12, crosses_lines=True)
ZEN3 = Machine("avx2", 32, 16, 8 * WAY, 8, 1 << 19, 32 << 20, 2, 3.2, 2, crosses_lines=True)


def product(m: int, n: int, k: int, row: int | None = None, *, by_columns: bool = False) -> Extents:
    """Return a product of float32 matrices in C order; rows of a begin row elements apart.

    by_columns: a lies in Fortran order.
    """
    return Extents(
        outer=c64(1),
        a_outer=c64(1),
        groups=c64(1),
        m=c64(m),
        n=c64(n),
        k=c64(k),
        a_row=c64(1 if by_columns else row or k),
        a_k_unit=not by_columns,
        packs_a=False,
        packs_b=False,
        keeps_b=False,
        near=(False, False, False),
        whole=False,
        dots=False,
        streams=False,
        lanes=16,
        bytes=4,
    )


def chosen(x: Extents, machine: Machine = INTEL, threads: int = 1) -> ContractionChoice:
    return choose(x, machine, threads, register_tiles(machine))


@pytest.mark.parametrize("machine", [INTEL, AMD])
@pytest.mark.parametrize("share", [1, 2])
def test_rows_that_share_sets_leave_two_ways(machine: Machine, share: int) -> None:
    """Rows a way apart share one set of the first level, those half a way apart two."""
    for m in (64, 73, 81, 96):
        for n in (64, 512):
            c = chosen(product(m, n, 256, row=WAY // 4 // share), machine)
            assert c.mr <= (machine.l1_ways - 2) * share


def test_large_products_run_in_deep_passes_over_packed_columns() -> None:
    x = product(1024, 1024, 1024)
    c = chosen(x)
    assert (c.mr, c.nv, c.pack_a, c.pack_b, c.kc) == (6, 4, False, True, 512)
    block = (value_of(e) for e in (blocking_of(x, INTEL, c).nc, c64(4 * c.kc)))
    columns, depth_bytes = block
    assert columns is not None
    assert depth_bytes is not None
    assert columns * depth_bytes <= INTEL.l2_bytes // 2


def test_columns_stay_where_they_lie_if_crossing_lines_costs_nothing() -> None:
    assert chosen(product(100, 100, 128)).pack_b
    assert not chosen(product(100, 100, 128), AMD).pack_b
    assert not chosen(product(26, 26, 72)).pack_b, "a panel is used by two tiles"
    assert not chosen(product(72, 26, 26)).pack_b, "it lies in the first level"


def test_rows_by_columns_are_packed_where_many_panels_read_them() -> None:
    assert chosen(product(512, 512, 512, by_columns=True)).pack_a
    assert not chosen(product(72, 26, 26, by_columns=True)).pack_a


def test_last_columns_may_be_few_where_another_thread_has_them() -> None:
    """14 blocks of 72 columns and one of 16 keep two threads as busy, and none packs b twice."""
    c = chosen(replace(product(128, 1024, 1024), lanes=8), ZEN3, threads=2)
    assert (c.mr, c.nv, c.mt, c.nt) == (4, 3, 1, 15)


def test_columns_are_not_split_where_every_block_packs_the_rows_again() -> None:
    x = replace(product(1024, 1024, 1024, by_columns=True), lanes=8)
    assert chosen(x, ZEN3).nt == 1
    assert chosen(x, ZEN3, threads=2).nt <= 2


def test_blocks_of_a_group_are_bounded() -> None:
    x = replace(
        product(2000, 2000, 700), packs_a=True, packs_b=True, whole=True, near=(True, True, True)
    )
    g = blocking_of(x, INTEL, chosen(x))
    rows, columns, depth = (value_of(e) or 0 for e in (g.mc, g.nc, g.kc))
    for elements in (rows * depth, columns * depth, rows * columns):
        assert 16 * 4 * elements <= 8 * INTEL.l2_bytes


def test_tiles_take_few_rows_of_an_operand_that_comes_from_memory() -> None:
    rows = {m: chosen(product(m, 16, 32), AMD).mr for m in (4096, 262144)}
    assert rows[4096] > 12, "all of it stays in the second level"
    assert rows[262144] <= 12


@pytest.mark.parametrize("size", [(32, 784, 16), (1000, 48, 513)])
def test_columns_in_threes_have_the_tile_of_known_sizes_at_any(size: tuple[int, int, int]) -> None:
    of_any = choose(product(*size), AMD, 1, kernel_set(AMD.registers))
    of_known = chosen(product(*size), AMD)
    assert (of_any.mr, of_any.nv) == (of_known.mr, of_known.nv) == (8, 3)


def test_dots_are_for_few_rows() -> None:
    """As many loads as there is time for: beside tiles they take 1.3 times what their sums do."""

    def method(m: int, n: int, k: int) -> int:
        return chosen(replace(product(m, n, k), packs_b=True, dots=True), AMD).method

    assert method(4, 1000, 1000) == DOT
    assert method(128, 128, 2000) == PANEL
    assert method(64, 64, 2000) == PANEL


@pytest.mark.parametrize("machine", [INTEL, ZEN3])
def test_tiles_that_cannot_be_the_best_are_not_costed_and_the_choice_is_that_of_all(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[Extents] = []

    def cost_of(x: Extents, machine: Machine, *args: Any) -> Expr:
        counted.append(x)
        return tile_cost(x, machine, *args)

    monkeypatch.setattr(choice, "tile_cost", cost_of)
    sizes = [(1, 1, 1), (7, 3, 5), (40, 60, 50), (13, 100, 9), (512, 31, 64), (300, 700, 1000)]
    products = [product(*s, by_columns=by) for s in sizes for by in (False, True)]
    products = [replace(x, lanes=machine.vector_bytes // 4) for x in products]
    found = [chosen(x, machine) for x in products]
    assert len(counted) < len(products) * len(register_tiles(machine)) / 2
    monkeypatch.setattr(choice, "least_cost", lambda *_: 0)
    assert [chosen(x, machine) for x in products] == found


def test_the_least_cost_of_a_tile_is_none_of_more_than_it_has() -> None:
    def step(mr: Expr, nv: Expr) -> Expr:
        return c64(panel_step(INTEL, number(mr), number(nv)))

    for m, n, k in ((1, 1, 1), (5, 17, 3), (40, 60, 50), (96, 64, 7)):
        for mr, nv in register_tiles(INTEL):
            x = product(m, n, k)
            cost = number(tile_cost(x, INTEL, c64(mr), c64(nv), step))
            assert 0 < least_cost(x, INTEL, mr, nv) <= cost


def test_the_fewer_lines_of_dots_are_not_split() -> None:
    """For each part of them the others are read once more, from memory where they are many."""
    few = replace(product(8, 4096, 4096), packs_b=True, dots=True)
    tiles = kernel_set(AMD.registers)  # of four rows here: two blocks are about equal to one
    c = choose(few, AMD, 2, tiles)
    assert (c.method, c.mt) == (DOT, 1)
    c = choose(replace(product(4096, 5, 4096), packs_b=True, dots=True), AMD, 2, tiles)
    assert (c.method, c.nt) == (DOT, 1)
    c = choose(replace(product(16, 16, 100_000), packs_b=True, dots=True), AMD, 2, tiles)
    assert (c.method, c.mt) == (DOT, 2), "else one thread has all"


@pytest.mark.parametrize("tiles", [kernel_set(INTEL.registers), register_tiles(INTEL)])
def test_tiles_are_lower_where_threads_would_have_none(tiles: tuple[tuple[int, int], ...]) -> None:
    one = product(16, 16, 100_000)
    found = {t: choose(one, INTEL, t, tiles) for t in (1, 2, 64)}
    assert {t: (c.mr, c.mt) for t, c in found.items()} == {1: (16, 1), 2: (8, 2), 64: (8, 2)}
    many = replace(one, outer=c64(512), a_outer=c64(512), k=c64(32))
    assert choose(many, INTEL, 2, tiles).mr == 16, "a matrix is one tile"


def test_threads_do_not_choose_the_method() -> None:
    """Lower tiles had b packed, and so dots chosen: other bits."""
    x = replace(product(37, 53, 2764), dots=True)
    found = [choose(x, INTEL, threads, kernel_set(INTEL.registers)) for threads in (1, 2, 4, 16)]
    assert len({(c.method, c.pack_b, c.kc) for c in found}) == 1
