"""Calls of a kernel that give its outputs and the way back from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Generic

import numpy as np

from tcdsl.calls.process.bounded import thinned
from tcdsl.calls.process.locks import Lock
from tcdsl.codegen.gradient.wanted import Wrt, checked_names, listed_names
from tcdsl.derived.beforehand import Beforehand, keep_order, wait
from tcdsl.derived.differentiated import MEMORY_LIMIT, CheckpointPolicy, Differentiated, K, whole_of
from tcdsl.derived.own import own
from tcdsl.derived.texts import gradient_of
from tcdsl.grammar.text.errors import TCTypeError, count
from tcdsl.grammar.types.dtypes import BY_NAME
from tcdsl.plain.kernel import PlainKernel, kernel_of_ours

if TYPE_CHECKING:
    from tcdsl.calls.bindings.variant import Variant

_Key = tuple[int, int | None, tuple[str, ...] | None]


_MOST_KNOWN = 256  # gradients of a kernel: by types, generics, turns of loops, parameters


class Pull:
    """The way back of one call: ``pull(d_y)`` is the gradient by each float parameter, or of wrt.

    d_y is the adjoint of the output y: the gradient of a number by it. Where there are several
    float outputs, it takes one for each, in their order, as a tuple, or by name (``d_m=``); None
    stands for 0, and so does a name that is not given. A single output of rank 0 may go without:
    ``pull()`` is the gradient.

    What it keeps is its own: it may be called any number of times, whatever becomes of the
    arguments and outputs of the call meanwhile (but see `Kernel.with_grad` for ``copy=False``).
    """

    def __init__(
        self,
        made: Differentiated[Any],
        values: Sequence[Any],
        kept: Sequence[Any],
        outputs: Mapping[str, Any],
        sizes: Mapping[str, int],
        *,
        copy: bool = True,
    ) -> None:
        self._made, self._sizes, self._copy = made, sizes, copy
        self._values, self._kept = tuple(values), tuple(kept)
        self._outputs = {
            given.name: outputs[given.output] for given in made.gradient.given if given.output
        }

    def __repr__(self) -> str:
        given = ", ".join(self._outputs)
        returns = ", ".join(self._made.backward.returns)
        return f"<the way back ({given}) -> {returns}>"

    def __call__(self, /, *adjoints: Any, **named: Any) -> Any:
        """Return the gradient by each of these parameters, a named tuple if there are several."""
        keep_order(self._made, self._sizes)
        if self._made.begun:
            wait(self._made, self._sizes)
        return self._made.backward(*self._values, *self._kept, *self._adjoints(adjoints, named))

    def vjp(self, /, *adjoints: Any, wrt: Wrt | None = None, **named: Any) -> tuple[Any, Pull]:
        """Call; return the gradient, and the way back from it, to the parameters and the adjoints.

        Parameters
        ----------
        *adjoints, **named
            As of a call.
        wrt : str or sequence of str, optional
            Which of the parameters and adjoints that second way back is to.

        Examples
        --------
        >>> import numpy as np
        >>> import tcdsl as tc
        >>> cube = tc.define("def cube(double(N) x) -> (y) { y(i) = x(i) * x(i) * x(i) }")
        >>> y, pull = cube.vjp(np.array([1.0, 2.0]))
        >>> d_x, again = pull.vjp(np.ones(2))
        >>> d_x
        array([ 3., 12.])
        >>> again(np.array([0.0, 1.0])).d_x_2  # the Hessian of sum(x ** 3) times a vector
        array([ 0., 12.])
        """
        found = self._adjoints(adjoints, named)
        again = with_gradient(self._made.whole, wrt=wrt, copy=self._copy)
        return again.pulled((*self._values, *found), {}, own_values=len(self._values))

    def _adjoints(self, given: tuple[Any, ...], named: Mapping[str, Any]) -> list[Any]:
        """Return an adjoint for each float output."""
        outputs = self._outputs
        call = f"{self._made.gradient.name}: the way back takes {', '.join(outputs)}"
        if len(given) == 1 and len(outputs) > 1 and isinstance(given[0], tuple | list):
            given = tuple(given[0])
        if not given and not named and len(outputs) == 1:
            (output,) = outputs.values()
            given = (1.0,) if output.ndim == 0 else ()
        unknown = [n for n in named if n not in outputs]
        if unknown:
            raise TCTypeError(f"{call}, not '{unknown[0]}'")
        twice = [n for n in [*outputs][: len(given)] if n in named]
        if twice:
            raise TCTypeError(f"{call}; '{twice[0]}' is given twice")
        if (not named and len(given) != len(outputs)) or len(given) > len(outputs):
            cure = ""
            if 0 < len(given) < len(outputs):
                first = next(iter(outputs))
                cure = f"\n  give some by name, as {first}=...: those left out are zero"
            raise TCTypeError(
                f"{self._made.gradient.name}: expected {count(len(outputs), 'adjoint')} "
                f"({', '.join(outputs)}), got {len(given)}{cure}"
            )
        by_name = {**dict(zip(outputs, given, strict=False)), **named}
        return [_zeros_like(o) if (a := by_name.get(n)) is None else a for n, o in outputs.items()]


class WithGradient(Generic[K]):
    """A kernel whose calls return ``(outputs, pull)``.

    outputs is what the kernel returns, pull the way back from them (`Pull`). The forward pass runs
    once, with what the gradient needs as further outputs. copy: whether pull keeps copies of the
    arguments, and of the outputs that it needs.

    Attributes
    ----------
    kernel : Kernel
    wrt : tuple of str, or None
        The parameters that the gradient is by, None for all that are floats.
    """

    def __init__(
        self,
        kernel: K,
        memory: CheckpointPolicy | None = None,
        *,
        wrt: Wrt | None = None,
        copy: bool = True,
    ) -> None:
        self.kernel = kernel
        self.wrt = None if wrt is None else self._names(wrt)
        self._memory = memory or CheckpointPolicy()
        self._copy = copy
        self._known: dict[_Key, tuple[Variant, Differentiated[K]]] = {}
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"<{self.kernel!r} with gradient>"

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in vars(self).items() if k not in ("_known", "_lock")}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state, _known={}, _lock=Lock())

    def __copy__(self) -> WithGradient[K]:
        return self

    def __deepcopy__(self, memo: object) -> WithGradient[K]:
        return self

    def __call__(self, /, *args: Any, **named: Any) -> tuple[Any, Pull]:
        """Run the forward pass; return what the kernel returns, and the way back.

        Raises
        ------
        TCTypeError
            If ``out=`` is given: outputs are fresh.
        """
        return self.pulled(args, named)

    def pulled(
        self, args: Sequence[Any], named: Mapping[str, Any], *, own_values: int = 0
    ) -> tuple[Any, Pull]:
        """Call; own_values: how many of the first arguments nobody else can write to."""
        given = self.kernel.arguments(args, named)
        if given.outputs is not None:
            raise TCTypeError(
                f"{self.kernel.name}: a call with its way back takes no out=, its outputs are "
                "fresh\n  copy them where they are wanted: y, pull = k.vjp(x); out[...] = y"
            )
        kernel = whole_of(self.kernel)  # of a gradient, for which kept values are no parameters
        by_name = dict(zip(self.kernel.params, given.values, strict=True))
        values = tuple(by_name[p] for p in kernel.params)
        variant, sizes = kernel.bound(values, given.generics)
        checked = variant.signature
        made = self.of(variant, sizes)
        if not made.first:
            made.first.append((checked.params, sizes))
            made.order.append(tuple(sizes.items()))
        if self._copy:
            is_own = {id(v) for v in given.values[:own_values]}
            copies = {id(v): v if id(v) in is_own else own(v, n) for n, v in by_name.items()}
            values = tuple(copies[id(v)] for v in values)
        results = Beforehand(made, variant, sizes).run(*values)
        listed = tuple(results) if len(made.forward.returns) > 1 else (results,)
        outputs = listed[: len(checked.returns)]
        found = dict(zip(made.forward.returns, listed, strict=True))
        kept = [found[name] for name in made.gradient.kept]
        if self._copy:  # the caller may write to the outputs
            handed = {id(o) for o in outputs}
            kept = [own(k, "") if id(k) in handed else k for k in kept]
        by_return = {t.name: o for o, t in zip(outputs, checked.returns, strict=True)}
        pull = Pull(made, values, kept, by_return, sizes, copy=self._copy)
        return (self.kernel.result(outputs) if len(outputs) > 1 else outputs[0]), pull

    def with_grad(self, /, **generics: Any) -> WithGradient[K]:
        """Return the gradient of the kernel with its gradient, for second derivatives.

        A call takes the kernel's parameters and an adjoint for each float return, and gives the
        gradient and the way back from it.
        """
        return with_gradient(whole_of(self.derived(generics)))

    def derived(self, generics: Mapping[str, Any]) -> K:
        """Return the gradient of the kernel bound to generics; see `grad`."""
        types = {k: BY_NAME.get(v, v) if isinstance(v, str) else v for k, v in generics.items()}
        f = whole_of(self.kernel)
        bound = f.session.variant(f.definition, types)
        return self.of(bound, None if bound.signature.sizes else {}).backward

    def of(
        self,
        bound: Variant,
        sizes: Mapping[str, int] | None = None,
        wrt: tuple[str, ...] | None = None,
    ) -> Differentiated[K]:
        """Return the gradient of the kernel bound to types, made at its first use.

        Parameters
        ----------
        bound : Variant
            The kernel bound to types.
        sizes : mapping of str to int, optional
            Those of a call, which may be too large for keeping every turn of a loop.
        wrt : tuple of str, optional
            The parameters that it is by, in place of those of this object: so one object serves
            calls that ask for different ones.
        """
        wrt = wrt or self.wrt
        plain = self._made(bound, self._memory.checkpoint, wrt)
        turns = self._memory.turns(bound, plain.gradient, sizes)
        return plain if turns == self._memory.checkpoint else self._made(bound, turns, wrt)

    def _made(
        self, bound: Variant, turns: int | None, wrt: tuple[str, ...] | None
    ) -> Differentiated[K]:
        key = id(bound), turns, wrt
        with self._lock:
            known = self._known.get(key)  # the variant is kept, so that the id stays its own
            if known is None:
                known = bound, Differentiated(gradient_of(bound, turns, wrt), self.kernel)
                self._known = thinned(self._known, _MOST_KNOWN)
                self._known[key] = known
            return known[1]

    def _names(self, wrt: Wrt) -> tuple[str, ...]:
        """Return names of float parameters; types of the text's variables are known later."""
        kernel = whole_of(self.kernel)
        kept = [p for p in self.kernel.params if p not in kernel.params]
        types = {
            p.name: None if p.type is None else BY_NAME.get(p.type.name)
            for p in kernel.definition.params
        }
        return checked_names(self.kernel.name, types, wrt, kept)


def with_gradient(
    kernel: K,
    *,
    wrt: Wrt | None = None,
    checkpoint: int | None = None,
    memory_limit: int | None = None,
    copy: bool = True,
) -> WithGradient[K]:
    """Return a kernel with its gradient, the same whenever the same is asked; see `Kernel`."""
    names = None if wrt is None else listed_names(kernel.name, wrt)
    limit = MEMORY_LIMIT if memory_limit is None else memory_limit
    return kernel.once(
        ("with gradient", names, checkpoint, limit, copy),
        lambda: WithGradient(kernel, CheckpointPolicy(checkpoint, limit), wrt=names, copy=copy),
    )


def _zeros_like(output: Any) -> Any:
    """Return zeros of a kind, place, shape and type."""
    return np.zeros_like(output) if isinstance(output, np.ndarray) else _zeros()(output)


@cache
def _zeros() -> PlainKernel:
    text = "def zeros<T>(T(...) A) -> (Z) { Z(...) = T(0) where exists A(...) }"
    return kernel_of_ours(text, "zeros")
