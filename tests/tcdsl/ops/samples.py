"""One table of calls: every op of the library, with operands for it.

A row is an op's name as PyTorch has it, operands and keywords. Arrays are float64 where they have
gradients; `order` says how many derivatives are compared. Operands are strided, broadcast, empty
and of rank 0 where the op takes such.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Sample:
    """A call of an op."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    order: int = 2
    rtol: float = 1e-9
    constants: tuple[int, ...] = ()  # operands that no gradient is asked by

    def __str__(self) -> str:
        return f"{self.name}-" + "-".join(_shown(a) for a in self.args)


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype.kind}{'x'.join(map(str, value.shape))}"
    if isinstance(value, list | tuple):
        return "_".join(map(_shown, value))
    return str(value)


def _words(text: str) -> list[str]:
    return text.split()


def _normal(*shape: int, seed: int = 0) -> Array:
    rng = np.random.default_rng([seed, *shape])
    return np.asarray(rng.standard_normal(shape))


def _between(low: float, high: float, *shape: int) -> Array:
    return np.asarray(np.random.default_rng(list(shape)).uniform(low, high, shape))


def _strided(x: Array) -> Array:
    """Return the same elements, transposed in memory."""
    return np.ascontiguousarray(x.T).T


A, B = _normal(3, 5), _normal(3, 5, seed=1)
ROW, COLUMN = _normal(5, seed=2), _normal(3, 1, seed=3)
CUBE = _normal(2, 3, 4)
NONE = np.zeros((0, 5))
ONE = np.asarray(0.7)


def pointwise() -> Iterator[Sample]:
    """Give functions of each element."""
    domains = {
        "acos": (-0.9, 0.9), "asin": (-0.9, 0.9), "erfinv": (-0.9, 0.9), "atanh": (-0.9, 0.9),
        "acosh": (1.1, 3), "log": (0.1, 3), "log10": (0.1, 3), "log1p": (-0.9, 3),
        "log2": (0.1, 3), "rsqrt": (0.1, 3), "sqrt": (0.1, 3),
    }  # fmt: skip
    smooth = _words(
        "acos acosh asin asinh atan atanh cos cosh erf erfc erfinv exp expm1 log log10 "
        "log1p log2 reciprocal rsqrt sigmoid sin sinh sqrt square tan tanh neg"
    )
    for name in smooth:
        yield Sample(name, (_between(*domains.get(name, (-2, 2)), 3, 5),))
    for name in _words("abs ceil floor frac round sign trunc"):
        yield Sample(name, (A,))
    for name in ("abs", "neg", "sign", "square"):
        yield Sample(name, (np.arange(-3, 4),))
    for name in ("exp", "sqrt", "sigmoid", "reciprocal"):
        yield Sample(name, (np.arange(1, 5),), order=0, rtol=1e-6)
    for x in (_strided(A), NONE, ONE, CUBE[:, ::2]):
        yield Sample("exp", (x,))
        yield Sample("sin", (x,))
    for name in _words("add sub mul div maximum minimum remainder fmod atan2"):
        for pair in (
            (A, B),
            (COLUMN, ROW),
            (_strided(A), ROW),
            (NONE, ROW),
            (ONE, np.asarray(1.7)),
        ):
            yield Sample(name, pair)
        yield (
            Sample(name, (A, 2.5))
            if name not in ("maximum", "minimum", "atan2")
            else Sample(name, (A, ONE))
        )
    yield Sample("add", (np.arange(5), A))
    yield Sample("mul", (A, np.arange(5)))
    yield Sample("add", (np.arange(5), 2), order=0)
    yield Sample("div", (np.arange(5), 2), order=0, rtol=1e-6)
    yield Sample("add", (A, ROW), {"alpha": 2.5})
    yield Sample("sub", (A, ROW), {"alpha": 2.5})
    yield Sample("pow", (_between(0.2, 2, 3, 5), _between(-2, 2, 5)))
    for exponent in (2, 3, 0.5, -1, 2.5):
        yield Sample("pow", (_between(0.2, 2, 3, 5), exponent))
    yield Sample("pow", (np.arange(5), 3), order=0)
    bases, places = np.array([3, -3, 7, 2, 1, -1, 0, 5]), np.array([40, 41, 2, 63, -3, -3, 0, -1])
    yield Sample("pow", (bases, places), order=0)  # beyond what float64 holds
    yield Sample("pow", (bases, 23), order=0)
    yield Sample("pow", (2, np.arange(9)), order=0)
    yield Sample("pow", (np.array([3, 7], np.uint8), np.array([200, 3], np.uint8)), order=0)
    yield Sample("pow", (np.array([[3], [-2]], np.int8), np.array([4, 7, 0], np.int8)), order=0)
    true = np.array([True, True, False])
    yield Sample("add", (true, np.array([True, False, False])), order=0)
    yield Sample("mul", (true, np.array([True, False, False])), order=0)
    yield Sample("add", (true, 1), order=0)
    yield Sample("pow", (np.arange(5), 2), order=0)
    yield Sample("pow", (np.arange(5), 0.5), order=0, rtol=1e-6)
    for mode in ("floor", "trunc"):
        yield Sample("div", (A, B), {"rounding_mode": mode}, order=0)
        whole = np.array([7, -7, 7, -7]), np.array([2, 2, -2, -2])
        yield Sample("div", whole, {"rounding_mode": mode}, order=0)
    yield Sample("fmod", (np.array([7, -7, 7, -7]), np.array([2, 2, -2, -2])), order=0)
    yield Sample("remainder", (np.array([7, -7, 7, -7]), np.array([2, 2, -2, -2])), order=0)
    for low, high in ((-0.5, 0.5), (None, 0.5), (-0.5, None), (1, -1)):
        yield Sample("clamp", (A, low, high), order=1)
    yield Sample("where", (A > 0, A, ROW))
    yield Sample("where", (A > 0, A, 2.0))
    yield Sample("lerp", (A, ROW, _between(0, 1, 3, 1)))
    yield Sample("addcmul", (A, ROW, COLUMN), {"value": 0.3})
    yield Sample("addcdiv", (A, ROW, COLUMN), {"value": 0.3})


