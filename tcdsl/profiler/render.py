"""The table of a profile, as a text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

__all__ = ["SORTED_BY", "table", "time_text"]

SORTED_BY = ("cpu_time", "cpu_time_total", "self_cpu_time_total", "count", "flops", "key")


class Events(Protocol):
    """What a table is of, whole."""

    wall_ns: int
    lost: int

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all, each counted once."""


def table(
    rows: Sequence[Any],
    whole: Events,
    sort_by: str | None,
    row_limit: int,
    name_width: int,
    shapes_width: int,
    header: str | None,
) -> str:
    """Return a table of events or averages; see `EventList.table`."""
    if sort_by is not None:
        if sort_by not in SORTED_BY:
            raise ValueError(
                f"sort_by: expected one of {', '.join(SORTED_BY)}, got {sort_by!r}"
                "\n  times are of the host: calls on a GPU are not recorded"
            )
        rows = sorted(rows, key=lambda e: getattr(e, sort_by), reverse=sort_by != "key")
    total = whole.self_cpu_time_total
    kernels = sum(e.self_cpu_time_total for e in rows if e.is_kernel)
    shown = rows if row_limit < 0 else rows[:row_limit]
    columns: list[tuple[str, Callable[[Any], str]]] = [
        ("Name", lambda e: _cut(e.key, name_width)),
        ("Self CPU %", lambda e: _share(e.self_cpu_time_total, total)),
        ("Self CPU", lambda e: time_text(e.self_cpu_time_total)),
        ("CPU total %", lambda e: _share(e.cpu_time_total, total)),
        ("CPU total", lambda e: time_text(e.cpu_time_total)),
        ("CPU time avg", lambda e: time_text(e.cpu_time)),
        ("# of Calls", lambda e: str(e.count)),
    ]
    if any(getattr(e, "gflops", None) is not None for e in shown):
        columns += [
            ("GFLOP/s", lambda e: _rate(e.gflops)),
            ("GB/s", lambda e: _rate(e.gbytes)),
        ]
    if len({e.key for e in rows}) < len(rows):  # told apart by their shapes
        columns.append(
            ("Input Shapes", lambda e: _cut(str([*map(list, e.input_shapes)]), shapes_width))
        )
    cells = [[title for title, _ in columns], *([show(e) for _, show in columns] for e in shown)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    rule = "  ".join("-" * w for w in widths)
    lines = []
    for name, *rest in cells:
        aligned = [c.rjust(w) for c, w in zip(rest, widths[1:], strict=True)]
        lines.append("  ".join([name.ljust(widths[0]), *aligned]))
    below = [f"Self CPU time total: {time_text(total)}"]
    if whole.wall_ns:
        wall = whole.wall_ns / 1e3
        below.append(f"Kernels: {time_text(kernels)}, {_share(kernels, wall)} of {time_text(wall)}")
    if len(shown) < len(rows):
        below.append(f"{len(rows) - len(shown)} more rows")
    if whole.lost:
        below.append(f"{whole.lost} calls are not recorded: there was no room for them")
    above = [header] if header else []
    return "\n".join([*above, rule, lines[0], rule, *lines[1:], rule, *below]) + "\n"


def time_text(us: float) -> str:
    """Return microseconds as a text in a fitting unit."""
    if us >= 1e6:
        return f"{us / 1e6:.3f}s"
    return f"{us / 1e3:.3f}ms" if us >= 1e3 else f"{us:.3f}us"


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.2f}%" if whole else "--"


def _rate(number: float | None) -> str:
    return "--" if number is None else f"{number:.1f}"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(1, width - 3)] + "..."
