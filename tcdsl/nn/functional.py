"""What layers compute, as functions: the ops of the library under the names of PyTorch's."""

from __future__ import annotations

from tcdsl.calls.process.places import found_in
from tcdsl.core import Tensor
from tcdsl.ops import activations
from tcdsl.ops.activations import (
    celu,
    celu_,
    elu,
    elu_,
    gelu,
    glu,
    hardshrink,
    hardsigmoid,
    hardswish,
    hardtanh,
    hardtanh_,
    leaky_relu,
    leaky_relu_,
    logsigmoid,
    mish,
    prelu,
    relu6,
    relu_,
    rrelu,
    rrelu_,
    selu,
    selu_,
    silu,
    softplus,
    softshrink,
    softsign,
    tanhshrink,
    threshold,
    threshold_,
)
from tcdsl.ops.adaptive import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
)
from tcdsl.ops.along import log_softmax, softmax, softmin
from tcdsl.ops.attention import scaled_dot_product_attention
from tcdsl.ops.between import pdist
from tcdsl.ops.class_losses import (
    cross_entropy,
    multi_margin_loss,
    multilabel_margin_loss,
    nll_loss,
)
from tcdsl.ops.composed import (
    gaussian_nll_loss,
    gumbel_softmax,
    rms_norm,
    triplet_margin_with_distance_loss,
)
from tcdsl.ops.convolutions import (
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
)
from tcdsl.ops.copies import pad
from tcdsl.ops.ctc import ctc_loss
from tcdsl.ops.distances import (
    cosine_embedding_loss,
    cosine_similarity,
    normalize,
    pairwise_distance,
    triplet_margin_loss,
)
from tcdsl.ops.dropout import (
    alpha_dropout,
    dropout,
    dropout1d,
    dropout2d,
    dropout3d,
    feature_alpha_dropout,
)
from tcdsl.ops.embeddings import embedding, embedding_bag, one_hot
from tcdsl.ops.fractional import fractional_max_pool2d
from tcdsl.ops.grids import affine_grid, grid_sample
from tcdsl.ops.heads import multi_head_attention_forward
from tcdsl.ops.losses import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    hinge_embedding_loss,
    huber_loss,
    kl_div,
    l1_loss,
    margin_ranking_loss,
    mse_loss,
    multilabel_soft_margin_loss,
    poisson_nll_loss,
    smooth_l1_loss,
    soft_margin_loss,
)
from tcdsl.ops.norms import batch_norm, group_norm, instance_norm, layer_norm, local_response_norm
from tcdsl.ops.patches import channel_shuffle, fold, pixel_shuffle, pixel_unshuffle, unfold
from tcdsl.ops.pointwise import sigmoid, tanh
from tcdsl.ops.pools import (
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    lp_pool1d,
    lp_pool2d,
    lp_pool3d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
    max_unpool1d,
    max_unpool2d,
    max_unpool3d,
)
from tcdsl.ops.products import bilinear, linear
from tcdsl.ops.resampling import (
    interpolate,
    upsample,
    upsample_bilinear,
    upsample_nearest,
)

__all__ = [
    "channel_shuffle",
    "fold",
    "gaussian_nll_loss",
    "gumbel_softmax",
    "pixel_unshuffle",
    "rms_norm",
    "scaled_dot_product_attention",
    "triplet_margin_with_distance_loss",
    "unfold",
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "affine_grid",
    "grid_sample",
    "interpolate",
    "upsample",
    "upsample_bilinear",
    "upsample_nearest",
    "alpha_dropout",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "bilinear",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "celu",
    "celu_",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cosine_embedding_loss",
    "cosine_similarity",
    "cross_entropy",
    "ctc_loss",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "feature_alpha_dropout",
    "elu",
    "elu_",
    "embedding",
    "embedding_bag",
    "fractional_max_pool2d",
    "gelu",
    "glu",
    "group_norm",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hardtanh_",
    "hinge_embedding_loss",
    "huber_loss",
    "instance_norm",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "leaky_relu_",
    "linear",
    "local_response_norm",
    "log_softmax",
    "logsigmoid",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "margin_ranking_loss",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
    "mish",
    "mse_loss",
    "multi_head_attention_forward",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "nll_loss",
    "normalize",
    "one_hot",
    "pad",
    "pairwise_distance",
    "pdist",
    "pixel_shuffle",
    "poisson_nll_loss",
    "prelu",
    "relu",
    "relu6",
    "relu_",
    "rrelu",
    "rrelu_",
    "selu",
    "selu_",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "soft_margin_loss",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
    "threshold_",
    "triplet_margin_loss",
]


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return ``max(x, 0)``; NaN stays NaN.

    Parameters
    ----------
    input : Tensor
    inplace : bool
        Whether it is written.
    """
    made: Tensor = activations.relu_(input) if inplace else activations.relu(input)
    return made


found_in(__name__)
