"""Gradients held against differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tcdsl import core
from tcdsl.autograd.gradients import grad
from tcdsl.core import Tensor

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


class GradcheckError(RuntimeError):
    """A gradient differs from what differences say."""


def _outputs(func: Callable[..., Any], inputs: tuple[Any, ...]) -> tuple[Tensor, ...]:
    result = func(*inputs)
    several = result if isinstance(result, tuple | list) else (result,)
    return tuple(o for o in several if isinstance(o, Tensor) and o.is_floating_point())


def _numerical(
    func: Callable[..., Any], inputs: tuple[Any, ...], wanted: Tensor, eps: float
) -> list[np.ndarray[Any, Any]]:
    """Return the Jacobian of each output by an input, shape (elements of input, of output)."""
    # the elements are written where they lie: a copy would not be what func sees
    array = wanted.detach().numpy()
    columns: list[list[np.ndarray[Any, Any]]] = []
    for place in np.ndindex(array.shape):
        kept = array[place]
        sides = []
        for step in (eps, -eps):
            array[place] = kept + step
            sides.append(
                [o.detach().numpy().astype(np.float64).ravel() for o in _outputs(func, inputs)]
            )
        array[place] = kept
        columns.append([(a - b) / (2 * eps) for a, b in zip(*sides, strict=True)])
    if not columns:
        return [np.zeros((0, o.numel())) for o in _outputs(func, inputs)]
    return [np.stack(rows) for rows in zip(*columns, strict=True)]


def _analytical(
    output: Tensor, wanted: tuple[Tensor, ...], number: int
) -> list[np.ndarray[Any, Any]]:
    """Return the Jacobian of an output by each input, a row of gradients an element."""
    found = [np.zeros((t.numel(), output.numel())) for t in wanted]
    if not output.requires_grad:
        return found
    for place in range(output.numel()):
        seed = core.empty(tuple(output.shape), output.dtype).zero_()
        seed.detach().numpy().reshape(-1)[place] = 1
        rows = grad(output, wanted, seed, retain_graph=True, allow_unused=True)
        for i, row in enumerate(rows):
            if row is not None:
                if tuple(row.shape) != tuple(wanted[i].shape):
                    raise GradcheckError(
                        f"the gradient of output {number} by input {i} has shape "
                        f"{list(row.shape)}, the input {list(wanted[i].shape)}"
                    )
                found[i][:, place] = row.detach().numpy().ravel()
    return found


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
) -> bool:
    """Hold the gradients of a function against central differences.

    Parameters
    ----------
    func : callable
        Gives a tensor or a tuple of them.
    inputs : Tensor or tuple
        Its arguments; those that require a gradient should be float64 and no two elements of them
        one in memory.
    eps : float
        Half the distance of the differences.
    atol, rtol : float
        ``|analytical - numerical| <= atol + rtol |numerical|``.
    raise_exception : bool
        Raise instead of returning False.

    Raises
    ------
    GradcheckError
        If a gradient differs.
    ValueError
        If no input requires a gradient.
    """
    given = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    wanted = tuple(t for t in given if isinstance(t, Tensor) and t.requires_grad)
    if not wanted:
        raise ValueError("gradcheck expects at least one input tensor to require gradient")
    for i, tensor in enumerate(wanted):
        if any(s == 0 and n > 1 for s, n in zip(tensor.stride(), tensor.shape, strict=True)):
            raise RuntimeError(f"input {i} has elements that are one in memory: pass a copy")
    numerical = [_numerical(func, given, t, eps) for t in wanted]
    outputs = _outputs(func, given)
    try:
        for number, output in enumerate(outputs):
            for i, found in enumerate(_analytical(output, wanted, number)):
                expected = numerical[i][number]
                if not np.allclose(found, expected, rtol, atol, equal_nan=True):
                    raise GradcheckError(
                        f"Jacobian mismatch for output {number} with respect to input {i},\n"
                        f"numerical:{expected}\nanalytical:{found}\n"
                    )
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
) -> bool:
    """Hold the second gradients of a function against central differences of the first.

    Parameters
    ----------
    func, inputs, eps, atol, rtol, raise_exception
        As of `gradcheck`.
    grad_outputs : Tensor or tuple, optional
        What the first gradients begin with; by default drawn from -1 to 1.
    """
    given = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    outputs = _outputs(func, given)
    if grad_outputs is None:
        seeds = tuple(core.empty(tuple(o.shape), o.dtype).uniform_(-1, 1) for o in outputs)
    else:
        seeds = (grad_outputs,) if isinstance(grad_outputs, Tensor) else tuple(grad_outputs)
    for seed in seeds:
        seed.requires_grad_()
    count = len(given)

    def first(*both: Any) -> Any:
        inner, begun = both[:count], both[count:]
        wanted = tuple(t for t in inner if isinstance(t, Tensor) and t.requires_grad)
        made = _outputs(func, inner)
        recorded = [(o, s) for o, s in zip(made, begun, strict=True) if o.requires_grad]
        found = grad(
            [o for o, _ in recorded],
            wanted,
            [s for _, s in recorded],
            create_graph=True,
            allow_unused=True,
        )
        return tuple(g for g in found if g is not None)

    return gradcheck(first, (*given, *seeds), eps, atol, rtol, raise_exception)
