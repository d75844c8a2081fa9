"""The walk-through of the first Tensor Comprehensions (2018), with only the import changed."""

import os
import tempfile
import warnings

import torch

import tcdsl.torch as tc  # was: import tensor_comprehensions as tc

MATMUL = """
def matmul(float(M,N) A, float(N,K) B) -> (output) {
  output(i, j) +=! A(i, kk) * B(kk, j)
}
"""
AVGPOOL = """
def avgpool(float(B, C, H, W) input) -> (output) {{
  output(b, c, h, w) +=! input(b, c, h * {sH} + kh, w * {sW} + kw) where kh in 0:{kH}, kw in 0:{kW}
}}
"""
CONVOLUTION = """
def convolution(float(N,C,H,W) I, float(M,C,KH,KW) W1) -> (O) {{
  O(n, m, h, w) +=! I(n, c, {sh} * h + kh, {sw} * w + kw) * W1(m, c, kh, kw)
}}
def convolution_grad(float(N,C,H,W) I, float(M,C,KH,KW) W1, float(N,M,H,W) O_grad)
    -> (I_grad, W1_grad) {{
  I_grad(n, c, h, w) +=! O_grad(n, m, {sh} * h - kh, {sw} * w - kw) * W1(m, c, kh, kw)
  W1_grad(m, c, kh, kw) +=! O_grad(n, m, {sh} * h - kh, {sw} * w - kw) * I(n, c, h, w)
}}
"""
warnings.simplefilter("ignore")  # what has no effect any more says so once
torch.manual_seed(0)

# A layer, and its first call
matmul = tc.define(MATMUL, name="matmul")
mat1, mat2 = torch.randn(3, 4), torch.randn(4, 5)
out = matmul(mat1, mat2)
torch.testing.assert_close(out, mat1 @ mat2)
print("matmul", tuple(out.shape))

# Mapping options are taken, and not needed
torch.testing.assert_close(matmul(mat1, mat2, options=tc.Options("mlp")), out)

# Tune, for tensors or for sizes alone; here in the settings of a hurry
with tempfile.TemporaryDirectory() as folder:
    cache = os.path.join(folder, "matmul_3_4_5.tc")
    hurry = {**tc.autotuner_settings, "generations": 1, "pop_size": 2}
    best = matmul.autotune((3, 4), (4, 5), cache=cache, quiet=True, **hurry)
    matmul.autotune(mat1, mat2, cache=cache, quiet=True, generations=1, pop_size=2)
    torch.testing.assert_close(matmul(mat1, mat2, cache=cache, options=best), out)

# Constants
avgpool = tc.define(AVGPOOL, name="avgpool", constants={"sH": 1, "sW": 1, "kH": 2, "kW": 2})
ones = torch.ones(32, 3, 10, 10)
wanted = torch.nn.AvgPool2d(2, stride=1)(ones) * 4  # the text sums up
torch.testing.assert_close(avgpool(ones), wanted)

# Training, with a way back of one's own
convolution = tc.define(
    CONVOLUTION,
    training=True,
    name="convolution",
    backward="convolution_grad",
    constants={"sh": 1, "sw": 1},
)
image = torch.randn(32, 4, 14, 14, requires_grad=True)
weight = torch.nn.Parameter(torch.randn(16, 4, 1, 1))
convolution.autotune(image, weight, quiet=True, generations=1, pop_size=2)
convolution(image, weight)[0].sum().backward()
ours = image.grad, weight.grad
theirs = torch.autograd.grad(torch.nn.functional.conv2d(image, weight)[0].sum(), (image, weight))
torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
print("convolution trains with its own gradient")
