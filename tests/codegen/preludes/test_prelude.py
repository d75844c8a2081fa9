"""Scalars of prelude.h and scalars.h, bit for bit against Python's integers and NumPy's casts."""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tcdsl.codegen.toolchain.cc import INCLUDES
from tests.codegen.assembly import assembly
from tests.codegen.native import BUILDS, C_OF, CUDA, Array, in_tier, library, loop, run
from tests.tiers import sampled

INTEGERS: list[np.dtype[Any]] = [np.dtype(f"{k}int{b}") for k in ("", "u") for b in (8, 16, 32, 64)]
CONSTANTS = (7, 10, -3, -1, 0)
FLOATS: list[np.dtype[Any]] = [np.dtype(np.float32), np.dtype(np.float64)]


def c(dtype: np.dtype[Any]) -> str:
    return C_OF[dtype.name]


def scalar_text() -> str:
    parts = ['#include "prelude.h"\n']
    for t in [c(d) for d in INTEGERS]:
        parts += [loop(f"{f}_{t}", f"tc_{f}_{t}", t, t, t) for f in ("div", "mod", "min", "max")]
        for f, (n, k) in itertools.product(("div", "mod"), enumerate(CONSTANTS)):
            parts.append(f"#define TC_{n}_{f}_{t}(a) tc_{f}_{t}(a, (tc_{t}){k})\n")
            parts.append(loop(f"{f}_{n}_{t}", f"TC_{n}_{f}_{t}", t, t))
        parts += [loop(f"{f}_{t}", f"tc_{f}_{t}", t, t) for f in ("abs", "sign")]
        parts.append(loop(f"{t}_b", f"tc_{t}_b", "b", t))
    for t in [c(d) for d in FLOATS]:
        parts += [
            loop(f"{f}_{t}", f"tc_{f}_{t}", t, t, t) for f in ("mod", "min", "max", "fmin", "fmax")
        ]
        parts += [loop(f"{t}_{i}", f"tc_{t}_{i}", i, t) for i in (*[c(d) for d in INTEGERS], "b")]
    for h in ("f16", "bf16"):
        parts += [
            loop(f"{h}_f32", f"tc_{h}_f32", "f32", h),
            loop(f"f32_{h}", f"tc_f32_{h}", h, "f32"),
        ]
    return "".join(parts)


# In every run by the compiler at hand and as CUDA; the other builds make the same text.
OFTEN = [b if b.values == ("cc",) else in_tier(b, pytest.mark.wide) for b in BUILDS]


@pytest.fixture(scope="module", params=[*OFTEN, CUDA])
def lib(request: pytest.FixtureRequest) -> ctypes.CDLL:
    return library("prelude_scalars", scalar_text(), request.param)


# ---- integers


def wrap(value: int, dtype: np.dtype[Any]) -> int:
    bits = 8 * dtype.itemsize
    value %= 1 << bits
    return value - (1 << bits) if dtype.kind == "i" and value >> (bits - 1) else value


