"""Workloads of every kind beside the libraries that a user would call otherwise.

`python benchmarks/suite.py [--only TEXT] [--kind TEXT] [--seconds 1] [--json FILE] [--png FILE]`
times each workload by ours and by its peers, each peer a process of its own, in turns, and prints
the microseconds of ours, the best peer and its ratio to ours (above 1: ours is faster), what is
reached in GFLOP/s and GB/s, then geometric means by kind and the worst. Nothing is tuned unless
`--tune SECONDS` says so. A result that differs from a peer's is told and counts for nothing; then
the exit status is 1.

`--random COUNT [--forms conv,pool] [--seed N] [--again N]` times that many random shapes of each
form instead and prints the worst of each form. The N worst of each are timed a second time, and
the better of both ratios counts: what a busy moment has spoilt is not among the worst. `--busy`, of
one thread, takes the least time of the processor, which work beside us spoils less than a clock's.

`--generic` also times executables for any sizes, in turns with those for exact sizes in one process
(`--peers tcdsl`: nothing else), by the clock and by the time of all processors, and prints the
worst; a ratio above 1.08 (1.15 where a call takes less than 50 us) misses the aim.
"""

from __future__ import annotations

import random
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from reports import Table, asking, facts, keep
from suite_parts.kinds import find, workloads
from suite_parts.peers import Options, Process, known
from suite_parts.shapes import FORMS, form_of, random_shapes
from suite_parts.workload import Array, Workload

from tcdsl.codegen import runtime
from tcdsl.codegen.toolchain.peak import measure_bandwidth, measure_peak

Row = dict[str, Any]

_ROUNDS = 5  # in which the peers of a workload take turns
_QUANTILE = 0.2
_AIM, _AIM_SHORT, _SHORT_US = 1.08, 1.15, 50  # times the exact executable's; of calls so short
_LEAST = 0.85  # of the best peer's time to ours
_WORST = 8  # that are listed of each form


class Suite:
    """The processes of all peers; a peer that dies is started again for the next workload."""

    def __init__(self, names: Sequence[str], options: Options, quantile: float = _QUANTILE) -> None:
        self._options, self._quantile = options, quantile
        self._processes = {name: Process(name, options) for name in names}

    def measure(self, workload: Workload, name: str, seconds: float) -> Row:
        """Return a row: times in us by peer and variant, the best of them, what went wrong."""
        row: Row = {"workload": workload.name, "kind": workload.kind, "us": {}, "wrong": []}
        turns: list[tuple[str, str]] = []
        with tempfile.TemporaryDirectory() as folder:
            results: dict[tuple[str, str], Path] = {}
            for peer, process in list(self._processes.items()):
                place = Path(folder) / peer
                place.mkdir()
                try:
                    made = process.make(name, place)
                except RuntimeError as e:
                    made = {"error": str(e)}
                    self._processes[peer] = Process(peer, self._options)
                if "error" in made:
                    row["wrong"].append(f"{peer}: {made['error']}")
                    continue
                row |= {key: made[key] for key in ("flops", "bytes") if key in made}
                for variant in made["variants"]:
                    turns.append((peer, variant))
                    results[peer, variant] = place / f"{variant}.npy"
            turns = [turn for turn in turns if self._is_right(turn, results, workload, row)]
        is_rated = ("tcdsl", "generic") in turns
        turns = [turn for turn in turns if turn != ("tcdsl", "generic")]  # it has turns of its own
        samples: dict[tuple[str, str], list[float]] = defaultdict(list)
        for _ in range(_ROUNDS):
            for peer, variant in turns:
                share = seconds / _ROUNDS / len(turns)
                samples[peer, variant] += self._processes[peer].time(variant, share)
        if is_rated:
            found = self._processes["tcdsl"].beside(("untuned", "generic"), seconds)
            both = zip(("wall", "cpu"), found["untuned"], found["generic"], strict=True)
            row["generic"] = {clock: (e / 1e3, g / 1e3) for clock, e, g in both}
        for (peer, variant), times in samples.items():
            label = f"{peer} {variant}".strip()
            row["us"][label] = float(np.quantile(times, self._quantile)) / 1e3
        return row

    def _is_right(
        self,
        turn: tuple[str, str],
        results: dict[tuple[str, str], Path],
        workload: Workload,
        row: Row,
    ) -> bool:
        """Hold a result against that of torch or, where there is none, of the first peer."""
        judges = [t for t in results if t[0] != "tcdsl"] or [("tcdsl", "untuned")]
        judge = ("torch", "") if ("torch", "") in judges else judges[0]
        if turn == judge:
            return True
        ours, theirs = np.load(results[turn]), np.load(results[judge])
        if ours.shape != theirs.shape:
            row["wrong"].append(
                f"{' '.join(turn)}: {ours.size} numbers, {theirs.size} of {judge[0]}"
            )
            return False
        error = distance(ours, theirs)
        if not error <= workload.tolerance:
            row["wrong"].append(f"{' '.join(turn)}: differs by {error:.1e} of the largest value")
        return bool(error <= workload.tolerance)

    def stop(self) -> None:
        """End all processes."""
        for process in self._processes.values():
            process.stop()


