"""Contractions on a GPU, in the simulator and through NVRTC: values, races, banks, registers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.forms.contraction.cuda.schedule import GOOD, ThreadTiling
from tcdsl.codegen.machine.config import Config, Value
from tcdsl.codegen.machine.gpu import gpu_of
from tcdsl.codegen.program.dtypes import numpy_dtype
from tcdsl.codegen.toolchain.nvrtc import compile_cuda
from tcdsl.codegen.toolchain.resources import Resources
from tcdsl.grammar.text.errors import ScheduleError
from tcdsl.grammar.types.dtypes import BY_NAME
from tests.codegen.forms.contraction.test_contraction import (
    EPILOGUES,
    MANY,
    NN,
    NT,
    TN,
    TT,
    VIEWS,
    matmul,
    tensors,
)
from tests.codegen.harness import Problem, problem, rand, spec_of
from tests.codegen.knobs import knobs_of
from tests.cusim.harness import differential, lowered, simulate
from tests.tiers import sampled

GPU = gpu_of("sm_90")
SMALL: dict[str, Value] = {
    "form": "contraction",
    "tile": "32x32",
    "thread": "4x4",
    "depth": 8,
    "splits": 1,
}


def config(**values: Value) -> Config:
    """Return a config of small tiles, so that small problems have several."""
    return Config.of({f"g0.{k}": v for k, v in {**SMALL, **values}.items()})


def titles_of(p: Problem) -> str:
    spec = spec_of(p, exact=True, threads=0)
    return compiler.describe(p.program, spec, config(), GPU, p.sizes)[0][1]


def most_parts(p: Problem) -> int:
    """Return 2, or 1 where the sum is too short for two parts."""
    knobs = knobs_of(p.program, spec_of(p, exact=True, threads=0), GPU, p.sizes)
    legal = next(k.values for k in knobs if k.name == "g0.splits")
    return 2 if 2 in legal else 1


def check(
    p: Problem, *configs: Config, exact: tuple[bool, ...] = (True,), terms: int = 200
) -> None:
    """Hold a problem against the reference, and see that it runs as a contraction."""
    assert "simt" in titles_of(p), titles_of(p)
    differential(p, *(configs or (config(),)), exact=exact, terms=terms)


@pytest.mark.cusim
@sampled("text", [NN, NT, TN, TT], ids=["nn", "nt", "tn", "tt"], keep=1)
def test_any_sizes(text: str) -> None:
    """One size-generic kernel: smaller than a tile, whole tiles, ragged everywhere, nothing."""
    shapes = [(1, 1, 1), (64, 32, 16), (37, 41, 13), (33, 5, 1), (0, 3, 4), (3, 0, 4), (3, 4, 0)]
    for m, n, k in shapes:
        check(matmul(text, m, n, k), exact=(False,))
    check(matmul(text, 37, 41, 13))


@pytest.mark.cusim
def test_exact_sizes_that_fill_tiles_need_no_masks() -> None:
    p = matmul(NN, 64, 32, 16)
    check(p)
    assert " < 64" not in compiler.emit_cuda(lowered(p, config()))


@pytest.mark.deep
@pytest.mark.cusim
def test_views() -> None:
    for i, view in enumerate(VIEWS.values()):
        a, b = rand(19, 37, seed=i), rand(37, 53, seed=i + 1)
        p = problem(NN, a, view(b)) if i % 2 else problem(NN, view(a), b)
        check(p, exact=(i < 4,))


@pytest.mark.deep
@pytest.mark.cusim
def test_output_of_any_strides() -> None:
    a, b = rand(19, 37), rand(37, 53)
    check(problem(NN, a, b, outs=[np.zeros((53, 19), np.float32).T]))
    check(problem(NN, a, b, outs=[np.zeros((38, 106), np.float32)[::2, ::2]]), exact=(False,))


OWN = "a factor with a sum of its own"  # formed before: the product is of the second group
INDICES = {n: p for n, p in MANY.items() if "vector" not in n and n != OWN} | {
    "dilated convolution": tensors(
        "def run(float(N,C,H,W) I, float(F,C,KH,KW) P) -> (O) "
        "{ O(n,f,h,w) +=! I(n,c,h+2*kh,w+3*kw) * P(f,c,kh,kw) }",
        (2, 3, 9, 17),
        (5, 3, 3, 3),
    ),
    "convolution of channels last": tensors(
        "def run(float(N,H,W,C) I, float(F,KH,KW,C) P) -> (O) "
        "{ O(n,h,w,f) +=! I(n,h+kh,w+kw,c) * P(f,kh,kw,c) }",
        (2, 6, 9, 8),
        (5, 3, 3, 8),
    ),
    "gradient of a convolution's weights": tensors(
        "def run(float(N,C,H,W) I, float(N,F,P,Q) G) -> (D) "
        "{ D(f,c,kh,kw) +=! I(n,c,h+kh,w+kw) * G(n,f,h,w) where kh in 0:3, kw in 0:3 }",
        (2, 3, 8, 9),
        (2, 5, 6, 7),
    ),
}


@pytest.mark.cusim
@sampled("name", INDICES, keep=2)
def test_indices_of_any_role(name: str) -> None:
    check(INDICES[name])


@pytest.mark.cusim
@pytest.mark.deep
@pytest.mark.parametrize("name", INDICES)
def test_indices_of_any_role_and_size(name: str) -> None:
    p = INDICES[name]
    check(p, config(), config(stages=3, splits=most_parts(p)), exact=(True, False))


@pytest.mark.cusim
@pytest.mark.deep
def test_a_factor_with_a_sum_of_its_own() -> None:
    differential(MANY[OWN], exact=(True, False), terms=200)


VALUES = {
    "longest paths": "C(m,n) max=! A(m,k) + B(n,k)",
    "least products": "C(m,n) min=! A(m,k) * B(n,k)",
    "products of sums": "C(m,n) *=! A(m,k) + B(n,k)",
    "squared distances": "C(m,n) +=! (A(m,k) - B(n,k)) * (A(m,k) - B(n,k))",
    "one side squared": "C(m,n) +=! A(m,k) * A(m,k) * B(n,k)",
    "a function of one side": "C(m,n) +=! exp(A(m,k)) * B(n,k)",
    "scaled": "C(m,n) +=! 2.5 * A(m,k) * -B(n,k)",
    "the same tensor twice": "C(m,n) +=! A(m,k) * A(n,k) where n in 0:M",
}


@pytest.mark.cusim
@sampled("name", VALUES, keep=2)
def test_values_of_any_kind(name: str) -> None:
    """Beyond the last k there is the identity of the operator, whatever zeros would give."""
    text = f"def f(float(M,K) A, float(N,K) B) -> (C) {{ {VALUES[name]} }}"
    p = tensors(text, (19, 37), (33, 37))
    if len(p.program.statements) == 2:  # the factor that is no plain access is made before
        differential(p, exact=(True,), terms=200)
        return
    check(p, config(), *([config(splits=2)] if name == "longest paths" else []))


@pytest.mark.cusim
@sampled("half", ["float16", "bfloat16"], keep=1)
def test_halves_are_summed_in_float32(half: str) -> None:
    dtype = numpy_dtype(BY_NAME[half])
    a, b = rand(19, 40).astype(dtype), rand(33, 40).astype(dtype)
    same = NT.replace("float(", f"{half}(")
    wide = same.replace("-> (C)", "-> (float(M,N) C)").replace("A(m,k)", "float(A(m,k))")
    check(problem(same, a, b), terms=20)
    check(problem(wide.replace("B(n,k)", "float(B(n,k))"), a, b), exact=(False,), terms=20)


@pytest.mark.deep
@pytest.mark.cusim
def test_doubles() -> None:
    check(matmul(NN, 40, 50, 30, "float64"), config(), config(stages=3), terms=30)


@pytest.mark.cusim
@sampled("name", ["int32", "int64", "uint32", "int8"], keep=1)
def test_integers_wrap(name: str) -> None:
    rng, most = np.random.default_rng(3), np.iinfo(name)
    a, b = (
        rng.integers(most.min, most.max, (rows, 40), dtype=name, endpoint=True) for rows in (19, 33)
    )
    p = problem(NT.replace("float(", f"{name}("), a, b)
    check(p, config(splits=2) if name == "int64" else config(), exact=(name != "int32",))


# ---- what happens to the sums

FINISHES = EPILOGUES | {
    "value of an index": (
        "def run(float(B,M) I, float(N,M) W, float(B,N) R) -> (O) "
        "{ T(b,n) +=! I(b,m) * W(n,m)  O(b,n) = n > b ? 0.0 : T(b,n) * R(b,n) }"
    ),
    "read across": (
        "def run(float(B,M) I, float(N,M) W, float(N,B) R) -> (S, O) "
        "{ S(b,n) +=! I(b,m) * W(n,m)  O(b,n) = S(b,n) * R(n,b) }"
    ),
    "other names": (
        "def run(float(B,M) I, float(N,M) W, float(N) c) -> (O) "
        "{ T(b,n) +=! I(b,m) * W(n,m)  O(i,j) = T(i,j) * c(j) }"
    ),
}
_THIRD = {"bias of rows": (21,), "residual": (21, 50), "value of an index": (21, 50)}


@pytest.mark.cusim
@sampled("name", FINISHES, keep=2)
def test_epilogues(name: str) -> None:
    third = {**_THIRD, "read across": (50, 21)}.get(name, (50,))
    p = tensors(FINISHES[name], (21, 40), (50, 40), third)
    assert "+ epilogue" in titles_of(p)
    check(p, config(), *([config(splits=2)] if name in ("residual", "read across") else []))


@pytest.mark.deep
@pytest.mark.cusim
def test_scale_and_update() -> None:
    scaled = (
        "def run(float(B,M) I, float(M,N) W, float(N) s, float a) -> (O) "
        "{ O(b,n) +=! a * I(b,m) * -W(m,n) * s(n) }"
    )
    check(problem(scaled, rand(9, 40), rand(40, 33), rand(33), np.float32(2.5)))
    update = "def update(float(M,K) A, float(K,N) B) -> (C) { C(m,n) += A(m,k) * B(k,n) }"
    p = problem(update, rand(9, 40), rand(40, 33), outs=[rand(9, 33, seed=5)])
    check(p, config(), config(splits=2))


@pytest.mark.cusim
def test_rounding_to_halves_is_seen_by_what_follows() -> None:
    text = (
        "def run(float16(B,M) I, float16(N,M) W) -> (float16(B,N) S, float(B,N) O) "
        "{ S(b,n) +=! I(b,m) * W(n,m)  O(b,n) = S(b,n) * 1024.0 }"
    )
    check(problem(text, rand(9, 40, dtype="float16"), rand(33, 40, dtype="float16")), terms=1)


# ---- any contraction


def random_contraction(seed: int) -> Problem:
    """Return a contraction of indices in any roles and order, some of them sliding windows."""
    rng = np.random.default_rng((seed, 77))
    counts = {"g": rng.integers(0, 2), "m": rng.integers(1, 3), "n": rng.integers(1, 3)}
    names = {role: [f"{role}{i}" for i in range(count)] for role, count in counts.items()}
    names["k"] = [f"k{i}" for i in range(rng.integers(1, 3))]
    extent = {i: int(rng.integers(1, 8)) for group in names.values() for i in group}
    window = bool(rng.integers(0, 2))  # the first m slides over the first k, by strides

    def shuffled(*roles: str) -> list[str]:
        return [str(i) for i in rng.permutation([i for r in roles for i in names[r]])]

    def declared(indices: list[str]) -> str:
        return ",".join(i.upper() for i in indices)

    left, right, out = shuffled("g", "m", "k"), shuffled("g", "n", "k"), shuffled("g", "m", "n")
    step, dilation = (int(x) for x in rng.integers(1, 4, 2))
    shapes = [[extent[i] for i in side] for side in (left, right)]
    reads, where = list(left), ""
    if window:
        at = left.index("m0")
        reads[at] = f"{step}*m0+{dilation}*k0"
        shapes[0][at] = step * (extent["m0"] - 1) + dilation * (extent["k0"] - 1) + 1
        where = f" where m0 in 0:{extent['m0']}"
    dtype = str(rng.choice(["float32", "float64", "float16", "int32"]))
    text = (
        f"def run({dtype}({declared(left)}) A, {dtype}({declared(right)}) B) -> (C) {{ "
        f"C({','.join(out)}) +=! A({','.join(reads)}) * B({','.join(right)}){where} }}"
    )
    arrays = (rng.integers(-4, 5, s).astype(dtype) for s in shapes)  # exact in every type
    return problem(text, *arrays)


def _hold(seed: int, *, exact: bool) -> None:
    p = random_contraction(seed)
    copied = "float16" not in p.program.text  # halves are converted on their way
    values = config(stages=3 if copied and seed % 2 else 2, depth=8 + seed % 3 % 2 * 8)
    differential(p, values, config(splits=most_parts(p)), exact=(exact,), orders=("random",))


@pytest.mark.deep
@pytest.mark.cusim
@sampled("seed", range(4), keep=1)
def test_random_contractions(seed: int) -> None:
    _hold(seed, exact=bool(seed % 2))


@pytest.mark.cusim
@pytest.mark.deep
@pytest.mark.parametrize("seed", range(4, 60))
def test_more_random_contractions(seed: int) -> None:
    _hold(seed, exact=bool(seed % 2))


# ---- schedules


@pytest.mark.wide
@pytest.mark.cusim
def test_parts_of_sums_are_added_in_one_order() -> None:
    p = matmul(NT, 37, 41, 200)
    unit = lowered(p, config(splits=3))
    text = compiler.emit_cuda(unit)
    runs = [
        simulate(unit, text, p, order=order)[0][0] for order in ("forward", "reverse", "random")
    ]
    assert all(r.tobytes() == runs[0].tobytes() for r in runs)
    check(p, config(splits=3), exact=(False,))
    check(p, config(splits=3, stages=3), exact=(True,))
    check(matmul(NT, 3, 5, 9), config(), exact=(False,))


@pytest.mark.wide
@pytest.mark.cusim
@pytest.mark.parametrize("stages", [3, 4])
def test_asynchronous_copies(stages: int) -> None:
    for m, n, k in ((1, 1, 1), (37, 41, 13), (32, 32, 64)):
        check(matmul(NN, m, n, k), config(stages=stages), exact=(False,))
    check(matmul(TT, 37, 41, 45), config(stages=stages))


@pytest.mark.cusim
@sampled(
    "values",
    [
        {"tile": "128x128", "thread": "8x8"},
        {"tile": "16x128", "thread": "1x4", "depth": 32},
        {"tile": "128x16", "thread": "4x1", "depth": 16, "raster": 1},
        {"tile": "64x64", "thread": "8x4", "raster": 4},
        {"tile": "128x256", "thread": "8x16"},
    ],
    ids=str,
    keep=2,
)
def test_tiles(values: dict[str, Value]) -> None:
    check(matmul(NN, 150, 140, 20), config(**values))


def test_what_no_kernel_can_have_is_refused() -> None:
    p = matmul(NN, 64, 64, 64)
    for values in ({"tile": "128x128", "thread": "1x4"}, {"tile": "16x32", "thread": "8x8"}):
        with pytest.raises(ScheduleError, match="threads"):
            lowered(p, config(**values))
    with pytest.raises(ScheduleError, match="shared"):
        lowered(p, config(tile="128x128", thread="8x8", depth=32, stages=4))


def test_defaults_fit_the_sizes() -> None:
    def chosen(m: int, n: int, k: int) -> tuple[Value | None, Value | None]:
        a, b = np.broadcast_to(np.float32(1), (m, k)), np.broadcast_to(np.float32(1), (k, n))
        p = problem(NN, a, b)
        made = compiler.default_config(p.program, spec_of(p, exact=True, threads=0), GPU, p.sizes)
        return made.get("g0.tile"), made.get("g0.splits")

    assert chosen(4096, 4096, 4096) == ("128x128", 1)
    assert chosen(64, 64, 1 << 16)[1] not in (1, None)
    few, _ = chosen(256, 256, 64)
    assert few not in ("128x128", None)


# ---- what the hardware makes of it


@pytest.mark.cusim
def test_no_bank_conflicts_and_full_sectors() -> None:
    p = matmul(NN, 128, 128, 32)
    unit = lowered(p, config(tile="128x128", thread="8x8"))
    _, report = simulate(unit, compiler.emit_cuda(unit), p, counters=True)
    report.assert_clean("128x128x8")
    shared = [c for c in report.counts if c.is_shared]
    loads = [c for c in report.counts if not c.is_shared and not c.is_write]
    assert shared
    assert loads
    for c in (*shared, *loads):
        assert c.excess == 1, c


def spilled(arch: str, t: ThreadTiling, *, exact: bool) -> list[Resources]:
    """Return the kernels of a tiling of matmul that have values in memory for want of registers."""
    values = config(tile=f"{t.bm}x{t.bn}", depth=t.bk, thread=f"{t.um}x{t.un}")
    p = matmul(NN, 300, 301, 303)
    unit = lowered(p, values, exact=exact, gpu=gpu_of(arch), is_small=True)
    cubin = compile_cuda(compiler.emit_cuda(unit), arch, name="k")
    return [k for k in cubin.report.kernels if k.spills]


@pytest.mark.nvrtc
@sampled("arch", ["sm_80", "sm_90"], keep=1)
def test_the_largest_default_does_not_spill(arch: str) -> None:
    assert spilled(arch, GOOD[0], exact=False) == []


@pytest.mark.nvrtc
@pytest.mark.deep
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_no_default_spills(arch: str) -> None:
    for tiling in GOOD:
        for exact in (True, False):
            assert spilled(arch, tiling, exact=exact) == []


def test_kernel_reads_well(golden: Callable[[str, str], None]) -> None:
    p = tensors(EPILOGUES["bias and relu"], (100, 30), (200, 30), (200,))
    unit = lowered(p, config(tile="64x64", thread="8x4"))
    golden(compiler.emit_cuda(unit), "emit/contraction.cu")
