"""Numbers of the caller's among tensors: what type they have, which of them fit; divisors of 0."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

import tcdsl
from tcdsl import library, special
from tests.tiers import sampled

tc: Any = tcdsl  # names that are found when they are asked for
pytestmark = [pytest.mark.cc, pytest.mark.torch]

FLOATS: dict[str, Any] = {  # which PyTorch computes with the number in float32
    "mul": lambda lib, x, k: x * k,
    "mul_": lambda lib, x, k: x.clone().mul_(k),
    "mul of rank 0": lambda lib, x, k: x * lib.tensor(k),
    "div": lambda lib, x, k: x / k,
    "div_": lambda lib, x, k: x.clone().div_(k),
    "floor": lambda lib, x, k: x // k,
    "trunc": lambda lib, x, k: lib.div(x, k, rounding_mode="trunc"),
    "lerp": lambda lib, x, k: lib.lerp(x, 2 * x, k),
    "addcmul": lambda lib, x, k: lib.addcmul(x, x, x, value=k),
    "addcdiv": lambda lib, x, k: lib.addcdiv(x, x, x * 2, value=k),
    "leaky_relu": lambda lib, x, k: lib.nn.functional.leaky_relu(-x, k),
    "elu": lambda lib, x, k: lib.nn.functional.elu(-x, k),
    "celu": lambda lib, x, k: lib.nn.functional.celu(-x, k),
    "softplus": lambda lib, x, k: lib.nn.functional.softplus(x, k),
    "softshrink": lambda lib, x, k: lib.nn.functional.softshrink(x, k),
    "addmm": lambda lib, x, k: lib.addmm(x[:, None], x[:, None], x[None, :1], beta=k, alpha=k),
}
ROUNDED: dict[str, Any] = {  # and those in which the number is first rounded
    "add": lambda lib, x, k: x + k,
    "equal": lambda lib, x, k: (x * 0 + k) == k,
    "clamp": lambda lib, x, k: x.clamp(max=k),
    "remainder": lambda lib, x, k: x % k,
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@sampled("name", [*FLOATS, *ROUNDED], keep=0, wide=6)
def test_numbers_among_halves_are_what_they_are_in_pytorch(name: str, dtype: str) -> None:
    import torch

    call = (FLOATS | ROUNDED)[name]
    for k in (0.3001, 3.0017):
        results = [
            call(lib, lib.tensor([0.0313, 0.75, 2.0, 3.0], dtype=getattr(lib, dtype)), k)
            for lib in (tc, torch)
        ]
        ours, theirs = (torch.tensor(r.double().tolist()) for r in results)
        # one rounding to the half is all that they may differ by
        torch.testing.assert_close(
            ours, theirs, rtol=2**-8 if dtype == "bfloat16" else 2**-10, atol=0
        )


@pytest.mark.wide
def test_numbers_above_all_halves_scale_them() -> None:
    x = tc.tensor([1e-3, 2e-2], dtype=tc.float16, requires_grad=True)
    assert (x * 1e6).tolist() == [1000.5, 20000]
    assert (x.detach() * 2000 / 3e5).tolist() == pytest.approx([6.66e-6, 1.334e-4], rel=1e-2)
    (x * 1e6 / 1e6).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == pytest.approx([1, 1], rel=2**-4)  # 1e-6 has four bits


BINARY = (
    operator.add, operator.sub, operator.mul, operator.mod, operator.floordiv, operator.lt,
    operator.le, operator.gt, operator.ge, operator.eq, operator.ne,
)  # fmt: skip


@pytest.mark.wide
@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32", "int64"])
def test_integers_that_a_type_does_not_hold_wrap_beside_tensors(dtype: str) -> None:
    import torch

    for k in (300, -1, 200, 2**31 + 9, 2**40 + 5):
        x, y = (lib.tensor([1, 2, 44, 127], dtype=getattr(lib, dtype)) for lib in (tc, torch))
        for op in BINARY:
            assert op(x, k).tolist() == op(y, k).tolist(), (op, k)
        for op in (operator.add, operator.sub, operator.mul):
            assert op(k, x).tolist() == op(k, y).tolist(), (op, k)
    with pytest.raises(tc.NumberError):
        tc.tensor([1], dtype=tc.int8).clamp(max=200)  # no tensor may stand there


DIVISIONS: dict[str, Any] = {
    "%": operator.mod,
    "fmod": tc.fmod,
    "%=": lambda x, y: x.remainder_(y),
    "//": operator.floordiv,
    "trunc": lambda x, y: tc.div(x, y, rounding_mode="trunc"),
}


@pytest.mark.parametrize("dtype", ["int32"])
@sampled("name", DIVISIONS, keep=1)
def test_integers_by_zero_are_an_error(name: str, dtype: str) -> None:
    divided = DIVISIONS[name]
    for zero in (0, tc.tensor(0), tc.tensor([3, 0, 1], dtype=getattr(tc, dtype))):
        x = tc.tensor([5, 6, 7], dtype=getattr(tc, dtype))
        for _ in range(2):  # as a new form and as a known one
            with pytest.raises(RuntimeError, match=r"^ZeroDivisionError$"):
                divided(x, zero)
            assert x.tolist() == [5, 6, 7], "a divisor of 0 is found before a result is written"
    assert divided(tc.tensor([5, 6, 7]), 4).tolist() == (
        [1, 1, 1] if name in ("//", "trunc") else [1, 2, 3]
    )
    assert divided(tc.zeros(0, dtype=tc.int64), 0).tolist() == []


@pytest.mark.parametrize("name", ["//", "trunc"])
def test_quotients_of_bools_are_not_rounded(name: str) -> None:
    x = tc.tensor([True])
    with pytest.raises(NotImplementedError, match=r"^\"div_\w+_cpu\" not implemented for 'Bool'$"):
        DIVISIONS[name](x, x)
    assert DIVISIONS[name](x, 2).tolist() == [0]


@pytest.mark.torch
@sampled("dtype", ["int16", "int8", "int32", "int64", "uint8"], keep=1)
def test_integers_are_divided_as_by_torch(dtype: str) -> None:
    import torch

    low = 0 if dtype == "uint8" else -128
    values = [low, low + 1, 0, 1, 2, 3, 7, 100, 127, *([-1, -2, -7] if low else [5, 6, 9])]
    found = []
    for t in (tc, torch):
        a = t.tensor(values, dtype=getattr(t, dtype))
        b = a[a != 0]
        found.append([t.fmod(a[:, None], b).tolist(), t.remainder(a[:, None], b).tolist()])
        for mode in ("floor", "trunc"):
            found[-1].append(t.div(a[:, None], b, rounding_mode=mode).tolist())
    assert found[0] == found[1]


@pytest.mark.wide
def test_floats_are_divided_and_rounded_down_as_in_python() -> None:
    import torch

    inf, nan = float("inf"), float("nan")
    numbers = [0.0, -0.0, 1.0, -1.0, 0.1, 3.0, -7.5, inf, -inf, nan, 1e30]
    for b in numbers:
        for made in (float, lambda v: v):
            pair = [lib.tensor(numbers) // made(b) for lib in (tc, torch)]
            ours, theirs = (torch.tensor(p.tolist()) for p in pair)
            torch.testing.assert_close(ours, theirs, rtol=0, atol=0, equal_nan=True)
            signs = [torch.signbit(v[~v.isnan()]).tolist() for v in (ours, theirs)]
            assert signs[0] == signs[1], b


@pytest.mark.wide
@sampled("expected", [0.0, 3.0, 40.0, 1e10], keep=1)
def test_draws_of_events_have_the_moments_of_any_rate(expected: float) -> None:
    tc.manual_seed(5)
    rates = tc.full((4000,), expected, dtype=tc.float64)
    for trials, p in ((1e11, expected / 1e11), (2 * expected, 0.5), (4 * expected, 0.75), (0, 0)):
        count = tc.full((4000,), trials, dtype=tc.float64)
        drawn = tc.binomial(count, tc.full_like(count, p)) if trials else tc.poisson(rates)
        mean = trials * p if trials else expected
        spread = (mean * (1 - p)) ** 0.5
        assert (drawn.mean() - mean).abs().item() <= 5 * spread / 4000**0.5
        assert abs(drawn.std().item() - spread) <= 0.1 * spread
        assert drawn.min().item() >= 0
        assert not trials or drawn.max().item() <= trials
    with pytest.raises(RuntimeError, match="Poisson"):
        tc.poisson(tc.tensor([float("inf")]))


@pytest.mark.wide
def test_bessel_functions_and_their_slopes_are_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    x = np.array([-600, -30, -3, 0, 1e-3, 5, 499, 501, 2000], np.float64)
    for name in ("i0e", "i1e"):
        ours, theirs = library.tensor(x).requires_grad_(), torch.tensor(x, requires_grad=True)
        found, wanted = getattr(special, name)(ours), getattr(torch.special, name)(theirs)
        np.testing.assert_allclose(found.detach(), wanted.detach(), rtol=2e-14)
        found.sum().backward()
        wanted.sum().backward()
        near = abs(x) < 40  # theirs is a difference of nearly equal numbers
        np.testing.assert_allclose(ours.grad[near], theirs.grad[near], rtol=1e-12, atol=1e-14)


def test_arrays_and_numbers_of_numpys_beside_tensors_are_what_they_are_in_pytorch() -> None:
    import torch

    found = []
    for lib in (tc, torch):
        i, x = lib.tensor([1, 2, 3]), lib.tensor([1.0, 2.0, 4.0])
        made = [
            i ** np.int64(2),
            np.int64(2) ** i,
            i.clone().pow_(np.int32(3)),
            np.array([1.0, 2, 3]) / x,
            np.array(2.0) / i,
            lib.gcd(lib.tensor([True]), lib.tensor([6], dtype=lib.int16)),
            x.double().float_power_(2),
        ]
        found.append([(str(m.dtype), m.tolist()) for m in made])
    assert found[0] == found[1]


def test_powers_of_2_as_factors_may_be_beyond_the_type() -> None:
    import torch

    found = []
    for lib in (tc, torch):
        tiny = lib.tensor([1e-30, 3.0, 1.0], requires_grad=True)
        half = lib.tensor([1.0, 2.0, 3.0], dtype=lib.float16)
        places = lib.tensor([140, -200, 128])
        made = lib.ldexp(tiny, places)
        made[:2].sum().backward()
        made = [made.detach(), lib.ldexp(half, lib.tensor([1, -2, 20])), lib.ldexp(half, half)]
        found.append([(str(m.dtype), m.tolist()) for m in made])
    assert found[0] == found[1]


def test_numbers_below_0_are_complements_where_integers_have_no_sign() -> None:
    import torch

    calls: tuple[Any, ...] = (
        lambda lib, x, k: x.fill_(k),
        lambda lib, x, k: lib.full((2,), k, dtype=lib.uint8),
        lambda lib, x, k: x.masked_fill(x > 1, k),
        lambda lib, x, k: x.index_fill(0, lib.tensor([1]), k),
        lambda lib, x, k: x.scatter(0, lib.tensor([1]), k),
        lambda lib, x, k: x.clamp(min=k),
    )
    for at, call in enumerate(calls):
        for k in (-1, -255):
            made, wanted = (
                call(lib, lib.tensor([1, 2, 3], dtype=lib.uint8), k) for lib in (tc, torch)
            )
            assert made.tolist() == wanted.tolist(), (at, k)
        for lib in (tc, torch):
            for k in (-256, 256):
                with pytest.raises((RuntimeError, tc.NumberError)):
                    call(lib, lib.tensor([1, 2, 3], dtype=lib.uint8), k)
    for lib in (tc, torch):
        x = lib.tensor([1, 2, 3], dtype=lib.uint8)
        for number in (-1.0, float("nan"), float("inf")):
            with pytest.raises(RuntimeError, match="without overflow"):
                x.fill_(number)
        with pytest.raises(RuntimeError, match="without overflow"):
            lib.nn.functional.pad(x, (1, 1), value=-1)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_numbers_beyond_a_type_of_floats_fill_nothing(dtype: str) -> None:
    import torch

    calls: tuple[Any, ...] = (
        lambda x, k: x.fill_(k),
        lambda x, k: x.masked_fill(x > 0, k),
        lambda x, k: x.new_full((2,), k),
    )
    for lib in (tc, torch):
        kind = getattr(lib, dtype)
        largest = float(lib.finfo(kind).max)
        for call in calls:
            for number in (largest, -largest, float("inf"), -float("inf")):
                assert call(lib.ones(2, dtype=kind), number).tolist() == [number, number]
            for number in (largest * 1.001, -1e39):
                with pytest.raises(RuntimeError, match="without overflow"):
                    call(lib.ones(2, dtype=kind), number)
