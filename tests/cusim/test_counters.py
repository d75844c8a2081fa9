"""Transactions of each line are those that the hardware would make."""

from __future__ import annotations

import pytest

from tests.cusim.kernels import Kernel, run

pytestmark = pytest.mark.cusim

KERNELS = {
    "coalesced": Kernel("y[t] = x[t];", threads=32),
    "strided": Kernel("y[t] = x[8 * t];", threads=32),
    "broadcast": Kernel("y[t] = x[0];", threads=32),
    "shifted": Kernel("y[t] = x[t + 1];", threads=32),
    "wide": Kernel("tc_copy16(y + 4 * t, x + 4 * t);", threads=32),
    "columns": Kernel(
        """
__shared__ float s[32][32];
for (int i = 0; i < 32; i++)
  s[i][t] = x[t]; // row
tc_barrier();
float sum = 0;
for (int i = 0; i < 32; i++)
  sum += s[t][i]; // column
y[t] = sum;
""",
        threads=32,
    ),
    "padded_columns": Kernel(
        """
__shared__ float s[32][33];
for (int i = 0; i < 32; i++)
  s[i][t] = x[t]; // row
tc_barrier();
float sum = 0;
for (int i = 0; i < 32; i++)
  sum += s[t][i]; // column
y[t] = sum;
""",
        threads=32,
    ),
    "wide_shared": Kernel(
        """
__shared__ __align__(16) float s[128];
tc_copy16(s + 4 * t, x + 4 * t);
tc_barrier();
y[t] = s[127 - t];
""",
        threads=32,
    ),
}


def _moved(name: str, is_write: bool) -> tuple[int, int]:
    return run(KERNELS, name, counters=True).report.sectors(is_write)


def test_neighbouring_lanes_share_sectors() -> None:
    assert _moved("coalesced", is_write=False) == (4, 4)
    assert _moved("coalesced", is_write=True) == (4, 4)
    assert _moved("wide", is_write=False) == (16, 16)
    assert _moved("broadcast", is_write=False) == (1, 1)


def test_a_stride_moves_a_sector_for_each_lane() -> None:
    assert _moved("strided", is_write=False) == (32, 4)


def test_a_shifted_run_touches_one_sector_more() -> None:
    assert _moved("shifted", is_write=False) == (5, 4)


@pytest.mark.parametrize(("name", "passes"), [("columns", 32), ("padded_columns", 1)])
def test_columns_conflict_unless_rows_are_padded(name: str, passes: int) -> None:
    report = run(KERNELS, name, counters=True).report
    shared = {c.site.text: c for c in report.counts if c.is_shared}
    row = next(c for text, c in shared.items() if "// row" in text)
    column = next(c for text, c in shared.items() if "// column" in text)
    assert (row.requests, row.moved, row.ideal) == (32, 32, 32)
    assert (column.requests, column.moved, column.ideal) == (32, 32 * passes, 32)
    assert report.lines[column.site.line] == [column]


def test_wide_accesses_are_served_in_quarters_of_a_warp() -> None:
    assert run(KERNELS, "wide_shared", counters=True).report.wavefronts(is_write=True) == (4, 4)


def test_nothing_is_counted_unless_asked_for() -> None:
    assert run(KERNELS, "coalesced").report.counts == []
