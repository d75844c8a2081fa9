"""A tuning run on the device made of Python, in a process of its own, to be killed.

python -m tests.autotune.tune_toy_gpu CACHE LOG
"""

from __future__ import annotations

import sys
from pathlib import Path

from tcdsl.autotune.tuner import tune
from tests.autotune.toy_gpu import config, toy_problem


def main() -> None:
    cache, log = map(Path, sys.argv[1:])
    problem = toy_problem("hang", log=log)
    tune([problem], cache=cache, start=[problem.start, config("hang", 10)], trials=2)


if __name__ == "__main__":
    main()
