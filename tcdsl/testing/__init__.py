"""Tensors to test with, and comparisons of them: `torch.testing`'s names."""

from tcdsl.calls.process.places import found_in
from tcdsl.testing.comparison import assert_close
from tcdsl.testing.creation import make_tensor

__all__ = ["assert_close", "make_tensor"]

found_in(__name__)
