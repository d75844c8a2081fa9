"""Histograms agree with PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tcdsl import library
from tests.tiers import sampled

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.cc]

ROWS = [[0.1, 0.7], [0.2, -0.4], [1.5, 2.0], [2.0, 0.25], [0.9, 2.0]]
Program = Callable[[Any, Any], Any]
PROGRAMS: list[Program] = [
    lambda u, x: u.histogram(x, 4),
    lambda u, x: x.histogram(u.tensor([-1.0, 0.25, 2.0]), density=True),
    lambda u, x: u.histogram(x, 3, range=(0.0, 2.0), weight=x * x, density=True),
    lambda u, x: u.histogram(u.full((2,), 3.0), 2),
    lambda u, x: u.histogram(u.zeros(0), 2),
    lambda u, x: _flat(u.histogramdd(x, [3, 2])),
    lambda u, x: _flat(u.histogramdd(x, 2, range=[0, 2, 0, 1], weight=x[:, 0], density=True)),
    lambda u, x: _flat(u.histogramdd(x, [u.tensor([0.0, 1, 3]), u.tensor([-1.0, 0, 1, 2])])),
]
REFUSED: list[Program] = [
    lambda u, x: u.histogram(x, 0),
    lambda u, x: u.histogram(x.long(), 2),
    lambda u, x: u.histogram(x, 2, range=(2.0, 1.0)),
    lambda u, x: u.histogram(x, 2, weight=x[:1]),
    lambda u, x: u.histogram(x / 0, 2),
    lambda u, x: u.histogramdd(x[0], 2),
    lambda u, x: u.histogramdd(x, [2]),
    lambda u, x: u.histogramdd(x, 2, range=[0.0, 1.0]),
]


def _flat(found: Any) -> Any:
    return (found.hist, *found.bin_edges)


@sampled("program", PROGRAMS, keep=3)
def test_counts(program: Program) -> None:
    ours, theirs = (program(u, u.tensor(ROWS)) for u in (library, torch))
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(torch.tensor(a.tolist()), b)


@pytest.mark.parametrize("program", REFUSED)
def test_refusals(program: Program) -> None:
    told = []
    for u in (library, torch):
        with pytest.raises((RuntimeError, NotImplementedError)) as error:
            program(u, u.tensor(ROWS))
        told.append((type(error.value), str(error.value)))
    assert told[0] == told[1]
