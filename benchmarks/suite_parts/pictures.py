"""A report of the suite as a picture: ratios by kind, and what share of the machine is reached."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def draw(rows: list[dict[str, Any]], machine: dict[str, float], path: Path) -> None:
    """Draw the rows of a report.

    Parameters
    ----------
    rows : list of dict
        Each with `workload`, `kind`, `ratio`, `us`, `flops`, `bytes`.
    machine : dict
        `gflops` and `gbytes`, a second, that it reaches.
    path : Path
        Of a PNG.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = [row for row in rows if row["ratio"]]
    kinds = list(dict.fromkeys(row["kind"] for row in rows))
    rows = sorted(rows, key=lambda row: (-kinds.index(row["kind"]), row["ratio"]))
    colours = {kind: plt.get_cmap("tab20")(i % 20) for i, kind in enumerate(kinds)}
    figure, (bars, roof) = plt.subplots(
        1, 2, figsize=(16, 3 + 0.17 * len(rows)), layout="constrained"
    )
    places = range(len(rows))
    ratios = [row["ratio"] for row in rows]
    bars.barh(places, [r - 1 for r in ratios], left=1, color=[colours[r["kind"]] for r in rows])
    bars.set_yticks(places, [row["workload"] for row in rows], fontsize=6)
    bars.set(xscale="log", xlabel="time of the best peer / ours (right of 1: ours is faster)")
    bars.axvline(1, color="black", linewidth=1)
    bars.margins(y=0.005)
    for kind in kinds:
        mine = [row for row in rows if row["kind"] == kind and row["flops"] and row["bytes"]]
        intensity = [row["flops"] / row["bytes"] for row in mine]
        reached = [row["flops"] / row["us"] / 1e3 for row in mine]
        roof.scatter(intensity, reached, color=colours[kind], label=kind, s=18)
    edges = [1e-2, machine["gflops"] / machine["gbytes"], 1e4]
    ceiling = [min(machine["gflops"], x * machine["gbytes"]) for x in edges]
    roof.plot(edges, ceiling, color="black", linewidth=1)
    roof.set(xscale="log", yscale="log", xlabel="operations per byte of operands", ylabel="GFLOP/s")
    roof.legend(fontsize=7)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)
