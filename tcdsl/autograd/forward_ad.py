"""Tangents beside tensors: what is made of dual tensors has the product of the Jacobian with them.

A level records what its dual tensors take part in; a tangent is the way back of the way back, as
`transforms.jvp` has it.
"""

from __future__ import annotations

from typing import NamedTuple

from tcdsl.autograd.gradients import grad
from tcdsl.autograd.modes import enable_grad
from tcdsl.core import Tensor
from tcdsl.ops.internal import zeros

__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
]


class UnpackedDualTensor(NamedTuple):
    """A tensor and its tangent, None where it has none."""

    primal: Tensor
    tangent: Tensor | None


_levels: list[list[tuple[Tensor, Tensor]]] = []  # the dual tensors of each


def enter_dual_level() -> int:
    """Begin a level; return its number."""
    if _levels:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    _levels.append([])
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """End the level: tangents are gone."""
    if level not in (None, len(_levels) - 1) or not _levels:
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created. This "
            "is not supported."
        )
    _levels.pop()


class dual_level:  # noqa: N801  (PyTorch's name)
    """A block in which tensors have tangents."""

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *exception: object) -> None:
        exit_dual_level()


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """Return a tensor of the same memory that has a tangent.

    Parameters
    ----------
    tensor, tangent : Tensor of floats, one shape
    level : int, optional
        The one that is open.
    """
    if not _levels:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to "
            "enter_dual_level() first."
        )
    for name, x in (("primal", tensor), ("tangent", tangent)):
        if not x.dtype.is_floating_point:
            raise ValueError(f"Expected {name} to be floating point or complex, but got: {x.dtype}")
    if tensor.shape != tangent.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original "
            f"Tensor, this is not supported. Tensor is of size {list(tensor.shape)} while the "
            f"given forward gradient is of size {list(tangent.shape)}."
        )
    with enable_grad():
        known = tensor.requires_grad
        dual: Tensor = tensor.view_as(tensor) if known else tensor.detach().requires_grad_()
    _levels[-1].append((dual, tangent))
    return dual


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """Return a tensor without its tangent, and the tangent."""
    for dual, tangent in _levels[-1] if _levels else ():
        if dual is tensor:
            return UnpackedDualTensor(tensor.detach(), tangent)
    if not _levels or not tensor.requires_grad:
        return UnpackedDualTensor(tensor, None)
    duals = [dual for dual, _ in _levels[-1]]
    weight = zeros(tensor.detach()).requires_grad_()
    back = grad([tensor], duals, [weight], create_graph=True, allow_unused=True)
    pairs = [(b, t) for b, (_, t) in zip(back, _levels[-1], strict=True) if b is not None]
    if not pairs:
        return UnpackedDualTensor(tensor, None)
    moving = [(b, t) for b, t in pairs if b.requires_grad]
    found = None
    if moving:
        bs, ts = zip(*moving, strict=True)
        keeps = any(t.requires_grad for t in ts) or _leads_on(duals)
        (found,) = grad(list(bs), [weight], list(ts), create_graph=keeps, allow_unused=True)
    primal = tensor if _leads_on(duals) else tensor.detach()
    return UnpackedDualTensor(primal, zeros(weight.detach()) if found is None else found)


def _leads_on(duals: list[Tensor]) -> bool:
    """Whether gradients go from dual tensors to what they were made of."""
    return any(dual.grad_fn is not None for dual in duals)
