"""Errors of calls have PyTorch's words and its very class: scripts compare both."""

from __future__ import annotations

from typing import Any

import pytest

from tcdsl import library, nn

u: Any = library
F: Any = nn.functional
pytestmark = pytest.mark.cc

X, Y, V = u.ones(2, 3), u.ones(2, 3, 4), u.ones(3)
D, N, IMAGE = V.double(), u.tensor([0, 1, 2]), u.ones(1, 3, 8, 8)
WORDS: list[tuple[str, type[Exception], str]] = [
    ("F.bilinear(X, X, u.ones(2, 3, 4))", RuntimeError,
     "bilinear(): input2 size does not match weight size: got 3 but expected 4"),
    ("F.pad(u.ones(1, 2, 0), (1, 1), mode='replicate')", RuntimeError,
     "Expected 2D or 3D (batch mode) tensor with possibly 0 batch size and other non-zero "
     "dimensions for input, but got: [1, 2, 0]"),
    ("F.grid_sample(u.ones(1, 1, 0, 3), u.ones(1, 2, 2, 2), align_corners=False)", RuntimeError,
     "grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes "
     "[1, 1, 0, 3] with dimension 2 being empty"),
    ("F.interpolate(u.ones(1, 2, 0), size=4)", RuntimeError,
     "Input and output sizes should be greater than 0, but got input (W: 0) and output (W: 4)"),
    ("u.relu(3)", TypeError, "relu(): argument 'input' (position 1) must be Tensor, not int"),
    ("V.dot(D)", RuntimeError,
     "dot : expected both vectors to have same dtype, but found Float and Double"),
    ("X.mm(X.double().t())", RuntimeError,
     "expected m1 and m2 to have the same dtype, but got: float != double"),
    ("u.bmm(Y, Y.mT.double())", RuntimeError, "expected scalar type Float but found Double"),
    ("Y @ Y", RuntimeError,
     "Expected size for first two dimensions of batch2 tensor to be: [2, 4] but got: [2, 3]."),
    ("F.linear(X, X, u.ones(4))", RuntimeError,
     "The expanded size of the tensor (2) must match the existing size (4) at non-singleton "
     "dimension 1.  Target sizes: [2, 2].  Tensor sizes: [4]"),
    ("u.softmax(N, 0)", NotImplementedError,
     "\"softmax_lastdim_kernel_impl\" not implemented for 'Long'"),
    ("V & V", NotImplementedError, "\"bitwise_and_cpu\" not implemented for 'Float'"),
    ("V[u.tensor([7])]", IndexError, "index 7 is out of bounds for dimension 0 with size 3"),
    ("F.embedding(u.tensor([7]), X)", IndexError, "index out of range in self"),
    ("V.__setitem__(slice(0, 2), u.ones(4))", RuntimeError,
     "The expanded size of the tensor (2) must match the existing size (4) at non-singleton "
     "dimension 0.  Target sizes: [2].  Tensor sizes: [4]"),
    ("u.gather(X, 0, u.zeros(2, 5).long())", RuntimeError,
     "Size does not match at dimension 1 expected index [2, 5] to be no larger than self [2, 3] "
     "apart from dimension 0"),
    ("X.index_add(0, N, X)", RuntimeError,
     "index_add_(): Number of indices (3) should be equal to source.size(dim): (2), for dim: 0"),
    ("u.cat(V)", TypeError,
     "cat(): argument 'tensors' (position 1) must be tuple of Tensors, not Tensor"),
    ("u.cat([V.sum(), V.sum()])", RuntimeError,
     "zero-dimensional tensor (at position 0) cannot be concatenated"),
    ("F.max_pool2d(IMAGE, 9)", RuntimeError,
     "Given input size: (3x8x8). Calculated output size: (3x0x0). Output size is too small"),
    ("nn.Conv2d(3, 2, 1)(IMAGE.double())", RuntimeError,
     "Input type (double) and bias type (float) should be the same"),
    ("F.cross_entropy(X, N[:2], weight=u.ones(4))", RuntimeError,
     "weight tensor should be defined either for all 3 classes or no classes but got weight tensor "
     "of shape: [4]"),
    ("F.binary_cross_entropy_with_logits(V, N)", RuntimeError,
     "result type Float can't be cast to the desired output type Long"),
    ("F.one_hot(V)", RuntimeError,
     "one_hot is only applicable to index tensor of type LongTensor."),
    ("u.allclose(V, D)", RuntimeError, "Float did not match Double"),
    ("V.no_such_name", AttributeError, "'Tensor' object has no attribute 'no_such_name'"),
    ("u.tensor([300], dtype=u.uint8)", RuntimeError,
     "value cannot be converted to type uint8 without overflow"),
    ("u.tensor([None])", RuntimeError, "Could not infer dtype of NoneType"),
]  # fmt: skip


def test_errors_are_pytorchs() -> None:
    for call, kind, words in WORDS:
        with pytest.raises(kind) as caught:
            eval(call)
        assert (type(caught.value), str(caught.value)) == (kind, words), call


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmin"])
def test_a_dimension_that_was_not_said_warns_where_it_was_not(name: str) -> None:
    with pytest.warns(UserWarning, match=f"Implicit dimension choice for {name}") as found:
        getattr(F, name)(X)
    assert [w.filename for w in found] == [__file__]