def singular() -> Iterator[Sample]:
    """Give the points where a derivative needs a decision."""
    inf, nan = np.inf, np.nan
    zeros = np.zeros((2, 3))
    yield Sample("atan2", (np.zeros(2), np.array([0.0, -0.0])), order=1)
    yield Sample("relu", (np.array([-1, 0, nan, inf]),), order=1)
    yield Sample("clamp", (np.array([-1, 1, nan, 0.5]), -1, 1), order=1)
    for name in ("maximum", "minimum"):
        pair = np.array([1, nan, 2, inf, nan, 3]), np.array([1, 2, nan, inf, nan, 4])
        yield Sample(name, pair, order=1)
        yield Sample(name, (np.array([1, 5]), np.array([2, 3])), order=0)
    for p in (0.5, 1, 2, 3, inf, -inf):
        yield Sample("norm", (zeros, p, 1), order=1)
        yield Sample("norm", (np.array([[0.0, -2, 2], [0, 0, 1]]), p, 1), order=1)
    yield Sample("std", (np.ones((2, 3)), 1), order=1)
    edges = np.array([[-inf, -inf], [-inf, 1], [inf, 1], [nan, 2], [1, 2]])
    for name in ("logsumexp", "softmax", "log_softmax"):
        yield Sample(name, (edges, 1), order=1)
    ties = np.array([[1.0, 3, 3], [nan, 1, nan]])
    yield Sample("max", (ties, 1), order=1)
    yield Sample("min", (ties, 1), order=1)
    yield Sample("max", (ties[0],), order=1)
    yield Sample("amax", (ties[:1], 1), order=1)
    yield Sample("prod", (np.array([0.0, 2, 3]),))
    yield Sample("prod", (np.array([0.0, 0, 3]),))
    yield Sample("cumprod", (np.array([0.0, 2, 0, 3]), 0))


def comparisons() -> Iterator[Sample]:
    """Give what is true or false of elements."""
    a, b = np.array([1, np.nan, 2, 3.0]), np.array([1, np.nan, 3, 2.0])
    for name in _words("eq ne lt le gt ge"):
        yield Sample(name, (a, b), order=0)
        yield Sample(name, (a, 2), order=0)
        yield Sample(name, (COLUMN, ROW), order=0)
        yield Sample(name, (np.arange(4), a), order=0)
        yield Sample(name, (np.array([True, False]), np.array([True, True])), order=0)
    for name in ("isnan", "isinf", "isfinite"):
        yield Sample(name, (np.array([1, np.nan, np.inf, -np.inf]),), order=0)
    for name in ("logical_and", "logical_or", "logical_xor"):
        yield Sample(name, (np.array([1.0, 0, 0]), np.array([True, False, True])), order=0)
    yield Sample("logical_not", (np.array([1.0, 0]),), order=0)
    yield Sample("isclose", (a, a + 1e-9), {"equal_nan": True}, order=0)


