"""Orthogonal polynomials by their recurrences: what `torch.special` has of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tcdsl.core import Tensor
from tcdsl.ops.internal import filled, to
from tcdsl.ops.masks import where
from tcdsl.ops.pointwise import trunc
from tcdsl.ops.rules import floating

First = Callable[[Any], Any]
Rule = Callable[[Any, int, Any, Any], Any]  # of x, n, and polynomials n and n - 1: polynomial n + 1


def _polynomial(first: First, rule: Rule) -> Callable[[Any, Any], Tensor]:
    """Return the function of x and n whose polynomials are 1, `first`, and then by a rule."""

    def all_of(x: Tensor) -> Iterator[Tensor]:
        before, here, n = filled(x, 1), first(x), 1
        yield before
        while True:
            yield here
            before, here, n = here, rule(x, n, here, before), n + 1

    def polynomial(input: Any, n: Any) -> Tensor:
        """Return the polynomial of degree n at each element, 0 where n is below 0.

        Parameters
        ----------
        input : Tensor
        n : int or Tensor
            Broadcast to `input`.
        """
        x = input if isinstance(input, Tensor) else filled(to(n, floating((n, 1.0))), input)
        x = to(x, floating((x,)))
        if not isinstance(n, Tensor):
            made = filled(x, 0)
            for _, value in zip(range(int(n) + 1), all_of(x), strict=False):
                made = value
            return made  # type: ignore[no-any-return]
        degree = trunc(n) if n.dtype.is_floating_point else n
        made = x * 0 + to(degree, x.dtype) * 0
        most = int(degree.max().item()) if n.numel() else -1
        for k, value in zip(range(most + 1), all_of(x), strict=False):
            made = where(degree == k, value, made)
        return made  # type: ignore[no-any-return]

    return polynomial


def _chebyshev(first: First) -> Callable[[Any, Any], Tensor]:
    return _polynomial(first, lambda x, n, here, before: 2 * x * here - before)


def _shifted(polynomial: Callable[[Any, Any], Tensor]) -> Callable[[Any, Any], Tensor]:
    """Return polynomials on 0:1, not on -1:1."""
    return lambda input, n: polynomial(2 * input - 1, n)


chebyshev_polynomial_t = _chebyshev(lambda x: x)
chebyshev_polynomial_u = _chebyshev(lambda x: 2 * x)
chebyshev_polynomial_v = _chebyshev(lambda x: 2 * x - 1)
chebyshev_polynomial_w = _chebyshev(lambda x: 2 * x + 1)
shifted_chebyshev_polynomial_t = _shifted(chebyshev_polynomial_t)
shifted_chebyshev_polynomial_u = _shifted(chebyshev_polynomial_u)
shifted_chebyshev_polynomial_v = _shifted(chebyshev_polynomial_v)
shifted_chebyshev_polynomial_w = _shifted(chebyshev_polynomial_w)
hermite_polynomial_h = _polynomial(lambda x: 2 * x, lambda x, n, p, q: 2 * x * p - 2 * n * q)
hermite_polynomial_he = _polynomial(lambda x: x, lambda x, n, p, q: x * p - n * q)
laguerre_polynomial_l = _polynomial(
    lambda x: 1 - x, lambda x, n, p, q: ((2 * n + 1 - x) * p - n * q) / (n + 1)
)
legendre_polynomial_p = _polynomial(
    lambda x: x, lambda x, n, p, q: ((2 * n + 1) * x * p - n * q) / (n + 1)
)
for _name in [name for name in globals() if "_polynomial_" in name]:
    globals()[_name].__name__ = globals()[_name].__qualname__ = _name
