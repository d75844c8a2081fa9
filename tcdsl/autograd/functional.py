"""Derivatives of functions of tensors: Jacobians, Hessians, and their products with vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tcdsl.autograd.gradients import grad
from tcdsl.autograd.modes import enable_grad
from tcdsl.core import Tensor
from tcdsl.ops.internal import ones, zeros
from tcdsl.ops.joins import stack

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Tensors = Tensor | tuple[Tensor, ...]
Function = Callable[..., Any]


def _listed(given: Any, what: str) -> tuple[Tensor, ...]:
    listed = tuple(given) if isinstance(given, tuple | list) else (given,)
    for i, value in enumerate(listed):
        if not isinstance(value, Tensor):
            raise TypeError(
                f"The {what} must be either a Tensor or a tuple of Tensors, but the value at index "
                f"{i} has type {type(value)}."
            )
    return listed


def _leaves(inputs: Any, create_graph: bool) -> tuple[Tensor, ...]:
    """Return inputs by which there are gradients: views of recorded ones, else leaves."""
    return tuple(
        x.view_as(x) if create_graph and x.requires_grad else x.detach().requires_grad_()
        for x in _listed(inputs, "inputs given to the function")
    )


def _called(function: Function, inputs: Sequence[Tensor]) -> tuple[Any, tuple[Tensor, ...]]:
    made = function(*inputs)
    return made, _listed(made, "outputs of the user-provided function")


def _vector(v: Any, like: Sequence[Tensor], what: str) -> tuple[Tensor, ...]:
    """Return what products are with, by default 1 where it is of one number."""
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(
                f"The vector v can only be None if {what} is a single Tensor with a single element."
            )
        return (ones(like[0].detach()),)
    listed = _listed(v, "v")
    if [tuple(a.shape) for a in listed] != [tuple(b.shape) for b in like]:
        raise RuntimeError(
            f"v has not the shapes of {what}: {[list(a.shape) for a in listed]} and "
            f"{[list(b.shape) for b in like]}"
        )
    return listed


def _gradients(
    outputs: Sequence[Tensor],
    inputs: Sequence[Tensor],
    by: Sequence[Tensor] | None,
    create_graph: bool,
    strict: bool = False,
) -> tuple[Tensor, ...]:
    """Return gradients by all inputs: zeros where outputs do not depend on one, or an error."""
    known = [(o, i) for i, o in enumerate(outputs) if o.requires_grad]
    found: tuple[Tensor | None, ...] = (None,) * len(inputs)
    if known:
        weights = None if by is None else [by[i] for _, i in known]
        found = grad([o for o, _ in known], list(inputs), weights, retain_graph=True,
                     create_graph=create_graph, allow_unused=True)  # fmt: skip
    for i, g in enumerate(found):
        if g is None and strict:
            raise RuntimeError(
                f"Output of the function is independent of input {i}. This is not allowed in "
                "strict mode."
            )
        if strict and create_graph and g is not None and not g.requires_grad:
            raise RuntimeError(
                f"The derivative of the function is independent of input {i}. This is not allowed "
                "in strict mode when create_graph=True."
            )
    return tuple(zeros(x.detach()) if g is None else g for x, g in zip(inputs, found, strict=True))


def _result(tensors: Sequence[Tensor], given: Any, is_recorded: bool) -> Any:
    """Return tensors as what was given is: one, or a tuple."""
    kept = tuple(t if is_recorded else t.detach() for t in tensors)
    return kept[0] if isinstance(given, Tensor) else kept


def vjp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return a function's value, and the product of a vector with its Jacobian.

    Parameters
    ----------
    func : callable
        Of tensors; gives a tensor or a tuple of them.
    inputs : Tensor or tuple of Tensor
    v : Tensor or tuple of Tensor, of the shapes of the outputs, optional
        By default 1, where the output is one number.
    create_graph : bool
        Whether the result is recorded.
    strict : bool
        Whether an output that does not depend on an input is an error, not zeros; so is, of a
        result that is recorded, a derivative that does not.

    Returns
    -------
    outputs, product : as the function gives, and as inputs
    """
    with enable_grad():
        leaves = _leaves(inputs, create_graph)
        made, outputs = _called(func, leaves)
        by = _vector(v, outputs, "the output of the user-provided function")
        found = _gradients(outputs, leaves, by, create_graph, strict)
    return _result(outputs, made, create_graph), _result(found, inputs, create_graph)


