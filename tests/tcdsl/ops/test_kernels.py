"""Ops compute by kernels of ours: NumPy holds memory, and computes nothing."""

from __future__ import annotations

import ast
import json
import subprocess
import sys

import pytest

from tcdsl import nn
from tcdsl.ops.table import PUBLIC
from tests.tcdsl.ops.calls import FOLDER

pytestmark = pytest.mark.cc

# Every ufunc of NumPy, and what computes beside them, raises; each op is called with the first of
# its samples, and some launcher must have run an entry.
WITHOUT_NUMPY = """
import gc, json
import numpy as np
from tcdsl import library, optim
from tcdsl.nn import functional as F
from tcdsl.ops.table import METHODS
from tests.tcdsl.ops.test_kernels import EXCUSED, MORE, OPTIMIZERS
from tcdsl.codegen.runtime import Launcher
from tcdsl.codegen.toolchain.source import Source
users = Source.all_flags  # kernels whose meaning alone is asked for: as in other tests
Source.all_flags = lambda source, compiler: tuple(
    "-Og" if f == "-O3" else f for f in users(source, compiler)
)
seen = {}  # kept, so that none takes its count along
def runs():
    seen.update((id(o), o) for o in gc.get_objects() if type(o) is Launcher)
    return sum(o.calls for o in seen.values())
from tests.tcdsl.ops.calls import each, ours, tensor
from tests.tcdsl.ops.further import FURTHER
from tests.tcdsl.ops.samples import FAMILIES
first = {}
for family in (*FAMILIES, *FURTHER):
    for sample in family():
        if sample.name not in EXCUSED:
            operands = each((sample.args, sample.kwargs), tensor)
            first.setdefault(sample.name, (sample, operands))
X = tensor(np.random.default_rng(0).uniform(0.1, 1, (3, 4)))
I, M = tensor(np.array([0, 2, 1])), tensor(np.ones((3, 4), bool))
def refused(*args, **kwargs):
    raise AssertionError("NumPy computes")
COMPUTING = (
    "einsum matmul dot tensordot inner outer vdot sum prod mean std var min max amin amax argmin "
    "argmax sort argsort cumsum cumprod where take choose compress select place put clip round any "
    "all put_along_axis take_along_axis concatenate stack tile repeat pad roll flip tril triu "
    "cross convolve interp linspace diff bincount histogram"
).split()
for name in {*COMPUTING, *(n for n in dir(np) if isinstance(getattr(np, n), np.ufunc))}:
    setattr(np, name, refused)
def walk(name, call):
    before = runs()
    try:
        call()
        if runs() == before:
            call()  # the first call of a form is counted by nobody
    except Exception as error:
        faults.append(f"{name}: {error!r}"[:300])
        return
    if runs() == before:
        faults.append(f"{name} ran no kernel")
faults = []
for name, (sample, (args, kwargs)) in first.items():
    walk(name, lambda: ours(name)(*args, **kwargs))
written = []  # what is written in place, by the operands of what is not
for name, (sample, (args, kwargs)) in first.items():
    method = METHODS.get(f"{name}_")
    if method is None or not args or not hasattr(args[0], "dtype"):
        continue
    target = ours(name)(*args, **kwargs)
    if not hasattr(target, "dtype") or target.shape != args[0].shape:
        continue
    if target.dtype.category > args[0].dtype.category:
        continue
    walk(f"{name}_", lambda: method(args[0].detach().clone(), *args[1:], **kwargs))
    written.append(f"{name}_")
for name in MORE:
    walk(name, lambda: eval(MORE[name], {"t": library, "F": F, "X": X, "I": I, "M": M}))
for kind in OPTIMIZERS:
    p = X.detach().clone().requires_grad_()
    (p * p).sum().backward()
    step = getattr(optim, kind)([p], lr=0.1).step
    old = p.tolist()
    step(lambda: (p * p).sum()) if kind == "LBFGS" else step()
    if p.tolist() == old:
        faults.append(f"{kind} changed nothing")
if faults:
    raise SystemExit("\\n".join(faults))
print(json.dumps([*first, *written, *MORE, *OPTIMIZERS]))
"""
HEADS = (
    "F.multi_head_attention_forward(*[X[None]] * 3, 4, 2, X[0].repeat(3, 4).view(12, 4), None, "
    "None, None, False, 0.0, X[:1, :1].repeat(4, 4), None)"
)
# What has no sample of its own: X is (3, 4) of floats, I three integers, M a mask of X's shape.
MORE = {
    "dropout": "F.dropout(X)", "dropout1d": "F.dropout1d(X)",
    "alpha_dropout": "F.alpha_dropout(X, training=True)",
    "feature_alpha_dropout": "F.feature_alpha_dropout(X[None], training=True)",
    "ctc_loss": "F.ctc_loss(X[:, None].log_softmax(2), I[None, 1:], [3], [2])",
    "dropout2d": "F.dropout2d(X[None, None])", "dropout3d": "F.dropout3d(X[None, None, None])",
    "embedding": "F.embedding(I, X)", "embedding_bag": "F.embedding_bag(I[None], X)",
    "one_hot": "F.one_hot(I, 3)", "rrelu": "F.rrelu(X, training=True)",
    "gather": "X.gather(0, I[None])", "scatter": "t.scatter(X, 0, I[None], X[:1])",
    "scatter_add": "t.scatter_add(X, 0, I[None], X[:1])", "take": "t.take(X, I)",
    "index_add": "t.index_add(X, 0, I, X)", "index_copy": "t.index_copy(X, 0, I, X)",
    "index_fill": "t.index_fill(X, 0, I, 2.0)", "index_select": "t.index_select(X, 0, I)",
    "masked_fill": "t.masked_fill(X, M, 1.0)", "full": "t.full((3,), 2.0)", "eye": "t.eye(3)",
    "rnn_tanh_cell": "t.rnn_tanh_cell(X, X, X.T @ X, X.T @ X)",
    "rnn_relu_cell": "t.rnn_relu_cell(X, X, X.T @ X, X.T @ X)",
    "gru_cell": "t.gru_cell(X, X, *[(X.T @ X).repeat(3, 1)] * 2)",
    "lstm_cell": "t.lstm_cell(X, (X, X), *[(X.T @ X).repeat(4, 1)] * 2)",
    "clone": "X.clone()", "ones": "t.ones(3)", "zeros": "t.zeros(3)", "arange": "t.arange(4)",
    "linspace": "t.linspace(0, 1, 5)", "logspace": "t.logspace(0, 1, 5)", "rand": "t.rand(3)",
    "randn": "t.randn(3)", "randint": "t.randint(9, (3,))", "bernoulli": "t.bernoulli(X.sigmoid())",
    "poisson": "t.poisson(X.abs() + 8)", "binomial": "t.binomial(X.abs().ceil(), X.sigmoid())",
    "renorm": "t.renorm(X, 2, 0, 0.1)", "trace": "t.trace(X)", "equal": "t.equal(X, X)",
    "allclose": "t.allclose(X, X)", "histc": "t.histc(X)", "hann_window": "t.hann_window(8)",
    "hamming_window": "t.hamming_window(8)", "bartlett_window": "t.bartlett_window(8)",
    "blackman_window": "t.blackman_window(8)",
    "rfft": "t.rfft(X, 1)", "irfft": "t.irfft(t.rfft(X, 1), 1)", "fft": "t.fft(X[:, :2], 1)",
    "ifft": "t.ifft(X[:, :2], 1)", "stft": "t.stft(X, 3, 1)", "outer": "t.outer(X[0], X[1])",
    "floor_divide": "X // 2.0", "upsample": "F.upsample(X[None], scale_factor=2)",
    "upsample_nearest": "F.upsample_nearest(X[None], scale_factor=2)",
    "upsample_bilinear": "F.upsample_bilinear(X[None, None], scale_factor=2)",
    "bincount": "t.bincount(I)", "histogram": "t.histogram(X, 3)", "angle": "t.angle(X)",
    "histogramdd": "t.histogramdd(X[:, :2], [2, 2])", "isreal": "t.isreal(X)",
    "fill": "t.fill(X, 2.0)", "multi_head_attention_forward": HEADS,
    "getitem": "X[I]", "setitem": "X.__setitem__(I, 1.0)",
    "channel_shuffle": "F.channel_shuffle(X.reshape(1, 4, 3, 1), 2)",
    "pixel_unshuffle": "F.pixel_unshuffle(X[None, None, :2], 2)",
    "fold": "F.fold(X[None], (2, 2), (1, 1))", "unfold": "F.unfold(X[None, None], (2, 2))",
    "gaussian_nll_loss": "F.gaussian_nll_loss(X, X, X)", "gumbel_softmax": "F.gumbel_softmax(X)",
    "rms_norm": "F.rms_norm(X, (4,))",
    "scaled_dot_product_attention": "F.scaled_dot_product_attention(*[X[None]] * 3)",
    "scatter_reduce": "t.scatter_reduce(X, 0, I[None], X[:1], 'sum')",
    "index_reduce": "t.index_reduce(X, 0, I, X, 'prod')", "vdot": "t.vdot(X[0], X[1])",
    "is_nonzero": "t.is_nonzero(X[0, 0] * 2)", "index_put": "t.index_put(X, (I,), X)",
    "matrix_exp": "t.matrix_exp(X[:, :3])", "pdist": "t.pdist(X)",
    "triplet_margin_with_distance_loss": "F.triplet_margin_with_distance_loss(X, X + 1, X - 1)",
    "as_strided_copy": "t.as_strided_copy(X, (2,), (1,))", "diagonal_copy": "t.diagonal_copy(X)",
    "expand_copy": "t.expand_copy(X, (2, 3, 4))", "permute_copy": "t.permute_copy(X, (1, 0))",
    "select_copy": "t.select_copy(X, 0, 1)", "split_copy": "t.split_copy(X, 2)",
    "squeeze_copy": "t.squeeze_copy(X)", "t_copy": "t.t_copy(X)",
    "transpose_copy": "t.transpose_copy(X, 0, 1)", "unbind_copy": "t.unbind_copy(X)",
    "unfold_copy": "t.unfold_copy(X, 0, 2, 1)", "unsqueeze_copy": "t.unsqueeze_copy(X, 0)",
    "view_copy": "t.view_copy(X, (12,))", "constant_pad_nd": "t.constant_pad_nd(X, (1, 1))",
    "frobenius_norm": "t.frobenius_norm(X, 1)", "kaiser_window": "t.kaiser_window(8)",
}  # fmt: skip
OPTIMIZERS = "SGD Adam AdamW Adamax Adagrad Adadelta RMSprop Rprop ASGD LBFGS".split()  # noqa: SIM905
# Public names that run no kernel of their own, or whose work is allowed to be another's.
ORDERS = (
    "argsort kthvalue median mode multinomial nonzero randperm sort topk unique masked_select "
    "msort quantile nanquantile isin argwhere repeat_interleave unique_consecutive bucketize "
    "searchsorted nanmedian"
)
LAPACKS = (
    "btrifact btrifact_with_info btrisolve btriunpack cholesky cholesky_inverse "
    "cholesky_solve det eig gels geqrf gesv inverse logdet matrix_power orgqr "
    "ormqr pinverse potrf potri potrs pstrf qr slogdet svd symeig trtrs svd_lowrank pca_lowrank "
    "lu lu_solve lu_unpack triangular_solve nuclear_norm"
)
VIEWS = (
    "movedim moveaxis swapaxes swapdims ravel unflatten tensor_split hsplit vsplit dsplit "
    "broadcast_tensors broadcast_to meshgrid atleast_1d atleast_2d atleast_3d adjoint "
    "as_strided chunk diagonal flatten narrow permute reshape select split squeeze t transpose "
    "unbind unsqueeze split_with_sizes detach conj conj_physical real resolve_conj resolve_neg"
)
MAKING = (
    "as_tensor asarray frombuffer empty empty_like from_dlpack from_numpy full_like masked_scatter "
    "normal ones_like rand_like randint_like randn_like range scalar_tensor tensor zeros_like "
    "diag diagflat put "
    "tril_indices triu_indices"
)
SAYING = (
    "can_cast get_device typename get_default_device get_default_dtype is_storage is_tensor numel "
    "promote_types set_default_device set_default_dtype "
    "set_default_tensor_type set_flush_denormal set_printoptions broadcast_shapes finfo iinfo "
    "is_floating_point positive result_type imag is_complex is_conj is_neg is_signed"
)
EXCUSED = {*" ".join((ORDERS, LAPACKS, VIEWS, MAKING, SAYING)).split()}


