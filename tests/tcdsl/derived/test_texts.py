"""Texts of derivatives are made once: later processes find them, and their executables."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.codegen.choose import compiler
from tcdsl.codegen.gradient import jvp, plain, vjp
from tcdsl.codegen.gradient.jvp import tangents
from tcdsl.codegen.gradient.vjp import gradient
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.parser import parse
from tests.codegen.compiled import recorded

LINEAR = """def linear(float(M,K) x, float(N,K) w, float(N) b) -> (y) {
  y(m, n) +=! x(m, k) * w(n, k)
  y(m, n) = tanh(y(m, n) + b(n))
}"""
LOOP = """def scan(float(T,N) x, float(N) h0) -> (h) {
  h(t, n) = 0.0 where t in 0:T+1, n in 0:N
  h(0, n) = h0(n)
  for t in 0:T { h(t+1, n) = tanh(h(t, n) + x(t, n)) }
}"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    recorded(monkeypatch, tmp_path / "cache")
    return tmp_path / "cache"


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is derived, chosen, lowered or printed from now on."""
    done: list[str] = []

    def counted(module: Any, name: str) -> None:
        real = getattr(module, name)

        def count(*args: Any, **kwargs: Any) -> Any:
            done.append(name)
            return real(*args, **kwargs)

        monkeypatch.setattr(module, name, count)

    counted(vjp, "gradient")
    counted(jvp, "tangents")
    for name in ("default_config", "lower", "emit_c"):
        counted(compiler, name)
    return done


def operands() -> tuple[np.ndarray[Any, Any], ...]:
    rng = np.random.default_rng(3)
    shapes = (5, 7), (3, 7), (3,)
    return tuple(rng.standard_normal(s).astype(np.float32) for s in shapes)


def pulled() -> list[bytes]:
    k: Any = tc.define(LINEAR)
    y, pull = k.vjp(*operands())
    return [a.tobytes() for a in (y, *pull(np.ones_like(y)))]


def along() -> list[bytes]:
    k: Any = tc.define(LINEAR)
    y, t_y = k.jvp(operands(), operands())
    return [y.tobytes(), t_y.tobytes()]


def by_some() -> list[bytes]:
    k: Any = tc.define(LINEAR)
    y, pull = k.vjp(*operands(), wrt=("b", "x"))
    return [a.tobytes() for a in pull(np.ones_like(y))]


def twice() -> list[bytes]:
    k: Any = tc.define(LINEAR)
    y, pull = k.vjp(*operands())
    _, again = pull.vjp(np.ones_like(y), wrt="x")
    return [again(*operands()).tobytes()]


def with_checkpoints() -> list[bytes]:
    k: Any = tc.define(LOOP)
    x = np.linspace(-1, 1, 21, dtype=np.float32).reshape(7, 3)
    y, pull = k.with_grad(checkpoint=2)(x, x[0])
    return [a.tobytes() for a in (y, *pull(np.ones_like(y)))]


@pytest.mark.cc
@pytest.mark.parametrize(
    "call",
    [
        pulled,
        *(
            pytest.param(f, marks=pytest.mark.wide)
            for f in (along, by_some, twice, with_checkpoints)
        ),
    ],
)
def test_a_derivative_is_derived_and_lowered_once(
    work: list[str], call: Callable[[], list[bytes]]
) -> None:
    first = call()
    assert {"gradient", "tangents"} & {*work}
    assert {"default_config", "lower", "emit_c"} <= {*work}
    work.clear()
    assert call() == first
    assert work == []


def test_what_decides_a_gradient_decides_its_record(work: list[str]) -> None:
    def ask(text: str = LINEAR, **options: Any) -> str:
        k: Any = tc.define(text)
        generics = options.pop("generics", {})
        return str(k.with_grad(**options).derived(generics).session.origin.text)

    first = ask()
    assert ask() == first
    assert work == ["gradient"]
    assert ask(wrt="x") != first
    assert ask(wrt=("b", "x")) != ask(wrt=("x", "b"))
    assert ask(LINEAR.replace("tanh", "exp")) != first
    assert ask(LINEAR.replace("float", "double")) != first
    assert len(work) == 6
    assert ask(LOOP) != ask(LOOP, checkpoint=2) != ask(LOOP, checkpoint=3)
    assert len(work) == 9


CHECKED = check(parse(LOOP))


def test_a_gradient_is_read_as_it_was_written() -> None:
    for wrt in (None, ("h0",)):
        made = gradient(CHECKED, None, wrt)
        assert plain.gradient(json.loads(json.dumps(plain.of_gradient(made)))) == made
    made = gradient(CHECKED, 2)
    assert plain.gradient(json.loads(json.dumps(plain.of_gradient(made)))) == made
    along = tangents(CHECKED)
    assert plain.tangents(json.loads(json.dumps(plain.of_tangents(along)))) == along


def test_what_is_no_gradient_is_refused() -> None:
    value = json.loads(json.dumps(plain.of_gradient(gradient(CHECKED))))
    for i in range(len(value)):
        others: list[object] = [None, 7, ["x", 3], [[]], {"a": 1}]
        for other in others:
            changed = [*value[:i], other, *value[i + 1 :]]
            with pytest.raises(ValueError, match=r"gradient|texts|size|term"):
                plain.gradient(changed)
    for other in (None, value[:-1], [*value, 1], {}):
        with pytest.raises(ValueError, match="gradient"):
            plain.gradient(other)
        with pytest.raises(ValueError, match="tangents"):
            plain.tangents(other)


@pytest.mark.cc
def test_a_record_of_another_shape_is_replaced(
    monkeypatch: pytest.MonkeyPatch, work: list[str], cache: Path
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(plain, "of_gradient", lambda made: [made.text])
        first = tc.grad(tc.define(LINEAR)).session.origin
    work.clear()
    assert tc.grad(tc.define(LINEAR)).session.origin == first
    assert work == ["gradient"]
    assert tc.grad(tc.define(LINEAR)).session.origin == first
    assert work == ["gradient"]
