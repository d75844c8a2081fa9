"""Ever new sizes: nothing is chosen anew for sizes of about the same, nothing grows without end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.calls import host
from tcdsl.calls.bindings.variant import Variant, _about
from tcdsl.calls.process.bounded import thinned

pytestmark = pytest.mark.cc

MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }"


def test_sizes_of_about_the_same_share_a_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    choose = Variant._chosen_config

    def counted(self: Variant, spec: Any, sizes: Any) -> Any:
        made.append(sizes)
        return choose(self, spec, sizes)

    monkeypatch.setattr(Variant, "_chosen_config", counted)
    mm: Any = tc.define(MM, tune="off")
    mm(np.ones((3, 3), np.float32), np.ones((3, 5), np.float32))
    for n in range(100, 200):
        a, b = np.ones((8, n), np.float32), np.ones((n, 9), np.float32)
        np.testing.assert_array_equal(mm(a, b), np.full((8, 9), n))
    assert len(made) <= 20


def test_sizes_that_matter_stand_apart() -> None:
    assert len({_about(n) for n in range(-3, 16)}) == 19
    assert _about(64) != _about(65)
    assert _about(65) == _about(71) != _about(73)
    assert _about(-70) != _about(70)
    for n in (33, 1000, 123457):
        low, _ = _about(n)
        assert low <= n < low * 9 / 8 + 1


def test_tables_do_not_grow_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "_MAX_ENTRIES", 20)
    add: Any = tc.define("def add(float(N) A) -> (C) { C(i) = A(i) + 1 }", tune="off")
    for n in range(1, 100):
        assert add(np.zeros(n, np.float32))[-1] == 1
    assert len(add._host._entries) <= 20
    assert len(thinned(dict.fromkeys(range(8)), 9)) == 8
