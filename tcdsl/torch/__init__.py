"""Layers as text in PyTorch: `import tcdsl.torch as tct`."""

from tcdsl.torch import installed  # noqa: F401 - says what to install, before the rest needs it

# isort: split
from tcdsl.layers.tuned import Tuned
from tcdsl.torch import dynamo, nn
from tcdsl.torch.compat import (
    Options,
    autotuner_settings,
    make_autograd,
    small_sizes_autotuner_settings,
)
from tcdsl.torch.define import define, define_all
from tcdsl.torch.kernel import Kernel
from tcdsl.torch.tuning import autotune

__all__ = [
    "Kernel",
    "Options",
    "Tuned",
    "autotune",
    "autotuner_settings",
    "define",
    "define_all",
    "make_autograd",
    "nn",
    "small_sizes_autotuner_settings",
]

dynamo.watch()