def integer_samples(dtype: np.dtype[Any]) -> list[int]:
    info, rng = np.iinfo(dtype), np.random.default_rng(4)
    edges = {0, 1, 2, 3, 7, info.min, info.min + 1, info.max, info.max - 1, info.max // 2}
    edges |= {-1, -2, -3, -7} if dtype.kind == "i" else set()
    drawn = rng.integers(info.min, info.max, 40, dtype=dtype, endpoint=True)
    return sorted(edges | {int(v) for v in drawn})


def model(name: str, a: int, b: int) -> int:
    """The language's rule on unbounded integers; the caller wraps."""
    match name:
        case "div":
            return a // b if b else 0
        case "mod":
            return a % b if b else 0
        case "min":
            return min(a, b)
        case _:
            return max(a, b)


@sampled("dtype", INTEGERS, ids=str, keep=2)
@pytest.mark.parametrize("name", ["div", "mod", "min", "max"])
def test_integer_operators_follow_the_language(
    lib: ctypes.CDLL, name: str, dtype: np.dtype[Any]
) -> None:
    pairs = list(itertools.product(integer_samples(dtype), repeat=2))
    a, b = (np.array(v, dtype) for v in zip(*pairs, strict=True))
    want = np.array([wrap(model(name, x, y), dtype) for x, y in pairs], dtype)
    np.testing.assert_array_equal(run(lib, f"{name}_{c(dtype)}", dtype, a, b), want)


@sampled("dtype", INTEGERS, ids=str, keep=2)
@pytest.mark.parametrize("name", ["div", "mod"])
def test_quotients_next_to_whole_numbers_are_not_rounded_to_these(
    lib: ctypes.CDLL, name: str, dtype: np.dtype[Any]
) -> None:
    info, rng = np.iinfo(dtype), np.random.default_rng(6)
    divisors = rng.integers(info.min, info.max, 300, dtype=dtype, endpoint=True).tolist()
    divisors = [
        b >> int(s) for b, s in zip(divisors, rng.integers(0, 8 * dtype.itemsize, 300), strict=True)
    ]
    pairs = [
        (a, b)
        for b in divisors
        if b
        for limit in (info.min, info.max)
        for near in (-1, 0, 1)
        if info.min <= (a := limit // b * b + near) <= info.max
    ]
    a, b = (np.array(v, dtype) for v in zip(*pairs, strict=True))
    want = np.array([wrap(model(name, x, y), dtype) for x, y in pairs], dtype)
    np.testing.assert_array_equal(run(lib, f"{name}_{c(dtype)}", dtype, a, b), want)


@sampled("dtype", INTEGERS, ids=str, keep=2)
@pytest.mark.parametrize("name", ["div", "mod"])
def test_constants_divide_as_data_does(lib: ctypes.CDLL, name: str, dtype: np.dtype[Any]) -> None:
    a = integer_samples(dtype)
    for n, constant in enumerate(CONSTANTS):
        want = [wrap(model(name, x, wrap(constant, dtype)), dtype) for x in a]
        found = run(lib, f"{name}_{n}_{c(dtype)}", dtype, np.array(a, dtype))
        np.testing.assert_array_equal(found, np.array(want, dtype))


@functools.cache
def pairs_of_int8(name: str) -> tuple[Array, Array, Array]:
    """Return all pairs and what Python makes of them."""
    dtype = np.dtype(np.int8)
    pairs = list(itertools.product(range(-128, 128), repeat=2))
    a, b = (np.array(v, dtype) for v in zip(*pairs, strict=True))
    return a, b, np.array([wrap(model(name, x, y), dtype) for x, y in pairs], dtype)


@pytest.mark.parametrize("name", ["div", "mod"])
def test_all_pairs_of_int8_divide_as_python_does(lib: ctypes.CDLL, name: str) -> None:
    a, b, want = pairs_of_int8(name)
    np.testing.assert_array_equal(run(lib, f"{name}_i8", want.dtype, a, b), want)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_abs_and_sign_of_integers(lib: ctypes.CDLL, dtype: np.dtype[Any]) -> None:
    values = integer_samples(dtype)
    a = np.array(values, dtype)
    absolute = np.array([wrap(abs(v), dtype) for v in values], dtype)
    np.testing.assert_array_equal(run(lib, f"abs_{c(dtype)}", dtype, a), absolute)
    np.testing.assert_array_equal(run(lib, f"sign_{c(dtype)}", dtype, a), np.sign(a))
    np.testing.assert_array_equal(run(lib, f"{c(dtype)}_b", np.uint8, a), a != 0)


# ---- floats to integers


def float_samples(dtype: np.dtype[Any]) -> Array:
    rng = np.random.default_rng(5)
    powers = np.array([2.0**k for k in (0, 7, 8, 15, 16, 31, 32, 62, 63, 64, 70)], dtype)
    zero = dtype.type(0)
    edges = np.concatenate([powers, np.nextafter(powers, zero), np.nextafter(powers, powers * 2)])
    special = np.array([0.0, 0.5, 0.999, 1.5, 255.5, np.inf, np.nan, 1e30], dtype)
    any_bits = rng.integers(0, 2 ** (8 * dtype.itemsize), 500, dtype=np.uint64)
    bits = any_bits.astype(f"u{dtype.itemsize}").view(dtype)
    x = np.concatenate([edges, special, bits, rng.uniform(-300, 300, 200).astype(dtype)])
    return np.concatenate([x, -x])


def saturated(x: float, dtype: np.dtype[Any]) -> int:
    info = np.iinfo(dtype)
    if math.isnan(x):
        return 0
    if math.isinf(x):
        return int(info.max if x > 0 else info.min)
    return int(min(max(int(x), info.min), info.max))


@pytest.mark.parametrize("to", INTEGERS, ids=str)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_casts_truncate_saturate_and_drop_nan(
    lib: ctypes.CDLL, dtype: np.dtype[Any], to: np.dtype[Any]
) -> None:
    x = float_samples(dtype)
    want = np.array([saturated(float(v), to) for v in x], to)
    np.testing.assert_array_equal(run(lib, f"{c(dtype)}_{c(to)}", to, x), want)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_bool_of_a_float_is_not_zero(lib: ctypes.CDLL, dtype: np.dtype[Any]) -> None:
    x = float_samples(dtype)
    np.testing.assert_array_equal(run(lib, f"{c(dtype)}_b", np.uint8, x), x != 0)


# ---- floats


@sampled("dtype", FLOATS, ids=str, keep=2)
def test_extremes_hand_nan_on_or_drop_it(lib: ctypes.CDLL, dtype: np.dtype[Any]) -> None:
    values = np.array([0.0, 1, -1, 2, np.inf, -np.inf, np.nan, 1e-40], dtype)
    a, b = (v.ravel() for v in np.meshgrid(values, values))
    for name, numpy in (
        ("min", np.minimum), ("max", np.maximum), ("fmin", np.fmin), ("fmax", np.fmax),
    ):  # fmt: skip
        np.testing.assert_array_equal(run(lib, f"{name}_{c(dtype)}", dtype, a, b), numpy(a, b))


@pytest.mark.cc
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_extremes_of_floats_are_no_branch_on_values(dtype: np.dtype[Any]) -> None:
    """A scatter of random numbers took five times as long as one of numbers in order."""
    t = c(dtype)
    text = f"""#include "prelude.h"
    void scattered(tc_{t} *out, const tc_{t} *x, const tc_i64 *at, tc_i64 n) {{
      for (tc_i64 k = 0; k < n; k++) {{
        tc_i64 row = tc_once_i64(at + k);
        out[row] = tc_max_{t}(out[row], x[k]);
      }}
    }}"""
    assert re.search(r"\tv?maxs[sd]\t", assembly(text))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_float_modulo_has_the_sign_of_the_divisor(lib: ctypes.CDLL, dtype: np.dtype[Any]) -> None:
    values = np.array([0.0, -0.0, 1, -1, 2.5, -2.5, 7, 1e-40, np.inf, -np.inf, np.nan, 1e30], dtype)
    a, b = (v.ravel() for v in np.meshgrid(values, values))
    got = run(lib, f"mod_{c(dtype)}", dtype, a, b)
    with np.errstate(all="ignore"):
        want = np.mod(a, b)
    np.testing.assert_array_equal(got, want)
    sure = ~np.isnan(want) & (b != 0)
    np.testing.assert_array_equal(np.signbit(got[sure]), np.signbit(b[sure]))


# ---- half types


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_every_half_widens_exactly(lib: ctypes.CDLL, name: str) -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    want = bits.view(np.float16 if name == "f16" else ml_dtypes.bfloat16).astype(np.float32)
    got = run(lib, f"{name}_f32", np.float32, bits)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


def half_samples() -> Array:
    rng = np.random.default_rng(6)
    bits = rng.integers(0, 1 << 32, 1 << 15, dtype=np.uint32)
    halves = np.arange(1 << 16, dtype=np.uint16)
    exact = halves.view(np.float16).astype(np.float32)
    with np.errstate(all="ignore"):
        between = (exact + np.nextafter(exact, np.float32(np.inf))) / 2
        ties = exact * np.float32(1 + 2.0**-11)  # half way to the next float16
    brain = (halves.astype(np.uint32) << 16) | 0x8000
    return np.concatenate([bits.view(np.float32), exact, between, ties, brain.view(np.float32)])


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_narrowing_rounds_to_nearest_even_and_keeps_nan(lib: ctypes.CDLL, name: str) -> None:
    x = half_samples()
    dtype = np.float16 if name == "f16" else ml_dtypes.bfloat16
    with np.errstate(all="ignore"):
        want = x.astype(dtype)
    got = run(lib, f"f32_{name}", np.uint16, x).view(dtype)
    nan = np.isnan(x)
    assert np.isnan(got[nan].astype(np.float32)).all()
    np.testing.assert_array_equal(got[~nan].view(np.uint16), want[~nan].view(np.uint16))


def test_headers_include_nothing_from_outside() -> None:
    texts = [path.read_text() for path in INCLUDES.glob("*.*h")]
    assert len(texts) > 15
    assert not any("#include <" in text for text in texts)
