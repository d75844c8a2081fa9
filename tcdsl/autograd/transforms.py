"""Functions made of functions: gradients, products with Jacobians, Jacobians: `torch.func`'s.

A transform records its own call and lets go of the record: its result is recorded only where what
it was given, or what the function reads beside, is recorded around it. So transforms nest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from tcdsl.autograd.gradients import grad as _grad
from tcdsl.autograd.graph import AccumulateGrad, recorded_below
from tcdsl.autograd.modes import enable_grad
from tcdsl.autograd.trees import filled, leaves, mapped
from tcdsl.core import Tensor, is_grad_enabled
from tcdsl.ops.internal import ones, zeros
from tcdsl.ops.joins import stack

__all__ = ["grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize", "vjp"]

Function = Callable[..., Any]
Argnums = int | tuple[int, ...]


class _Call:
    """A call of a function by inputs of its own, and whether derivatives of it are recorded.

    Parameters
    ----------
    function : callable
        Of containers of tensors.
    inputs : tuple
        What derivatives are by.
    has_aux : bool
        Whether the function gives a pair, of which only the first is differentiated.
    """

    def __init__(
        self, name: str, function: Function, inputs: tuple[Any, ...], has_aux: bool
    ) -> None:
        self.was_on = is_grad_enabled()
        given = leaves(inputs)
        for value in given:
            if not isinstance(value, Tensor):
                raise TypeError(
                    f"{name}: Expected all inputs to be Tensors, got unsupported type {type(value)}"
                )
        is_known = [self.was_on and x.requires_grad for x in given]
        with enable_grad():
            self.leaves = [
                x.view_as(x) if known else x.detach().requires_grad_()
                for x, known in zip(given, is_known, strict=True)
            ]
            made = function(*filled(inputs, self.leaves))
            self.aux = None
            if has_aux:
                if not (isinstance(made, tuple) and len(made) == 2):
                    raise RuntimeError(
                        f"{name}: output of function f should be a tuple: (output, aux) if has_aux "
                        "is True"
                    )
                made, self.aux = made
        self.made, self.outputs = made, leaves(made)
        for value in self.outputs:
            if not isinstance(value, Tensor):
                raise RuntimeError(
                    f"{name}: Expected f to return only tensors, got unsupported type {type(value)}"
                )
        own = {id(x) for x, known in zip(self.leaves, is_known, strict=True) if not known}
        self.is_recorded = self.was_on and (
            any(is_known) or any(_reaches_others(o, own) for o in self.outputs)
        )
        for x, known in zip(self.leaves, is_known, strict=True):
            if not known:
                x._is_let_go = True  # to transforms around this one it is nobody's

    def back(self, outputs: Sequence[Tensor], by: Sequence[Tensor], records: bool) -> list[Tensor]:
        """Return gradients by the inputs; zeros where outputs do not depend on one."""
        return _gradients(outputs, self.leaves, by, records)

    def free(self, tree: Any) -> Any:
        """Return tensors as callers get them: recorded only by what is around this call."""
        return tree if self.is_recorded else mapped(_detached, tree)


def _detached(value: Any) -> Any:
    return value.detach() if isinstance(value, Tensor) else value


def _reaches_others(output: Tensor, own: set[int]) -> bool:
    """Whether a tensor was made of leaves that are not a call's own."""
    if output.grad_fn is None:
        return output.requires_grad and id(output) not in own
    todo: list[Any] = [output.grad_fn]
    seen = set()
    while todo:
        node = todo.pop()
        if isinstance(node, AccumulateGrad):
            leaf = node.variable
            if id(leaf) not in own and not getattr(leaf, "_is_let_go", False):
                return True
        elif id(node) not in seen:
            seen.add(id(node))
            todo += [n for n, _ in recorded_below(node) if n is not None]
    return False


def _gradients(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], by: Sequence[Tensor], records: bool
) -> list[Tensor]:
    known = [(o, w) for o, w in zip(outputs, by, strict=True) if o.requires_grad]
    found: Sequence[Tensor | None] = (None,) * len(inputs)
    if known:
        with enable_grad():
            found = _grad([o for o, _ in known], list(inputs), [w for _, w in known],
                          retain_graph=True, create_graph=records, allow_unused=True)  # fmt: skip
    return [zeros(x.detach()) if g is None else g for x, g in zip(inputs, found, strict=True)]


