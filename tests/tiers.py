"""Which cases of a long list every run sees, which only the wider one; shares of long tiers."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from _pytest.mark import ParameterSet  # what pytest.param gives; it has no public name
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import SearchStrategy


def sampled(
    names: str,
    cases: Iterable[Any],
    *,
    keep: int,
    wide: int | None = None,
    ids: Sequence[str] | Callable[[Any], str] | None = None,
) -> pytest.MarkDecorator:
    """Parametrize as pytest does; ``keep`` cases run always, of the others some are `wide`.

    The kept ones are the first and those evenly spread behind it, so that which they are
    follows from the list alone. Of the others ``wide`` are `wide`, chosen likewise, and the rest is
    `deep`; where it is not given that is a half of them, and two at least. A case with marks of its
    own (``pytest.param``) keeps them; one that is `deep` counts for nothing here.
    """
    single = "," not in names
    listed = [_param(case, single) for case in cases]
    free = [i for i, c in enumerate(listed) if all(mark.name != "deep" for mark in c.marks)]
    kept = _spread(free, keep)
    others = [i for i in free if i not in kept]
    often = _spread(others, max(2, -(-len(others) // 2)) if wide is None else wide)
    for i in others:
        case, tier = listed[i], pytest.mark.wide if i in often else pytest.mark.deep
        listed[i] = pytest.param(*case.values, marks=(*case.marks, tier), id=case.id)
    return pytest.mark.parametrize(names, listed, ids=ids)


def share(text: str) -> Callable[[str], bool]:
    """Return whether a test, by its node id, is in a share: the third of ten is "3/10".

    By a hash of the id alone: each test is in one of the ten, wherever and whenever they run.

    Raises
    ------
    pytest.UsageError
        If text does not say which of how many.
    """
    found = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", text)
    if not found or int(found[1]) > int(found[2]):
        raise pytest.UsageError(f"--share takes which of how many, as 3/10, got {text}")
    which, of = int(found[1]), int(found[2])

    def is_in(nodeid: str) -> bool:
        return int(hashlib.sha256(nodeid.encode()).hexdigest(), 16) % of == which - 1

    return is_in


def _spread(places: Sequence[int], count: int) -> set[int]:
    return {places[-(-n * len(places) // count)] for n in range(min(count, len(places)))}


def drawn(
    few: int, many: int, *strategies: SearchStrategy[Any], suppress: Sequence[HealthCheck] = ()
) -> Callable[[Callable[..., None]], Callable[[int], None]]:
    """Hold a property of drawn values: `few` examples run always, `many` are `deep`.

    A third of these is `wide`, where that is more than a few.
    """

    def decorate(test: Callable[..., None]) -> Callable[[int], None]:
        def held(count: int) -> None:
            checks = (HealthCheck.too_slow, *suppress)
            settings(max_examples=count, suppress_health_check=checks)(given(*strategies)(test))()

        held.__name__, held.__qualname__ = test.__name__, test.__qualname__
        held.__module__, held.__doc__ = test.__module__, test.__doc__
        third = max(few + 1, many // 3)
        cases = [few, pytest.param(third, marks=pytest.mark.wide)]
        if third < many:
            cases.append(pytest.param(many, marks=pytest.mark.deep))
        mark = pytest.mark.parametrize("count", cases)
        made: Callable[[int], None] = mark(held)
        return made

    return decorate


def _param(case: Any, single: bool) -> ParameterSet:
    if isinstance(case, ParameterSet):
        return case
    return pytest.param(case) if single else pytest.param(*case)