def distance(ours: Array, theirs: Array) -> float:
    """Return the largest difference over the largest value; infinities and NaN want their like."""
    is_apart = (ours != theirs) & ~(np.isnan(ours) & np.isnan(theirs))
    apart = np.abs(ours[is_apart] - theirs[is_apart]).max(initial=0)
    return float(apart / max(np.abs(theirs[np.isfinite(theirs)]).max(initial=0), 1e-30))


def judge(row: Row) -> None:
    """Put the best of ours, the best peer and their ratio into a row."""
    ours = {k: us for k, us in row["us"].items() if k.startswith("tcdsl")}
    peers = {k: us for k, us in row["us"].items() if not k.startswith("tcdsl")}
    row["ours"] = ours.get("tcdsl untuned")
    row["best"] = min(peers, key=lambda k: peers[k]) if peers else None
    row["ratio"] = peers[row["best"]] / row["ours"] if peers and row["ours"] else None


def mean(ratios: Iterable[float]) -> float:
    """Return the geometric mean."""
    return statistics.geometric_mean(ratios)


def summary(rows: Sequence[Row]) -> None:
    """Print geometric means by kind and the worst rows."""
    rated = [row for row in rows if row["ratio"]]
    kinds: dict[str, list[float]] = defaultdict(list)
    for row in rated:
        kinds[row["form"] if "form" in row else row["kind"]].append(row["ratio"])
    print()
    table = Table("kind", 24, {"count": "7", "mean": "8.2f", "least": "8.2f", "late": "6"})
    for kind, ratios in sorted(kinds.items(), key=lambda item: mean(item[1])):
        _means(table, kind, ratios)
    if rated:
        _means(table, "all", [row["ratio"] for row in rated])
    forms = {row["form"] for row in rated if "form" in row}
    for form in sorted(forms, key=lambda form: min(kinds[form])):
        print(f"\nworst of {form}:")
        _list([row for row in rated if row["form"] == form], _WORST)
    if not forms:
        print("\nworst:")
        _list(rated, 15)


def _means(table: Table, name: str, ratios: Sequence[float]) -> None:
    late = sum(ratio < _LEAST for ratio in ratios)
    table.row(name, len(ratios), mean(ratios), min(ratios), late)


def _list(rows: Sequence[Row], count: int) -> None:
    for row in sorted(rows, key=lambda row: row["ratio"])[:count]:
        number = f"  {row['random']}" if "random" in row else ""
        print(f"  {row['ratio']:6.2f}  {row['workload']}  ({row['best']}){number}")


def worst_of(rows: Sequence[Row], count: int) -> list[Row]:
    """Return the rows of random shapes to be timed again: the worst of each form."""
    forms: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row["ratio"]:
            forms[row["form"]].append(row)
    return [
        row for found in forms.values() for row in sorted(found, key=lambda r: r["ratio"])[:count]
    ]


