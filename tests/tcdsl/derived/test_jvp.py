"""`tc.jvp` and `kernel.jvp`: tangents for those who call kernels."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import tcdsl as tc
from tcdsl.cli.app import main
from tcdsl.grammar.text.errors import ShapeError, TCTypeError
from tcdsl.kernel import Kernel
from tests.tcdsl.derived.test_wrt import FC, SCAN

pytestmark = pytest.mark.cc


def kernel(text: str) -> Kernel:
    return tc.define(text, tune="off")


def test_outputs_and_tangents(rng: np.random.Generator) -> None:
    k = kernel(FC)
    args = [rng.normal(size=s).astype(np.float32) for s in ((3, 5), (4, 5), (4,))]
    along = [rng.normal(size=a.shape).astype(np.float32) for a in args]
    y, t_y = k.jvp(args, along)
    assert np.array_equal(y, k(*args))
    i, w, _ = args
    t_i, t_w, t_b = along
    assert np.allclose(t_y, (1 - y * y) * (t_i @ w.T + i @ t_w.T + t_b), atol=1e-5)
    assert t_y.dtype == np.float32
    both = tc.jvp(k)
    assert both.params == ("I", "W", "b", "t_I", "t_W", "t_b")
    assert both.returns == ("O", "t_O")
    assert np.array_equal(both(*args, *along).t_O, t_y)


def test_what_has_no_tangent_stays_as_it_is(rng: np.random.Generator) -> None:
    k = kernel(FC)
    args = [rng.normal(size=s).astype(np.float32) for s in ((3, 5), (4, 5), (4,))]
    t_b = np.ones(4, np.float32)
    want = k.jvp(args, [np.zeros_like(args[0]), np.zeros_like(args[1]), t_b])[1]
    assert np.allclose(k.jvp(args, (None, None, t_b))[1], want, atol=1e-6)
    by_name = dict(zip(k.params, args, strict=True))
    assert np.allclose(k.jvp(by_name, {"b": t_b})[1], want, atol=1e-6)
    assert tc.jvp(k, wrt="b").params == ("I", "W", "b", "t_b")
    assert tc.jvp(k, wrt=["b", "I"]).params[3:] == ("t_b", "t_I")
    assert tc.jvp(k, wrt="b") is tc.jvp(k, wrt=["b"])
    embed = kernel("def embed(float(V,D) E, int32(B) I) -> (O, n) { O(b, d) = E(I(b), d) n = 3 }")
    rows = rng.normal(size=(4, 2)).astype(np.float32)
    at = np.array([3, 0, 3], np.int32)
    results, t_o = embed.jvp((rows, at), (rows, None))
    assert results.n == 3
    assert np.array_equal(t_o, rows[at])  # bare: of the integer there is none


@pytest.mark.filterwarnings("ignore:.*TC1")
def test_what_is_called_may_write_a_part_of_what_it_returns() -> None:
    k: Kernel = tc.define(
        "def g(double(N) a) -> (double(N+2) y) { y(i) = a(i) }"
        "def f(double(N) x) -> (o) { t = g(x) o(i) = t(i) * t(i) }",
        "f",
        tune="off",
    )
    x = np.arange(1.0, 4.0)
    y, t_y = k.jvp((x,), (np.ones(3),))
    assert y.tolist() == [1, 4, 9, 0, 0]
    assert t_y.tolist() == [2, 4, 6, 0, 0]


def test_several_outputs_have_a_named_tuple_of_tangents(rng: np.random.Generator) -> None:
    k = kernel("def f(double(N) x) -> (s, q) { s +=! x(i) q(i) = s * x(i) }")
    x, t = rng.normal(size=(2, 3))
    outputs, tangents = k.jvp((x,), (t,))
    assert outputs._fields == ("s", "q")
    assert tangents._fields == ("t_s", "t_q")
    assert np.allclose(tangents.t_q, t.sum() * x + x.sum() * t)


@pytest.mark.deep
def test_generics_ranks_and_types_are_those_of_the_call(rng: np.random.Generator) -> None:
    scan = kernel(SCAN)
    x, w = rng.normal(size=(5, 2)).astype(np.float32), np.ones(2, np.float32)
    _, pull = scan.vjp(x, w, N=2)
    t_x = rng.normal(size=x.shape).astype(np.float32)
    _, t_h = scan.jvp((x, w), (t_x, None), N=2)
    assert np.allclose((t_h * w).sum(), (pull(w).d_X * t_x).sum(), rtol=1e-4)
    assert tc.jvp(scan, wrt="w", N=2).params == ("X", "w", "t_w")
    mul = kernel("def mul<T>(T(...) A, T(...) B) -> (C) { C(...) = A(...) * B(...) }")
    for dtype in (np.float64, np.float32):
        a, b, t = rng.normal(size=(3, 3, 4)).astype(dtype)
        _, t_c = mul.jvp((a, b[:1]), (t, b[1:2]))
        assert np.allclose(t_c, t * b[:1] + a * b[1:2], rtol=1e-5)
        assert t_c.dtype == dtype
    clash = kernel("def f<wrt=1>(float(N) x) -> (y) { y(i) = wrt * x(i) }")
    assert clash.jvp((w,), (w,), wrt=3)[1].tolist() == [3, 3]
    assert tc.jvp(clash, wrt=3)(w, w).t_y.tolist() == [3, 3]


@pytest.mark.wide
def test_derivatives_compose(rng: np.random.Generator) -> None:
    k = kernel("def cube(double(N) x) -> (y) { y(i) = x(i) * x(i) * x(i) }")
    x, u, v = rng.normal(size=(3, 4))
    twice = tc.jvp(tc.jvp(k), wrt=["x"])
    assert twice.params == ("x", "t_x", "t_x_2")
    found = twice(x, u, v)
    assert np.allclose(found.t_t_y, 6 * x * u * v)
    assert np.allclose(tc.grad(tc.jvp(k), wrt="x").whole(x, u, 0 * x, v), 6 * x * u * v)
    assert np.allclose(tc.jvp(tc.grad(k), wrt="x")(x, v, u).t_d_x, 6 * x * u * v)
    slope, hessian = tc.grad(k).whole.jvp((x, v), (u, None))
    assert np.allclose(slope, 3 * x * x * v)
    assert np.allclose(hessian, 6 * x * u * v)
    assert np.allclose(k.vjp(x)[1].vjp(v)[1](u).d_x_2, hessian)


def test_what_is_kept_is_a_function_of_the_parameters(rng: np.random.Generator) -> None:
    k = kernel("def f(double(N) x) -> (y) { s +=! x(i) * x(i) y(i) = s * x(i) }")
    d = tc.grad(k)
    assert d.params == ("x", "s", "d_y")
    x, v, u = rng.normal(size=(3, 4))
    kept = float((x * x).sum())
    want = d.whole.jvp((x, v), (u, None))[1]
    assert np.allclose(d.jvp((x, kept, v), (u, None, None))[1], want)
    with pytest.raises(TCTypeError, match=r"d_f\.jvp: 's' is kept of the forward pass"):
        d.jvp((x, kept, v), (u, 1.0, None))


@pytest.mark.wide
def test_strided_odd_and_empty_operands(rng: np.random.Generator) -> None:
    k = kernel(FC)
    for b, m, n in ((7, 13, 5), (1, 1, 1), (0, 3, 2), (2, 0, 3)):
        args = [rng.normal(size=s).astype(np.float32) for s in ((m, b), (n, m), (n,))]
        i, w, bias = args[0].T, args[1], args[2]
        t_w = rng.normal(size=(2 * n, m)).astype(np.float32)[::2]
        y, t_y = k.jvp((i, w, bias), (None, t_w, None))
        assert np.allclose(t_y, (1 - y * y) * (i @ t_w.T), atol=1e-5)


def test_calls_that_are_wrong() -> None:
    k = kernel("def f(float(N) x, int32(N) I, float(N) w) -> (y) { y(i) = x(I(i)) * w(i) }")
    x, at = np.ones(3, np.float32), np.zeros(3, np.int32)
    args = (x, at, x)
    for tangents, message in (
        ((x, at, x), r"f\.jvp: 'I' is int32, which has no tangent\n  give None for it"),
        ((x, None), r"f\.jvp: expected 3 tangents \(x, I, w\), got 2\n  give None for those"),
        ((None, None, None), r"f\.jvp: no parameter has a tangent"),
        ({"q": x}, r"f\.jvp: there is no parameter 'q' to have a tangent; there are x, I, w"),
        (x, r"f\.jvp: expected tangents as a tuple, or a dict by name, got ndarray"),
        ((x.astype(np.float64), None, x), "expected t_x of type float32, got float64"),
    ):
        with pytest.raises(TCTypeError, match=message):
            k.jvp(args, tangents)  # type: ignore[arg-type]
    with pytest.raises(TCTypeError, match=r"f\.jvp: expected primals as a tuple"):
        k.jvp(x, (x, None, None))  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match=r"expected t_x of shape \(N"):
        k.jvp(args, (np.ones(4, np.float32), None, None))
    with pytest.raises(TCTypeError, match=r"f\.jvp takes no out=: its outputs are fresh"):
        k.jvp(args, (x, None, None), out=x)
    with pytest.raises(IndexError):
        k.jvp((x, at + 7, x), (x, None, None))
    with pytest.raises(TCTypeError, match="expected a kernel to differentiate, got str"):
        tc.jvp("f")  # type: ignore[arg-type]


def test_it_travels_and_is_of_the_kernels_class(rng: np.random.Generator) -> None:
    class Mine(Kernel):
        pass

    plain = kernel(FC)
    mine = Mine(plain.session, plain.definition)
    assert type(tc.jvp(mine)) is Mine
    other = pickle.loads(pickle.dumps(tc.jvp(plain)))
    args = [rng.normal(size=s).astype(np.float32) for s in ((3, 5), (4, 5), (4,))]
    assert np.array_equal(other(*args, *args).t_O, tc.jvp(plain)(*args, *args).t_O)


def test_the_command_prints_it(tmp_path: Any) -> None:
    file = tmp_path / "mm.tc"
    file.write_text("def mm(float(M,K) A, float(K,N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }")
    shown = CliRunner().invoke(main, ["grad", str(file), "--jvp"])
    assert shown.output == (
        "def j_mm(float32(M, K) A, float32(K, N) B, float32(M, K) t_A, float32(K, N) t_B)"
        " -> (C, t_C) {\n"
        "  t_C(m, n) +=! t_A(m, k) * B(k, n)\n"
        "  t_C(m, n) += A(m, k) * t_B(k, n)\n"
        "  C(m, n) +=! A(m, k) * B(k, n)\n"
        "}\n"
    )
    one = CliRunner().invoke(main, ["grad", str(file), "--jvp", "--wrt", "B"])
    assert "float32(K, N) t_B) -> (C, t_C)" in one.output
    assert "t_A" not in one.output
    refused = CliRunner().invoke(main, ["grad", str(file), "--jvp", "--forward"])
    assert refused.exit_code == 2
    assert "--jvp keeps nothing: it goes without --forward and --checkpoint" in refused.output
