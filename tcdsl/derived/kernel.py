"""A kernel of which others are made: over a batch, with its gradient, with tangents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from tcdsl.plain.kernel import PlainKernel
from tcdsl.text.names import of_the_text

if TYPE_CHECKING:
    from tcdsl.codegen.gradient.wanted import Wrt
    from tcdsl.derived.with_gradient import Pull, WithGradient
    from tcdsl.derived.with_tangents import WithTangents
    from tcdsl.grammar.batch.definition import Randomness


class DerivableKernel(PlainKernel):
    """A kernel with its batches and derivatives: all of `Kernel` that needs no tuner."""

    # ---- a batch

    def batched(
        self,
        /,
        *which: Any,
        out_dims: Any = 0,
        randomness: Randomness = "same",
        **in_dims: int | None,
    ) -> Self:
        """Return this kernel over a batch: its text with one more index, a kernel as any other.

        ``k.batched("X")`` takes a new first dimension of X and gives one of each output that
        depends on X; what does not depend on it is computed once. As `torch.func.vmap`, but one
        kernel: a product of matrices over a batch is one product.

        Parameters
        ----------
        *which : str
            The parameters that have the batch, as their first dimension: all, if nothing is said.
            Or one mapping of names to dimensions, or one tuple with a dimension or None for each.
        out_dims : int, mapping of str to int or None, or tuple, default 0
            Where outputs have the batch, if they depend on it. One that is named has it in any
            case, or, for None, may not depend on it.
        randomness : {"same", "different"}
            Whether ``rand`` gives each element of the batch the same numbers, where its seed is one
            for all. A seed that has the batch gives each the numbers of its seed.
        **in_dims : int or None
            The dimension of the batch by parameter, ``X=1, W=None``; negative ones count from the
            last. A parameter that is called `out_dims` or `randomness` goes into a mapping.

        Returns
        -------
        Kernel
            Named ``batched_k``; the same one whenever the same is asked. Its `out_dims` say which
            outputs have the batch. It can be shown, tuned, differentiated and batched again.

        Raises
        ------
        TCTypeError
            If a name or dimension is not there, or if ranges depend on a scalar that is to have the
            batch: all elements of a batch have one size.

        Examples
        --------
        >>> import numpy as np
        >>> import tcdsl as tc
        >>> dot = tc.define("def dot(float(N) x, float(N) y) -> (s) { s +=! x(i) * y(i) }")
        >>> dot.batched("x")(np.ones((2, 3), np.float32), np.ones(3, np.float32))
        array([3., 3.], dtype=float32)
        """
        make = partial(self._batched, which, in_dims, out_dims, randomness)
        question = "batched", which, tuple(in_dims.items()), out_dims, randomness
        try:
            hash(question)
        except TypeError:  # it has lists or mappings
            return make()
        return self.once(question, make)

    def _batched(
        self, which: Sequence[Any], named: Mapping[str, Any], out_dims: Any, randomness: Randomness
    ) -> Self:
        from tcdsl.derived.batching import asked  # on use: most kernels have no batch

        dims, outputs, other = asked(self, which, named, out_dims)
        meaning = tuple(dims.items()), tuple(sorted(outputs.items())), other, randomness
        make = partial(self._over_batch, dims, outputs, other, randomness)
        return self.once(("over a batch", *meaning), make)

    def _over_batch(
        self,
        in_dims: Mapping[str, int],
        out_dims: Mapping[str, int | None],
        out_dim: int,
        randomness: Randomness,
    ) -> Self:
        """Return this kernel over a batch; see `batched`, which knows what each argument means."""
        from tcdsl.derived.batching import over_batch  # on use: as above

        session, _ = over_batch(self, in_dims, out_dims, out_dim, randomness)
        return self.derive(session, session.program.defs[-1])

    @property
    def out_dims(self) -> tuple[int | None, ...]:
        """Where each output has the batch, None for not: of a kernel that `batched` gave."""
        return self.session.out_dims or (None,) * len(self.returns)

    # ---- derivatives

    def with_grad(
        self,
        *,
        wrt: Wrt | None = None,
        checkpoint: int | None = None,
        memory_limit: int | None = None,
        copy: bool = True,
    ) -> WithGradient[Self]:
        """Return this kernel such that a call gives ``(outputs, pull)``; see `WithGradient`.

        Parameters
        ----------
        wrt : str or sequence of str, optional
            The float parameters that the gradient is by, in the order of its results; by default
            all, in theirs. What only others need is neither computed nor kept.
        checkpoint, memory_limit : int, optional
            What is kept of the turns of loops; see `tcdsl.grad`. The sizes are those of each call.
        copy : bool, default True
            Whether the way back keeps copies, so that nobody changes what it reads. False saves
            their time and memory: then do not write to arguments or outputs until the last pull.

        Examples
        --------
        >>> import numpy as np
        >>> import tcdsl as tc
        >>> square = tc.define("def square(double(N) x) -> (y) { y(i) = x(i) * x(i) }").with_grad()
        >>> y, pull = square(np.array([1.0, 2.0]))
        >>> y, pull(np.array([1.0, 10.0]))
        (array([1., 4.]), array([ 2., 40.]))
        """
        from tcdsl.derived.with_gradient import with_gradient  # on use: most kernels have none

        return with_gradient(
            self, wrt=wrt, checkpoint=checkpoint, memory_limit=memory_limit, copy=copy
        )

    def vjp(self, /, *args: Any, wrt: Any = None, **named: Any) -> tuple[Any, Pull]:
        """Call the kernel; return its outputs and the vector-Jacobian product there.

        ``y, pull = k.vjp(x)``, and ``pull(d_y)`` is ``sum_i d_y[i] * dy[i] / dx``. pull keeps
        copies: x and y may be written to; `with_grad` with ``copy=False`` does without.

        Parameters
        ----------
        *args, **named
            As of a call.
        wrt : str or sequence of str, optional
            The parameters that pull gives a gradient by, as in `with_grad`. Where the text has a
            parameter or generic of that name, the keyword is its value, and only `with_grad`
            takes parameters: ``k.with_grad(wrt=["x"])(x, wrt=3)``.
        """
        options, named = of_the_text(self.definition, {"wrt": wrt}, named)
        return self.with_grad(**options)(*args, **named)

    def jvp(
        self,
        primals: Sequence[Any] | Mapping[str, Any],
        tangents: Sequence[Any] | Mapping[str, Any],
        /,
        **generics: Any,
    ) -> tuple[Any, Any]:
        """Call the kernel; return its outputs and the Jacobian-vector product there.

        ``y, t_y = k.jvp((x,), (t_x,))``, where ``t_y`` is ``sum_i dy/dx[i] * t_x[i]``: how fast y
        changes where x moves along ``t_x``.

        Parameters
        ----------
        primals : sequence, or mapping by name
            The arguments of a call.
        tangents : sequence, or mapping by name
            For each argument a tangent of its shape and type, or None where it stays as it is, as
            integers do. Nothing is computed for those.
        **generics
            As of a call.

        Returns
        -------
        outputs, tangents
            What the kernel returns, and the tangent of each float output: bare for one, else a
            named tuple (``t_O`` for O).

        Examples
        --------
        >>> import numpy as np
        >>> import tcdsl as tc
        >>> square = tc.define("def square(double(N) x) -> (y) { y(i) = x(i) * x(i) }")
        >>> square.jvp((np.array([1.0, 2.0]),), (np.array([1.0, 10.0]),))
        (array([1., 4.]), array([ 2., 40.]))
        """
        return self.with_tangents()(primals, tangents, **generics)

    def with_tangents(self) -> WithTangents[Self]:
        """Return this kernel such that a call is `jvp`, which it makes once for the same types."""
        from tcdsl.derived.with_tangents import with_tangents  # on use: most kernels have none

        return with_tangents(self)

    @property
    def whole(self) -> Self:
        """A gradient (`tcdsl.grad`) without what is kept: it computes that. Else this kernel."""
        from tcdsl.derived.differentiated import whole_of  # on use: most kernels are none

        return whole_of(self)
