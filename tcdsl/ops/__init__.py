"""The ops of the tensor library: texts, rows of a table, and what the table means."""

from tcdsl.core import Tensor
from tcdsl.ops import internal, kernels, view_writes  # what the core is set up with

__all__ = ["Tensor", "internal", "kernels", "view_writes"]