def _chosen(name: str, args: tuple[Any, ...], argnums: Argnums) -> tuple[int, ...]:
    """Return the places of arguments, from 0 on."""
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    if not numbers:
        raise RuntimeError(f"{name}: argnums must be non-empty")
    for n in numbers:
        if not -len(args) <= n < len(args):
            raise RuntimeError(f"{name}: Got argnum={n}, but only {len(args)} positional inputs")
    return tuple(n % len(args) for n in numbers)


def _by(function: Function, args: tuple[Any, ...], at: tuple[int, ...], kwargs: Any) -> Function:
    """Return a function of the chosen arguments alone."""

    def called(*chosen: Any) -> Any:
        whole = list(args)
        for n, value in zip(at, chosen, strict=True):
            whole[n] = value
        return function(*whole, **kwargs)

    return called


def grad_and_value(func: Function, argnums: Argnums = 0, has_aux: bool = False) -> Function:
    """Return a function that gives a function's gradient, and its value.

    Parameters
    ----------
    func : callable
        It gives one number, a Tensor of shape (); with `has_aux` a pair of it and anything.
    argnums : int or tuple of int
        The arguments that gradients are by: Tensors, or containers of them.
    has_aux : bool

    Returns
    -------
    callable
        Of func's arguments: ``(gradient, value)``, with `has_aux` ``(gradient, (value, aux))``. The
        gradient is as its argument, of several argnums a tuple.
    """

    @wraps(func)
    def both(*args: Any, **kwargs: Any) -> Any:
        at = _chosen("grad", args, argnums)
        of_these = _by(func, args, at, kwargs)
        call = _Call("grad", of_these, tuple(args[n] for n in at), has_aux)
        if not isinstance(call.made, Tensor):
            raise RuntimeError(
                "Expected the given function to return a single tensor, got "
                f"{type(call.made).__name__}"
            )
        if call.made.ndim:
            raise RuntimeError(
                "grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor, got tensor "
                f"with {call.made.ndim} dims. Maybe you wanted to use the vjp or jacrev APIs "
                "instead?"
            )
        found = call.back(call.outputs, [ones(call.made.detach())], call.is_recorded)
        shaped = filled(tuple(args[n] for n in at), found)
        gradient = call.free(shaped[0] if isinstance(argnums, int) else shaped)
        value = call.free(call.made)
        return (gradient, (value, call.free(call.aux))) if has_aux else (gradient, value)

    return both


def grad(func: Function, argnums: Argnums = 0, has_aux: bool = False) -> Function:
    """Return a function that gives a function's gradient; see `grad_and_value`.

    Examples
    --------
    >>> import tcdsl
    >>> grad(lambda x: (x * x).sum())(tcdsl.ones(3))
    tensor([2., 2., 2.])
    """
    both = grad_and_value(func, argnums, has_aux)

    @wraps(func)
    def alone(*args: Any, **kwargs: Any) -> Any:
        gradient, value = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return alone


def vjp(func: Function, *primals: Any, has_aux: bool = False) -> Any:
    """Return a function's value, and the function that multiplies vectors with its Jacobian.

    Returns
    -------
    value, pull[, aux]
        ``pull(cotangents)``, as the value is, gives a tuple as the primals are.
    """
    call = _Call("vjp", func, primals, has_aux)

    def pull(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        weights = leaves(cotangents)
        if [tuple(w.shape) for w in weights] != [tuple(o.shape) for o in call.outputs]:
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of "
                "outputs to the function."
            )
        is_known = is_grad_enabled() and any(w.requires_grad for w in weights)
        found = call.back(call.outputs, weights, call.is_recorded or is_known)
        shaped = filled(primals, found)
        return shaped if is_known else call.free(shaped)

    value = call.free(call.made)
    return (value, pull, call.free(call.aux)) if has_aux else (value, pull)


def _pushed(call: _Call, tangents: Sequence[Tensor]) -> list[Tensor]:
    """Return the Jacobian's product with tangents: the way back is linear in its weights."""
    weights = [zeros(o.detach()).requires_grad_() for o in call.outputs]
    for w in weights:
        w._is_let_go = True
    back = call.back(call.outputs, weights, True)
    known = any(t.requires_grad for t in tangents)
    return _gradients(back, weights, tangents, call.is_recorded or (call.was_on and known))


