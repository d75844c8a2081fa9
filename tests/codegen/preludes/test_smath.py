"""The builtin functions in C and CUDA against exact values; of CUDA's own, stand-ins."""

from __future__ import annotations

import ctypes
import itertools
import re
import subprocess
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from tcdsl.codegen.forms.base import vexpr
from tcdsl.codegen.reference.arithmetic import BUILTINS as REFERENCE
from tcdsl.codegen.toolchain.cc import INCLUDES, find_compiler
from tcdsl.codegen.toolchain.host import detect
from tcdsl.grammar.types.builtins import BUILTINS
from tests.codegen.native import (
    BUILDS,
    CUDA,
    Array,
    in_tier,
    library,
    loop,
    run,
)
from tests.codegen.preludes.smath_bounds import FUNCTIONS
from tests.tiers import sampled

# Exact by nature, or one rounding: the reference in the same type is right.
ROUNDED = (
    "abs", "ceil", "clamp", "copysign", "fabs", "fdim", "fdivide", "floor", "fmax", "fmin", "fmod",
    "hardtanh", "isfinite", "isinf", "isnan", "leaky_relu", "logb", "nextafter", "relu",
    "remainder", "rint", "round", "sign", "trunc",
)  # fmt: skip
# Of several arguments, with a bound for float32 (computed in float64) and one for float64.
SEVERAL = {
    "atan2": (0.51, 1), "hypot": (0.51, 1.5), "pow": (0.51, 1), "rhypot": (0.51, 2.5),
    "fma": (0.51, 0.51), "norm3d": (0.51, 2), "norm4d": (0.51, 2.5), "rnorm3d": (0.51, 3),
    "rnorm4d": (0.51, 3.5), "elu": (2.5, 2), "logaddexp": (2.5, 2),
}  # fmt: skip
# fmax and fmin: test_prelude_vectors.py
VECTORS = sorted(vexpr.FUNCTIONS & BUILTINS.keys() - {"fmax", "fmin"})
VECTOR_CASES = [(n, "f32") for n in VECTORS] + [
    (n, "f64")
    for n in (
        "abs",
        "atan",
        "atan2",
        "clamp",
        "copysign",
        "cos",
        "elu",
        "erf",
        "erfc",
        "erfinv",
        "exp",
        "fabs",
        "fmod",
        "gelu",
        "hardtanh",
        "leaky_relu",
        "log",
        "logaddexp",
        "pow",
        "relu",
        "remainder",
        "rint",
        "sigmoid",
        "sign",
        "silu",
        "sin",
        "tan",
    )
]
# No vector code by gcc: libm's, or too rare for a form without branches.
SCALAR_F32 = (
    "cyl_bessel_i0", "cyl_bessel_i1", "digamma", "erfcinv", "erfcx", "fmod", "j0", "j1",
    "logb", "normcdfinv", "remainder", "tgamma", "trigamma", "y0", "y1",
)  # fmt: skip
VECTOR_F64 = (
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "ceil", "clamp", "cosh",
    "elu", "erf", "erfc", "erfinv", "exp", "exp2", "expm1", "floor", "fma", "gelu", "hardtanh",
    "hypot", "leaky_relu", "log", "log10", "log1p", "log2", "logaddexp", "nextafter", "norm3d",
    "norm4d", "normcdf", "pow", "relu", "rhypot", "rint", "rnorm3d", "rnorm4d", "rsqrt", "sigmoid",
    "silu", "sinh", "softplus", "sqrt", "tanh", "trunc",
)  # fmt: skip
# How far CUDA's own float64 functions may be off in the simulator, where libm stands in for them.
STAND_IN = 2000
TINY = {"f32": 2.0**-149, "f64": 5e-324}


def arity(name: str) -> int:
    return 2 if name == "mod" else BUILTINS[name].arity  # that is %, no builtin


def result_of(name: str, t: str) -> str:
    return "b" if BUILTINS[name].result == "bool" else t


def vector_loop(name: str, t: str, lanes: int) -> str:
    count = arity(name)
    params = "".join(f", const tc_{t} *a{n}" for n in range(count))
    v = f"v{lanes}{t}"
    values = ", ".join(f"tc_load_{v}(a{n} + i)" for n in range(count))
    return (
        f"TC_EXPORT void vec_{name}_{t}(tc_{t} *out{params}, tc_i64 n) {{\n"
        f"  for (tc_i64 i = 0; i < n; i += {lanes})\n"
        f"    tc_store_{v}(out + i, tc_{name}_{v}({values}));\n}}\n"
    )


