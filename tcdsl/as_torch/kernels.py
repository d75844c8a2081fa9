"""What `tcdsl.torch` means to scripts: kernels and layers on the tensors that they have here."""

from tcdsl import nn
from tcdsl.definitions import define, define_all
from tcdsl.kernel import Kernel
from tcdsl.layers.tuned import Tuned
from tcdsl.nn import autotune

__all__ = ["Kernel", "Tuned", "autotune", "define", "define_all", "nn"]
