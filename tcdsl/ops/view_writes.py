"""Writing into views that are recorded: the base becomes a function of what was written."""

from __future__ import annotations

from functools import partial

from tcdsl.core import (
    GRAD,
    Recipe,
    Tensor,
    is_grad_enabled,
    record,
    set_fn,
    set_grad_enabled,
    setup,
)
from tcdsl.ops.forms import Forms
from tcdsl.ops.internal import clone, copy_, zeros
from tcdsl.ops.views import Shape, as_strided, no_vjp

_OF_TWO = Recipe(no_vjp, (GRAD,), (0, 1))


def renew(view_: Tensor) -> None:
    """Let a view whose base was written be made of that base."""
    base = view_._base
    assert base is not None
    old = set_grad_enabled(True)
    try:
        again = as_strided(base, view_.shape, view_.stride(), view_.storage_offset())
    finally:
        set_grad_enabled(old)
    set_fn(view_, again.grad_fn, 0)


def without_hooks(view_: Tensor) -> Tensor:
    """Return a view, or one that is the same but for hooks, which a write in place leaves behind.

    They see the gradients by what it was given out as before, not those by what is written.
    """
    fn = view_.grad_fn
    if fn is None or not fn._hooks:
        return view_
    base = view_._base
    assert base is not None
    return as_strided(base, view_.shape, view_.stride(), view_.storage_offset())


def write_view(target: Tensor, value: Tensor) -> Tensor:
    """Record that a view was given the elements of a tensor, and its base with it.

    Raises
    ------
    RuntimeError
        If the base is a leaf that requires grad.
    """
    base = target._base
    assert base is not None
    if base.requires_grad and base.is_leaf:
        raise RuntimeError(
            "a view of a leaf Variable that requires grad is being used in an in-place operation."
        )
    old = set_grad_enabled(False)
    try:
        copy_(target.detach(), value.detach())
    finally:
        set_grad_enabled(old)
    wrote_view(target, value)
    return target


def wrote_view(target: Tensor, value: Tensor) -> None:
    """Record that a view has the elements of a tensor now, and its base with it."""
    base = target._base
    assert base is not None
    layout = tuple(target.shape), target.stride(), target.storage_offset() - base.storage_offset()
    needs = int(base.requires_grad) | int(value.requires_grad) << 1
    record("CopySlices", _OF_TWO, partial(_of_slices, layout), (base, value), (base,), needs)
    renew(target)


def _of_slices(layout: tuple[Shape, Shape, int], gradient: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients of a base before it was written, and of what was written."""
    shape, stride, offset = layout
    whole: Tensor = clone(gradient)
    part = as_strided(whole, shape, stride, whole.storage_offset() + offset)
    written = clone(part)
    if is_grad_enabled() and whole.requires_grad:
        write_view(part, zeros(part.detach()))
    else:
        copy_(part, zeros(part))
    return whole, written


setup("renew", renew)
Forms.write_view = staticmethod(write_view)
Forms.without_hooks = staticmethod(without_hooks)