def reductions() -> Iterator[Sample]:
    """Give what makes one element of many."""
    for name in ("sum", "mean", "prod", "var", "std", "norm"):
        yield Sample(name, (A,))
        yield Sample(name, (_strided(A),))
    for name in ("sum", "mean", "var", "std", "amax", "amin", "logsumexp"):
        for dim in (1, -3, (0, 2), (0, 1, 2)):
            for keepdim in (False, True):
                yield Sample(name, (CUBE, dim), {"keepdim": keepdim})
    for p in (0, 0.5, 1, 2, 3, np.inf, -np.inf):
        yield Sample("norm", (A, p), order=0 if p == 0 else 2)
        yield Sample("norm", (CUBE, p, 1, True), order=0 if p == 0 else 2)
    yield Sample("var", (A,), {"unbiased": False})
    yield Sample("std", (A, 1), {"unbiased": False})
    for x in (A, CUBE, ROW):
        yield Sample("prod", (x, 0))
        for name in ("softmax", "log_softmax", "cumsum", "cumprod"):
            yield Sample(name, (x, 0))
            yield Sample(name, (x, -1))
        for name in ("max", "min"):
            yield Sample(name, (x,))
            yield Sample(name, (x, 0))
            yield Sample(name, (x, -1, True))
        for name in ("argmax", "argmin"):
            yield Sample(name, (x,), order=0)
            yield Sample(name, (x, -1, True), order=0)
    for name in ("sum", "mean", "prod", "softmax", "cumsum"):
        yield Sample(name, (NONE, 0), order=1)
        yield Sample(name, (NONE, 1), order=1)
    for name in ("cumsum", "cumprod"):  # many rows
        yield Sample(name, (_between(0.9, 1.1, 4, 5, 211), -1))
    yield Sample("sum", (np.arange(6, dtype=np.int32).reshape(2, 3), 1), order=0)
    yield Sample("sum", (np.array([True, True, False]),), order=0)
    yield Sample("prod", (np.arange(1, 5, dtype=np.uint8),), order=0)
    yield Sample("cumsum", (np.array([True, True, False]), 0), order=0)
    for name in ("all", "any"):
        for x in (A > 0, np.zeros((2, 3), bool), np.zeros((0, 3), bool)):
            yield Sample(name, (x,), order=0)
            yield Sample(name, (x, 0), order=0)
    yield Sample("dist", (A, B, 2))
    yield Sample("nansum", (np.array([[1, np.nan, 2], [3, 4, np.nan]]), 1))


def products() -> Iterator[Sample]:
    """Give products of matrices and vectors."""
    m, n, v = _normal(3, 4), _normal(4, 5), _normal(4)
    yield Sample("dot", (v, v[::-1].copy()))
    yield Sample("mv", (m, v))
    yield Sample("ger", (v, ROW))
    for a, b in ((m, n), (_strided(m), _strided(n)), (np.zeros((3, 0)), np.zeros((0, 5)))):
        yield Sample("mm", (a, b))
    x, y = _normal(2, 3, 4), _normal(2, 4, 5)
    yield Sample("bmm", (x, y))
    pairs = ((v, v), (m, v), (v, n), (m, n), (x, n), (x, y), (m, y), (v, y), (x, v))
    for pair in (*pairs, (_normal(2, 1, 3, 4), _normal(3, 4, 5))):
        yield Sample("matmul", pair)
    scaled = {"beta": 0.5, "alpha": 2.0}
    yield Sample("addmv", (_normal(3), m, v), scaled)
    yield Sample("addmm", (_normal(3, 5), m, n), scaled)
    yield Sample("addmm", (_normal(5), m, n))
    yield Sample("addmm", (_normal(3, 5), m, n))
    yield Sample("addmm", (np.full((3, 5), np.nan), m, n), {"beta": 0}, order=0)
    yield Sample("addr", (_normal(3, 5), _normal(3), _normal(5)), scaled)
    yield Sample("baddbmm", (_normal(2, 3, 5), x, y), scaled)
    yield Sample("addbmm", (_normal(3, 5), x, y), scaled)
    for equation, *operands in (
        ("ij,jk->ik", m, n), ("ij,jk", m, n), ("ii->i", _normal(3, 3)), ("ii", _normal(3, 3)),
        ("ij->ji", m), ("bij,bjk->bik", x, y), ("...ij,jk->...ik", x, n), ("i,j->ij", v, ROW),
        ("ij,j,jk->k", m, v, n), ("iJ,Jk->kJ", m, n), ("bij->b", x), ("...i,...i", x, m),
    ):  # fmt: skip
        yield Sample("einsum", (equation, *operands))
    yield Sample("einsum", (A, [0, 30], B, [1, 30], [1, 0]))
    yield Sample("einsum", (CUBE, [0, ..., 1], CUBE, [0, ..., 1]))
    for x in (m, _normal(2, 3, 4), v):
        yield Sample("linear", (x, _normal(5, 4)))
        yield Sample("linear", (x, _normal(5, 4), ROW))
    yield Sample("bilinear", (m, _normal(3, 5), _normal(2, 4, 5), _normal(2)))


