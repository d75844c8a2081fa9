"""Transforms of numbers one by one, and of several transforms one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tcdsl import library as tc
from tcdsl.core import Tensor
from tcdsl.distributions import constraints as c
from tcdsl.distributions.eitherway import softplus

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "ComposeTransform",
    "ExpTransform",
    "PowerTransform",
    "SigmoidTransform",
    "SoftplusTransform",
    "TanhTransform",
    "Transform",
    "identity_transform",
]


class _Dims:
    """An attribute that, until it is set, is what a constraint says: dimensions of one number."""

    def __init__(self, of: str) -> None:
        self._of = of

    def __get__(self, transform: Any, kind: type) -> int:
        return int(getattr(kind if transform is None else transform, self._of).event_dim)


class Transform:
    """A function of numbers, its inverse, and ``log |dy / dx|``.

    A subclass says `_call(x)`, `_inverse(y)` and `log_abs_det_jacobian(x, y)`, where it has a
    `domain` and a `codomain`, in how many last dimensions an input is one (`event_dim`) and a
    result (`out_dim`; by default as these say), and whether it goes down (`sign` is -1, by element
    where a tensor).
    """

    bijective = True
    domain: Any = c.real
    codomain: Any = c.real
    sign: Any = 1

    def __init__(self, cache_size: int = 0) -> None:
        """Take how many pairs PyTorch would keep: here a pair is computed again."""

    def __call__(self, x: Any) -> Any:
        return self._call(x)

    def _call(self, x: Any) -> Any:
        raise NotImplementedError

    def _inverse(self, y: Any) -> Any:
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """Return ``log |dy / dx|``."""
        raise NotImplementedError

    @property
    def inv(self) -> Transform:
        """The inverse."""
        return _Inverse(self)

    event_dim: Any = _Dims("domain")
    out_dim: Any = _Dims("codomain")

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Return this transform, which keeps nothing."""
        return self

    def forward_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of results, given that of inputs."""
        return shape

    def inverse_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of inputs, given that of results."""
        return shape

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _Inverse(Transform):
    def __init__(self, of: Transform) -> None:
        self._of = of
        self.event_dim, self.out_dim = of.out_dim, of.event_dim
        self.domain, self.codomain, self.bijective = of.codomain, of.domain, of.bijective

    def _call(self, x: Any) -> Any:
        return self._of._inverse(x)

    def _inverse(self, y: Any) -> Any:
        return self._of(y)

    sign = property(lambda self: self._of.sign)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -self._of.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return self._of.inverse_shape(shape)

    def inverse_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return self._of.forward_shape(shape)

    @property
    def inv(self) -> Transform:
        return self._of

    def __repr__(self) -> str:
        return f"_InverseTransform({self._of!r})"


def _broadcast(shape: tuple[int, ...], *beside: Any) -> tuple[int, ...]:
    return tuple(tc.broadcast_shapes(shape, *(tuple(getattr(v, "shape", ())) for v in beside)))


def _sign(of: Any) -> Any:
    return of.sign() if isinstance(of, Tensor) else math.copysign(1, of)


class ExpTransform(Transform):
    """``exp(x)``."""

    codomain = c.positive

    def _call(self, x: Any) -> Any:
        return x.exp()

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return x


class SigmoidTransform(Transform):
    """``1 / (1 + exp(-x))``."""

    codomain = c.unit_interval

    def _call(self, x: Any) -> Any:
        finfo = tc.finfo(x.dtype)
        return tc.sigmoid(x).clamp(finfo.tiny, 1 - finfo.eps)

    def _inverse(self, y: Any) -> Any:
        finfo = tc.finfo(y.dtype)
        y = y.clamp(finfo.tiny, 1 - finfo.eps)
        return y.log() - tc.log1p(-y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -softplus(-x) - softplus(x)


class TanhTransform(Transform):
    """``tanh(x)``."""

    codomain = c.interval(-1.0, 1.0)

    def _call(self, x: Any) -> Any:
        return x.tanh()

    def _inverse(self, y: Any) -> Any:
        return tc.atanh(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return 2 * (math.log(2) - x - softplus(-2 * x))


class SoftplusTransform(Transform):
    """``log(1 + exp(x))``."""

    codomain = c.positive

    def _call(self, x: Any) -> Any:
        return softplus(x)

    def _inverse(self, y: Any) -> Any:
        return (-tc.expm1(-y)).log() + y

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -softplus(-x)


class AffineTransform(Transform):
    """``loc + scale * x``."""

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        self.loc, self.scale, self.event_dim = loc, scale, event_dim
        if event_dim:
            self.domain = self.codomain = c.independent(c.real, event_dim)

    def forward_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return _broadcast(shape, self.loc, self.scale)

    inverse_shape = forward_shape

    sign = property(lambda self: _sign(self.scale))

    def _call(self, x: Any) -> Any:
        return self.loc + self.scale * x

    def _inverse(self, y: Any) -> Any:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        scale = self.scale if isinstance(self.scale, Tensor) else tc.full_like(x, self.scale)
        made = scale.abs().log().expand(x.shape)
        return made.sum(tuple(range(-self.event_dim, 0))) if self.event_dim else made


class PowerTransform(Transform):
    """``x ** exponent`` of numbers above 0."""

    domain = codomain = c.positive

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        self.exponent = exponent

    def forward_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return _broadcast(shape, self.exponent)

    inverse_shape = forward_shape

    sign = property(lambda self: _sign(self.exponent))

    def _call(self, x: Any) -> Any:
        return x**self.exponent

    def _inverse(self, y: Any) -> Any:
        return y ** (1 / self.exponent)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return (self.exponent * y / x).abs().log()


class AbsTransform(Transform):
    """``|x|``, of which the positive inverse is taken."""

    bijective = False
    codomain = c.nonnegative

    def _call(self, x: Any) -> Any:
        return x.abs()

    def _inverse(self, y: Any) -> Any:
        return y


class ComposeTransform(Transform):
    """Transforms one behind the other, the first first."""

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        self.parts = list(parts)
        self.bijective = all(p.bijective for p in self.parts)
        inner = outer = 0
        for part in reversed(self.parts):
            inner = max(inner + part.event_dim - part.out_dim, part.event_dim)
        for part in self.parts:
            outer = max(outer + part.out_dim - part.event_dim, part.out_dim)
        self.event_dim, self.out_dim = inner, outer
        if self.parts:
            first, last = self.parts[0].domain, self.parts[-1].codomain
            self.domain = c.independent(first, more) if (more := inner - first.event_dim) else first
            self.codomain = c.independent(last, more) if (more := outer - last.event_dim) else last

    sign = property(lambda self: math.prod(p.sign for p in self.parts))

    def _call(self, x: Any) -> Any:
        for part in self.parts:
            x = part(x)
        return x

    def _inverse(self, y: Any) -> Any:
        for part in reversed(self.parts):
            y = part._inverse(y)
        return y

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        if not self.parts:
            return tc.zeros_like(x)
        made: Any = 0.0
        event_dim = self.event_dim
        for part in self.parts:
            after = part(x)
            slope = part.log_abs_det_jacobian(x, after)
            dims = event_dim - part.event_dim
            made = made + (slope.sum(tuple(range(-dims, 0))) if dims else slope)
            event_dim += part.out_dim - part.event_dim
            x = after
        return made

    def forward_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        listed = ",\n    ".join(map(repr, self.parts))
        return f"ComposeTransform(\n    {listed}\n)"


identity_transform = ComposeTransform([])
