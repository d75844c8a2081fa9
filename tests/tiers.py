"""Which cases of a long list every run sees, and which only the wider one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from _pytest.mark import ParameterSet  # what pytest.param gives; it has no public name


def sampled(
    names: str,
    cases: Sequence[Any],
    *,
    keep: int,
    ids: Sequence[str] | Callable[[Any], str] | None = None,
) -> pytest.MarkDecorator:
    """Parametrize as pytest does; ``keep`` cases run always, the others are `wide`.

    The kept ones are the first and those evenly spread behind it, so that which they are
    follows from the list alone. A case with marks of its own (``pytest.param``) keeps them.
    """
    single = "," not in names
    listed = list(cases)
    marked = []
    for at, case in enumerate(listed):
        is_kept = at == 0 or at * keep // len(listed) != (at - 1) * keep // len(listed)
        if not isinstance(case, ParameterSet):
            case = pytest.param(case) if single else pytest.param(*case)
        extra = () if is_kept else (pytest.mark.wide,)
        marked.append(pytest.param(*case.values, marks=(*case.marks, *extra), id=case.id))
    return pytest.mark.parametrize(names, marked, ids=ids)