@pytest.mark.wide
def test_every_op_runs_kernels_where_numpy_computes_nothing() -> None:
    run = [sys.executable, "-c", WITHOUT_NUMPY]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    walked = {*json.loads(done.stdout)}
    same = {id(PUBLIC[n]) for n in walked | EXCUSED if n in PUBLIC}  # aliases are walked too
    left = {n for n, op in PUBLIC.items() if n not in walked | EXCUSED and id(op) not in same}
    left |= {*nn.functional.__all__} - walked - EXCUSED - {*PUBLIC}
    assert {n for n in left if not n.endswith(("_", "Tensor"))} == set()
    assert len(walked) > 280


ARRAYS = {  # what binds operands; what orders elements; what LAPACK takes
    "typed.py",
    "forms.py",  # what is written to
    "device_calls.py",  # numbers beside tensors on a GPU
    "on_device.py",  # what is moved there
    "arguments.py",  # sizes, places and parts that a call names by a tensor
    "masks.py",  # what is compacted: places of what is true
    "retyped.py",  # whose bytes are looked at as another type
    "embeddings.py",  # where bags begin; which rows are looked up
    "sorting.py",
    "order_statistics.py",
    "matrices.py",
    "inverses.py",  # what LAPACK has factored
    "turns.py",  # how many numbers draws took
}


def test_no_family_takes_elements_out_of_tensors() -> None:
    for path in FOLDER.glob("*.py"):
        if path.name in ARRAYS:
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                where = f"{path.name}:{node.lineno}"
                assert node.func.attr not in ("_array", "numpy", "tolist"), where
