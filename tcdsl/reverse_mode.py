"""`grad`: derivatives as kernels."""

from __future__ import annotations

from typing import Any

from tcdsl.derived.differentiated import CheckpointPolicy, Differentiated
from tcdsl.derived.with_gradient import Pull, WithGradient
from tcdsl.grammar.text.errors import TCTypeError
from tcdsl.kernel import Kernel
from tcdsl.text.names import of_the_text

__all__ = ["CheckpointPolicy", "Differentiated", "Memory", "Pull", "WithGradient", "grad"]

Memory = CheckpointPolicy  # its earlier name, by which pickles find it


def grad(
    kernel: Kernel | WithGradient[Kernel],
    /,
    *,
    wrt: Any = None,
    checkpoint: int | None = None,
    memory_limit: int | None = None,
    **generics: Any,
) -> Kernel:
    """Return the gradient of a kernel: its vector-Jacobian product, a kernel as well.

    ``tc.grad(f)(x, .., kept, .., d_y, ..)`` gives ``sum_i d_y[i] * dy[i] / dx`` for each float
    parameter x, named ``d_x``.

    Parameters
    ----------
    kernel : Kernel, or a kernel with its gradient
        ``tc.grad(kernel.with_grad(wrt=["x"]))`` is ``tc.grad(kernel, wrt=["x"])``.
    wrt : str or sequence of str, optional
        The float parameters that the gradient is by, in the order of its returns; by default all,
        in theirs. What only others need is neither computed nor kept.
    checkpoint : int, optional
        Keep the state of `for` loops before every so many turns only; the gradient runs the turns
        between again. Without it every turn's state is kept, unless there is too much of that.
    memory_limit : int, optional
        Where the text gives all sizes: how many bytes may be kept before a checkpoint is set every
        so many turns, about the root of their number.
    **generics
        Values of its generics, and types of its type variables ("float32"): a gradient is of one
        of each. One of any rank is of one rank: ``tc.grad(kernel.with_rank(2))``. Of a generic
        that is called as a parameter above is, the keyword is the generic's value, and
        `Kernel.with_grad` takes what it hides: ``tc.grad(kernel.with_grad(wrt=["x"]), wrt=3)``.

    Returns
    -------
    Kernel
        Its parameters are those of the kernel, then what is kept of the forward pass (outputs
        `kernel.with_grad()` hands on), then `d_O` for each float return; its returns are `d_X` for
        each float parameter, or each of wrt. It can be shown, tuned, and differentiated again. Its
        ``whole`` is the same without the kept parameters: it computes them itself.

    Raises
    ------
    TCError
        If the kernel has no float parameter or return, its gradient goes through a function that
        has no derivative, or wrt names what is no float parameter.

    Notes
    -----
    What is kept is a function of the parameters, and ``tc.grad(tc.grad(f))`` knows it: it is the
    gradient of ``tc.grad(f).whole``, so that the second derivative is that of f. A gradient that
    was printed and defined again is a text like any other: what it takes are its parameters.

    Ties: `max(a, b)` gives half to each, `fmax(a, b)` all to a, `relu` nothing at 0, `max=` all to
    the first point.

    Examples
    --------
    >>> import numpy as np
    >>> import tcdsl as tc
    >>> square = tc.define("def square(double(N) x) -> (y) { y(i) = x(i) * x(i) }")
    >>> tc.grad(square)
    <tcdsl kernel d_square(float64(N) x, float64(N) d_y) -> float64(N) d_x>
    >>> tc.grad(square)(np.array([1.0, 2.0]), np.array([1.0, 10.0]))
    array([ 2., 40.])

    The product of the Hessian of sum(x * x) and a vector, from the second derivative:

    >>> hessian = tc.grad(tc.grad(square)).whole
    >>> hessian.params, hessian.returns
    (('x', 'd_y', 'd_d_x'), ('d_x_2', 'd_d_y'))
    >>> hessian(np.array([1.0, 2.0]), np.ones(2), np.array([0.0, 1.0])).d_x_2
    array([0., 2.])
    """
    settled = kernel if isinstance(kernel, WithGradient) else None
    of = kernel.kernel if isinstance(kernel, WithGradient) else kernel
    if not isinstance(of, Kernel):
        raise TCTypeError(
            f"expected a kernel to differentiate, got {type(of).__name__}\n"
            "  pass what tcdsl.define gives for one definition, "
            "or one of several by its name: T.name"
        )
    options = {"wrt": wrt, "checkpoint": checkpoint, "memory_limit": memory_limit}
    given, generics = of_the_text(of.definition, options, generics)
    if settled is None:
        settled = of.with_grad(**given)
    elif any(v is not None for v in given.values()):
        raise TCTypeError(
            f"{of.name}: a kernel with its gradient has wrt, checkpoint and memory_limit\n"
            "  pass them to with_grad, or the kernel itself to grad"
        )
    return settled.derived(generics)