def text() -> str:
    parts = ['#include "smath.h"\n']
    for t in ("f32", "f64"):
        for name in BUILTINS:
            args = (t,) * arity(name)
            parts.append(loop(f"{name}_{t}", f"tc_{name}_{t}", result_of(name, t), *args))
        parts.append(loop(f"mod_{t}", f"tc_mod_{t}", t, t, t))
    # The widths that prelude.h chooses, whatever the build is for.
    for bytes_ in (64, 32, 16):
        parts.append(f"#if TC_VECTOR_BYTES == {bytes_}\n")
        cases = [*VECTOR_CASES, ("mod", "f32"), ("mod", "f64")]
        parts += [vector_loop(n, t, bytes_ // (4 if t == "f32" else 8)) for n, t in cases]
        parts.append("#endif\n")
    return "".join(parts)


# Without fused multiply-add nothing but bounds differs, and each build takes seconds.
# The first build is for every run; that of the least processor takes longest.
OURS = [
    BUILDS[0],
    *(
        in_tier(b, pytest.mark.deep if b.values == ("cc x86-64",) else pytest.mark.wide)
        for b in BUILDS[1:]
    ),
]


@pytest.fixture(scope="module", params=[*OURS, CUDA])
def lib(request: pytest.FixtureRequest) -> ctypes.CDLL:
    return library("smath", text(), request.param)


def samples(dtype: Any, count: int = 4000) -> Array:
    """Return all kinds of values: any bit pattern, ordinary ones, integers, edges, specials."""
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 2 ** (8 * np.dtype(dtype).itemsize), count, dtype=np.uint64)
    any_bits = bits.astype(f"u{np.dtype(dtype).itemsize}").view(dtype)
    info = np.finfo(dtype)
    special = [
        0.0, 1.0, 0.5, 1.5, 2.5, 2.0, 3.0, np.inf, info.max, info.tiny, info.tiny / 2,
        info.smallest_subnormal, np.log(info.max), -np.log(info.tiny), 1 + info.eps,
    ]  # fmt: skip
    parts = [
        any_bits, rng.standard_normal(count), rng.uniform(-40, 40, count),
        rng.uniform(-1, 1, count), 1 + 1e-3 * rng.standard_normal(count),
        rng.uniform(-110, 110, count), rng.integers(-20, 20, count) / 2,
        special, np.negative(special), [np.nan] * 2,
    ]  # fmt: skip
    with np.errstate(all="ignore"):
        x = np.concatenate([np.asarray(p).astype(dtype) for p in parts])
    return x[: len(x) // 16 * 16] if len(x) % 16 else x


def errors(got: Array, want: Array, dtype: Any) -> Array:
    """Return errors in units of the last place; inf where one is special and the other not."""
    with np.errstate(all="ignore"):
        rounded = want.astype(dtype)
        unit = np.maximum(np.spacing(np.abs(rounded)).astype(np.float64), TINY[short(dtype)])
        error = np.abs(got.astype(np.float64) - want) / unit
        same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
        special = ~np.isfinite(got) | ~np.isfinite(rounded)
        return np.where(same & special, 0, np.where(special, np.inf, error))


def short(dtype: Any) -> str:
    return "f32" if np.dtype(dtype) == np.float32 else "f64"


def worst(error: Array, *args: Array) -> tuple[float, list[Any]]:
    k = int(error.argmax())
    return float(error[k]), [a[k] for a in args]


def test_every_builtin_has_a_bound() -> None:
    assert set(BUILTINS) == {*FUNCTIONS, *ROUNDED, *SEVERAL}


def test_the_reference_agrees_at_the_ends_and_between(lib: ctypes.CDLL) -> None:
    ends = np.array([-np.inf, -30.5, -2, -1, -0.5, -0.0, 0, 0.5, 1, 1.5, 2, 30.5, np.inf, np.nan])
    for name in FUNCTIONS:
        with np.errstate(all="ignore"):
            want = np.asarray(REFERENCE[name](ends))
        np.testing.assert_allclose(
            run(lib, f"{name}_f64", np.float64, ends), want, rtol=1e-9, atol=1e-12, err_msg=name
        )


@pytest.mark.parametrize("name", FUNCTIONS)
def test_float32_is_within_its_bound(lib: ctypes.CDLL, name: str, request: Any) -> None:
    hold_float32(lib, name, "", request.node.name)


def hold_float32(lib: ctypes.CDLL, name: str, prefix: str, test: str) -> None:
    f, x = FUNCTIONS[name], samples(np.float32)
    x = x[~(np.abs(x) > f.span32)]
    if name == "lgamma":
        x = x[~np.isneginf(x)]  # where scipy differs from C
    # Vectors all of whose lanes are ordinary, and such with one that is not.
    x = np.concatenate([x, np.sort(x)])
    x = x[: len(x) // 16 * 16]
    with np.errstate(all="ignore"):
        want = np.asarray(f.near(x.astype(np.float64)))
    if name == "gelu":
        want[np.isneginf(x)] = np.nan
    if name.startswith("cyl"):
        want[np.isinf(x)] = x[np.isinf(x)] if name.endswith("1") else np.inf
    fused = "x86-64-v3" in test or "x86-64" not in test
    got = run(lib, f"{prefix}{name}_f32", np.float32, x)
    error, at = worst(errors(got, want, np.float32), x)
    assert error <= f.bound32 + (0 if fused or f.bound32 < 0.6 else 0.5), at


@pytest.mark.parametrize("name", FUNCTIONS)
def test_float64_is_within_its_bound(lib: ctypes.CDLL, name: str, request: Any) -> None:
    f, rng = FUNCTIONS[name], np.random.default_rng(2)
    inside = rng.uniform(f.low, f.high, 24)
    near_zero = np.clip(rng.standard_normal(12), f.low + 1e-3, f.high - 1e-3)
    x = np.concatenate([inside, near_zero, f.more])
    got = run(lib, f"{name}_f64", np.float64, x)
    bound = STAND_IN if "cuda" in request.node.name else f.bound64
    with mp.workdps(40):
        for a, g in zip(x, got, strict=True):
            exact = f.exact(mp.mpf(float(a)))
            unit = max(float(np.spacing(abs(float(exact)))), 5e-324)
            assert abs(mp.mpf(float(g)) - exact) <= bound * unit, (a, g)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_float64_is_right_at_special_values(lib: ctypes.CDLL, name: str) -> None:
    f = FUNCTIONS[name]
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e308, -1e308, 5e-324, -5e-324, 800, -800])
    if f.span32 < np.inf or name in ("sin", "cos", "tan", "lgamma", "tgamma"):
        x = x[~(np.abs(x) > 100)]
    if name in ("erfcinv", "lgamma", "tgamma"):  # scipy's are wrong for denormals
        x = x[~(np.abs(x) == 5e-324)]
    with np.errstate(all="ignore"):
        want = np.asarray(f.near(x))
    if name == "gelu":
        want[np.isneginf(x)] = np.nan
    if name.startswith("cyl"):
        want[np.isinf(x)] = x[np.isinf(x)] if name.endswith("1") else np.inf
    if name == "softplus":
        want[np.abs(x) == 800] = [800, 0]
    got = run(lib, f"{name}_f64", np.float64, x)
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ROUNDED)
def test_what_needs_no_rounding_agrees_with_the_reference(
    lib: ctypes.CDLL, name: str, dtype: Any
) -> None:
    args = arguments(name, dtype)
    with np.errstate(all="ignore"):
        want = np.asarray(REFERENCE[name](*args))
    result = bool if BUILTINS[name].result == "bool" else dtype
    got = run(lib, f"{name}_{short(dtype)}", result, *args)
    if name in (
        "fmod",
        "remainder",
        "nextafter",
    ):  # numpy's remainder is inexact for huge quotients
        with np.errstate(all="ignore"):
            keep = (
                ~(np.abs(args[0] / args[1]) > 1e6) if name == "remainder" else np.isfinite(args[0])
            )
        got, want = got[keep], want[keep]
    np.testing.assert_array_equal(got, want)


