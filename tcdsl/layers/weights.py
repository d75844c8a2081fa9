"""First values of a layer's parameters: what the caller says, else what the text suggests.

Uniform within 1/sqrt(n) for n weights summed up in one element: the rule of `nn.Linear` and
`nn.Conv2d` for their layouts, right for all others too. What is not summed and of rank 0 or 1 is 1
as a factor, else 0, as in torch's norms; torch's random bias is not taken over, since a text does
not say which layer a bias belongs to.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tcdsl.grammar.text.errors import TCTypeError
from tcdsl.grammar.types import typed
from tcdsl.layers.library import Library

# In place on the tensor, or giving another one; a function of nn.init by its name; a value, which
# may be a tensor.
Init = Callable[[Any], object] | str | float | Any

_USUAL = {"kaiming_uniform": {"a": math.sqrt(5)}}  # as nn.Linear and nn.Conv2d call it


def fill(library: Library, tensor: Any, name: str, init: Init | None, role: Role) -> None:
    """Give a parameter its first values.

    Parameters
    ----------
    library : Library
        Of the tensor.
    tensor : Tensor
        Written in place.
    name : str
        The parameter, for messages.
    init : callable, str, number or Tensor, optional
        See `TC`; without it the role decides.
    role : Role
        What the text does with it.

    Raises
    ------
    TCTypeError
        If init is none of these, or does not fit the tensor.
    """
    with library.no_grad():
        if init is None:
            role.fill(tensor)
        elif isinstance(init, library.tensor):
            _copy(tensor, name, init)
        elif isinstance(init, str):
            _by_name(library, tensor, name, init)
        elif callable(init):
            with _refusals_of(getattr(init, "__name__", "init"), tensor, name):
                given = init(tensor)
            if isinstance(given, library.tensor) and given is not tensor:
                _copy(tensor, name, given)
        elif isinstance(init, int | float) and not isinstance(init, bool):
            tensor.fill_(init)
        else:
            raise TCTypeError(
                f"init of {name}: expected a function that fills a tensor, the name of one in "
                f"{library.init_name}, a number or a tensor, got {type(init).__name__}"
            )


def _copy(tensor: Any, name: str, values: Any) -> None:
    if values.shape != tensor.shape:
        raise TCTypeError(
            f"init of {name}: expected the shape {tuple(tensor.shape)}, got {tuple(values.shape)}"
        )
    tensor.copy_(values)


def _by_name(library: Library, tensor: Any, name: str, init: str) -> None:
    function = getattr(library.init, f"{init.rstrip('_')}_", None)
    if function is None or init.startswith("_"):
        known = sorted(n[:-1] for n in dir(library.init) if n[-1] == "_" and n[0] != "_")
        raise TCTypeError(
            f"init of {name}: {library.init_name} has no '{init}'; it has {', '.join(known)}"
        )
    with _refusals_of(init, tensor, name):
        function(tensor, **_USUAL.get(init.rstrip("_"), {}))


@contextmanager
def _refusals_of(init: str, tensor: Any, name: str) -> Iterator[None]:
    """Say of which parameter a function of nn.init speaks."""
    try:
        yield
    except (TypeError, ValueError) as refusal:
        raise TCTypeError(
            f"init of {name}, of shape {tuple(tensor.shape)}: '{init}' does not serve: {refusal}\n"
            f'  say what does for each parameter, as init={{"{name}": 0.0}}'
        ) from refusal


class Role:
    """What a text does with a parameter, so far as it says how large its first values should be.

    Attributes
    ----------
    summed : tuple of int
        Dimensions over which the text sums: the weights of one output element.
    is_factor : bool
        Whether an element is multiplied or divided by it as it is.
    """

    def __init__(self, summed: tuple[int, ...] = (), *, is_factor: bool = False) -> None:
        self.summed = summed
        self.is_factor = is_factor

    def fill(self, tensor: Any) -> None:
        """Give a tensor values that keep a layer's outputs of about the size of its inputs."""
        if not self.summed and tensor.ndim < 2:
            tensor.fill_(1.0 if self.is_factor else 0.0)
            return
        dims = self.summed or range(1, tensor.ndim)
        bound = 1 / math.sqrt(max(1, math.prod(tensor.shape[d] for d in dims)))
        tensor.uniform_(-bound, bound)


def role_in(checked: typed.CheckedDef, name: str) -> Role:
    """Return what a definition does with a parameter.

    Examples
    --------
    >>> from tcdsl.grammar.check.definition import check
    >>> from tcdsl.grammar.text.parser import parse
    >>> text = "def mv(float(K) x, float(K,M) W) -> (y) { y(i) +=! x(k) * W(k, i) }"
    >>> role_in(check(parse(text)), "W").summed
    (0,)
    """
    is_factor = False
    for s in typed.statements(checked.body):
        reduced = {r.name for r in s.ranges if r.kind == "reduction"}
        for operand, is_operand_of_product in _operands(s.value):
            if not isinstance(operand, typed.Read) or operand.tensor != name:
                continue
            is_factor |= is_operand_of_product
            summed = tuple(d for d, e in enumerate(operand.subs) if reduced & {*_indices(e)})
            if summed and s.op in ("+=", "+=!"):
                return Role(summed)
    return Role(is_factor=is_factor)


def _operands(root: typed.Expr) -> Iterator[tuple[typed.Expr, bool]]:
    """Yield all parts of an expression, and of each whether it is a factor or a divisor as is."""
    todo: list[tuple[typed.Expr, bool]] = [(root, False)]
    while todo:
        expr, is_factor = todo.pop()
        yield expr, is_factor
        match expr:
            case typed.Read(subs=subs):
                todo += [(e, False) for e in subs]
            case typed.Cast(operand=a) | typed.Unary(operand=a):
                todo.append((a, is_factor))
            case typed.Binary(op, a, b):
                todo += [(a, op in "*/"), (b, op in "*/")]
            case typed.Select(a, b, c):
                todo += [(a, False), (b, False), (c, False)]
            case typed.Builtin(args=args):
                todo += [(a, False) for a in args]


def _indices(root: typed.Expr) -> Iterator[str]:
    return (e.name for e, _ in _operands(root) if isinstance(e, typed.IndexValue))
