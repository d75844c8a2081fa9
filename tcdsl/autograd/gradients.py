"""backward and grad: gradients by the leaves, or by the tensors that are named."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tcdsl import core
from tcdsl.autograd.hooks import told_accumulated
from tcdsl.autograd.passes import running
from tcdsl.core import Tensor, setup
from tcdsl.ops.internal import plus, to, zeros
from tcdsl.ops.joins import stack

Tensors = Tensor | Sequence[Tensor]


def backward(
    tensors: Tensors,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensors | None = None,
) -> None:
    """Add the gradients of tensors to `grad` of the leaves that they came from.

    Parameters
    ----------
    tensors : Tensor or sequence of Tensor
    grad_tensors : Tensor, or a sequence of Tensor or None, optional
        The gradient of each of them; None for 1, of those of one element.
    retain_graph : bool, optional
        Whether the graph may be gone through again; by default if create_graph.
    create_graph : bool, default False
        Whether the gradients are recorded, for gradients of theirs.
    inputs : Tensor or sequence of Tensor, optional
        The only leaves whose `grad` is wanted.

    Raises
    ------
    RuntimeError
        If one of them requires no grad, if the graph has been freed, or if what it needs was
        written meanwhile.
    """
    roots = _listed(tensors)
    grads = _adjoints(roots, grad_tensors)
    keep = create_graph if retain_graph is None else retain_graph
    if inputs is None:
        with running(keep):
            core.backward(roots, grads, None, int(keep), int(create_graph))
        return
    wanted = _listed(inputs)
    if not wanted:
        raise RuntimeError("'inputs' argument to backward cannot be empty.")
    with running(keep):
        found = core.backward(roots, grads, wanted, int(keep), int(create_graph))
    assert found is not None
    for leaf, gradient in zip(wanted, found, strict=True):
        if gradient is not None:
            leaf.grad = gradient if leaf.grad is None else plus(leaf.grad, gradient)
            told_accumulated(leaf)


def grad(
    outputs: Tensors,
    inputs: Tensors,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """Return the gradients of outputs by inputs, and of nothing else.

    Parameters
    ----------
    outputs, grad_outputs, retain_graph, create_graph
        As of `backward`.
    inputs : Tensor or sequence of Tensor
        Leaves or not.
    allow_unused : bool, optional
        Whether inputs of which the outputs are no function get None; else that is an error.
    is_grads_batched : bool
        Whether grad_outputs, and so the results, have a batch in front: one way back for each.
    materialize_grads : bool, default False
        Whether those get zeros.

    Returns
    -------
    tuple of Tensor or None
        One for each input, of its shape.

    Raises
    ------
    RuntimeError
        As `backward` does; or if an input is not used.
    """
    if not only_inputs:
        raise ValueError("only_inputs argument is deprecated and must be True")
    roots, wanted = _listed(outputs), _listed(inputs)
    if not wanted:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    keep = create_graph if retain_graph is None else retain_graph
    if is_grads_batched:
        each = [None if w is None else w.unbind(0) for w in _listed(grad_outputs)]
        size = next(len(w) for w in each if w is not None)
        rows = [
            grad(roots, wanted, [None if w is None else w[i] for w in each], keep or i < size - 1,
                 create_graph, only_inputs, allow_unused, False, materialize_grads)
            for i in range(size)
        ]  # fmt: skip
        columns = zip(*rows, strict=True)
        return tuple(None if c[0] is None else stack(c, 0) for c in columns)
    grads = _adjoints(roots, grad_outputs)
    with running(keep):
        found = core.backward(roots, grads, wanted, int(keep), int(create_graph))
    assert found is not None
    if materialize_grads:
        return tuple(
            zeros(x.detach()) if g is None else g for g, x in zip(found, wanted, strict=True)
        )
    for i, gradient in enumerate(found):
        if gradient is None and not allow_unused:
            raise RuntimeError(
                f"The differentiated Tensor at index {i} appears to not have been used in the "
                "graph. Set allow_unused=True if this is the desired behavior."
            )
    return found


def _listed(tensors: Tensors) -> tuple[Tensor, ...]:
    return (tensors,) if isinstance(tensors, Tensor) else tuple(tensors)


def _adjoints(roots: Sequence[Tensor], given: Any) -> tuple[Tensor | None, ...]:
    """Return a gradient or None for each root, in the root's type.

    Raises
    ------
    RuntimeError
        If one has not the shape of its root.
    """
    if given is None:
        return (None,) * len(roots)
    listed = (given,) if isinstance(given, Tensor) else tuple(given)
    if len(listed) != len(roots):
        raise RuntimeError(f"got {len(roots)} tensors and {len(listed)} gradients")
    for i, (root, gradient) in enumerate(zip(roots, listed, strict=True)):
        if gradient is not None and not isinstance(gradient, Tensor):
            raise TypeError(
                f"gradients can be either Tensors or None, but got {type(gradient).__name__}"
            )
        if gradient is not None and tuple(gradient.shape) != tuple(root.shape):
            raise RuntimeError(
                f"Mismatch in shape: grad_output[{i}] has a shape of {gradient.shape} and "
                f"output[{i}] has a shape of {root.shape}."
            )
    return tuple(
        g if g is None or g.dtype is root.dtype else to(g, root.dtype)
        for root, g in zip(roots, listed, strict=True)
    )


def _of_tensor(
    tensor: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensors | None = None,
) -> None:
    """Add the gradients of a tensor to `grad` of the leaves; see `backward`."""
    backward(tensor, gradient, retain_graph, create_graph, inputs)


setup("backward", _of_tensor)