def arguments(name: str, dtype: Any) -> list[Array]:
    """Return samples for each argument, among them each special value with each."""
    x = samples(dtype, 1000)
    special = np.array([0.0, -0.0, 1, -1, 2, -3, 0.5, np.inf, -np.inf, np.nan, 1e30, -1e-30], dtype)
    rng = np.random.default_rng(3)
    if (count := arity(name)) == 1:
        return [x]
    pairs = np.array(list(itertools.product(special, repeat=min(count, 3))), dtype).T
    if count == 4:
        pairs = np.vstack([pairs, pairs[:1]])
    return [np.concatenate([rng.permutation(x), p]) for p in pairs]


@pytest.mark.parametrize("name", SEVERAL)
def test_functions_of_several_arguments_are_within_their_bounds(
    lib: ctypes.CDLL, name: str, request: Any
) -> None:
    for dtype, bound in zip((np.float32, np.float64), SEVERAL[name], strict=True):
        args = arguments(name, dtype)
        wide = np.float64 if dtype == np.float32 else np.longdouble
        with np.errstate(all="ignore"):
            want = several(name, *(a.astype(wide) for a in args))
        got = run(lib, f"{name}_{short(dtype)}", dtype, *args)
        largest = want
        if name == "logaddexp":  # two that nearly cancel: in units of the largest of all
            every = np.abs([want, *args])
            largest = np.where(np.isfinite(every), every, 0).max(axis=0).astype(wide)
        error, at = worst(errors_wide(got, want, dtype, largest), *args)
        assert error <= bound, (dtype, at)