def activations() -> Iterator[Sample]:
    """Give what stands between the layers of a network."""
    for name in _words(
        "relu leaky_relu elu selu celu hardtanh relu6 logsigmoid hardshrink softshrink "
        "tanhshrink softsign softplus gelu silu mish"
    ):
        yield Sample(name, (2 * A,))
    for name in ("hardsigmoid", "hardswish"):
        yield Sample(name, (2 * A,), order=1)
    yield Sample("relu", (_strided(A),))
    yield Sample("threshold", (A, 0.1, 20.0))
    yield Sample("softplus", (10 * A, 1.5, 20))
    yield Sample("leaky_relu", (A, 0.2))
    yield Sample("elu", (A, 1.5))
    yield Sample("gelu", (A,), {"approximate": "tanh"})
    yield Sample("prelu", (CUBE, _normal(3)))
    yield Sample("prelu", (A, _normal(1)))
    for dim in (0, 1, -1):
        yield Sample("glu", (_normal(4, 6, 2), dim))
    yield Sample("softmin", (A, 1))


def losses() -> Iterator[Sample]:
    """Give losses in each reduction."""
    share, signs = _between(0.1, 0.9, 3, 5), np.sign(B)
    for reduction in ("none", "mean", "sum"):
        how = {"reduction": reduction}
        for name in ("l1_loss", "mse_loss", "smooth_l1_loss", "huber_loss"):
            yield Sample(name, (A, B), how)
        yield Sample("binary_cross_entropy", (share, share[::-1].copy()), how)
        yield Sample("binary_cross_entropy_with_logits", (A, share), how)
        yield Sample("kl_div", (A, share), how)
        yield Sample("poisson_nll_loss", (A, share), how)
        yield Sample(
            "poisson_nll_loss", (share, 3 * share), {"log_input": False, "full": True, **how}
        )
        yield Sample("soft_margin_loss", (A, signs), how, constants=(1,))
        yield Sample("hinge_embedding_loss", (A, signs.astype(np.int64)), how, order=0)
        yield Sample("hinge_embedding_loss", (A, B), how, order=0)  # neither 1 nor -1: both terms
        yield Sample(
            "margin_ranking_loss", (A, B, signs), {"margin": 0.3, **how}, order=1, constants=(2,)
        )
        yield Sample("multilabel_soft_margin_loss", (A, (share > 0.5).astype(float)), how)
        classes = np.array([[1, 0, -100, 2], [2, 2, 1, 0]])
        scores, weight = _normal(2, 3, 4), np.array([0.3, 1.0, 2.0])
        for name in ("nll_loss", "cross_entropy"):
            yield Sample(name, (scores, classes), how)
            yield Sample(name, (_normal(4, 3), classes[1]), how)
            yield Sample(name, (scores, classes), {"weight": weight, **how}, order=0)
            yield Sample(name, (_normal(4, 3), classes[1]), {"ignore_index": 2, **how})
        yield Sample("cross_entropy", (_normal(4, 3), _between(0, 1, 4, 3)), how)
        yield Sample("cross_entropy", (scores, classes), {"label_smoothing": 0.1, **how})
        yield Sample("multi_margin_loss", (_normal(4, 3), classes[1]), how, order=1)
        squared = {"p": 2, "margin": 0.7, **how}
        yield Sample("multi_margin_loss", (_normal(4, 3), classes[1]), squared, order=1)
        weighed = {**squared, "weight": weight}
        yield Sample("multi_margin_loss", (_normal(4, 3), classes[1]), weighed, order=0)
        labels = np.array([[1, -1, 0], [2, 0, -1], [-1, 1, 2], [0, 1, 2]])
        yield Sample("multilabel_margin_loss", (_normal(4, 3), labels), how, order=1)
        yield Sample("multilabel_margin_loss", (_normal(3), labels[1]), how, order=1)
        ones = np.array([1, -1, 1])
        yield Sample("cosine_embedding_loss", (A, B, ones), {"margin": 0.2, **how}, order=1)
        yield Sample("triplet_margin_loss", (A, B, A[::-1].copy()), how)
    yield Sample("cosine_similarity", (CUBE, _normal(3, 1)), {"dim": 1})
    yield Sample("cosine_similarity", (np.zeros((1, 3)), np.ones((1, 3))), order=1)
    yield Sample("pairwise_distance", (A, B))
    yield Sample("pairwise_distance", (np.arange(6).reshape(2, 3), np.ones((2, 3), int)), order=0)
    yield Sample("normalize", (A,))
    yield Sample("normalize", (CUBE, 1, 2))


