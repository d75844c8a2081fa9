"""Everything that needs a GPU, in one command of nine minutes: `python benchmarks/gpu.py`.

It takes a checkout, Python and wheels, says what is missing, and runs in this order: facts of the
device; every program and every form against the reference; `pytest -m gpu`; compute-sanitizer;
times beside torch; a short tuning with a planted crash and hang; what a call costs the host; NVRTC
in threads. A section that fails or runs out of time does not cost the others: its text stands in
the JSON file that is written after each of them.

`--only checks,torch` runs some sections, `--seconds` is the time for all. `--simulate` runs all of
it on the simulated device at tiny sizes, to test this program.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]  # it need not be installed

_NEEDED = ("numpy", "lark", "scipy", "ml_dtypes", "sqlite_utils", "click", "rich", "platformdirs")
# Seconds of each section where all of them share nine minutes less half a one.
_SECONDS = {
    "facts": 10, "checks": 150, "pytest": 60, "sanitizer": 80, "torch": 110, "tuning": 60,
    "calls": 15, "nvrtc": 25,
}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default=",".join(_SECONDS), help="sections, by commas")
    parser.add_argument("--seconds", type=float, default=510, help="for all sections together")
    parser.add_argument("--json", type=Path, help="default: results/gpu-DATE-DEVICE.json")
    parser.add_argument("--commit", help="where there is no git to tell")
    parser.add_argument("--simulate", action="store_true")
    parser.add_argument("--child", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    unknown = set(options.only.split(",")) - set(_SECONDS)
    if unknown:
        parser.error(f"no section {', '.join(sorted(unknown))}; there are {', '.join(_SECONDS)}")
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        print(f"missing: {', '.join(missing)}\n  pip install -e .", file=sys.stderr)
        return 2
    from gpu_parts.setting import NoDeviceError, open_setting

    try:
        setting = open_setting(simulate=options.simulate, commit=options.commit)
    except NoDeviceError as error:
        print(error, file=sys.stderr)
        return 2
    if options.child is not None:
        from gpu_parts.checks import check_from

        check_from(setting, **options.child)
        return 0
    from gpu_parts import calls, checks, facts, peers, tests, tuning
    from reports import keep

    sections: Mapping[str, Callable[[Any, float], Any]] = {
        "facts": facts.facts,
        "checks": checks.checks,
        "pytest": tests.gpu_tests,
        "sanitizer": tests.sanitizer,
        "torch": peers.beside_torch,
        "tuning": tuning.short_tuning,
        "calls": calls.host_cost,
        "nvrtc": calls.compile_in_threads,
    }
    day = datetime.now(UTC).date().isoformat()
    path = options.json or ROOT / "benchmarks/results" / f"gpu-{day}-{setting.slug}.json"
    chosen = options.only.split(",")
    report: dict[str, Any] = {"date": day, **facts.versions(setting)}
    share = options.seconds / sum(_SECONDS[name] for name in chosen)
    for name in chosen:
        report[name] = _guarded(sections[name], setting, _SECONDS[name] * share, name)
        keep(report, path)
    print(f"written: {path}")
    failed = [name for name in chosen if failures_of(report[name])]
    for name in failed:
        print(f"failed: {name}: {failures_of(report[name])[0].splitlines()[0]}")
    return 1 if failed else 0


def failures_of(found: Mapping[str, Any]) -> list[str]:
    """Return what makes a section's result no success: its error, and every fault that it found."""
    return [*([found["error"]] if "error" in found else []), *found.get("faults", [])]


def _guarded(
    section: Callable[[Any, float], Any], setting: Any, seconds: float, name: str
) -> dict[str, Any]:
    """Run a section and return what it found, or why it ended."""
    print(f"== {name} ({seconds:.0f} s)", flush=True)
    begun = time.perf_counter()
    try:
        found = dict(section(setting, seconds))
    except Exception as error:  # the other sections go on
        traceback.print_exc()
        found = {"error": f"{type(error).__name__}: {error}"}
    return found | {"seconds": round(time.perf_counter() - begun, 1)}


if __name__ == "__main__":
    sys.exit(main())
