"""The builtin functions in vectors against exact values and against scalars; float64 all over."""

from __future__ import annotations

import ctypes
import math
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from tcdsl.codegen.toolchain.host import detect
from tcdsl.codegen.toolchain.objects import compile_source
from tcdsl.codegen.toolchain.source import Source
from tests.codegen.native import (
    ON_X86,
    Array,
    compiler_of,
    library,
    run,
)
from tests.codegen.preludes.smath_bounds import FUNCTIONS
from tests.codegen.preludes.test_smath import (
    OURS,
    SEVERAL,
    VECTOR_CASES,
    VECTORS,
    arguments,
    errors,
    hold_float32,
    short,
    text,
    vector_loop,
    worst,
)


@pytest.fixture(scope="module", params=OURS)
def vectors(request: pytest.FixtureRequest) -> ctypes.CDLL:
    return library("smath", text(), request.param)


@pytest.mark.parametrize("name", [name for name in VECTORS if name in FUNCTIONS])
def test_float32_vectors_are_within_the_same_bound(
    vectors: ctypes.CDLL, name: str, request: Any
) -> None:
    hold_float32(vectors, name, "vec_", request.node.name)


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_angles_next_to_quarters_lose_no_bits(
    vectors: ctypes.CDLL, name: str, request: Any
) -> None:
    """Where nearly all of x is whole quarters; on both sides of where forms give way to others."""
    near = (np.arange(1, 5300) * (np.pi / 2)).astype(np.float32)
    ends = np.array([2.0**13, 2.0**18], np.float32)
    x = np.concatenate([near, ends])
    x = np.concatenate([x, np.nextafter(x, np.float32(0)), np.nextafter(x, np.float32(np.inf))])
    x = np.concatenate([x, -x])
    x = x[: len(x) // 16 * 16]
    got = run(vectors, f"vec_{name}_f32", np.float32, x)
    error, at = worst(errors(got, FUNCTIONS[name].near(x.astype(np.float64)), np.float32), x)
    assert error <= FUNCTIONS[name].bound32, at


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_angles_of_float64_next_to_quarters_lose_no_bits(vectors: ctypes.CDLL, name: str) -> None:
    """Where nearly all of x is whole quarters; on both sides of where vectors give way to libm."""
    k = np.concatenate([np.arange(1, 40), np.random.default_rng(5).integers(1, 667_000, 80)])
    near = k * (np.pi / 2)
    ends = np.array([2.0**20, 2.0**20 - 1, 2.0**17, 2.0**17 - 1, 1e300, 5e-324, 1e-9])
    off = [near + sign * far for far in (0, 2.0**-31, 2.0**-29, 1e-4, 0.7) for sign in (-1, 1)]
    x = np.concatenate([*off, np.nextafter(near, np.inf), ends])
    x = np.concatenate([x, -x, [0.0, -0.0, np.inf, np.nan]])
    x = np.resize(x, -(-len(x) // 8) * 8)
    x = np.concatenate([x, np.sort(x)])  # rare ones among others, and by themselves
    got = run(vectors, f"vec_{name}_f64", np.float64, x)
    with mp.workdps(400):
        for a, g in zip(x, got, strict=True):
            if not np.isfinite(a):
                assert np.isnan(g)
                continue
            exact = FUNCTIONS[name].exact(mp.mpf(float(a)))
            unit = max(float(np.spacing(abs(float(exact)))), 5e-324)
            assert abs(mp.mpf(float(g)) - exact) <= FUNCTIONS[name].bound64 * unit, (a, g)
            assert np.signbit(g) == (np.signbit(a) if name == "sin" and a == 0 else exact < 0)


@ON_X86
@pytest.mark.wide
@pytest.mark.zig
def test_angles_in_vectors_of_32_bytes_by_a_compiler_that_lacks_gccs_builtins() -> None:
    text = '#include "smath.h"\n' + "".join(vector_loop(n, "f32", 8) for n in ("sin", "cos"))
    flags = ("-march=x86_64_v3", "-DTC_VECTOR_BYTES=32")
    source = Source("angles", text, "-O1", flags)
    lib = ctypes.CDLL(str(compile_source(source, compiler_of("zig"))))
    for name in ("sin", "cos"):
        hold_float32(lib, name, "vec_", "zig")


@pytest.mark.parametrize(("name", "t"), VECTOR_CASES)
def test_vectors_agree_with_scalars(vectors: ctypes.CDLL, name: str, t: str) -> None:
    dtype = np.float32 if t == "f32" else np.float64
    args = [a[: len(a) // 16 * 16] for a in arguments(name, dtype)]
    scalar = run(vectors, f"{name}_{t}", dtype, *args)
    vector = run(vectors, f"vec_{name}_{t}", dtype, *args)
    # Two forms of gelu, each near its bound, may lie that far on both sides.
    allowed = 2 * FUNCTIONS[name].bound32 if (name, t) == ("gelu", "f32") else 2
    unit = np.abs(scalar)
    if name == "logaddexp":  # two that nearly cancel
        unit = np.fmax(unit, np.max([np.where(np.isfinite(a), np.abs(a), 0) for a in args], axis=0))
    with np.errstate(all="ignore"):
        close = np.abs(vector - scalar) <= allowed * np.spacing(unit)
    assert (close | (vector == scalar) | (np.isnan(vector) & np.isnan(scalar))).all()


@pytest.mark.parametrize(
    "name",
    ["acos", "asin", "atan", "erfc", "erfinv", "log", "log10", "log1p", "log2", "tan"],
)
def test_vectors_by_pieces_are_within_bounds_all_over_them(vectors: ctypes.CDLL, name: str) -> None:
    """Floats at a stride through all pieces, those next to 1 and next to where pieces meet."""
    bits = [np.arange(0x3A000000, 0x44000000, 2557), np.arange(0x3F800000 - 2000, 0x3F802000)]
    bits += [np.arange(-3, 4) + (0x3C000000 + k * 0x20000) for k in range(512)]
    bits += [np.arange(-2100, 2100, 7) + (0x3F300000 + k * 0x40000) for k in range(52)]
    x = np.concatenate(bits).astype(np.uint32).view(np.float32)
    x = np.concatenate([x, -x] if name in ("acos", "erfc", "log1p", "tan") else [x])
    x = x[(np.abs(x) <= 1) | (name not in ("acos", "asin", "erfinv"))]
    x = x[(x > -1) | (name != "log1p")]
    x = np.resize(x, -(-len(x) // 16) * 16)
    got = run(vectors, f"vec_{name}_f32", np.float32, x)
    error, at = worst(errors(got, FUNCTIONS[name].near(x.astype(np.float64)), np.float32), x)
    assert error <= FUNCTIONS[name].bound32, at


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["fmod", "mod", "remainder"])
def test_remainders_in_vectors_have_the_bits_of_scalars(
    vectors: ctypes.CDLL, name: str, dtype: Any
) -> None:
    t, rng = short(dtype), np.random.default_rng(4)
    y = rng.standard_normal(4096).astype(dtype)
    halves = (y * (rng.integers(-(2**24), 2**24, 4096) / 2)).astype(dtype)
    near = np.nextafter(halves, rng.choice([-np.inf, 0, np.inf], 4096).astype(dtype))
    quarters = rng.integers(-40, 40, (2, 4096)).astype(dtype) / 4
    many = [a[: len(a) // 16 * 16] for a in arguments(name, dtype)]
    cases = [(halves, y), (near, y), (y, near), (y * 1e-38, y[::-1]), tuple(quarters), tuple(many)]
    for x, divisor in cases:
        want = run(vectors, f"{name}_{t}", dtype, x, divisor)
        got = run(vectors, f"vec_{name}_{t}", dtype, x, divisor)
        nan = np.isnan(want)
        assert np.isnan(got[nan]).all()
        np.testing.assert_array_equal(got[~nan], want[~nan])
        np.testing.assert_array_equal(np.signbit(got[~nan]), np.signbit(want[~nan]))


def _sizes(rng: np.random.Generator, low: float, high: float, count: int) -> Array:
    """Return numbers of both signs whose exponents are spread evenly, as far as float64 goes."""
    return np.asarray(np.exp2(rng.uniform(low, high, count)) * rng.choice([-1, 1], count))


def _walk(name: str, count: int) -> list[tuple[Array, ...]]:
    """Return arguments all over a function of float64."""
    rng = np.random.default_rng(6)
    match name:
        case "erfinv":
            sets = [rng.uniform(-1, 1, count), 1 - np.exp2(-rng.uniform(1, 53, count))]
            return [(x,) for x in (*sets, _sizes(rng, -1074, -1, count))]
        case "log":
            near = 1 + _sizes(rng, -53, -3, count)
            sets = [near, rng.uniform(0.6, 1.5, count), np.abs(_sizes(rng, -1074, 1023, count))]
            return [(x,) for x in sets]
        case "atan":
            return [(rng.uniform(-2, 2, count),), (_sizes(rng, -1074, 1023, count),)]
        case "erf" | "erfc" | "gelu" | "normcdf":
            low, high = {"erf": (-6, 6), "erfc": (-6, 27.4)}.get(name, (-39, 9))
            return [(rng.uniform(low, high, count),), (_sizes(rng, -1074, 3, count),)]
        case "cos" | "sin" | "tan":
            quarters = rng.integers(1, 5_000_000, count) * (np.pi / 16)
            near = quarters + rng.choice([0, 2.0**-31, 2.0**-29, 1e-4, 0.3], count)
            sets = [near, rng.uniform(-4, 4, count), _sizes(rng, -1074, 1023, count)]
            return [(x,) for x in sets]
        case "pow":
            near = 1 + rng.uniform(-1e-3, 1e-3, count)
            far, y = np.abs(_sizes(rng, -2, 2, count)), _sizes(rng, 2, 9, count)
            whole = np.rint(y)
            return [(far, y), (near, _sizes(rng, 5, 19, count)), (-far, whole), (far**40, y / 80)]
        case _:
            pairs = [_sizes(rng, -1074, 1023, count), _sizes(rng, -3, 3, count)]
            pairs += [_sizes(rng, -1073, -1000, count), _sizes(rng, 1000, 1023.9, count)]
            return [(y, rng.permutation(y)) for y in pairs]


EXACT: dict[str, Any] = {
    "atan2": mp.atan2,
    "hypot": mp.hypot,
    "pow": lambda x, y: mp.power(abs(x), y) * (-1 if x < 0 and y % 2 else 1),
}
WALKED = (*EXACT, "atan", "cos", "erf", "erfc", "erfinv", "gelu", "log", "normcdf", "sin", "tan")


@pytest.mark.parametrize(
    "count",
    [12, pytest.param(400, marks=pytest.mark.wide), pytest.param(1600, marks=pytest.mark.deep)],
)
@pytest.mark.parametrize(
    ("name", "prefix"),
    [(name, "") for name in WALKED] + [(n, "vec_") for n in WALKED if (n, "f64") in VECTOR_CASES],
)
def test_float64_is_within_its_bound_all_over(
    vectors: ctypes.CDLL, name: str, prefix: str, count: int
) -> None:
    """Where vectors have a form of their own, theirs too."""
    bound = SEVERAL[name][1] if name in SEVERAL else FUNCTIONS[name].bound64
    exact = EXACT.get(name) or FUNCTIONS[name].exact
    for args in _walk(name, -(-count // 8) * 8):
        got = run(vectors, f"{prefix}{name}_f64", np.float64, *args)
        with mp.workdps(400 if name in ("cos", "sin", "tan") else 40):
            for *at, g in zip(*args, got, strict=True):
                want = exact(*(mp.mpf(float(a)) for a in at))
                unit = max(float(np.spacing(abs(float(want)))), 5e-324)
                if np.isinf(float(want)) or np.isinf(unit):
                    assert g == float(want) or abs(want) < mp.mpf(2) ** 1024, (at, g)
                else:
                    assert abs(mp.mpf(float(g)) - want) <= bound * unit, (at, g)


ALONE = [(n, "f32") for n in ("erfc", "erfinv", "log", "log10", "log1p", "log2")]
ALONE += [(n, "f64") for n in ("atan", "cos", "erf", "erfc", "erfinv", "log", "sin", "tan")]


@pytest.mark.parametrize(("name", "t"), ALONE)
def test_lanes_do_not_hang_on_their_neighbours(vectors: ctypes.CDLL, name: str, t: str) -> None:
    """The rest of a row is a vector whose other lanes are 0; a rare lane leaves the others be."""
    dtype = np.float32 if t == "f32" else np.float64
    x = np.random.default_rng(8).uniform(0.01, 0.99, 4096).astype(dtype)
    want = run(vectors, f"vec_{name}_{t}", dtype, x)
    for rare in (0, -1, 0.99999, 1, 3e5, 1e9, np.inf, np.nan, 1e-40):
        mixed = x.copy()
        mixed[::3] = rare
        got = run(vectors, f"vec_{name}_{t}", dtype, mixed)
        same = np.arange(x.size) % 3 != 0
        np.testing.assert_array_equal(got[same], want[same])


@pytest.mark.parametrize("name", ["atan", "erf", "erfinv", "gelu", "sin", "tan"])
def test_zeros_of_float64_keep_their_sign(vectors: ctypes.CDLL, name: str) -> None:
    x = np.array([0.0, -0.0, 5e-324, -5e-324] * 4)
    for prefix in ("", "vec_"):
        got = run(vectors, f"{prefix}{name}_f64", np.float64, x)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(x))


@pytest.mark.parametrize("prefix", ["", "vec_"])
@pytest.mark.parametrize("name", ["fmod", "mod", "remainder"])
def test_remainders_of_float64_are_exact(vectors: ctypes.CDLL, name: str, prefix: str) -> None:
    """Of ties, next to them, and of quotients on both sides of where libm takes over."""
    rng = np.random.default_rng(7)
    y = _sizes(rng, -30, 30, 1024)
    quotients = [rng.integers(-(2**20), 2**20, 1024) / 2, _sizes(rng, 48, 53, 1024)]
    quotients += [_sizes(rng, -3, 3, 1024), _sizes(rng, 60, 300, 1024)]
    x = [y * q for q in quotients]
    x += [np.nextafter(a, rng.choice([-np.inf, np.inf], 1024)) for a in x[:2]]
    tiny, huge = _sizes(rng, -1074, -1015, 1024), _sizes(rng, 1022, 1024, 1024)
    for a, b in (
        *((a, y) for a in x),
        (huge, rng.permutation(huge)),
        (huge, y * 2.0**980),
        (tiny, rng.permutation(tiny)),
        (tiny * 0, y),
        (y, y * np.inf),
    ):
        got = run(vectors, f"{prefix}{name}_f64", np.float64, a, b)
        want = np.array([_remainder(name, *p) for p in zip(a.tolist(), b.tolist(), strict=True)])
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


def _remainder(name: str, x: float, y: float) -> float:
    if name == "remainder":
        return math.remainder(x, y)
    r = math.fmod(x, y)
    if name == "fmod":
        return r
    return math.copysign(0.0, y) if r == 0 else r + y if (r < 0) != (y < 0) else r


def test_exponentials_of_vectors_some_of_whose_lanes_lie_beyond(vectors: ctypes.CDLL) -> None:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((5, 4096)).astype(np.float32)
    for lanes, rare in zip(x[1:], (-np.inf, -104.1, -95.0, np.inf), strict=True):
        lanes[rng.random(4096) < 0.3] = rare
    x[:, ::97] = np.nan
    with np.errstate(all="ignore"):
        want = np.exp(x.astype(np.float64)).ravel()
        got = run(vectors, "vec_exp_f32", np.float32, x.ravel())
        error, at = worst(errors(got, want, np.float32), x.ravel())
    assert error <= FUNCTIONS["exp"].bound32, at
    if detect().isa == "avx512":
        return  # the rest of a row is a vector under a mask there
    # the rest of a row, less than a vector, has the bits that a vector of it would have
    np.testing.assert_array_equal(got, run(vectors, "exp_f32", np.float32, x.ravel()))


def test_powers_of_the_smallest_and_largest_numbers_in_vectors(vectors: ctypes.CDLL) -> None:
    bits = [*range(0, 0x01800000, 9973), *range(0x7D000000, 0x7F800000, 9973)]
    x = np.array(bits[: len(bits) // 16 * 16], np.uint32).view(np.float32)
    for power in (0.9, -0.9, 7.0, -7.0):
        y = np.full_like(x, power)
        with np.errstate(all="ignore"):
            want = np.power(x.astype(np.float64), y.astype(np.float64))
            got = run(vectors, "vec_pow_f32", np.float32, x, y)
            error, at = worst(errors(got, want, np.float32), x, y)
        assert error <= SEVERAL["pow"][0], at


def test_angles_of_points_in_vectors(vectors: ctypes.CDLL) -> None:
    rng = np.random.default_rng(5)
    y, x = rng.standard_normal((2, 1 << 16)).astype(np.float32)
    slopes = (rng.integers(0, 31, 1 << 16) / 30).astype(np.float32)  # between two of the table too
    small = (y * 1e-30).astype(np.float32)
    info = np.finfo(np.float32)
    rare: list[float] = [0, 3e-39, 2.0**-100, 1, 2.0**100, np.inf]
    rare += map(float, (info.smallest_subnormal, info.tiny, info.max))
    rare += [s * (1 + e) for s in (2.0**-100, 2.0**100) for e in (-(2.0**-24), 2.0**-23)]
    ends = np.array([*rare, *(-v for v in rare), np.nan], np.float32)
    far_y, far_x = (a.ravel()[: ends.size**2 // 16 * 16] for a in np.meshgrid(ends, ends))
    one_y, one_x = (np.tile(a[: far_y.size], 16) for a in (y, x))  # one rare point in a vector
    one_y[:: 16 + 1], one_x[:: 16 + 1] = (
        np.resize(a, one_y[:: 16 + 1].size) for a in (far_y, far_x)
    )
    points = (
        (y, x),
        (y, slopes * y),
        (slopes * x, x),
        (small, x),
        (y, small),
        (y * 0, x),
        (y, x * 0),
    )
    for a, b in (*points, (far_y, far_x), (one_y, one_x)):
        got = run(vectors, "vec_atan2_f32", np.float32, a, b)
        want = np.arctan2(a.astype(np.float64), b.astype(np.float64))
        error, at = worst(errors(got, want, np.float32), a, b)
        assert error <= SEVERAL["atan2"][0], at
        np.testing.assert_array_equal(
            np.signbit(got)[~np.isnan(got)], np.signbit(a)[~np.isnan(got)]
        )
