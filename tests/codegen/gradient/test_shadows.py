"""No builtin is a reserved word: derivatives of definitions whose names hide what they call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.codegen.gradient.jvp import tangents
from tcdsl.codegen.gradient.vjp import gradient
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.parser import parse
from tests.tcdsl.differential import Array, reference
from tests.tiers import sampled

X = np.array([0.3, 0.5, -0.7])
Z = np.array([0.2, 0.9, 0.4])
TEXTS = {
    "parameter": "def f(double(N) cos) -> (y) { y(i) = sin(cos(i)) }",
    "size": "def f(double(exp) a) -> (y) { y(i) = erf(a(i)) + exp }",
    "scalar": "def f(double(N) a, int32 cos) -> (y) { y(i) = sin(a(i)) where i in 0:cos }",
    "return": "def f(double(N) a) -> (double(N) exp) { exp(i) = erf(a(i)) * a(i) }",
    "temporary": "def f(double(N) a) -> (y) { cosh(i) = sinh(a(i)) y(i) = cosh(i) * cosh(i) }",
    "loop": "def f(double(N) a) -> (y)"
    " { y(i) = a(i) for cosh in 0:2 { y(i) = y(i) * sinh(a(i)) } }",
    "index": "def f(double(N) a) -> (y) { y(cos) = sin(a(cos)) }",
    "literal": "def f(double(N) inf) -> (y) { y max=! inf(i) * inf(i) }",
    "callee": "def g(double(N) a) -> (b) { b(i) = sin(a(i)) }"
    " def f(double(N) sin, double(N) cos) -> (u, v) { u = g(sin) v = g(cos) }",
    "definition": "def exp(double(N) a) -> (y) { y(i) = erf(a(i)) }",
    "keyword": "def f(double(N) a, double(M) b) -> (double(max(N, M)) y)"
    " { y(i) = max(a(i), b(i)) * a(i) where i in 0 : min(N, M) }",
    "pad": "def f(double(N) pad) -> (y) { y(i) = pad(i + 1) - pad(i) }",
}


@sampled("name", TEXTS, keep=5)
def test_names_hide_nothing_that_a_derivative_calls(name: str) -> None:
    program = parse(TEXTS[name])
    f = check(program, program.defs[-1].name)
    made, along = gradient(f), tangents(f)
    floats = [t.name for t in f.params if t.dtype.is_float]
    assert made.wrt == along.wrt == tuple(floats)
    args: list[Any] = [X if t.dtype.is_float else np.int32(3) for t in f.params]
    directions = [np.sin(2.0 + np.arange(3.0) + k) for k in range(len(floats))]

    forward = check(parse(made.forward))
    outputs = reference(forward, args)
    stored = dict(zip((t.name for t in forward.returns), outputs, strict=True))
    adjoints = [np.cos(1.0 + np.arange(o.size)).reshape(o.shape) for o in outputs[: len(f.returns)]]
    back = reference(check(parse(made.text)), [*args, *(stored[k] for k in made.kept), *adjoints])
    pushed = reference(check(parse(along.text)), [*args, *directions])[len(f.returns) :]

    moves = iter(directions)
    steps = [1e-6 * next(moves) if t.dtype.is_float else np.int32(0) for t in f.params]
    ahead = reference(f, [a + s for a, s in zip(args, steps, strict=True)])
    behind = reference(f, [a - s for a, s in zip(args, steps, strict=True)])
    slope = sum(_dot(d, (p - q) / 2e-6) for d, p, q in zip(adjoints, ahead, behind, strict=True))
    assert np.isclose(sum(map(_dot, directions, back)), slope, atol=1e-7)
    assert np.isclose(sum(map(_dot, adjoints, pushed)), slope, atol=1e-7)


def _dot(a: Array, b: Array) -> float:
    return float((a * b).sum())


@pytest.mark.cc
def test_kernels_pass_on_names_that_hide_builtins() -> None:
    f = tc.define_all(TEXTS["callee"], tune="off").f
    (u, _), pull = f.vjp(sin=X, cos=Z)
    np.testing.assert_allclose(u, np.sin(X))
    got = pull(d_u=np.ones(3), d_v=np.ones(3))
    np.testing.assert_allclose(got.d_sin, np.cos(X))
    np.testing.assert_allclose(got.d_cos, np.cos(Z))
    _, along = f.jvp((X, Z), {"cos": np.ones(3)})
    np.testing.assert_allclose(along.t_v, np.cos(Z))
    second = tc.grad(tc.grad(f, wrt="cos")).whole
    assert second.params[:2] == ("sin_", "cos_")
    exp = tc.define(TEXTS["definition"], tune="off")
    y, pull = exp.vjp(X)
    np.testing.assert_allclose(pull(y), y * 2 / np.sqrt(np.pi) * np.exp(-X * X))


@pytest.mark.cc
def test_rotary_embedding_takes_tables_named_cos_and_sin() -> None:
    rope = tc.define(
        "def rope(float(T, D) x, float(T, H) cos, float(T, H) sin) -> (float(T, D) y) {\n"
        "  y(t, d) = x(t, d) * cos(t, d) - x(t, d + H) * sin(t, d) where d in 0:H\n"
        "  y(t, d + H) = x(t, d + H) * cos(t, d) + x(t, d) * sin(t, d) where d in 0:H\n"
        "}",
        tune="off",
    )
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3, 6)).astype(np.float32)
    angle = rng.standard_normal((3, 3)).astype(np.float32)
    cos, sin = np.cos(angle), np.sin(angle)
    a, b = x[:, :3], x[:, 3:]
    want = np.concatenate([a * cos - b * sin, b * cos + a * sin], 1)
    y, pull = rope.vjp(x, cos=cos, sin=sin)
    np.testing.assert_allclose(y, want, atol=1e-6)
    back = pull(y)
    np.testing.assert_allclose(back.d_x, x, atol=1e-6)  # a rotation
    np.testing.assert_allclose(back.d_cos, y[:, :3] * a + y[:, 3:] * b, atol=1e-6)
