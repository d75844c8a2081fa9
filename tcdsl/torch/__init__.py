"""Layers as text in PyTorch: `import tcdsl.torch as tct`."""

from tcdsl.torch import dynamo, nn
from tcdsl.torch.define import define, define_all
from tcdsl.torch.kernel import Kernel
from tcdsl.torch.tuning import Tuned, autotune

__all__ = ["Kernel", "Tuned", "autotune", "define", "define_all", "nn"]

dynamo.watch()