def several(name: str, *args: Array) -> Array:
    """Return the exact value in a wider type."""
    match name:
        case "atan2":
            return np.arctan2(*args)
        case "pow":
            return np.power(*args)
        case "elu":
            x, alpha = args
            return np.where(x > 0, x, alpha * np.expm1(x))
        case "logaddexp":
            x, y = args
            return np.where(x == y, x + np.log(x.dtype.type(2)), np.logaddexp(x, y))
        case "fma":
            return np.array([_fma(*map(float, a)) for a in zip(*args, strict=True)], args[0].dtype)
    infinite = np.any([np.isinf(a) for a in args], axis=0)
    scale = np.max(np.abs(args), axis=0)
    scale = np.where((scale > 0) & np.isfinite(scale), scale, 1)
    norm = np.where(infinite, np.inf, scale * np.sqrt(sum((a / scale) ** 2 for a in args)))
    return 1 / norm if name.startswith("r") else norm


def _fma(x: float, y: float, z: float) -> float:
    """Round once to float64; for float32 the sums are exact before that, or nearly."""
    if not all(map(np.isfinite, (x, y, z))):
        return float(np.float64(x) * np.float64(y) + np.float64(z))
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    try:
        return float(exact) if exact else x * y + z
    except OverflowError:
        return float(np.copysign(np.inf, 1 if exact > 0 else -1))


def errors_wide(got: Array, want: Array, dtype: Any, largest: Array) -> Array:
    """As `errors`, for exact values in a type that may be wider than float64; units of largest."""
    with np.errstate(all="ignore"):
        rounded = want.astype(dtype)
        unit = np.maximum(np.spacing(np.abs(largest.astype(dtype))), TINY[short(dtype)]).astype(
            want.dtype
        )
        error = (np.abs(got.astype(want.dtype) - want) / unit).astype(np.float64)
        same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
        special = ~np.isfinite(got) | ~np.isfinite(rounded)
        return np.where(same & special, 0, np.where(special, np.inf, error))


def vectorised(names: list[str], t: str, folder: Path) -> set[str]:
    """Return for which functions gcc reports a vector loop."""
    parts, lines = ['#include "smath.h"\n'], {}
    for name in names:
        lines["".join(parts).count("\n") + 3] = name
        parts.append(loop(f"{name}_{t}", f"tc_{name}_{t}", t, *(t,) * arity(name)))
    source, compiler = folder / "v.c", find_compiler()
    source.write_text("".join(parts))
    report = subprocess.run(
        [*compiler.command, "-O3", *compiler.flags, "-fopt-info-vec", "-fno-ipa-icf",
         f"-I{INCLUDES}", "-S", str(source), "-o", str(folder / "v.s")],
        capture_output=True, text=True, check=True,
    ).stderr  # fmt: skip
    found = re.findall(r"v\.c:(\d+):\d+: optimized: loop vectorized", report)
    return {lines[int(n)] for n in found if int(n) in lines}


@pytest.mark.wide
@pytest.mark.cc
@sampled("t", ["f32", "f64"], keep=1)
def test_gcc_makes_vector_code_of_loops(t: str, tmp_path: Path) -> None:
    if find_compiler().kind != "gcc" or detect().isa not in ("avx2", "avx512"):
        pytest.skip("gcc's report on a machine with vectors of 32 bytes or more")
    wanted = list(VECTOR_F64)
    if t == "f32":
        wanted = [n for n in BUILTINS if n not in SCALAR_F32 and BUILTINS[n].result != "bool"]
    assert set(wanted) - vectorised(wanted, t, tmp_path) == set()
