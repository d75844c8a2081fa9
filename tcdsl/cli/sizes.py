"""Sizes on the command line: `B=100,M=128`, `B=1|2|4`, `B=1..64`."""

from __future__ import annotations

import itertools
import math
import re

import click

_ITEM = re.compile(r"\s*([A-Za-z_]\w*)\s*=\s*([0-9|.\s]+?)\s*$")
_MOST = 100_000  # combinations: nobody waits for more
_DIGITS = 18  # within 64 bits
_HINT = "write sizes as B=100,M=128; several as B=1|2|4 or B=1..64"


def parse_sizes(text: str) -> list[dict[str, int]]:
    """Return every combination of sizes that a text names, in the order written.

    >>> parse_sizes("B=1|4,N=10")
    [{'B': 1, 'N': 10}, {'B': 4, 'N': 10}]

    Raises
    ------
    click.UsageError
        If the text is not a list of sizes: the command line is wrong, not what it works on.
    """
    choices: dict[str, list[int]] = {}
    for item in filter(str.strip, text.split(",")):
        match = _ITEM.match(item)
        if not match:
            raise _wrong(f"cannot read sizes '{item.strip()}': {_HINT}")
        if match[1] in choices:
            raise _wrong(f"size '{match[1]}' is given twice: {_HINT}")
        choices[match[1]] = _values(match[2], item)
    count = math.prod(map(len, choices.values()))
    if count > _MOST:
        raise _wrong(f"these are {count:,} combinations of sizes, at most {_MOST:,} at a time")
    combinations = itertools.product(*choices.values())
    return [dict(zip(choices, values, strict=True)) for values in combinations]


def _values(text: str, item: str) -> list[int]:
    values: list[int] = []
    for part in text.split("|"):
        ends = [end.strip() for end in part.split("..")]
        if not all(end.isdigit() for end in ends) or len(ends) > 2:
            raise _wrong(f"cannot read sizes '{item.strip()}': {_HINT}")
        if max(map(len, ends)) > _DIGITS:
            raise _wrong(f"size '{item.partition('=')[0].strip()}' is beyond 64 bits: {_HINT}")
        low, high = int(ends[0]), int(ends[-1])
        if high < low:
            raise _wrong(f"'{item.strip()}' is empty: {low} is above {high}")
        if len(values) + high - low >= _MOST:
            raise _wrong(f"'{item.strip()}' are more than {_MOST:,} sizes")
        values += range(low, high + 1)
    return values


def _wrong(text: str) -> click.UsageError:
    return click.UsageError(f"--sizes: {text}")
