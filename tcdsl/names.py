"""The names of the tensor library, which are loaded at their first use."""

from __future__ import annotations

ROOMS = frozenset(("autograd", "cuda", "nn", "optim", "random", "serialization", "utils"))
_WORDS = """
    BFloat16Tensor BoolTensor ByteTensor CharTensor DoubleTensor FloatTensor Generator
    HalfTensor IntTensor LongTensor ShortTensor Size Tensor abs abs_ absolute absolute_ acos
    acos_ acosh acosh_ add add_ addbmm addcdiv addcmul addmm addmv addr all allclose
    alpha_dropout amax amin any arange arccos arccos_ arccosh arccosh_ arcsin arcsin_ arcsinh
    arcsinh_ arctan arctan2 arctan2_ arctan_ arctanh arctanh_ argmax argmin argsort as_strided
    as_tensor asin asin_ asinh asinh_ atan atan2 atan2_ atan_ atanh atanh_ avg_pool1d baddbmm
    bartlett_window batch_norm bernoulli bfloat16 bincount bitwise_and bitwise_and_
    bitwise_left_shift bitwise_left_shift_ bitwise_not bitwise_or bitwise_or_
    bitwise_right_shift bitwise_right_shift_ bitwise_xor bitwise_xor_ bmm bool btrifact
    btrifact_with_info btrisolve btriunpack can_cast cat ceil ceil_ celu celu_ cholesky chunk
    clamp clamp_ clip clip_ clone conv1d conv2d conv3d conv_transpose1d conv_transpose2d
    conv_transpose3d cos cos_ cosh cosh_ cosine_similarity cross cumprod cumsum
    default_generator det device diag diagflat diagonal dist div div_ divide divide_ dot double
    dropout dtype e eig einsum empty empty_like enable_grad eq equal erf erf_ erfc erfc_ erfinv
    erfinv_ exp exp_ expm1 expm1_ eye fft fix fix_ flatten flip float float16 float32 float64
    floor floor_ floor_divide fmod fmod_ fork_rng frac frac_ from_dlpack from_numpy full
    full_like gather ge gels geqrf ger gesv get_default_dtype get_rng_state greater
    greater_equal group_norm gt half hamming_window hann_window histc ifft index_add index_copy
    index_fill index_select inf initial_seed instance_norm int int16 int32 int64 int8 inverse
    irfft is_grad_enabled is_storage is_tensor isclose isfinite isinf isnan kthvalue layer_norm
    le lerp lerp_ less less_equal linspace load log log10 log10_ log1p log1p_ log2 log2_ log_
    log_softmax logdet logical_and logical_not logical_or logical_xor logspace logsumexp long
    lt manual_seed masked_fill masked_scatter masked_select matmul matrix_power max max_pool1d
    max_pool2d max_pool3d maximum mean median min minimum mm mode mul mul_ multinomial multiply
    multiply_ mv nan nansum narrow ne neg neg_ negative negative_ no_grad nonzero norm normal
    not_equal numel ones ones_like orgqr ormqr outer permute pi pinverse pixel_shuffle potrf
    potri potrs pow prelu prod promote_types pstrf put qr rand rand_like randint randint_like
    randn randn_like randperm range reciprocal reciprocal_ relu relu_ remainder remainder_
    renorm reshape rfft roll round round_ rrelu rrelu_ rsqrt rsqrt_ save scalar_tensor scatter
    scatter_add seed select selu selu_ set_default_dtype set_default_tensor_type
    set_flush_denormal set_grad_enabled set_printoptions set_rng_state short sigmoid sigmoid_
    sign sign_ sin sin_ sinh sinh_ slogdet softmax sort split sqrt sqrt_ square square_ squeeze
    stack std stft strided sub sub_ subtract subtract_ sum svd symeig t take tan tan_ tanh
    tanh_ tensor threshold threshold_ topk trace transpose tril triu trtrs true_divide
    true_divide_ trunc trunc_ uint8 unbind unique unsqueeze var where zeros zeros_like
"""
LIBRARY = frozenset(_WORDS.split())