def norms() -> Iterator[Sample]:
    """Give norms of batches, layers and groups."""
    x, g, b = _normal(3, 4, 5), _between(0.5, 2, 4), _normal(4)
    for weight, bias in ((g, b), (None, None)):
        yield Sample("batch_norm", (x, None, None, weight, bias, True))
        yield Sample("instance_norm", (x, None, None, weight, bias))
        yield Sample("group_norm", (x, 2, weight, bias))
    yield Sample("batch_norm", (_normal(5, 4), None, None, g, b, True))
    yield Sample("batch_norm", (x, _normal(4), _between(0.5, 2, 4), g, b), constants=(1, 2))
    yield Sample("batch_norm", (1e6 + x, None, None, g, b, True), order=1, rtol=1e-6)
    yield Sample("layer_norm", (x, (5,), _normal(5), _normal(5)))
    yield Sample("layer_norm", (x, (4, 5)))
    yield Sample("local_response_norm", (x, 3, 1e-2))
    yield Sample("local_response_norm", (_normal(2, 4, 3, 2), 2, 1e-2))


def convolutions() -> Iterator[Sample]:
    """Give convolutions of one to three dimensions."""
    images = {1: (2, 4, 7), 2: (2, 4, 7, 6), 3: (1, 4, 5, 6, 4)}
    windows = {1: (3,), 2: (3, 2), 3: (3, 2, 2)}
    for rank in (1, 2, 3):
        x, bias = _normal(*images[rank]), _normal(6)
        weight, grouped = _normal(6, 4, *windows[rank]), _normal(6, 2, *windows[rank])
        order = 2 if rank < 3 else 1
        name = f"conv{rank}d"
        yield Sample(name, (x, weight), order=order)
        yield Sample(name, (x, weight, bias), {"stride": 2, "padding": 1}, order=order)
        yield Sample(name, (x, grouped, bias), {"groups": 2, "padding": 2, "dilation": 2}, order=1)
        yield Sample(name, (x[0], weight), order=0)
        name = f"conv_transpose{rank}d"
        back = np.swapaxes(weight, 0, 1).copy()
        yield Sample(name, (x, back), order=order)
        more = {"stride": 2, "padding": 1, "output_padding": 1}
        yield Sample(name, (x, back, bias), more, order=order)
        yield Sample(name, (x, _normal(4, 3, *windows[rank]), bias), {"groups": 2}, order=1)
    yield Sample("conv2d", (_normal(1, 2, 5, 6), _normal(3, 2, 2, 3)), {"padding": "same"})