def jvp(
    func: Function, primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False
) -> Any:
    """Return a function's value, and the product of its Jacobian with tangents.

    Parameters
    ----------
    func : callable
    primals, tangents : tuple
        Arguments, and as many of their shapes.
    strict : bool
        Taken, without a meaning: what does not depend on an argument has zeros.
    has_aux : bool

    Returns
    -------
    value, product[, aux]
    """
    for name, given in (("primals", primals), ("tangents", tangents)):
        if not isinstance(given, tuple):
            raise RuntimeError(
                f"jvp(f, primals, tangents): Expected {name} to be a tuple. E.g. it should be "
                "valid to call f(*primals)."
            )
    along = leaves(tangents)
    if [tuple(t.shape) for t in along] != [tuple(p.shape) for p in leaves(primals)]:
        raise RuntimeError(
            "jvp(f, primals, tangents): Expected primals and tangents to have the same python "
            "structure and shapes."
        )
    call = _Call("jvp", func, primals, has_aux)
    found = filled(call.made, _pushed(call, along))
    known = call.was_on and any(t.requires_grad for t in along)
    product = found if known else call.free(found)
    value = call.free(call.made)
    return (value, product, call.free(call.aux)) if has_aux else (value, product)


def linearize(func: Function, *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """Return a function's value, and a function of tangents: the Jacobian's product with them.

    Parameters
    ----------
    func : callable
    *primals : Tensor or containers of Tensors
        Its arguments; tangents are as they are.
    """
    call = _Call("linearize", func, primals, False)

    def pushed(*tangents: Any) -> Any:
        along = leaves(tangents)
        if [tuple(t.shape) for t in along] != [tuple(p.shape) for p in leaves(primals)]:
            raise RuntimeError("linearize: Expected tangents of the shapes of the primals")
        return call.free(filled(call.made, _pushed(call, along)))

    return call.free(call.made), pushed


def _jacobian(
    name: str, func: Function, argnums: Argnums, has_aux: bool, rows: Callable[..., Any]
) -> Function:
    """Return a function that gives Jacobians, made of the rows or columns of each output."""

    @wraps(func)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        at = _chosen(name, args, argnums)
        inputs = tuple(args[n] for n in at)
        call = _Call(name, _by(func, args, at, kwargs), inputs, has_aux)
        found = rows(call)  # per output, per input: shape (*output, *input)
        shaped = [filled(inputs, row) for row in found]
        if isinstance(argnums, int):
            shaped = [row[0] for row in shaped]
        result = call.free(filled(call.made, shaped))
        return (result, call.free(call.aux)) if has_aux else result

    return jacobian


def _rows(call: _Call) -> list[list[Tensor]]:
    found = []
    for n, output in enumerate(call.outputs):
        rows = []
        for i in range(output.numel()):
            weight = zeros(output.detach()).reshape(-1)
            weight[i] = 1
            by = [weight.view(tuple(output.shape))]
            rows.append(call.back([call.outputs[n]], by, call.is_recorded))
        found.append([
            stack([row[k] for row in rows], 0).reshape(*output.shape, *x.shape)
            if rows else x.new_zeros((*output.shape, *x.shape))
            for k, x in enumerate(call.leaves)
        ])  # fmt: skip
    return found


def _columns(call: _Call) -> list[list[Tensor]]:
    found: list[list[Tensor]] = [[] for _ in call.outputs]
    for k, x in enumerate(call.leaves):
        columns = []
        for i in range(x.numel()):
            along = [zeros(y.detach()) for y in call.leaves]
            along[k].view(-1)[i] = 1
            columns.append(_pushed(call, along))
        for n, output in enumerate(call.outputs):
            found[n].append(
                stack([c[n] for c in columns], -1).reshape(*output.shape, *x.shape)
                if columns
                else x.new_zeros((*output.shape, *x.shape))
            )
    return found


def jacrev(
    func: Function,
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Function:
    """Return a function that gives a function's Jacobian, one way back for each row.

    Parameters
    ----------
    func, argnums, has_aux
        As of `grad_and_value`; the outputs may be of any shape, in containers.
    chunk_size : int, optional
        Taken: rows are computed one by one.

    Returns
    -------
    callable
        Of func's arguments: for each output, for each argument a Tensor (*output, *argument).
    """
    return _jacobian("jacrev", func, argnums, has_aux, _rows)


def jacfwd(
    func: Function, argnums: Argnums = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Function:
    """Return a function that gives a Jacobian, one product for each column; see `jacrev`."""
    return _jacobian("jacfwd", func, argnums, has_aux, _columns)


def hessian(func: Function, argnums: Argnums = 0) -> Function:
    """Return a function that gives second derivatives, (*output, *argument, *argument)."""
    return jacfwd(jacrev(func, argnums), argnums)
