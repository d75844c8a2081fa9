"""Derivatives for those who call kernels: `grad`, and kernels that run with their gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tcdsl.codegen.gradient.vjp import Gradient, gradient
from tcdsl.grammar.dtypes import BY_NAME
from tcdsl.grammar.errors import TCTypeError
from tcdsl.grammar.parser import parse
from tcdsl.locks import Lock
from tcdsl.session import Session, Settings

if TYPE_CHECKING:
    from tcdsl.grammar.typed import CheckedDef
    from tcdsl.kernel import Kernel


def grad(kernel: Kernel, **generics: Any) -> Kernel:
    """Return the gradient of a kernel: its vector-Jacobian product, a kernel as well.

    ``tc.grad(f)(x, .., kept, .., d_y, ..)`` gives ``sum_i d_y[i] * dy[i] / dx`` for each float
    parameter x, named ``d_x``.

    Parameters
    ----------
    kernel : Kernel
    **generics
        Values of its generics, and types of its type variables ("float32"): a gradient is of one
        of each. One of any rank is of one rank: ``tc.grad(kernel.with_rank(2))``.

    Returns
    -------
    Kernel
        Its parameters are those of the kernel, then what is kept of the forward pass (outputs
        `kernel.with_grad()` hands on), then `d_O` for each float return; its returns are `d_X` for
        each float parameter. It can be shown, tuned, and differentiated again.

    Raises
    ------
    TCError
        If the kernel has no float parameter or return, or its gradient goes through a function
        that has no derivative.

    Notes
    -----
    Ties: `max(a, b)` gives half to each, `fmax(a, b)` all to a, `relu` nothing at 0, `max=` all to
    the first point.

    Examples
    --------
    >>> import numpy as np
    >>> import tcdsl as tc
    >>> square = tc.define("def square(double(N) x) -> (y) { y(i) = x(i) * x(i) }")
    >>> tc.grad(square)
    <tcdsl kernel d_square(x, d_y) -> d_x>
    >>> tc.grad(square)(np.array([1.0, 2.0]), np.array([1.0, 10.0]))
    array([ 2., 40.])
    """
    types = {k: BY_NAME.get(v, v) if isinstance(v, str) else v for k, v in generics.items()}
    made = gradient(kernel.session.variant(kernel.definition, types).checked)
    return _kernel(made.text, kernel.session.settings)


@dataclass(frozen=True)
class Differentiated:
    """A kernel bound to types: the texts of its gradient, and kernels of both.

    Attributes
    ----------
    gradient : Gradient
        The texts.
    forward : Kernel
        The kernel with what is kept for the gradient as further outputs.
    backward : Kernel
        The vector-Jacobian product.
    """

    gradient: Gradient
    settings: Settings

    @cached_property
    def forward(self) -> Kernel:
        """The training forward."""
        return _kernel(self.gradient.forward, self.settings)

    @cached_property
    def backward(self) -> Kernel:
        """The vector-Jacobian product."""
        return _kernel(self.gradient.text, self.settings)


Pull = Callable[..., Any]


class WithGradient:
    """A kernel whose calls return ``(outputs, pull)``.

    outputs is what the kernel returns. ``pull(d_y)`` gives the gradient by each float parameter,
    `d_y` being that of a number by the output; where there are several float outputs, it takes one
    for each (None for 0). A single rank-0 output may go without: ``pull()`` is the gradient.

    The forward pass runs once, with what the gradient needs as further outputs.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self._known: dict[int, tuple[CheckedDef, Differentiated]] = {}
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"<{self.kernel!r} with gradient>"

    def __call__(self, *args: Any, **named: Any) -> tuple[Any, Pull]:
        """Run the forward pass; return what the kernel returns, and the way back."""
        names = {g.name for g in self.kernel.definition.generics}
        generics = {k: v for k, v in named.items() if k in names}
        call = self.kernel.call(*args, **named)
        checked = call.variant.checked
        made = self.of(checked)
        by_name = dict(zip(self.kernel.params, args, strict=False))
        by_name |= {k: v for k, v in named.items() if k not in generics}
        values = tuple(by_name[p] for p in self.kernel.params)
        results = made.forward(*values)
        listed = tuple(results) if len(made.forward.returns) > 1 else (results,)
        outputs = listed[: len(checked.returns)]
        found = dict(zip(made.forward.returns, listed, strict=True))
        kept = [found[name] for name in made.gradient.kept]
        floats = [o for o, t in zip(outputs, checked.returns, strict=True) if t.dtype.is_float]
        pull = _pull(made.backward, (*values, *kept), floats)
        return (self.kernel.result(outputs) if len(outputs) > 1 else outputs[0]), pull

    def of(self, checked: CheckedDef) -> Differentiated:
        """Return the gradient of the kernel bound to types, made at its first use."""
        with self._lock:
            known = self._known.get(id(checked))  # which is kept, so that its id stays its own
            if known is None:
                made = Differentiated(gradient(checked), self.kernel.session.settings)
                known = self._known[id(checked)] = checked, made
            return known[1]


def _pull(backward: Kernel, values: Sequence[Any], outputs: Sequence[Any]) -> Pull:
    def pull(*adjoints: Any) -> Any:
        names = backward.params[len(backward.params) - len(outputs) :]
        given = adjoints
        if len(adjoints) == 1 and len(outputs) > 1 and isinstance(adjoints[0], tuple | list):
            given = tuple(adjoints[0])
        if not given and len(outputs) == 1 and outputs[0].ndim == 0:
            given = (1.0,)
        if len(given) != len(outputs):
            raise TCTypeError(
                f"{backward.name}: expected {len(outputs)} adjoints ({', '.join(names)}), "
                f"got {len(given)}"
            )
        pairs = zip(given, outputs, strict=True)
        return backward(*values, *(np.zeros_like(o) if a is None else a for a, o in pairs))

    return pull


def _kernel(text: str, settings: Settings) -> Kernel:
    from tcdsl.kernel import Kernel

    program = parse(text, "<gradient>")
    return Kernel(Session(program, settings), program.defs[0])
