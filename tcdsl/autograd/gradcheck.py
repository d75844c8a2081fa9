"""Gradients held against differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tcdsl import core
from tcdsl.autograd.gradients import grad
from tcdsl.autograd.transforms import jvp
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
    output: Tensor, wanted: tuple[Tensor, ...], number: int, check_dtypes: bool
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
                if check_dtypes and row.dtype is not wanted[i].dtype:
                    raise GradcheckError("Gradient has dtype mismatch")
                found[i][:, place] = row.detach().numpy().ravel()
    return found


def _pushed(
    func: Callable[..., Any],
    given: tuple[Any, ...],
    wanted: tuple[Tensor, ...],
    outputs: tuple[Tensor, ...],
) -> list[list[np.ndarray[Any, Any]]]:
    """Return the Jacobians of each input by forward mode, a tangent an element, of each output."""
    places = [i for i, t in enumerate(given) if any(t is w for w in wanted)]
    primals = tuple(given[i].detach() for i in places)

    def of(*chosen: Tensor) -> tuple[Tensor, ...]:
        args = list(given)
        for i, tensor in zip(places, chosen, strict=True):
            args[i] = tensor
        return _outputs(func, tuple(args))

    found = []
    for at, primal in enumerate(primals):
        rows = [np.zeros((primal.numel(), o.numel())) for o in outputs]
        for place in range(primal.numel()):
            along = tuple(core.empty(tuple(p.shape), p.dtype).zero_() for p in primals)
            along[at].numpy().reshape(-1)[place] = 1
            for row, tangent in zip(rows, jvp(of, primals, along)[1], strict=True):
                row[place] = tangent.detach().numpy().ravel()
        found.append(rows)
    return found


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    *,
    nondet_tol: float = 0.0,
    check_grad_dtypes: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
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
    nondet_tol : float
        How much the gradients of two passes over one graph may differ.
    check_grad_dtypes : bool
        Whether gradients must have the type of their input.
    check_forward_ad, check_backward_ad : bool
        Whether tangents are held against the differences, and whether gradients are.
    fast_mode : bool
        Taken, without a meaning: all elements are compared.

    Raises
    ------
    GradcheckError
        If a gradient differs.
    ValueError
        If no input requires a gradient, or nothing is to be checked.
    """
    if not (check_forward_ad or check_backward_ad):
        raise ValueError(
            "Expected at least one of check_forward_ad or check_backward_ad to be True"
        )
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
        for number, output in enumerate(outputs if check_backward_ad else ()):
            passes = [_analytical(output, wanted, number, check_grad_dtypes) for _ in range(2)]
            for i, (found, again) in enumerate(zip(*passes, strict=True)):
                expected = numerical[i][number]
                if not np.allclose(found, expected, rtol, atol, equal_nan=True):
                    raise _mismatch("", number, i, expected, found)
                if not np.allclose(found, again, 0, nondet_tol, equal_nan=True):
                    raise GradcheckError(
                        "Backward is not reentrant, i.e., running backward with same input and "
                        "grad_output multiple times gives different values, although analytical "
                        "gradient matches numerical gradient. The tolerance for nondeterminism "
                        f"was {nondet_tol}."
                    )
        for i, rows in enumerate(_pushed(func, given, wanted, outputs) if check_forward_ad else ()):
            for number, found in enumerate(rows):
                expected = numerical[i][number]
                if not np.allclose(found, expected, rtol, atol, equal_nan=True):
                    raise _mismatch("computed with forward mode ", number, i, expected, found)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _mismatch(how: str, output: int, input: int, expected: Any, found: Any) -> GradcheckError:
    return GradcheckError(
        f"Jacobian {how}mismatch for output {output} with respect to input {input},\n"
        f"numerical:{expected}\nanalytical:{found}\n"
    )


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    *,
    nondet_tol: float = 0.0,
    check_grad_dtypes: bool = False,
    fast_mode: bool = False,
) -> bool:
    """Hold the second gradients of a function against central differences of the first.

    Parameters
    ----------
    func, inputs, eps, atol, rtol, raise_exception, nondet_tol, check_grad_dtypes, fast_mode
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

    return gradcheck(
        first, (*given, *seeds), eps, atol, rtol, raise_exception, nondet_tol=nondet_tol,
        check_grad_dtypes=check_grad_dtypes, fast_mode=fast_mode,
    )  # fmt: skip