def main() -> int:
    parser = asking(__doc__, 1.0, "per workload, all peers together")
    parser.add_argument("--kind", default="", help="workloads of kinds whose name contains this")
    parser.add_argument(
        "--peers", help=f"of {', '.join(known())}; all but torch.compile by default"
    )
    parser.add_argument("--tune", type=float, default=0, help="seconds of tuning for each workload")
    parser.add_argument("--generic", action="store_true", help="size-generic executables too")
    parser.add_argument("--random", type=int, default=0, help="shapes of each form instead")
    parser.add_argument("--forms", default=",".join(FORMS), help="of random shapes; all by default")
    parser.add_argument("--seed", type=int, default=None, help="of the random shapes")
    parser.add_argument("--again", type=int, default=0, help="worst of each form, timed twice")
    parser.add_argument("--busy", action="store_true", help="the processor's times, the least")
    parser.add_argument("--png", type=Path, help="draw the ratios and the roofline in this file")
    options = parser.parse_args()
    if options.busy and options.threads != 1:
        parser.error(
            "--busy wants --threads 1: the processors' times of several are no time of a call"
        )
    if options.threads:
        runtime.set_num_threads(options.threads)
    names = [w.name for w in workloads()]
    seed = random.randrange(1 << 30) if options.seed is None else options.seed
    if options.random:
        forms = options.forms.split(",")
        for form in forms:
            if form not in FORMS:
                parser.error(f"no form '{form}', only {', '.join(FORMS)}")
        print(f"--seed {seed}")
        names = list(random_shapes(options.random, seed, forms))
    there = known()
    peers = [p for p in there if p != "torch.compile"]
    if options.peers is not None:
        peers = options.peers.split(",")
        for peer in peers:
            if peer not in there:
                parser.error(f"no peer '{peer}' here, only {', '.join(there)}")
    threads = runtime.get_num_threads()
    machine = {"gflops": measure_peak(threads), "gbytes": measure_bandwidth(threads)}
    print(
        f"{threads} threads, {machine['gflops']:.0f} GFLOP/s, {machine['gbytes']:.0f} GB/s; "
        f"beside {', '.join(p for p in peers if p != 'tcdsl')}"
    )
    heads = {
        "ours us": "11.1f",
        "peer us": "11.1f",
        "ratio": "8.2f",
        "GFLOP/s": "9.1f",
        "GB/s": "8.1f",
    }
    table = Table("workload", 44, heads)
    rows: list[Row] = []
    quantile = 0.0 if options.busy else _QUANTILE
    told = Options(threads, options.tune, options.generic, options.busy)
    suite = Suite(peers, told, quantile)
    report = {**facts(), "peak": machine, "seed": seed, "rows": rows}
    try:
        for name in names:
            workload = find(name)
            if options.only not in workload.name or options.kind not in workload.kind:
                continue
            row = suite.measure(workload, name, options.seconds)
            if options.random:
                row |= {"form": form_of(name), "random": name}
            judge(row)
            rows.append(row)
            _print(table, row)
            keep(report, options.json)
        for row in worst_of(rows, options.again) if options.random else ():
            second = suite.measure(find(row["random"]), row["random"], options.seconds)
            judge(second)
            print(f"again {row['ratio']:.2f}")
            _print(table, second)
            if second["ratio"] and second["ratio"] > row["ratio"]:
                row |= {"first": row["ratio"]} | second
            keep(report, options.json)
    except KeyboardInterrupt:
        print("\ninterrupted: what follows is of the rows so far")
    finally:
        suite.stop()
    summary(rows)
    of_any_size(rows)
    if options.png:
        from suite_parts.pictures import draw

        draw([{**row, "us": row["ours"]} for row in rows], machine, options.png)
    return int(any(row["wrong"] for row in rows))


def _print(table: Table, row: Row) -> None:
    us, best = row["ours"], row["best"]
    rates = [row.get(key, 0) / us / 1e3 if us else None for key in ("flops", "bytes")]
    extra = [
        f"{k.removeprefix('tcdsl ')} {v / us:.2f}"
        for k, v in row["us"].items()
        if us and k.startswith("tcdsl ") and k != "tcdsl untuned"
    ]
    if "generic" in row:
        extra.append(f"generic {_over(row, 'cpu'):.2f} by cpu, {_over(row, 'wall'):.2f} by wall")
    note = f"  {best or ''}" + (f"  ({', '.join(extra)} of untuned)" if extra else "")
    table.row(row["workload"], us, row["us"].get(best), row["ratio"], *rates, note=note)
    for line in row["wrong"]:
        print(f"    {line}", flush=True)


def of_any_size(rows: Sequence[Row]) -> None:
    """Print how much longer executables for any sizes take, the worst first."""
    rated = [row for row in rows if "generic" in row]
    if not rated:
        return
    ratios = {row["workload"]: _over(row, "cpu") for row in rated}
    rated.sort(key=lambda row: -ratios[row["workload"]])
    late = [row for row in rated if ratios[row["workload"]] > _aim(row)]
    print(
        f"\ngeneric over exact by cpu: mean {mean(ratios.values()):.3f}, "
        f"{len(late)} of {len(rated)} above the aim"
    )
    table = Table("workload", 44, {"exact us": "10.1f", "cpu": "7.2f", "wall": "7.2f"})
    for row in rated[: max(15, len(late))]:
        note = f"  above {_aim(row)}" if row in late else ""
        exact = row["generic"]["cpu"][0]
        table.row(row["workload"], exact, _over(row, "cpu"), _over(row, "wall"), note=note)


def _over(row: Row, clock: str) -> float:
    exact, any_size = row["generic"][clock]
    return float(any_size / exact)


def _aim(row: Row) -> float:
    return _AIM_SHORT if row["generic"]["wall"][0] < _SHORT_US else _AIM


if __name__ == "__main__":
    raise SystemExit(main())
