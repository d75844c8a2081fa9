"""A form of operands is bound once: later calls with it work out no sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.calls.bindings import fitting, session
from tcdsl.grammar.check.bind import bind
from tcdsl.grammar.text import heads
from tcdsl.grammar.text.heads import applied, type_variables
from tcdsl.grammar.text.parser import parse

SCALED = """def scaled<P>(float(N,K) A, float(K) b) -> (O) {
    O(n) +=! float(P) * A(n, k) * b(k)
}"""


@pytest.fixture
def bound(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the definitions whose sizes are worked out from here on."""
    found: list[str] = []

    def noted(checked: Any, *given: Any) -> Any:
        found.append(checked.name)
        return bind(checked, *given)

    monkeypatch.setattr(fitting, "bind", noted)
    return found


def ones(*shape: int) -> Any:
    return np.ones(shape, np.float32)


@pytest.mark.cc
def test_calls_with_a_gradient_bind_a_form_once(bound: list[str]) -> None:
    k = tc.define(SCALED)
    call = k.with_grad(copy=False)

    def check(n: int, p: int) -> None:
        result, pull = call(ones(n, 3), ones(3), P=p)
        np.testing.assert_array_equal(result, np.full(n, 3 * p))
        np.testing.assert_array_equal(pull(ones(n)).d_b, np.full(3, n * p))

    check(4, 2)
    each = ["scaled", "scaled", "d_scaled"]  # the kernel, its forward pass, the way back
    assert bound == each
    for _ in range(3):
        check(4, 2)
    assert bound == each
    check(5, 2)  # of a kind that was met: its extents are read, nothing else
    assert bound == each
    check(4, 7)
    assert bound == 2 * each


def test_new_forms_of_a_known_kind_are_checked(bound: list[str]) -> None:
    text = "def slide(float(N,W) I, float(K) w) -> (O) { O(n, x) +=! I(n, x + k) * w(k) }"
    back: Any = tc.grad(tc.define(text))
    for n in (2, 3):
        assert back.call(ones(n, 6), ones(3), ones(n, 4)).sizes["N"] == n
    assert bound == ["d_slide"]
    with pytest.raises(ValueError, match=r"d_O of the shape of 'O'.* = \(3, 4\), got \(3, 5\)"):
        back.call(ones(3, 6), ones(3), ones(3, 5))
    with pytest.raises(ValueError, match="N = 3"):
        back.call(ones(3, 6), ones(3), ones(4, 4))
    forward: Any = tc.define(text)
    assert forward.call(ones(2, 6), ones(3)).sizes == {"N": 2, "W": 6, "K": 3}
    with pytest.raises(ValueError, match="K"):
        forward.call(ones(2, 6), ones(8))


def test_generics_that_are_equal_are_not_the_same(bound: list[str]) -> None:
    k = tc.define(SCALED)
    for p in (1, np.int64(1), 1):
        assert k.call(ones(4, 3), ones(3), P=p).sizes == {"N": 4, "K": 3}
    for _ in range(2):
        with pytest.raises(TypeError, match="expected an integer for generic 'P', got True"):
            k.call(ones(4, 3), ones(3), P=True)
    assert len(bound) == 2


def test_what_does_not_fit_is_refused_each_time(bound: list[str]) -> None:
    k = tc.define(SCALED)
    for _ in range(2):
        with pytest.raises(ValueError, match="K = 3"):
            k.call(ones(4, 3), ones(2), P=1)
    k.call(ones(4, 3), ones(3), P=1)
    with pytest.raises(TypeError, match="float64"):
        k.call(ones(4, 3), np.ones(3), P=1)


def test_values_of_numbers_that_are_sizes_are_asked_each_time(bound: list[str]) -> None:
    k = tc.define("def first(float(N) A, int32 M) -> (O) { O(i) = A(i) where i in 0:M }")
    for m in (1, 3, 2):
        assert k.call(ones(4), m).sizes == {"N": 4, "M": m}
    with pytest.raises(ValueError, match="M = 5"):
        k.call(ones(4), 5)
    assert len(bound) == 4


def test_a_form_goes_with_the_variant_that_is_tuned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_MAX_VARIANTS", 2)
    k = tc.define(SCALED)
    for p in (1, 2, 3, 4, 1, 2, 3, 4):
        variant = k.call(ones(4, 3), ones(3), P=p).variant
        assert variant is k.session.variant(k.definition, {"P": p})


def test_sizes_of_a_call_are_its_own() -> None:
    k = tc.define(SCALED)
    sizes: Any = k.call(ones(4, 3), ones(3), P=1).sizes
    sizes["N"] = 7
    assert k.call(ones(4, 3), ones(3), P=1).sizes == {"N": 4, "K": 3}


def test_a_body_is_gone_through_for_its_types_once(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "def cast<T, S>(float(N) A) -> (O) { O(i) = T(A(i)) * S }"
    definition, other = parse(text).defs[0], parse(text).defs[0]
    walked: list[object] = []

    def noted(root: object) -> frozenset[str]:
        walked.append(root)
        return applied(root)

    monkeypatch.setattr(heads, "applied", noted)
    for _ in range(3):
        assert type_variables(definition) == {"T"}
    assert len(walked) == 1
    assert type_variables(other) == {"T"}
    assert len(walked) == 2
