"""Logarithms of probabilities of many classes, of which rare ones lie in clusters."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from tcdsl.core import Tensor
from tcdsl.nn import functional
from tcdsl.nn.modules.container import ModuleList, Sequential
from tcdsl.nn.modules.linear import Linear
from tcdsl.nn.modules.module import Module

__all__ = ["AdaptiveLogSoftmaxWithLoss"]


class _ASMoutput(NamedTuple):
    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """The loss of a softmax over classes in order of frequency, in two steps.

    Frequent classes, and clusters of all others, are columns of `head`; the classes of cluster i
    are columns of `tail[i]`, which goes by way of fewer features.

    Parameters
    ----------
    in_features, n_classes : int
    cutoffs : sequence of int
        Where clusters begin, increasing.
    div_value : float
        Cluster i has ``in_features / div_value ** (i + 1)`` features, rounded down.
    head_bias : bool
    device, dtype : optional

    References
    ----------
    Grave et al., "Efficient softmax approximation for GPUs", 2017.
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        bounds = list(cutoffs)
        if not bounds:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        if (
            bounds != sorted(set(bounds))
            or bounds[0] <= 0
            or bounds[-1] > n_classes - 1
            or any(int(c) != c for c in bounds)
        ):
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing "
                "order, where each value is between 1 and n_classes-1"
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*bounds, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        place = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **place)
        self.tail = ModuleList()
        for i, (low, high) in enumerate(pairwise(self.cutoffs)):
            inner = int(in_features // div_value ** (i + 1))
            first = Linear(in_features, inner, bias=False, **place)
            self.tail.append(Sequential(first, Linear(inner, high - low, bias=False, **place)))

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        self.head.reset_parameters()
        for first, second in self.tail:
            first.reset_parameters()
            second.reset_parameters()

    def forward(self, input: Tensor, target: Tensor) -> _ASMoutput:
        """Return the logarithms of the targets' probabilities, and their negative mean.

        Parameters
        ----------
        input : Tensor, shape (N, in_features) or (in_features,)
        target : Tensor of classes, shape (N,) or ()
        """
        classes: Any = target
        rows = target.ndim
        if rows > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if input.ndim != rows + 1:
            raise RuntimeError(
                f"{rows}D target tensor expects {rows + 1}D input tensors, but found inputs with "
                f"size {input.shape}."
            )
        if rows and input.shape[0] != target.shape[0]:
            raise RuntimeError("Input and target should have the same size in the batch dimension.")
        if not rows:
            input, classes = input.unsqueeze(0), target.unsqueeze(0)
        least, most = int(classes.min().item()), int(classes.max().item())
        if least < 0 or most >= self.n_classes:
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{least}, {most}] were found. "
            )
        columns = classes.clone()  # of the head
        within = input.new_zeros(classes.shape)  # its cluster
        for i, (low, high) in enumerate(pairwise(self.cutoffs)):
            at = ((classes >= low) & (classes < high)).nonzero().squeeze(-1)
            if not at.numel():
                continue
            columns[at] = self.shortlist_size + i
            found = functional.log_softmax(self.tail[i](input.index_select(0, at)), 1)
            own = found.gather(1, (classes[at] - low).unsqueeze(1)).squeeze(1)
            within = within.index_copy(0, at, own)
        head = functional.log_softmax(self.head(input), 1)
        output = within + head.gather(1, columns.unsqueeze(1)).squeeze(1)
        return _ASMoutput(output if rows else output.squeeze(0), (-output).mean())

    def log_prob(self, input: Tensor) -> Tensor:
        """Return the logarithms of all classes' probabilities, shape (N, n_classes)."""
        head = functional.log_softmax(self.head(input), 1)
        made: Tensor = head.new_empty((head.shape[0], self.n_classes))
        made[:, : self.shortlist_size] = head[:, : self.shortlist_size]
        for i, (low, high) in enumerate(pairwise(self.cutoffs)):
            own = functional.log_softmax(self.tail[i](input), 1)
            made[:, low:high] = own + head[:, self.shortlist_size + i].unsqueeze(1)
        return made

    def predict(self, input: Tensor) -> Tensor:
        """Return the likeliest class of each row, shape (N,)."""
        found: Tensor = self.log_prob(input).argmax(1)
        return found
