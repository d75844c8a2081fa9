"""Dropout: parts of the input are left out by chance while training."""

from __future__ import annotations

from collections.abc import Callable

from tcdsl.core import Tensor
from tcdsl.nn import functional
from tcdsl.nn.modules.module import Module

__all__ = [
    "AlphaDropout",
    "Dropout",
    "Dropout1d",
    "Dropout2d",
    "Dropout3d",
    "FeatureAlphaDropout",
]


class _Dropout(Module):
    """Leave parts of the input out by chance while training; hand it on while not.

    Parameters
    ----------
    p : float
        How likely a part is left out.
    inplace : bool
        Whether the input is written.

    Raises
    ------
    ValueError
        If p is not from 0 to 1.

    References
    ----------
    Srivastava et al., "Dropout: a simple way to prevent neural networks from overfitting", 2014.
    """

    _drop: Callable[..., Tensor]

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Leave out what chance says; the rest is divided by 1 - p."""
        return self._drop(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_Dropout):
    __doc__ = (_Dropout.__doc__ or "").replace("parts of the input", "elements")
    _drop = staticmethod(functional.dropout)


class Dropout1d(_Dropout):
    __doc__ = (_Dropout.__doc__ or "").replace("parts of the input", "whole channels of signals")
    _drop = staticmethod(functional.dropout1d)


class Dropout2d(_Dropout):
    __doc__ = (_Dropout.__doc__ or "").replace("parts of the input", "whole channels of images")
    _drop = staticmethod(functional.dropout2d)


class Dropout3d(_Dropout):
    __doc__ = (_Dropout.__doc__ or "").replace("parts of the input", "whole channels of volumes")
    _drop = staticmethod(functional.dropout3d)


class AlphaDropout(_Dropout):
    """Dropout that keeps mean and variance of what SELU gives.

    Parameters
    ----------
    p : float
        How likely an element is set to the lower limit of SELU.

    References
    ----------
    Klambauer et al., "Self-normalizing neural networks", 2017.
    """

    _drop = staticmethod(functional.alpha_dropout)


class FeatureAlphaDropout(_Dropout):
    __doc__ = (AlphaDropout.__doc__ or "").replace("an element is", "a whole channel is")
    _drop = staticmethod(functional.feature_alpha_dropout)