def pools() -> Iterator[Sample]:
    """Give pools of one to three dimensions."""
    images = {1: (2, 3, 9), 2: (2, 3, 7, 8), 3: (1, 2, 5, 6, 4)}
    for rank in (1, 2, 3):
        x = _normal(*images[rank])
        for name in (f"max_pool{rank}d", f"avg_pool{rank}d"):
            yield Sample(name, (x, 2))
            yield Sample(name, (x, 3, 2, 1))
            yield Sample(name, (x, 3), {"stride": 2, "ceil_mode": True}, order=1)
        yield Sample(f"max_pool{rank}d", (x, 2), {"return_indices": True}, order=1)
        yield Sample(f"max_pool{rank}d", (x, 2, 1), {"dilation": 2}, order=1)
        share = {"stride": 2, "padding": 1, "count_include_pad": False}
        yield Sample(f"avg_pool{rank}d", (x, 3), share)
        index = np.arange(6).reshape(1, 1, 6)
        shape = (1, 1, *(1,) * (rank - 1), 6)
        if rank == 1:
            yield Sample("max_unpool1d", (_normal(1, 1, 6), index * 2, 2))
        else:
            yield Sample(f"max_unpool{rank}d", (_normal(*shape), index.reshape(shape) * 3, 2))
    random = _between(0, 1, 2, 3, 2)
    for size in ((3, 4), (1, 1)):
        more = (size, None, True, random)
        x = _normal(2, 3, 7, 9)
        yield Sample("fractional_max_pool2d", (x, (2, 3), *more), order=1, constants=(5,))
    yield Sample("lp_pool1d", (_between(0.1, 2, 2, 3, 9), 2, 3))
    yield Sample("lp_pool2d", (_between(0.1, 2, 2, 3, 6, 5), 3, 2))
    yield Sample("lp_pool3d", (_between(0.1, 2, 1, 2, 4, 5, 4), 2, 2))


def copies() -> Iterator[Sample]:
    """Give the same elements elsewhere."""
    yield Sample("cat", ([A, B, A[:1].copy()], 0))
    yield Sample("cat", ([A, COLUMN], -1))
    yield Sample("cat", ([np.arange(3), np.array([0.5])],), order=0)
    yield Sample("cat", ([A, B, A, B, A[:1].copy()], 0), order=1)
    yield Sample("cat", ([np.zeros(0), A, B], 1), order=0)
    yield Sample("stack", ([A, B, A, B, A, B, A, B, A], 1), order=1)
    yield Sample("stack", ([A, B],))
    yield Sample("stack", ([A, B], -1))
    yield Sample("pad", (CUBE, (1, 2)))
    yield Sample("pad", (CUBE, (1, 0, -1, 2)), {"value": 0.5})
    for mode in ("reflect", "replicate", "circular"):
        yield Sample("pad", (CUBE, (2, 1)), {"mode": mode})
        yield Sample("pad", (_normal(1, 2, 3, 4), (2, 1, 1, 2)), {"mode": mode}, order=1)
    yield Sample("flip", (CUBE, (0, 2)))
    yield Sample("trace", (A,))
    for offset in (0, 1, -2):
        yield Sample("diag", (A, offset))
        yield Sample("diag", (A[0], offset))
    yield Sample("roll", (CUBE, 2, 1))
    yield Sample("roll", (CUBE, (1, -5), (0, 2)))
    yield Sample("roll", (A, 7))
    yield Sample("roll", (A, (7,)), order=0)
    yield Sample("roll", (A, [7], []), order=0)
    for name in ("tril", "triu"):
        yield Sample(name, (CUBE, 1))
        yield Sample(name, (A,))
    yield Sample("cross", (_normal(2, 3, 4), _normal(2, 3, 4, seed=1), 1))
    yield Sample("pixel_shuffle", (_normal(2, 8, 3, 2), 2))
    yield Sample("pixel_shuffle", (_normal(18, 2, 3), 3), order=1)
    yield Sample("pixel_shuffle", (_normal(1, 2, 0, 3, 2), 2), order=0)
    yield Sample("repeat", (A, 2, 1, 3))


def adaptive() -> Iterator[Sample]:
    """Give pools whose outputs have a size."""
    images = {1: (2, 3, 7), 2: (2, 3, 7, 5), 3: (1, 2, 5, 3, 4)}
    for rank in (1, 2, 3):
        x = _normal(*images[rank])
        yield Sample(f"adaptive_avg_pool{rank}d", (x, (3, 2, 3)[:rank]))
        yield Sample(f"adaptive_avg_pool{rank}d", (x, 1))
        yield Sample(f"adaptive_max_pool{rank}d", (x, (3, 2, 3)[:rank]))
        yield Sample(f"adaptive_max_pool{rank}d", (x, (3, 2, 3)[:rank], True), order=1)
    yield Sample("adaptive_avg_pool2d", (_normal(2, 6, 4), (3, None)))
    # More windows than elements, as many, and nearly as many: an element is in two, or in more.
    yield Sample("adaptive_avg_pool1d", (_normal(2, 2, 3), 7))
    yield Sample("adaptive_avg_pool2d", (_normal(1, 2, 5, 3), (4, 7)))
    yield Sample("adaptive_avg_pool3d", (_normal(1, 2, 2, 5, 7), (5, 5, 6)))
    yield Sample("adaptive_max_pool2d", (_normal(1, 2, 6, 4), (3, 2), True), order=1)
    yield Sample("adaptive_max_pool2d", (_normal(1, 2, 5, 3), (4, 7)), order=1)


