"""Which adjoints a way back hands on is found in a text that one process of a machine parses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tcdsl
from tcdsl.calls.bindings.parsed import parsed
from tcdsl.codegen.gradient.vjp import gradient
from tcdsl.codegen.toolchain import records
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text import parser
from tcdsl.ops.passing import passed_on, spread_over

TEXT = "def add(float(N) A, float(N) B) -> (C) { C(i) = A(i) - B(i) }"


def test_what_is_passed_on_is_found_without_a_parser_in_later_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TCDSL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(records, "generator", lambda: "0" * 32)
    made = gradient(check(parser.parse(TEXT)))
    parsed.cache_clear()
    assert passed_on(made) == ("A",)
    parsed.cache_clear()  # as in another process
    monkeypatch.delattr(parser, "parse")
    assert passed_on(made) == ("A",)


def test_what_an_adjoint_is_spread_over() -> None:
    found = {
        "S +=! A(n, m)": (0, 1),
        "S(n) +=! A(n, m)": (1,),
        "S(m) +=! A(n, m)": (0,),
        "S(0, m) +=! A(n, m)": (),
        "S(n, m) = A(n, m)": None,
        "S(n) +=! 2 * A(n, m)": None,
        "S(n) +=! A(n, m) where m in 1:M": None,
        "S(m, n) = A(n, m)": None,
        "S +=! float64(A(n, m))": None,
    }
    for body, dims in found.items():
        made = gradient(check(parser.parse(f"def f(float(N, M) A) -> (S) {{ {body} }}")))
        assert spread_over(made) == dims, body


def test_no_adjoint_is_spread_that_has_other_elements() -> None:
    """Of which the gradient reads one row, or the first ones."""
    for result, body in {
        "N, M": "S(0, m) +=! A(n, m)",
        "M, M": "S(0, m) +=! A(n, m)",
        "N, 2": "S(n, 0) +=! A(n, m)",
        "M + 1": "S(m) +=! A(n, m)",
    }.items():
        text = f"def f(float(N, M) A) -> (float({result}) S) {{ {body} }}"
        assert spread_over(gradient(check(parser.parse(text)))) is None, text


@pytest.mark.torch
def test_gradients_of_large_sums_are_views_and_add_up_as_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    values = np.linspace(0, 1, 270 * 260, dtype=np.float32).reshape(270, 260)

    def gradients(t: Any) -> list[Any]:
        x = t.from_numpy(values.copy()).requires_grad_()
        t.autograd.grad(x[:9].sum(), [x])  # of another size, which makes no view
        grad, y = t.autograd.grad, x * 1
        views = [
            grad(x.sum(), [x])[0],
            grad(x.sum(1), [x], t.arange(270.0))[0],
            grad(x.sum(0, keepdim=True), [x], t.arange(260.0)[None])[0],
        ]
        assert [v.stride() for v in views] == [(0, 0), (1, 0), (0, 1)]
        added = grad(y.sum() + 2 * y.sum() + y.sum(1).square().sum(), [x])[0]
        x.sum().backward()
        x.sum(0).sum().backward()
        x.grad.mul_(2)  # memory of its own
        (first,) = grad((x * x).sum(0).square().sum(), [x], create_graph=True)
        return [*views, added, x.grad, grad(first.sum(), [x])[0]]

    for ours, theirs in zip(gradients(tcdsl), gradients(torch), strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-4)
