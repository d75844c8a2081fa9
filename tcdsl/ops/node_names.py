"""What the nodes of recorded calls are called: as PyTorch calls those of its own functions.

Scripts print them with every tensor that has a gradient. An op's node is called as its text unless
something else stands here; functions that are made of several ops name the last one (`made_by`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tcdsl.core import Tensor

_SAID = {
    **dict.fromkeys(("bag_max", "bag_mean", "bag_sum", "bag_weighted"), "EmbeddingBagBackward0"),
    "add_scaled": "AddBackward0",
    **{
        f"{name}_scaled": f"{name.title()}Backward0"
        for name in ("addbmm", "addmm", "addmv", "addr", "baddbmm")
    },
    "bce": "BinaryCrossEntropyBackward0",
    "bce_with_logits": "BinaryCrossEntropyWithLogitsBackward0",
    "bce_with_logits_weighted": "BinaryCrossEntropyWithLogitsBackward0",
    "cast": "ToCopyBackward0",
    "cdist2": "CdistBackward0",
    "celu": "CeluBackward0",
    "chosen": "WhereBackward0",
    "clamp_to": "ClampBackward1",
    "conv": "ConvolutionBackward0",
    "conv_bias": "ConvolutionBackward0",
    "conv_transposed": "ConvolutionBackward0",
    "conv_transposed_bias": "ConvolutionBackward0",
    "cosine_similarity": "SumBackward1",
    "ctc": "CtcLossBackward0",
    "cube": "PowBackward0",
    "cummax_of_rows": "CummaxBackward0",
    "cummin_of_rows": "CumminBackward0",
    "d_cube": "MulBackward0",
    "d_square": "MulBackward0",
    "deg2rad": "Deg2RadBackward0",
    "bilinear": "ViewBackward0",
    "element": "MedianBackward0",
    "entr": "SpecialEntrBackward0",
    "each_i0e": "SpecialI0EBackward0",
    "each_i1": "SpecialI1Backward0",
    "each_i1e": "SpecialI1EBackward0",
    "each_affine_grid": "AffineGridGeneratorBackward0",
    "fill": "FillBackward2",
    "gelu_slope": "GeluVjpBackward0",
    "ger": "MulBackward0",
    "itself": "PowBackward0",
    "huber": "HuberLossBackward0",
    "l1": "AbsBackward0",
    "log1p": "Log1PBackward0",
    "logsigmoid": "LogSigmoidBackward0",
    "matmul": "UnsafeViewBackward0",
    "max_with_indices": "MaxBackward0",
    "min_with_indices": "MinBackward0",
    "mse": "MseLossBackward0",
    "plus": "AddBackward0",
    "prelu": "PreluKernelBackward0",
    "prelu_of_one": "PreluKernelBackward0",
    "smooth_l1": "SmoothL1LossBackward0",
    "soft_margin": "SoftMarginLossBackward0",
    "softsign": "DivBackward0",
    "square": "PowBackward0",
    **dict.fromkeys(("round_before", "round_behind"), "RoundBackward1"),
    "sub_scaled": "SubBackward0",
    "tanhshrink": "SubBackward0",
    "with_above": "DiagEmbedBackward0",
    "with_below": "DiagEmbedBackward0",
    **dict.fromkeys(("masked", "dropout", "dropout_runs"), "MulBackward0"),
    **dict.fromkeys(("masked_alpha", "alpha_dropout", "alpha_dropout_runs"), "AddBackward0"),
    **dict.fromkeys(
        ("norm0", "norm1", "norm2", "norm_p", "norm_inf", "norm_minus_inf"),
        "LinalgVectorNormBackward0",
    ),
}


class Composed(str):
    """The name of a node that stands for several of PyTorch's; `of`: which."""

    of: str


def _composed(of: str, *names: str) -> list[str]:
    made = [Composed(name) for name in names]
    for name in made:
        name.of = of
    return [*made]


_REDUCED = {"mean": "MeanBackward0", "sum": "SumBackward0"}
Operands = Sequence[Any]


def _pow(operands: Operands) -> str:
    base, exponent = operands[:2]
    return f"PowBackward{2 if not isinstance(base, Tensor) else int(isinstance(exponent, Tensor))}"


def _of_numbers(name: str, other: str) -> Callable[[Operands], str]:
    return lambda operands: name if isinstance(operands[0], Tensor) else other


def _by_rank(*names: str) -> Callable[[Operands], str]:
    """Return the name by the first operand's rank, the last one for all that are higher."""
    return lambda operands: names[min(operands[0].ndim, len(names) - 1)]


_NLL = *["NllLossBackward0"] * 3, "NllLoss2DBackward0"
_nll, _cross_entropy = _by_rank(*_NLL), _by_rank(*_composed("cross_entropy", *_NLL))
_BY_FORM: dict[str, Callable[[Operands], str]] = {
    "cross_entropy": _cross_entropy,
    "cross_entropy_mean": _cross_entropy,
    "cross_entropy_weighted_mean": _cross_entropy,
    "div": _of_numbers("DivBackward0", "MulBackward0"),
    "each_pow": _pow,
    "linear": _by_rank(
        "", *_composed("linear", "SqueezeBackward4", "MmBackward0", "UnsafeViewBackward0")
    ),
    "linear_bias": _by_rank(
        "", *_composed("linear", "ViewBackward0", "AddmmBackward0", "ViewBackward0")
    ),
    "nll": _nll,
    "nll_mean": _nll,
    "nll_weighted": _nll,
    "nll_weighted_mean": _nll,
    "sub": _of_numbers("SubBackward0", "RsubBackward1"),
}


def name_by_form(text: str, operands: Operands) -> str | None:
    """Return what a call is called where that follows from its operands, by its text."""
    named = _BY_FORM.get(text)
    return None if named is None else named(operands)


def node_name(op: str) -> str:
    """Return what the nodes of an op are called, whatever its operands."""
    plain = op.removesuffix("_")
    if said := _SAID.get(plain):
        return said
    parts = plain.removeprefix("each_").split("_")
    return "".join(part[:1].upper() + part[1:] for part in parts) + "Backward0"


def name_of_loss(elements: str, reduction: str) -> str:
    """Return what the nodes of a loss are called; of some, means and sums are ops in PyTorch."""
    name = node_name(elements)
    is_one = reduction == "none" or "Loss" in name or "CrossEntropy" in name
    return name if is_one else _REDUCED[reduction]
