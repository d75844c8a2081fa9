"""What scripts that walk a graph see below a node: the edges that PyTorch's node of that name has.

Nodes have an edge for each operand, numbers and settings too, in the order of our texts; a linear
layer is one, a norm or a pool has one more that brings its operands into the shape of a text. Only
what is shown is arranged here, when it is asked for.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from tcdsl.core import Node
from tcdsl.ops.node_names import Composed

__all__ = ["Drawn", "edges_of"]

Edge = tuple[Any, int]
NOBODY: Edge = (None, 0)

# Nodes with so many edges though nobody asks for a gradient there; all others have one.
_SEVERAL = {
    2: "Add Sub Mul Div PowBackward1 Mm Bmm Mv Dot MseLoss SmoothL1Loss HuberLoss "
    "BinaryCrossEntropy BinaryCrossEntropyWithLogits Maximum Minimum Fmax Fmin Atan2 "
    "PreluKernel Cdist Lerp Hypot Logaddexp Xlogy Copysign Remainder Fmod Clamp",
    3: "Addmm Baddbmm Addbmm Addmv Addr Addcmul Addcdiv Convolution NativeBatchNorm "
    "NativeLayerNorm NativeGroupNorm BatchNorm LayerNorm GroupNorm",
    64: "Cat Stack",
}
_ARITY = {name: n for n, names in _SEVERAL.items() for name in names.split()}
# Those that lead elsewhere than to the first operands.
_PLACES = {
    "Where": (1, 2),
    "Embedding": (1,),
    "Scatter": (0, 2),
    "ScatterAdd": (0, 2),
    "IndexAdd": (0, 2),
    "IndexCopy": (0, 2),
    "RsubBackward1": (1,),
    "PowBackward2": (1,),
}
# Nodes over one that has another name here alone.
_OVER = {
    "NativeBatchNorm": "BatchNorm",
    "NativeLayerNorm": "LayerNorm",
    "NativeGroupNorm": "GroupNorm",
    "ConstantPadNd": "PadConstant",
    "MaxPool2DWithIndices": "MaxPool2d",
    "AvgPool2D": "AvgPool",
    "UpsampleNearest2D": "Enlarge",
    "Roll": "Roll",
}


class Drawn:
    """A node that PyTorch has and we have not, over others that are there.

    Parameters
    ----------
    edges : (node, number of its output) each
    """

    def __init__(self, *edges: Edge) -> None:
        self.next_functions = edges
        self.metadata: dict[Any, Any] = {}

    def name(self) -> str:
        """Return PyTorch's name of it."""
        return type(self).__name__

    def __repr__(self) -> str:
        return f"<{self.name()} object at {id(self):#x}>"


@functools.cache
def _kind(name: str) -> type[Drawn]:
    return type(name, (Drawn,), {"__module__": "builtins"})


def _drawn(name: str, *edges: Edge) -> Edge:
    return _kind(name)(*edges), 0


def edges_of(name: str, raw: Sequence[Edge]) -> tuple[Edge, ...]:
    """Return what is shown below a node of some name.

    Parameters
    ----------
    raw : (node, number of its output) for each operand
    """
    short = name.partition("Backward")[0]
    if isinstance(name, Composed):
        return _COMPOSED[name.of](name, *raw)
    inner = _OVER.get(short)
    below = raw[0][0] if raw else None
    if inner and isinstance(below, Node) and below.name() == f"{inner}Backward0":
        edges = below.next_functions
        raw = [_source(e) for e in edges]
    places = _PLACES.get(name, _PLACES.get(short))
    if places and places[-1] < len(raw):
        return tuple(raw[at] for at in places)
    count = _ARITY.get(name, _ARITY.get(short, 1))
    while len(raw) > count and raw[-1][0] is None:
        raw = raw[:-1]
    return tuple(raw)


def _source(edge: Edge) -> Edge:
    """Return what is below a view into the shape of a text."""
    node = edge[0]
    if isinstance(node, Node) and node.name() == "ViewBackward0" and node.next_functions:
        first: Edge = node.next_functions[0]
        return first
    return edge


def _of_linear(name: str, x: Edge, w: Edge, *bias: Edge) -> tuple[Edge, ...]:
    """Return what is below a linear layer: a product of matrices, of views where x is none."""
    turned = NOBODY if w[0] is None else _drawn("TBackward0", w)
    if name in ("AddmmBackward0", "MmBackward0"):
        return *bias, x, turned
    flat = NOBODY if x[0] is None else _drawn("ViewBackward0", x)
    return (_drawn("AddmmBackward0" if bias else "MmBackward0", *bias, flat, turned),)


def _of_cross_entropy(name: str, x: Edge, *rest: Edge) -> tuple[Edge, ...]:
    return (_drawn("LogSoftmaxBackward0", x),)


_COMPOSED: dict[str, Callable[..., tuple[Edge, ...]]] = {
    "linear": _of_linear,
    "cross_entropy": _of_cross_entropy,
}
