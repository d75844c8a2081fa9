"""What callers wrote: what follows from settings is asked once, unless those may change."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from tcdsl.core import dtypes, empty
from tcdsl.ops.arguments import asked_once, parameters_of


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


def plain(a: int, /, b: int, *, dim: int = 1, d: int = 2) -> None:
    local = a
    print(local)


def starred(a: int, *others: int, device: object = None, **words: int) -> None: ...


def with_words(a: int, b: int = 1, **words: int) -> None: ...


def all_given(*others: int) -> None: ...


def nothing() -> None:
    for local in range(0):
        print(local)


@functools.wraps(starred)
def around(*given: Any) -> None: ...


def said(*given: Any) -> None: ...


said.__signature__ = inspect.signature(plain)  # type: ignore[attr-defined]  # as decorators do


class Called:
    def __call__(self, a: int, dim: int) -> None: ...

    def method(self, b: int, keepdim: bool) -> None: ...


FUNCTIONS: tuple[Callable[..., Any], ...] = (
    plain, starred, with_words, all_given, nothing, around, said, functools.wraps(said)(nothing),
    Called(), Called().method, Called.method, functools.partial(plain, 1), len,
)  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS)
def test_parameters_are_those_of_a_signature(function: Callable[..., Any]) -> None:
    assert parameters_of(function) == tuple(inspect.signature(function).parameters)
