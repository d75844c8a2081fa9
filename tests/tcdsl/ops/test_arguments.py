"""What callers wrote: what follows from settings is asked once, unless those may change."""

from __future__ import annotations

from typing import Any

import pytest

from tcdsl.core import dtypes, empty
from tcdsl.ops.arguments import asked_once


def test_what_was_asked_is_remembered_but_of_lists_and_tensors() -> None:
    asked: list[Any] = []

    @asked_once
    def count(given: Any) -> int:
        asked.append(given)
        return len(given)

    sizes, tensor = [1, 2], empty((2,), dtypes.int64)
    for given in ((1, 2), (1, 2), sizes, sizes, (tensor, 3), (tensor, 3)):
        assert count(given) == 2
    assert asked == [(1, 2), sizes, sizes, (tensor, 3), (tensor, 3)]
    sizes.append(3)
    assert count(sizes) == 3
    with pytest.raises(TypeError, match="has no len"):
        count(1)
