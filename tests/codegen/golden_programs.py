"""The programs whose emitted texts are held by their hashes, in parts that are tested apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from tcdsl.codegen.gradient.vjp import gradient
from tcdsl.codegen.program.program import Program
from tcdsl.codegen.program.ssa import program_of
from tcdsl.codegen.reference.evaluator import sizes_of
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.parser import parse
from tcdsl.grammar.types.typed import CheckedDef
from tests.codegen.programs import PROGRAMS
from tests.tcdsl.programs.catalog import LEGAL, holds, name_of, small_sizes
from tests.texts import examples, of_benchmark


@dataclass(frozen=True, slots=True)
class Item:
    """A definition at sizes; name is that of its lines."""

    name: str
    checked: CheckedDef
    sizes: Mapping[str, int]

    @property
    def program(self) -> Program:
        return program_of(self.checked)


_MNK = {"M": 130, "K": 77, "N": 165}
_BN = {"B": 37, "N": 1030}
_CONV = {"N": 2, "C": 16, "H": 30, "W": 29, "F": 32, "KH": 3, "KW": 3}
_EMBED = {"B": 300, "L": 4, "D": 64, "N": 500}
# Constants of benchmarks/NAME.py that are texts, with sizes; they are read, not imported: torch.
_BENCHMARKS: Mapping[str, Mapping[str, Mapping[str, int]]] = {
    "layers": {
        "MATMUL": _MNK, "LINEAR": {"M": 16, "K": 1024, "N": 512}, "BATCHED": {"P": 9, **_MNK},
        "FCRELU": {"M": 100, "K": 128, "N": 100}, "CONV": _CONV, "SOFTMAX": _BN, "LAYERNORM": _BN,
        "ROWSUM": {"M": 700, "N": 4000}, "COLSUM": {"M": 4000, "N": 70},
        "TOTAL": {"M": 1000, "N": 1000}, "ADD": {"N": 100_000}, "EXP": {"N": 1 << 20},
        "GELU": {"N": 4099}, "TRANSPOSE": {"N": 1000, "M": 513},
    },
    "rows": {
        "TANH": {"N": 10_000}, "GATE": {"N": 10_000}, "ROWMAX": {"M": 3, "N": 1 << 20},
        "CHANNELS_LAST": {"N": 4, "C": 64, "H": 28, "W": 28},
        "SOFTMAX_CHANNELS": {"B": 8, "C": 21, "P": 900},
        "BATCHNORM": {"N": 32, "C": 64, "P": 196}, "COSINE": {"B": 128, "N": 300},
    },
    "scatter": {
        "EMBEDDING": _EMBED, "BAG": _EMBED, "ADD": {"B": 100_000, "N": 1000},
        "HISTOGRAM": {"B": 100_000, "N": 256},
        "POOL": {"N": 2, "C": 3, "Y": 14, "X": 14, "H": 28, "W": 28},
    },
    "gradients": {
        "LSTM": {"T": 8, "B": 8, "I": 64, "N": 64}, "BAG": {"V": 1000, "D": 64, "B": 512, "L": 16},
    },
    "sizes": {
        "POINTWISE": {"M": 29, "N": 503}, "SOFTMAX": {"B": 61, "N": 71}, "SUMS": {"M": 61, "N": 71},
    },
    "gpu_parts/peers": {"HALF": {"M": 256, "K": 264, "N": 136}},
}  # fmt: skip
_CONVOLUTIONS = {  # stride and padding of `CONV` of benchmarks/gradients.py
    "CONV s1 p1": (1, 1, _CONV), "CONV s2 p1": (2, 1, _CONV),
    "CONV s2 p3": (2, 3, _CONV | {"C": 3, "H": 56, "W": 56, "KH": 7, "KW": 7}),
}  # fmt: skip
# What no program above has: sides of products, types of tensor cores, epilogues, meeting points.
_FORMS: Mapping[str, tuple[str, Mapping[str, int]]] = {
    "product TN": (
        "def run(float(K,M) A, float(K,N) B) -> (C) { C(m,n) +=! A(k,m) * B(k,n) }", _MNK,
    ),
    "product TT": (
        "def run(double(K,M) A, double(N,K) B) -> (C) { C(m,n) +=! A(k,m) * B(n,k) }", _MNK,
    ),
    "product of few rows": (
        "def run(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }",
        {"M": 3, "K": 2000, "N": 70},
    ),
    "product added to": (
        "def run(float(M,K) A, float(K,N) B) -> (float(M,N) C) { C(m,n) += A(m,k) * B(k,n) }", _MNK,
    ),
    "batches with an epilogue": (
        "def run(float(P,M,K) A, float(P,N,K) B, float(P,N) b) -> (C) {"
        " C(p,m,n) +=! A(p,m,k) * B(p,n,k)  C(p,m,n) = tanh(C(p,m,n) * 0.5 + b(p,n)) }",
        {"P": 5, **_MNK},
    ),
    "product of bytes": (
        "def run(int32(M,K) A, int32(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }", _MNK,
    ),
    "bfloat16 with an epilogue": (
        "def run(bfloat16(M,K) A, bfloat16(N,K) B, float(N) b) -> (float(M,N) C) {"
        " C(m,n) +=! A(m,k) * B(n,k)  C(m,n) = fmax(C(m,n) + b(n), 0) }",
        {"M": 264, "K": 512, "N": 128},
    ),
    "half batches": (
        "def run(float16(P,M,K) A, float16(P,K,N) B) -> (float(P,M,N) C) {"
        " C(p,m,n) +=! A(p,m,k) * B(p,k,n) }",
        {"P": 4, "M": 128, "K": 4096, "N": 64},
    ),
    "half convolution": (
        "def run(float16(N,H,W,C) I, float16(F,KH,KW,C) P) -> (float(N,H-KH+1,W-KW+1,F) O) {"
        " O(n,h,w,f) +=! I(n,h+kh,w+kw,c) * P(f,kh,kw,c) }", _CONV,
    ),
    "convolution with an epilogue": (
        "def run(float(N,C,H,W) I, float(F,C,KH,KW) P, float(F) b) -> (O) {"
        " O(n,f,h,w) +=! I(n,c,h+kh,w+kw) * P(f,c,kh,kw)"
        " O(n,f,h,w) = fmax(O(n,f,h,w) + b(f), 0) }", _CONV,
    ),
    "strided convolution": (
        "def run(float(N,C,H,W) I, float(F,C,3,3) P) -> (O) {"
        " O(n,f,h,w) +=! I(n,c,2*h+kh,2*w+kw) * P(f,c,kh,kw) }",
        {"N": 2, "C": 16, "H": 30, "W": 29, "F": 32},
    ),
    "depthwise": (
        "def run(float(N,C,H,W) I, float(C,KH,KW) P) -> (O) {"
        " O(n,c,h,w) +=! I(n,c,h+kh,w+kw) * P(c,kh,kw) }", _CONV,
    ),
    "padded pool": (
        "def run(float(N,C,H,W) I) -> (O) {"
        " O(n,c,h,w) max=! pad(I(n,c,2*h+i-1,2*w+j-1), -inf)"
        " where h in 0:H/2, w in 0:W/2, i in 0:3, j in 0:3 }",
        {"N": 8, "C": 16, "H": 58, "W": 58},
    ),
    "window weights": (
        "def run(float(N,C,H,W) I, float(N,C,H,W) G) -> (float(C,3,3) D) {"
        " D(c,i,j) +=! G(n,c,h,w) * pad(I(n,c,h+i-1,w+j-1), 0) }",
        {"N": 2, "C": 16, "H": 28, "W": 40},
    ),
    "nearest": (
        "def run(float(P,D) X, float(Q,D) Y) -> (A, V) {"
        " t(p,q) +=! (X(p,d) - Y(q,d)) * (X(p,d) - Y(q,d))"
        " A(p) argmin=! t(p,q)  V(p) min=! t(p,q) }",
        {"P": 100, "Q": 200, "D": 8},
    ),
    "winner of columns": (
        "def run(float(N,M) X) -> (A) { A(m) argmax=! X(n,m) }", {"N": 50, "M": 999},
    ),
    "arg of rows": ("def run(float(N,M) X) -> (A) { A(n) argmax=! X(n,m) }", {"N": 50, "M": 999}),
    "gather of rows": (
        "def run(float(V,D) E, int64(B,L) I, float(B,L) w) -> (O) {"
        " O(b,d) +=! w(b,l) * E(I(b,l), d) where l in 0:L }",
        {"V": 1000, "D": 96, "B": 128, "L": 5},
    ),
    "scatter of the largest": (
        "def run(int32(M) I, float(M) A, float(N) L) -> (float(N) H) { H(I(i)) max=! A(i) }",
        {"M": 10_000, "N": 300},
    ),
    "scatter of integers": (
        "def run(int32(M) I, int32(M,D) A, float(N) L) -> (int32(N,D) H) { H(I(i), d) +=! A(i,d) }",
        {"M": 3000, "N": 100, "D": 4},
    ),
    "scatter in slabs": (
        "def run(int32(P,M) I, float(P,M,D) A, float(N) L) -> (float(P,N,D) H) {"
        " H(p, I(p,i), d) += A(p,i,d) }",
        {"P": 6, "M": 400, "N": 90, "D": 32},
    ),
    "scatter by two": (
        "def run(int32(M,2) I, float(M) A, float(N,Q) L) -> (float(N,Q) H) {"
        " H(I(i,0), I(i,1)) +=! A(i) }",
        {"M": 3000, "N": 20, "Q": 30},
    ),
    "scatter by subscripts of subscripts": (
        "def run(int32(B) I, int32(K) J, float(B) X, float(N) L) -> (float(N) H) {"
        " H(J(I(b))) +=! X(b) }",
        {"B": 100, "K": 50, "N": 70},
    ),
    "sums that meet": (
        "def run(float(N) A, float(M) B) -> (O) { O(i + j) +=! A(i) * B(j) }", {"N": 70, "M": 40},
    ),
    "words of bytes": (
        "def run(int8(M,K) A, uint8(N,K) B) -> (C)"
        " { C(m,n) +=! int32(A(m,k)) * int32(B(n,k)) }",
        _MNK,
    ),
    "written columns of integers": (
        "def run(int32(M,K,N) A, int32(N) b) -> (C) { C(m,n) +=! A(m,k,n) * b(n) }", _MNK,
    ),
    "few rows times a large matrix": (
        "def run(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }",
        {"M": 3, "K": 3000, "N": 1000},
    ),
    "written up to the diagonal": (
        "def run(float(P,N,D) Q, float(P,N,D) K, float(P,N,D) V) -> (O) {"
        " S(p,i,j) +=! Q(p,i,d) * K(p,j,d)"
        " M(p,i) max=! S(p,i,j) where j in 0:i + 1"
        " E(p,i,j) = exp(S(p,i,j) - M(p,i))"
        " Z(p,i) +=! E(p,i,j) where j in 0:i + 1"
        " O(p,i,d) +=! E(p,i,j) * V(p,j,d) where j in 0:i + 1"
        " O(p,i,d) = O(p,i,d) / Z(p,i) }",
        {"P": 6, "N": 100, "D": 32},
    ),
    "rows and folds across them": (
        "def run(float(B,N) X, float(N) g) -> (Y, O, P) {"
        " m(b) max=! X(b,n)  Y(b,n) = (X(b,n) - m(b)) * g(n)"
        " O(n) +=! Y(b,n) * m(b)  P(n) +=! X(b,n) }",
        {"B": 1030, "N": 517},
    ),
}  # fmt: skip
# Whose gradients, and training forwards where those keep something, are in as well.
_DIFFERENTIATED = (
    "catalog test_maxpool/test_maxpool.maxpool", "catalog README/tensordot",
    "catalog fcrelu/func_fcrelu", "catalog group_convolution/group_convolution",
    "benchmarks layers MATMUL", "benchmarks layers CONV", "benchmarks layers SOFTMAX",
    "benchmarks layers LAYERNORM", "benchmarks rows GATE", "benchmarks gradients BAG",
    "benchmarks gradients LSTM", "benchmarks gradients CONV s2 p1",
    "examples lookups embedding", "examples random dropout", "examples reuse half_product",
    "examples scans cumulative_product",
)  # fmt: skip
# Of the catalog, one program of each kind: the whole of it would take five minutes.
_CATALOG = (
    "README/tensordot", "min_distance/mindis", "min_distance/argmin_1d",
    "masked_conv/masked_convolve",
    "tum/make_beta", "tum/normalize", "test_tc/test_scalar.avgpool",
    "test_tc/test_group_norm_fused.group_normalization",
    "test_tc/test_conv_with_backward_2kernels.convolution_wgrad",
    "test_tc/test_conv_with_backward_2kernels.convolution_biasgrad", "batch_matmul/batch_matmul",
    "4fcrelu/func_4fcrelu", "copy/copy", "group_convolution/group_convolution",
    "batchnorm/spatialBatchNorm", "fcrelu/func_fcrelu", "2lut/func_2lut", "introduction/mv",
    "ml_with_tc/softmax", "test_maxpool/test_maxpool.maxpool", "test_cast/test_cast.cast",
    "test_cosine_similarity/test_cosine_similarity.cosine_similarity",
    "test_transpose/test_transpose.transpose",
    "test_small_mobilenet/test_small_mobilenet.small_mobilenet",
    "docs_fixed/lut_clamped", "docs_fixed/constant_fill",
)  # fmt: skip


@cache
def catalog() -> Mapping[str, Item]:
    """Return programs of the catalog."""
    found = {}
    for entry in LEGAL:
        name = f"catalog {entry['name']}"
        if entry["name"] in _CATALOG:
            checked = check(parse(entry["tc"]), name_of(entry))
            found[name] = Item(name, checked, _own_sizes(checked, entry))
    return found


def _own_sizes(checked: CheckedDef, entry: Mapping[str, Any]) -> dict[str, int]:
    own: Mapping[str, int] = entry.get("sizes") or entry["suggested_sizes"]
    sizes = {n: own[n] for n in checked.sizes if n in own}
    if len(sizes) == len(checked.sizes) and holds(checked, sizes):
        return sizes
    return small_sizes(checked, dict(entry), np.random.default_rng(7))


@cache
def benchmarks() -> Mapping[str, Item]:
    """Return the programs of the benchmarks."""
    found = []
    shared = of_benchmark("layers")
    for path, sizes in _BENCHMARKS.items():
        texts = shared | of_benchmark(path)
        stem = path.rsplit("/", 1)[-1]
        found += [_item(f"{stem} {n}", texts[n], of) for n, of in sizes.items()]
    text = of_benchmark("gradients")["CONV"]
    for name, (stride, pad, of) in _CONVOLUTIONS.items():
        found.append(_item(f"gradients {name}", text.format(s=stride, p=pad), of))
    return {f"benchmarks {x.name}": x for x in found}


def _item(name: str, text: str, sizes: Mapping[str, int]) -> Item:
    checked = check(parse(text))
    return Item(name, checked, {n: sizes[n] for n in checked.sizes})


@cache
def written() -> Mapping[str, Item]:
    """Return the programs of examples/."""
    found = [(f"{e.path.stem} {e.name}", e) for e in examples()]
    made = [Item(name, e.kernel().variant().checked, e.sizes) for name, e in found]
    return {f"examples {x.name}": x for x in made}


@cache
def small() -> Mapping[str, Item]:
    """Return the small programs that every form of the CPU is tested by."""
    made = [
        Item(f"small {name}", entry.checked(), max(entry.sizes, key=lambda s: sum(s.values())))
        for name, entry in PROGRAMS.items()
    ]
    return {x.name: x for x in made}


@cache
def formed() -> Mapping[str, Item]:
    """Return programs for what no other has."""
    return {f"forms {n}": _item(f"forms {n}", *entry) for n, entry in _FORMS.items()}


def derived(item: Item) -> Iterator[Item]:
    """Yield the gradient of a definition, and its training forward where that keeps something."""
    made = gradient(item.checked)
    checked = check(parse(made.text))
    shapes = [t.shape for t in item.checked.params] + [g.shape for g in made.given]
    extents = [tuple(s.evaluate(item.sizes) for s in shape) for shape in shapes]
    args = [
        item.sizes[t.name] if t.name in checked.sizes else np.broadcast_to(np.int8(0), extent)
        for t, extent in zip(checked.params, extents, strict=True)
    ]
    yield Item(f"gradient of {item.name}", checked, sizes_of(checked, args))
    if made.extra:
        forward = check(parse(made.forward))
        yield Item(f"training forward of {item.name}", forward, item.sizes)


_SOURCES: Mapping[str, Callable[[], Mapping[str, Item]]] = {
    "catalog": catalog,
    "benchmarks": benchmarks,
    "examples": written,
    "forms": formed,
    "small": small,
}
_SIZES = {"catalog": 26, "benchmarks": 35, "examples": 39, "forms": 29, "small": 44}
_CHUNK = 5  # programs of a part: what one test holds and one file stores
PARTS = (
    *(f"{name}_{n:02}" for name, count in _SIZES.items() for n in range(-(-count // _CHUNK))),
    *(f"derived_{n:02}" for n in range(-(-len(_DIFFERENTIATED) // 2))),
)


def items_of(part: str) -> list[Item]:
    """Return the programs of a part."""
    source, _, n = part.rpartition("_")
    if source == "derived":
        return [
            d for name in _DIFFERENTIATED[2 * int(n) : 2 * int(n) + 2] for d in derived(item(name))
        ]
    found = _SOURCES[source]()
    assert len(found) == _SIZES[source], f"{source} has {len(found)} programs: say so in _SIZES"
    return [item(name) for name in sorted(found)[_CHUNK * int(n) : _CHUNK * (int(n) + 1)]]


def item(name: str) -> Item:
    """Return a program by the name of its lines."""
    found = _SOURCES[name.split(" ")[0]]()[name]
    return Item(name, found.checked, found.sizes)
