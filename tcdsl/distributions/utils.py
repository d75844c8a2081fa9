"""What distributions of callers are made with, under PyTorch's names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tcdsl import library as tc
from tcdsl.autograd import modes
from tcdsl.calls.process.places import found_in
from tcdsl.core import Tensor
from tcdsl.distributions.distribution import broadcast_all
from tcdsl.distributions.eitherway import inner as clamp_probs

__all__ = [
    "broadcast_all",
    "clamp_probs",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Return probabilities, of one event each or along the last dimension."""
    return tc.sigmoid(logits) if is_binary else tc.softmax(logits, -1)  # type: ignore[no-any-return]


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Return the logarithms of odds, or of probabilities."""
    inside = clamp_probs(probs)
    made: Tensor = inside.log()
    return made - tc.log1p(-inside) if is_binary else made


class lazy_property:  # noqa: N801  (PyTorch's name)
    """An attribute that is computed at its first use."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        self.__doc__ = wrapped.__doc__

    def __get__(self, instance: Any, kind: Any = None) -> Any:
        if instance is None:
            return property(self.wrapped)
        with modes.enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """Return the elements on and below a diagonal, row by row."""
    rows, columns = tc.tril_indices(mat.shape[-2], mat.shape[-1], diag)
    made: Tensor = mat[..., rows, columns]
    return made


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Return triangles of these elements, row by row."""
    below = -diag
    n = round(
        ((1 - 2 * below) ** 2 + 8 * vec.shape[-1] + 4 * below * (below - 1)) ** 0.5 / 2
        + below
        - 0.5
    )
    rows, columns = tc.tril_indices(n, n, diag)
    made: Tensor = vec.new_zeros((*vec.shape[:-1], n * n))
    where = (rows * n + columns).expand(vec.shape)
    return made.scatter(-1, where, vec).view(*vec.shape[:-1], n, n)  # type: ignore[no-any-return]


found_in(__name__)
