"""Anomaly mode finds the call of the forward pass that a NaN or an error belongs to."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from tcdsl import autograd
from tcdsl import library as tc

pytestmark = pytest.mark.cc


@pytest.fixture(autouse=True)
def is_off_again() -> Iterator[None]:
    yield
    assert not autograd.is_anomaly_enabled()


def lost(x: Any) -> Any:
    return (x - 1).sqrt()  # whose root is NaN


def test_a_nan_is_an_error_that_names_its_call() -> None:
    x = tc.zeros(3, requires_grad=True)
    with warnings.catch_warnings(record=True) as told, autograd.detect_anomaly():
        y = (lost(x) * 2).sum()
        with pytest.raises(RuntimeError, match="'SqrtBackward0' returned nan values in its 0th"):
            y.backward()
    assert x.grad is None
    assert "Anomaly Detection has been enabled" in str(told[0].message)
    found = [str(w.message) for w in told if "SqrtBackward0" in str(w.message)]
    assert len(found) == 1
    assert re.search(r"in lost\n +return \(x - 1\).sqrt\(\)", found[0])


def test_an_error_of_a_gradient_stays_and_is_explained() -> None:
    class Broken(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            raise ValueError("mine")

    x = tc.zeros(3, requires_grad=True)
    y = Broken.apply(x).sum()
    with autograd.set_detect_anomaly(True):
        with pytest.raises(ValueError, match="mine"), pytest.warns(match="No forward pass info"):
            y.backward()
        y = Broken.apply(x).sum()
        with pytest.raises(ValueError, match="mine"), pytest.warns(match="Traceback of forward"):
            y.backward()


def test_what_is_right_or_not_looked_at_passes() -> None:
    x = tc.ones(3, requires_grad=True)
    with autograd.set_detect_anomaly(True):
        (x * x).sum().backward()
        assert x.grad.tolist() == [2, 2, 2]
        with autograd.set_detect_anomaly(True, check_nan=False), warnings.catch_warnings():
            warnings.simplefilter("error")
            (x - 2).sqrt().sum().backward()
        assert autograd.is_anomaly_enabled()
    (gradient,) = autograd.grad((x * x).sum(), x)
    assert gradient is not None
    assert gradient.tolist() == [2, 2, 2]
    autograd.set_detect_anomaly(True)
    autograd.set_detect_anomaly(False)
