"""Parameters that are said as probabilities or as their logarithms."""

from __future__ import annotations

from typing import Any

from tcdsl import library as tc
from tcdsl.autograd import modes
from tcdsl.distributions.distribution import Distribution

__all__ = ["SaidEitherWay", "inner", "softplus"]


def inner(probs: Any) -> Any:
    """Return probabilities that are neither 0 nor 1: their logarithms are finite."""
    eps = tc.finfo(probs.dtype).eps
    return probs.clamp(eps, 1 - eps)


def softplus(x: Any) -> Any:
    """Return ``log(1 + exp(x))``."""
    return tc.logaddexp(x, tc.zeros_like(x))


class SaidEitherWay(Distribution):
    """What is said by `probs` or by `logits`; the other is kept once it was asked for."""

    def _probs(self, logits: Any) -> Any:
        raise NotImplementedError

    def _logits(self, probs: Any) -> Any:
        raise NotImplementedError

    @property
    def param_shape(self) -> Any:
        """The shape of what was said."""
        return self._said().shape

    def _said(self) -> Any:
        held = vars(self)
        return held["probs"] if "probs" in held else held["logits"]

    def __getattr__(self, name: str) -> Any:
        held = vars(self)
        other = {"probs": "logits", "logits": "probs"}.get(name)
        if other not in held:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        with modes.enable_grad():  # for whoever asks next
            held[name] = getattr(self, f"_{name}")(held[other])
        return held[name]