def resampling() -> Iterator[Sample]:
    """Give images of another size."""
    x = _normal(2, 3, 4, 5)
    yield Sample("interpolate", (x, (7, 3)))
    yield Sample("interpolate", (x,), {"scale_factor": 2})
    yield Sample("interpolate", (x,), {"scale_factor": 1.6, "mode": "bilinear"})
    for align in (False, True):
        how = {"align_corners": align}
        yield Sample("interpolate", (x, (7, 3)), {"mode": "bilinear", **how})
        yield Sample("interpolate", (x[0], 7), {"mode": "linear", **how})
        yield Sample(
            "interpolate", (_normal(1, 2, 3, 2, 2), 4), {"mode": "trilinear", **how}, order=1
        )
        grid = _between(-1.3, 1.3, 2, 3, 2, 2)
        for edge in ("zeros", "border", "reflection"):
            yield Sample("grid_sample", (x, grid, "bilinear", edge, align), order=1)
            yield Sample("grid_sample", (x, grid, "nearest", edge, align), order=1)
            yield Sample("grid_sample", (x, grid, "bicubic", edge, align), order=1)
            volume, places = _normal(2, 2, 2, 3, 4), _between(-1.3, 1.3, 2, 1, 2, 3, 3)
            yield Sample("grid_sample", (volume, places, "bilinear", edge, align), order=1)
            yield Sample("grid_sample", (volume, places, "nearest", edge, align), order=1)
        yield Sample("affine_grid", (_normal(2, 2, 3), (2, 3, 4, 5), align))
        yield Sample("affine_grid", (_normal(2, 3, 4), (2, 3, 2, 4, 5), align))
    yield Sample("interpolate", (x, (3, 2)), {"mode": "area"})
    for size in ((7, 3), (1, 11), (4, 5)):
        yield Sample("interpolate", (x, size), {"mode": "nearest-exact"}, order=1)
        for align in (False, True):
            cubic: dict[str, Any] = {"mode": "bicubic", "align_corners": align}
            yield Sample("interpolate", (x, size), cubic)
            for mode in ("bilinear", "bicubic"):
                smooth: dict[str, Any] = {"mode": mode, "align_corners": align, "antialias": True}
                yield Sample("interpolate", (x, size), smooth, order=1)
    big = _normal(1, 2, 13, 11)
    yield Sample("interpolate", (big,), {"scale_factor": 1.7, "mode": "bicubic"}, order=1)
    for mode in ("bilinear", "bicubic"):
        yield Sample("interpolate", (big, (5, 3)), {"mode": mode, "antialias": True}, order=1)
    # Places that read one element at most, that hit elements, and one that all are.
    for size in ((12, 1), (2, 9), (4, 13)):
        corners = size == (4, 13)
        linear = {"mode": "bilinear", "align_corners": corners}
        yield Sample("interpolate", (_normal(1, 2, 4, 5), size), linear)


def bits() -> Iterator[Sample]:
    """Give what is done to bits."""
    a, b = np.array([12, -7, 0, 255]), np.array([10, 3, -1, 1])
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        yield Sample(name, (a, b), order=0)
        yield Sample(name, (A > 0, ROW > 0), order=0)
        yield Sample(name, (a.astype(np.uint8), 3), order=0)
    yield Sample("bitwise_not", (a,), order=0)
    yield Sample("bitwise_not", (A > 0,), order=0)
    yield Sample("bitwise_left_shift", (a, np.array([1, 2, 3, 4])), order=0)
    yield Sample("bitwise_right_shift", (a, 2), order=0)


FAMILIES = (
    pointwise, singular, comparisons, reductions, products, activations, losses, norms,
    convolutions, pools, copies, adaptive, resampling, bits,
)  # fmt: skip
