"""Layers, losses, and what is done to them."""

from tcdsl.calls.process.places import found_in
from tcdsl.nn import attention, functional, init, parallel, utils
from tcdsl.nn.modules.activation import *  # noqa: F403  # each file lists its layers
from tcdsl.nn.modules.adaptive import *  # noqa: F403
from tcdsl.nn.modules.adaptive_softmax import *  # noqa: F403
from tcdsl.nn.modules.attention import *  # noqa: F403
from tcdsl.nn.modules.container import *  # noqa: F403
from tcdsl.nn.modules.conv import *  # noqa: F403
from tcdsl.nn.modules.distance import *  # noqa: F403
from tcdsl.nn.modules.dropout import *  # noqa: F403
from tcdsl.nn.modules.lazy import *  # noqa: F403
from tcdsl.nn.modules.linear import *  # noqa: F403
from tcdsl.nn.modules.loss import *  # noqa: F403
from tcdsl.nn.modules.loss_modern import *  # noqa: F403
from tcdsl.nn.modules.modern import *  # noqa: F403
from tcdsl.nn.modules.module import Module
from tcdsl.nn.modules.norms import *  # noqa: F403
from tcdsl.nn.modules.padding import *  # noqa: F403
from tcdsl.nn.modules.patches import *  # noqa: F403
from tcdsl.nn.modules.pooling import *  # noqa: F403
from tcdsl.nn.modules.rnn import *  # noqa: F403
from tcdsl.nn.modules.rnn_cells import *  # noqa: F403
from tcdsl.nn.modules.running_norms import *  # noqa: F403
from tcdsl.nn.modules.shapes import *  # noqa: F403
from tcdsl.nn.modules.sparse import *  # noqa: F403
from tcdsl.nn.modules.tc import TC, autotune
from tcdsl.nn.modules.transformer import *  # noqa: F403
from tcdsl.nn.parallel import DataParallel
from tcdsl.nn.parameter import (
    Buffer,
    Parameter,
    UninitializedBuffer,
    UninitializedParameter,
)

__all__ = [
    "TC",
    "Buffer",
    "DataParallel",
    "Module",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "autotune",
    "attention",
    "functional",
    "init",
    "parallel",
    "utils",
]

found_in(__name__, globals())
