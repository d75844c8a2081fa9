"""Sizes in files: what is written is read, and nothing else is."""

from __future__ import annotations

import json

import pytest

from tcdsl.grammar.proofs.plain import from_plain, plain
from tcdsl.grammar.proofs.signs import maximum, minimum
from tcdsl.grammar.proofs.sizes import Size

N, M, K = (Size.symbol(n) for n in "NMK")
S = Size.symbol("s", signed=True)


@pytest.mark.parametrize(
    "size",
    [
        Size(),
        Size.const(-3),
        N,
        S - 1,
        N * M * 3 - K + 7,
        (N + M * 2) // 3 % 5,
        (N - K) // M,
        N % M * S,
        minimum(N, M + 3, S) * 2,
        maximum(Size(), N - K, S // 2) % 7,
    ],
    ids=str,
)
def test_a_size_is_read_as_it_was_written(size: Size) -> None:
    assert from_plain(json.loads(json.dumps(plain(size)))) == size


def deep(depth: int) -> object:
    return [[1, ["max", deep(depth - 1)]]] if depth else []


@pytest.mark.parametrize(
    "value",
    [
        None, 3, "N", {}, [3], [[]], [[True]], [["N"]], [[1.5]], [[1, "N"]], [[1, ["N"]]],
        [[1, ["N", 0]]], [[1, ["not a name", False]]], [[1, ["/", [[1]]]]], [[1, ["min"]]],
        [[1, ["pow", [[1]], [[2]]]]], deep(40), [[1, ["%", [[1]], 3]]],
    ],
    ids=repr,
)  # fmt: skip
def test_anything_else_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"size|term|atom"):
        from_plain(value)
