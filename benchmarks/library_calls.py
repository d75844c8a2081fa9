"""The calls that `library.py` times: expressions that mean the same to PyTorch and to tcdsl.

A name in an expression is one of `torch.nn.functional`, else of `torch`, else a method; operands
are named as `operands` says. Expressions of an op of the table are timed at each size, those of
`FEW` on tensors of some elements, where the cost of a call is all that there is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
SIZES = (1_000, 1_000_000)


@dataclass(frozen=True)
class Call:
    """An expression, what it is called, and how many times faster than torch it should be.

    has_gradient: whether the way back is timed as well.
    """

    name: str
    expression: str
    kind: str
    count: int
    aim: float
    has_gradient: bool = False

    def function(self, module: Any) -> Callable[..., Any]:
        """Return the expression as a function of its operands, in the words of a library."""
        code = compile(f"lambda {', '.join(self.operands())}: {self.expression}", self.name, "eval")
        inner = next(c for c in code.co_consts if hasattr(c, "co_names"))
        places = (module.nn.functional, module, module.Tensor)
        known = {
            word: next(getattr(p, word) for p in places if hasattr(p, word))
            for word in inner.co_names
            if any(hasattr(p, word) for p in places)
        }
        return eval(code, known)  # type: ignore[no-any-return]  # our own text

    def operands(self) -> dict[str, Array]:
        """Return the operands, the same in every run."""
        return operands(self.kind, self.count)


def operands(kind: str, count: int) -> dict[str, Array]:
    """Return arrays by name, of about so many elements.

    vector : x, y, z between 0.1 and 0.9, a mask b, places i, whole numbers k
    matrix : x, y, z likewise, a row r, a column c, a mask b, classes i, places j of rows
    images : x of batch, channels, height, width; weights w of 3x3, of the channels g, h;
        linear maps m, a grid f
    products : square matrices x, y, a vector r, and as many elements in a batch: p, q
    """
    rng = np.random.default_rng(count)

    def some(*shape: int) -> Array:
        return rng.uniform(0.1, 0.9, shape).astype(np.float32)

    if kind == "vector":
        made = {n: some(count) for n in "xyz"}
        made |= {"b": rng.random(count) < 0.5, "i": rng.integers(0, count, count)}
        return made | {"k": rng.integers(1, 100, count)}
    side = max(2, math.isqrt(count))
    if kind == "matrix":
        made = {n: some(side, side) for n in "xyz"}
        made |= {"r": some(side), "c": some(side, 1), "b": rng.random((side, side)) < 0.5}
        made |= {"i": rng.integers(0, side, side), "j": rng.integers(0, side, (side, side))}
        return made | {"u": rng.permutation(side)}  # each once: which of several is kept is open
    if kind == "images":
        batch, channels = (1, 10) if count < 10_000 else (4, 16)
        height = math.isqrt(count // (batch * channels))
        made = {"x": some(batch, channels, height, height), "w": some(channels, channels, 3, 3)}
        made |= {"g": some(channels), "h": some(channels), "m": some(batch, 2, 3)}
        return made | {"f": some(batch, height, height, 2)}
    depth = max(1, round(count ** (1 / 3)))
    return {
        "x": some(side, side), "y": some(side, side), "r": some(side),
        "p": some(depth, depth, depth), "q": some(depth, depth, depth),
    }  # fmt: skip


# What a call costs: on few elements, each with its aim.
FEW: tuple[tuple[str, str, str, int, float, bool], ...] = (
    ("add of 16", "x + y", "vector", 16, 8, True),
    ("mm 4x4", "mm(x, y)", "products", 16, 4, False),
    ("add_ of 16", "x.add_(y)", "vector", 16, 2, False),
    *(
        (f"view {expression}", expression, "matrix", 80, 1, True)
        for expression in (
            "x.t()", "x.transpose(0, 1)", "x.permute(1, 0)", "x.reshape(64)", "x.view(2, -1)",
            "x[0]", "x[1:]", "x[:, 2]", "x[..., None]", "x[1:3, ::2]", "x.unsqueeze(0)",
            "x.expand(3, 8, 8)", "x.flatten()", "x.select(0, 1)", "x.narrow(0, 1, 2)",
        )
    ),
    *(
        (f"write {expression}", expression, "matrix", 80, 1, False)
        for expression in ("x.__setitem__(0, 1.0)", "x.__setitem__(0, r)", "x.__setitem__(i, r)")
    ),
)  # fmt: skip
POINTWISE = (
    "x + y", "x - y", "x * y", "x / y", "x + 1", "2 * x", "x ** 2", "-x", "abs", "acos",
    "acosh(x + 1)", "asin", "asinh", "atan", "atanh", "square", "ceil", "cos", "cosh", "erf",
    "erfc", "erfinv", "exp", "expm1", "floor", "frac", "log", "log10", "log1p", "log2", "neg",
    "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt", "tan", "tanh",
    "trunc", "pow(x, y)", "pow(x, 3)", "atan2(x, y)", "fmod(x, y)", "remainder(x, y)",
    "maximum(x, y)", "minimum(x, y)", "clamp(x, 0.2, 0.7)", "where(b, x, y)", "lerp(x, y, z)",
    "addcmul(x, y, z, value=0.3)", "addcdiv(x, y, z, value=0.3)", "add(x, y, alpha=2)", "relu",
    "leaky_relu", "elu", "selu", "celu", "hardtanh", "relu6", "logsigmoid", "hardshrink",
    "softshrink", "tanhshrink", "softsign", "softplus", "gelu", "silu", "mish", "hardsigmoid",
    "hardswish", "threshold(x, 0.3, 1.0)", "masked_fill(x, b, 0.0)", "clone", "sum", "mean", "prod",
    "var", "std", "norm", "max", "min", "nansum", "cumsum(x, 0)", "dot(x, y)", "dist(x, y)",
    "flip(x, (0,))", "roll(x, 7)", "index_select(x, 0, i)", "x[i]", "gather(x, 0, i)",
    "mse_loss(x, y)", "l1_loss(x, y)", "smooth_l1_loss(x, y)", "binary_cross_entropy(x, y)",
    "binary_cross_entropy_with_logits(x, y)", "kl_div(x, y)", "poisson_nll_loss(x, y)",
    "soft_margin_loss(x, y)", "huber_loss(x, y)", "margin_ranking_loss(x, y, z)",
    "hinge_embedding_loss(x, y)", "cat((x, y))", "stack((x, y))", "lgamma", "digamma",
)  # fmt: skip
MATRICES = (
    "x + r", "x + c", "x.t() + y", "x.sum(0)", "x.sum(1)", "x.mean(0)", "x.mean(1)", "x.prod(1)",
    "x.var(0)", "x.std(1)", "x.norm(2, 1)", "x.max(1)[0]", "x.min(0)[0]", "amax(x, 1)",
    "amin(x, 0)", "multilabel_soft_margin_loss(x, y)", "cross(x[:, :3], y[:, :3], 1)",
    "logsumexp(x, 1)", "softmax(x, 1)", "softmax(x, 0)", "log_softmax(x, 1)", "softmin(x, 1)",
    "cumsum(x, 1)", "cumsum(x, 0)", "cumprod(x, 1)", "cross_entropy(x, i)", "nll_loss(x, i)",
    "cross_entropy(x, i, r)", "nll_loss(x, i, r)", "rms_norm(x, (r.shape[0],))",
    "cross_entropy(x, i, label_smoothing=0.1)", "scaled_dot_product_attention(x, y, z)",
    "multi_margin_loss(x, i)",
    "multilabel_margin_loss(x[:, :20], j[:, :20] % 20)", "cosine_similarity(x, y)",
    "pairwise_distance(x, y)",
    "triplet_margin_loss(x, y, z)", "normalize(x)", "layer_norm(x, (r.shape[0],))",
    "glu(x[:, :2 * (len(x) // 2)])", "prelu(x, r)", "tril(x)", "triu(x)", "cat((x, y), 1)",
    "stack((x, y), 1)", "x.repeat(2, 1)", "x.t().contiguous()", "x[i]", "x[:, i]", "x.gather(0, j)",
    "x.scatter_add(0, j, y)", "x.index_select(1, i)", "embedding(i, x)", "pad(x, (1, 2))",
    "flip(x, (1,))", "roll(x, 3, 1)", "cosine_embedding_loss(x, y, i.sign() * 2 - 1)", "diag(x)",
    "x.trace()",
)  # fmt: skip
IMAGES = (
    "conv2d(x, w, padding=1)", "conv_transpose2d(x, w)", "max_pool2d(x, 2)", "avg_pool2d(x, 2)",
    "max_pool2d(x, 3, 2, 1)", "avg_pool2d(x, 3, 2, 1)", "adaptive_avg_pool2d(x, 1)",
    "adaptive_avg_pool2d(x, 3)", "adaptive_max_pool2d(x, 3)", "lp_pool2d(x, 2, 3)",
    "batch_norm(x, None, None, g, h, True)", "instance_norm(x)", "group_norm(x, 2, g, h)",
    "local_response_norm(x, 3)", "pad(x, (1, 1, 1, 1))", "pad(x, (2, 1, 1, 2), mode='reflect')",
    "interpolate(x, scale_factor=2)", "x.permute(0, 2, 3, 1).contiguous()",
    "interpolate(x, scale_factor=2, mode='bilinear', align_corners=False)",
    "interpolate(x, scale_factor=0.5, mode='area')", "interpolate(x, scale_factor=1.7)",
    "interpolate(x, scale_factor=1.7, mode='area')",
    "interpolate(x, scale_factor=2, mode='bicubic', align_corners=False)",
    "conv1d(x.flatten(2), w.flatten(2), padding=4)", "max_pool1d(x.flatten(2), 2)",
    "conv3d(x.unsqueeze(2), w.unsqueeze(2))", "max_pool3d(x.unsqueeze(2), (1, 2, 2))",
    "conv_transpose1d(x.flatten(2), w.flatten(2))", "avg_pool1d(x.flatten(2), 2)",
    "conv_transpose3d(x.unsqueeze(2), w.unsqueeze(2))", "avg_pool3d(x.unsqueeze(2), (1, 2, 2))",
    "lp_pool1d(x.flatten(2), 2, 3)", "lp_pool3d(x.unsqueeze(2), 2, (1, 3, 3))",
    "adaptive_avg_pool1d(x.flatten(2), 3)",
    "adaptive_max_pool1d(x.flatten(2), 3)", "adaptive_avg_pool3d(x.unsqueeze(2), (1, 3, 3))",
    "adaptive_max_pool3d(x.unsqueeze(2), (1, 3, 3))", "affine_grid(m, x.shape, False)",
    "max_unpool1d(*max_pool1d(x.flatten(2), 2, return_indices=True), 2)",
    "max_unpool2d(*max_pool2d(x, 2, return_indices=True), 2, output_size=x.shape[2:])",
    "max_unpool3d(*max_pool3d(x.unsqueeze(2), (1, 2, 2), return_indices=True), (1, 2, 2),"
    " output_size=x.unsqueeze(2).shape[2:])",
    "grid_sample(x, f, align_corners=False)", "pixel_shuffle(x[:, :4], 2)",
    "x.transpose(1, 2).reshape(-1)", "cat((x, x), 1)",
)  # fmt: skip
PRODUCTS = (
    "mm(x, y)", "mm(x, y.t())", "mv(x, r)", "ger(r, r)", "matmul(p, q)", "bmm(p, q)",
    "addmm(x, x, y)", "addmv(r, x, r)", "addr(x, r, r)", "linear(x, y, r)", "baddbmm(p, p, q)",
    "addbmm(p[0], p, q)", "einsum('bij,bjk->bik', p, q)",
)  # fmt: skip
WITHOUT_GRADIENT = (
    "x == y", "x < y", "x > 0.5", "k % 7", "k // 7", "k + k", "isnan(x)", "logical_and(b, b)",
    "logical_not(b)", "all(b)", "any(b)", "argmax(x)", "argmin(x)", "sort(x)[0]", "topk(x, 10)[0]",
    "x.to(float64)", "k.to(float32)", "k.sum()", "nonzero(b)", "x[b]", "bitwise_and(k, k)",
    "bitwise_or(k, k)", "bitwise_xor(k, k)", "bitwise_not(k)", "bitwise_left_shift(k, 2)",
    "bitwise_right_shift(k, 2)", "logical_or(b, b)", "logical_xor(b, b)", "isinf(x)", "isfinite(x)",
    "isclose(x, y)", "zeros_like(x)", "full_like(x, 2.0)", "unique(k)", "x.add_(y)", "x.mul_(1.0)",
    "x.copy_(y)", "x.fill_(0.5)", "x.zero_()",
)  # fmt: skip

# The rest of the surface. Its ways back are those of what stands above, or are too rare.
REST = {
    "vector": (
        "aminmax(x)", "arange(0.0, 1.0 * len(x))", "argsort(k, stable=True)",
        "argsort(x, stable=True)", "allclose(x, y)", "bernoulli(x)", "bincount(k)",
        "bucketize(x, y.sort()[0])", "cat((x, x, x, x, x, x, x, x))", "column_stack((x, y))",
        "count_nonzero(x)", "cummax(x, 0)[0]", "cummin(x, 0)[0]", "diff(x)", "dropout(x)",
        "equal(x, x + 0)", "fmax(x, y)", "gcd(k, i)", "hann_window(len(x))",
        "hann_window(len(x), dtype=float64)", "histc(x, 10, 0.0, 1.0)", "hstack((x, y))",
        "hypot(x, y)", "index_add(x, 0, i, y)", "index_put(x, (i,), y, True)",
        "index_reduce(x, 0, i, y, 'amax')", "isin(k, k[:10])", "isin(x, y)", "kthvalue(x, 10)[0]",
        "lcm(k, k + 1)", "linspace(0, 1, len(x))", "logaddexp(x, y)", "logcumsumexp(x, 0)",
        "masked_scatter(x, b, y)", "masked_select(x, b)", "median(k)", "median(x)", "mode(k)[0]",
        "mode(x)[0]", "msort(x)", "nan_to_num(x)", "nanmedian(x)", "normal(x, y)", "ones(len(x))",
        "poisson(x)", "poisson(50 * x)", "polygamma(1, x)", "pow(x, 1)", "put(x, i, x.take(i))",
        "quantile(x, 0.5)", "randint(9, (len(x),))", "randperm(len(x))", "repeat_interleave(x, 2)",
        "repeat_interleave(x, k % 3)", "rrelu(x, training=True)", "scatter(x, 0, i, y)",
        "searchsorted(y.sort()[0], x)", "sort(k)[0]", "stack((x, x, x, x, x, x, x, x))",
        "std_mean(x)", "take(x, i)", "topk(k, 10)[0]", "trapezoid(x)", "unique_consecutive(k)",
        "vdot(x, y)", "vstack((x, y))", "x.bernoulli_(0.3)", "x.bfloat16().float()", "x.cauchy_()",
        "x.clamp_(0.2, 0.7)", "x.double()", "x.eq_(y)", "x.exponential_()", "x.geometric_(0.3)",
        "x.half()", "x.index_fill_(0, i, 0.5)", "x.masked_fill_(b, 0.5)", "x.masked_scatter_(b, y)",
        "x.neg_()", "x.normal_()", "x.pow_(1)", "x.put_(i, y, True)", "x.random_(0, 100)",
        "x.sigmoid_()", "x.tolist()", "x.uniform_()", "x.where(b, y)", "xlogy(x, y)",
        "zeros(len(x))",
    ),
    "matrix": (
        "aminmax(x, dim=1)", "all(b, 1)", "any(b, 0)", "block_diag(x, y)", "cdist(x, y)",
        "chunk(x, 4)", "corrcoef(x)", "cov(x)", "cummax(x, 1)[0]", "cummin(x, 0)[0]",
        "embedding_bag(j, x)", "index_copy(x, 0, u, y)", "index_fill(x, 1, i, 0.5)",
        "movedim(x, 0, 1)", "multinomial(x, 2)", "nonzero(b)", "pdist(x)", "renorm(x, 2, 0, 1.0)",
        "split(x, 3)", "tril_indices(*x.shape)", "triu_indices(*x.shape)", "unbind(x)", "vander(r)",
        "var_mean(x, 1)", "x.argmax(0)", "x.argmax(1)", "x.argsort(dim=1, stable=True)",
        "x.fill_diagonal_(1.0)", "x.index_put_((i, i), r)", "x.kthvalue(5, 1)[0]", "x.median(1)[0]",
        "x.mode(1)[0]", "x.scatter(0, j, y)", "x.sort(1)[0]", "x.topk(5, 1)[0]", "x.tril_()",
        "x.triu_()", "x[i, i]",
    ),
    "images": (
        "channel_shuffle(x, 2)", "unfold(x, 3)", "pixel_unshuffle(x[..., :4, :4], 2)",
        "fold(unfold(x, 2, stride=2), [n // 2 * 2 for n in x.shape[2:]], 2, stride=2)",
    ),
    "products": (
        "addmm(r, x, y)", "chain_matmul(x, y, x)", "det(x)", "inner(x, y)", "inverse(x)",
        "tensordot(x, y, 1)", "x.addmm_(y, y)",
    ),
}  # fmt: skip
# Of few elements, whatever the size of the others.
OF_FEW = (
    "combinations(x[:45])", "diag_embed(x[:32])", "kron(x[:32], y[:32])", "outer(x[:32], y[:32])",
)  # fmt: skip


BY_OPERATOR = ("div", "eq", "ge", "gt", "le", "lt", "mul", "ne", "sub")  # rows write those
LEFT_OUT = ("fractional_max_pool2d",)  # which draws its windows


def calls() -> Iterator[Call]:
    """Yield every call: those on few elements, then each op at each size."""
    for row in FEW:
        yield Call(*row)
    yield Call("add 4096x4096", "x + y", "matrix", 4096 * 4096, 3)
    groups = {"vector": POINTWISE, "matrix": MATRICES, "images": IMAGES, "products": PRODUCTS}
    for count in SIZES:
        for kind, expressions in groups.items():
            for text in expressions:
                whole = f"{text}(x)" if text.isidentifier() else text
                yield Call(f"{whole}, {kind} {count:,}", whole, kind, count, 0.9, True)
        rest = {**REST, "vector": (*REST["vector"], *WITHOUT_GRADIENT)}
        for kind, expressions in rest.items():
            for text in expressions:
                yield Call(f"{text}, {kind} {count:,}", text, kind, count, 0.9)
    for text in OF_FEW:
        yield Call(f"{text}, vector {SIZES[0]:,}", text, "vector", SIZES[0], 0.9)
