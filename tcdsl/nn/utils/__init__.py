"""What is done to parameters, gradients and sequences beside modules."""

from tcdsl.calls.process.places import found_in
from tcdsl.nn.utils import fusion, parametrizations, parametrize, prune, rnn, stateless
from tcdsl.nn.utils.clip import (
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
)
from tcdsl.nn.utils.fusion import (
    fuse_conv_bn_eval,
    fuse_conv_bn_weights,
    fuse_linear_bn_eval,
    fuse_linear_bn_weights,
)
from tcdsl.nn.utils.spectral_norm import remove_spectral_norm, spectral_norm
from tcdsl.nn.utils.undrawn import skip_init
from tcdsl.nn.utils.vectors import parameters_to_vector, vector_to_parameters
from tcdsl.nn.utils.weight_norm import remove_weight_norm, weight_norm

__all__ = [
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "fuse_conv_bn_eval",
    "fuse_conv_bn_weights",
    "fuse_linear_bn_eval",
    "fuse_linear_bn_weights",
    "fusion",
    "get_total_norm",
    "parameters_to_vector",
    "parametrizations",
    "parametrize",
    "prune",
    "remove_spectral_norm",
    "remove_weight_norm",
    "rnn",
    "skip_init",
    "spectral_norm",
    "stateless",
    "vector_to_parameters",
    "weight_norm",
]

found_in(__name__)
