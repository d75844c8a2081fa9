"""The names of the tensor library, which are loaded at their first use."""

from __future__ import annotations

ROOMS = frozenset(
    (
        "amp",
        "autograd",
        "backends",
        "cuda",
        "distributions",
        "func",
        "linalg",
        "nn",
        "optim",
        "profiler",
        "random",
        "serialization",
        "special",
        "testing",
        "utils",
    )
)
_WORDS = """
    BFloat16Tensor BoolTensor ByteTensor CharTensor DoubleTensor FloatTensor Generator
    HalfTensor IntTensor LongTensor ShortTensor Size Tensor abs abs_ absolute absolute_ acos
    acos_ acosh acosh_ adaptive_avg_pool1d adaptive_max_pool1d add add_ addbmm addcdiv
    addcmul addmm addmv addr adjoint all allclose alpha_dropout amax amin aminmax angle any
    arange arccos arccos_ arccosh arccosh_ arcsin arcsin_ arcsinh arcsinh_ arctan arctan2
    arctan2_ arctan_ arctanh arctanh_ are_deterministic_algorithms_enabled argmax argmin
    argsort argwhere as_strided as_strided_copy as_tensor asarray asin asin_ asinh asinh_
    atan atan2 atan2_ atan_ atanh atanh_ atleast_1d atleast_2d atleast_3d autocast
    autocast_decrement_nesting autocast_increment_nesting avg_pool1d baddbmm bartlett_window
    batch_norm bernoulli bfloat16 bilinear bincount binomial bitwise_and bitwise_and_
    bitwise_left_shift bitwise_left_shift_ bitwise_not bitwise_or bitwise_or_
    bitwise_right_shift bitwise_right_shift_ bitwise_xor bitwise_xor_ blackman_window
    block_diag bmm bool broadcast_shapes broadcast_tensors broadcast_to btrifact
    btrifact_with_info btrisolve btriunpack bucketize can_cast cartesian_prod cat cdist ceil
    ceil_ celu celu_ chain_matmul channel_shuffle channels_last channels_last_3d cholesky
    cholesky_inverse cholesky_solve chunk clamp clamp_ clamp_max clamp_max_ clamp_min
    clamp_min_ clear_autocast_cache clip clip_ clone column_stack combinations compile
    concat concatenate conj conj_physical constant_pad_nd contiguous_format conv1d conv2d
    conv3d conv_transpose1d conv_transpose2d conv_transpose3d copysign copysign_ corrcoef
    cos cos_ cosh cosh_ cosine_similarity count_nonzero cov cross ctc_loss cummax cummin
    cumprod cumsum cumulative_trapezoid default_generator deg2rad deg2rad_ det detach device
    diag diag_embed diagflat diagonal diagonal_copy diagonal_scatter diff digamma digamma_
    dist div div_ divide divide_ dot double dropout dsplit dstack dtype e eig einsum
    embedding empty empty_like enable_grad eq equal erf erf_ erfc erfc_ erfinv erfinv_ exp
    exp2 exp2_ exp_ expand_copy expm1 expm1_ eye feature_alpha_dropout fft fill finfo fix
    fix_ flatten flip fliplr flipud float float16 float32 float64 float_power floor floor_
    floor_divide fmax fmin fmod fmod_ fork_rng frac frac_ frexp frobenius_norm from_dlpack
    from_numpy frombuffer full full_like gather gcd gcd_ ge gels geqrf ger gesv
    get_autocast_cpu_dtype get_autocast_dtype get_autocast_gpu_dtype get_default_device
    get_default_dtype get_device get_float32_matmul_precision get_rng_state gradient greater
    greater_equal group_norm gru_cell gt half hamming_window hann_window hardshrink
    heaviside histc histogram histogramdd hsplit hstack hypot hypot_ i0 i0_ ifft igamma
    igammac iinfo imag index_add index_copy index_fill index_put index_put_ index_reduce
    index_select inf inference_mode initial_seed inner instance_norm int int16 int32 int64
    int8 inverse irfft is_autocast_cache_enabled is_autocast_cpu_enabled is_autocast_enabled
    is_complex is_conj is_floating_point is_grad_enabled is_inference
    is_inference_mode_enabled is_neg is_nonzero is_signed is_storage is_tensor isclose
    isfinite isin isinf isnan isneginf isposinf isreal kaiser_window kron kthvalue
    layer_norm lcm lcm_ ldexp le lerp lerp_ less less_equal lgamma lgamma_ linspace load log
    log10 log10_ log1p log1p_ log2 log2_ log_ log_softmax logaddexp logaddexp2 logcumsumexp
    logdet logical_and logical_not logical_or logical_xor logit logit_ logspace logsumexp
    long lstm_cell lt lu lu_solve lu_unpack manual_seed masked_fill masked_scatter
    masked_select matmul matrix_exp matrix_power max max_pool1d max_pool2d max_pool3d
    maximum mean median memory_format meshgrid min minimum mm mode moveaxis movedim msort
    mul mul_ multinomial multiply multiply_ mv mvlgamma nan nan_to_num nan_to_num_ nanmean
    nanmedian nanquantile nansum narrow narrow_copy ne neg neg_ negative negative_ nextafter
    nextafter_ no_grad nonzero norm normal not_equal nuclear_norm numel ones ones_like orgqr
    ormqr outer pairwise_distance pca_lowrank pdist permute permute_copy pi pinverse
    pixel_shuffle pixel_unshuffle poisson polygamma positive potrf potri potrs pow prelu
    preserve_format prod promote_types pstrf put qr quantile rad2deg rad2deg_ rand rand_like
    randint randint_like randn randn_like randperm range ravel real reciprocal reciprocal_
    relu relu_ remainder remainder_ renorm repeat_interleave reshape resolve_conj
    resolve_neg result_type rfft rms_norm rnn_relu_cell rnn_tanh_cell roll rot90 round
    round_ row_stack rrelu rrelu_ rsqrt rsqrt_ rsub save scalar_tensor scatter scatter_add
    scatter_reduce searchsorted seed segment_reduce select select_copy select_scatter selu
    selu_ set_autocast_cache_enabled set_autocast_cpu_dtype set_autocast_cpu_enabled
    set_autocast_dtype set_autocast_enabled set_autocast_gpu_dtype set_default_device
    set_default_dtype set_default_tensor_type set_float32_matmul_precision
    set_flush_denormal set_grad_enabled set_printoptions set_rng_state sgn short sigmoid
    sigmoid_ sign sign_ signbit sin sin_ sinc sinc_ sinh sinh_ slice_scatter slogdet softmax
    sort split split_copy split_with_sizes sqrt sqrt_ square square_ squeeze squeeze_copy
    stack std std_mean stft strided sub sub_ subtract subtract_ sum svd svd_lowrank swapaxes
    swapdims symeig t t_copy take take_along_dim tan tan_ tanh tanh_ tensor tensor_split
    tensordot threshold threshold_ tile topk trace transpose transpose_copy trapezoid trapz
    triangular_solve tril tril_indices triu triu_indices trtrs true_divide true_divide_
    trunc trunc_ typename uint8 unbind unbind_copy unflatten unfold_copy unique
    unique_consecutive unravel_index unsqueeze unsqueeze_copy use_deterministic_algorithms
    vander var var_mean vdot view_copy vmap vsplit vstack where xlogy xlogy_ zeros
    zeros_like
"""
LIBRARY = frozenset(_WORDS.split())
