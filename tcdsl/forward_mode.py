"""`jvp`: kernels with their tangents."""

from __future__ import annotations

from typing import Any

from tcdsl.derived.with_tangents import WithTangents
from tcdsl.grammar.text.errors import TCTypeError
from tcdsl.grammar.types.dtypes import BY_NAME
from tcdsl.kernel import Kernel
from tcdsl.text.names import of_the_text

__all__ = ["WithTangents", "jvp"]


def jvp(kernel: Kernel, /, *, wrt: Any = None, **generics: Any) -> Kernel:
    """Return the Jacobian-vector product of a kernel, a kernel as well.

    ``tc.jvp(f)(x, .., t_x, ..)`` gives ``f(x, ..)`` and ``sum_i dy/dx[i] * t_x[i]``, of all float
    parameters x together, named ``t_y``. Nothing is kept: it takes about two to three times the
    operations and the memory of f.

    Parameters
    ----------
    kernel : Kernel
    wrt : str or sequence of str, optional
        The float parameters that have a tangent, in the order of the tangents; by default all, in
        theirs. Others are constants, and nothing is computed for them.
    **generics
        Values of its generics, and types of its type variables ("float32"); as of `tcdsl.grad`.

    Returns
    -------
    Kernel
        Its parameters are those of the kernel, then ``t_X``, of the shape and type of X, for each
        float parameter, or each of wrt; its returns are those of the kernel, then ``t_O`` for each
        float return. It can be shown, tuned, and differentiated again, forwards and backwards.

    Raises
    ------
    TCError
        If the kernel has no float parameter or return, its derivative goes through a function that
        has none, or wrt names what is no float parameter.

    Notes
    -----
    Ties are those of `tcdsl.grad`. Outputs that a call could add to begin as 0 here. Behind the
    tangents it returns what definitions that the kernel calls scatter into, if they do: only a
    head can say how large that is.

    Examples
    --------
    >>> import numpy as np
    >>> import tcdsl as tc
    >>> square = tc.define("def square(double(N) x) -> (y) { y(i) = x(i) * x(i) }")
    >>> tc.jvp(square)
    <tcdsl kernel j_square(float64(N) x, float64(N) t_x) -> float64(N) y, float64(N) t_y>
    >>> tc.jvp(square)(np.array([1.0, 2.0]), np.array([1.0, 10.0])).t_y
    array([ 2., 40.])
    """
    if not isinstance(kernel, Kernel):
        raise TCTypeError(
            f"expected a kernel to differentiate, got {type(kernel).__name__}\n"
            "  pass what tcdsl.define gives for one definition, "
            "or one of several by its name: T.name"
        )
    options, generics = of_the_text(kernel.definition, {"wrt": wrt}, generics)
    types = {k: BY_NAME.get(v, v) if isinstance(v, str) else v for k, v in generics.items()}
    f = kernel.whole
    bound = f.session.variant(f.definition, types)
    return kernel.with_tangents().of(bound, options.get("wrt")).kernel