def jvp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return a function's value, and the product of its Jacobian with a vector.

    Parameters
    ----------
    func, inputs, create_graph, strict
        As of `vjp`.
    v : Tensor or tuple of Tensor, of the shapes of the inputs, optional

    Returns
    -------
    outputs, product : as the function gives, both
    """
    with enable_grad():
        leaves = _leaves(inputs, create_graph)
        by = _vector(v, leaves, "the input to the user-provided function")
        made, outputs = _called(func, leaves)
        weights = [zeros(o.detach()).requires_grad_() for o in outputs]
        back = _gradients(outputs, leaves, weights, create_graph=True, strict=strict)
        found = _gradients(
            back, weights, by, create_graph, strict
        )  # the way back is linear in weights
    return _result(outputs, made, create_graph), _result(found, made, create_graph)


def jacobian(
    func: Function,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """Return the derivative of each element of the outputs by each of the inputs.

    Parameters
    ----------
    func, inputs, create_graph, strict
        As of `vjp`.
    vectorize : bool
        Taken for the sake of programs that say it: rows are computed one by one.
    strategy : "reverse-mode"

    Returns
    -------
    Tensor, shape (*output, *input)
        Of several inputs a tuple; of several outputs a tuple of that.

    Raises
    ------
    NotImplementedError
        If the strategy is another one.
    """
    if strategy != "reverse-mode":
        raise NotImplementedError(f"jacobian: strategy '{strategy}': rows go by the way back only")
    with enable_grad():
        leaves = _leaves(inputs, create_graph)
        made, outputs = _called(func, leaves)
        found = []
        for output in outputs:
            flat = output.reshape(-1)
            rows = [_gradients([flat[i]], leaves, None, create_graph, strict)
                    for i in range(flat.numel())]  # fmt: skip
            columns = [
                stack([row[n] for row in rows], 0).reshape(*output.shape, *x.shape)
                if rows
                else x.new_zeros((*output.shape, *x.shape))
                for n, x in enumerate(leaves)
            ]
            found.append(_result(columns, inputs, create_graph))
    return found[0] if isinstance(made, Tensor) else tuple(found)


def _of_one_number(func: Function) -> Function:
    """Return a function that refuses results that are not one number."""

    def checked(*args: Tensor) -> Tensor:
        made = func(*args)
        if not isinstance(made, Tensor):
            raise TypeError("The function given should return a single Tensor")
        if made.numel() != 1:
            raise RuntimeError(
                "The Tensor returned by the function given should contain a single element"
            )
        return made.reshape(())

    return checked


def hessian(
    func: Function,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """Return the second derivatives of a function that gives one number.

    Parameters
    ----------
    func, inputs, create_graph, strict, vectorize
        As of `jacobian`.
    outer_jacobian_strategy : "reverse-mode"

    Returns
    -------
    Tensor, shape (*input, *input)
        Of several inputs a tuple of tuples, by the first and by the second.
    """
    once = _of_one_number(func)

    def gradient(*args: Tensor) -> Any:
        return _result(_gradients([once(*args)], args, None, True, strict), inputs, True)

    return jacobian(gradient, inputs, create_graph, strict, vectorize, outer_jacobian_strategy)


def vhp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return a function's value, one number, and the product of a vector with its Hessian.

    Parameters
    ----------
    func, inputs, create_graph, strict
        As of `vjp`.
    v : Tensor or tuple of Tensor, of the shapes of the inputs, optional

    Returns
    -------
    output, product : Tensor, and as inputs
    """
    with enable_grad():
        leaves = _leaves(inputs, create_graph)
        by = _vector(v, leaves, "the input to the user-provided function")
        output = _of_one_number(func)(*leaves)
        first = _gradients([output], leaves, None, True, strict)
        found = _gradients(first, leaves, by, create_graph, strict)
    return _result([output], output, create_graph), _result(found, inputs, create_graph)


def hvp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return a function's value, one number, and the product of its Hessian with a vector.

    A Hessian is symmetric, so this is `vhp`; see there.
    """
    return vhp(func, inputs, v, create_graph, strict)
