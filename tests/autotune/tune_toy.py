"""A tuning run in a process of its own, to be interrupted and killed.

python -m tests.autotune.tune_toy CACHE LOG SEED SECONDS KIND...
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tcdsl.autotune.report import Lines
from tcdsl.autotune.tuner import tune
from tests.autotune.toy import Toy, config


def problem(log: Path, kinds: tuple[str, ...]) -> Toy:
    return Toy(kinds, tuple(range(0, 3000, 10)), log, config("right", 2990))


def main() -> None:
    cache, log, seed, seconds, *kinds = sys.argv[1:]
    toy = problem(Path(log), tuple(kinds))
    report = Lines(sys.stderr)
    results = tune([toy], cache=Path(cache), seconds=float(seconds), seed=int(seed), report=report)
    print(json.dumps([(str(r.config), r.is_complete, r.trials) for r in results]))


if __name__ == "__main__":
    main()
