"""Derivatives for those who call kernels: `grad`, and kernels that run with their gradient."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from tcdsl.calls.bindings.session import Session
from tcdsl.calls.process.locks import Lock
from tcdsl.codegen.gradient.checkpoint import turns_between
from tcdsl.codegen.gradient.vjp import Gradient, gradient
from tcdsl.codegen.gradient.wanted import Wrt, checked_names
from tcdsl.codegen.gradient.whole import whole
from tcdsl.derived.own import own
from tcdsl.grammar.text.errors import TCTypeError, count
from tcdsl.grammar.text.parser import parse
from tcdsl.grammar.text.stack import stack_for
from tcdsl.grammar.types.dtypes import BY_NAME
from tcdsl.text.names import of_the_text

if TYPE_CHECKING:
    from tcdsl.grammar.text.nodes import Program
    from tcdsl.grammar.types.typed import CheckedDef
    from tcdsl.kernel import Kernel

K = TypeVar("K", bound="Kernel")

MEMORY_LIMIT = 2**30  # bytes kept of a forward pass, from which on loops keep checkpoints


def grad(
    kernel: Kernel | WithGradient,
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
    from tcdsl.kernel import Kernel

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


@dataclass(frozen=True, slots=True)
class Memory:
    """How much a gradient may keep of a forward pass; see `grad`."""

    checkpoint: int | None = None
    limit: int = MEMORY_LIMIT

    def __post_init__(self) -> None:
        if self.checkpoint is not None and self.checkpoint < 1:
            raise TCTypeError(f"checkpoint: expected a number of turns, got {self.checkpoint}")

    def turns(
        self, checked: CheckedDef, made: Gradient, sizes: Mapping[str, int] | None
    ) -> int | None:
        """Return the turns between checkpoints, None for none, given the gradient without."""
        if self.checkpoint is not None or sizes is None:
            return self.checkpoint
        if made.memory.evaluate(sizes) <= self.limit:
            return None
        turns = turns_between(checked, sizes)
        return turns if turns > 1 else None


@dataclass(frozen=True)
class Differentiated:
    """A kernel bound to types: the texts of its gradient, and kernels of them.

    Attributes
    ----------
    gradient : Gradient
        The texts.
    model : Kernel
        What the kernels are like: their class and settings.
    forward : Kernel
        The kernel with what is kept for the gradient as further outputs.
    backward : Kernel
        The vector-Jacobian product.
    whole : Kernel
        The same without the parameters that are kept: it computes them.
    """

    gradient: Gradient
    model: Kernel

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.gradient, self.model)

    @cached_property
    def forward(self) -> Kernel:
        """The training forward.

        It has the name of the definition, which its text has not: a user knows no other.
        """
        program = parse(self.gradient.forward, "<forward pass>")
        (definition,) = program.defs
        named = replace(definition, name=self.model.name)  # a name that gradients keep free
        return _kernel(replace(program, defs=(named,)), self.model)

    @cached_property
    def backward(self) -> Kernel:
        """The vector-Jacobian product."""
        return _kernel(parse(self.gradient.text, "<gradient>"), self.model, self.gradient)

    @cached_property
    def whole(self) -> Kernel:
        """The vector-Jacobian product with the forward pass in it."""
        return self.backward.whole


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
        made: Differentiated,
        values: Sequence[Any],
        kept: Sequence[Any],
        outputs: Mapping[str, Any],
        *,
        copy: bool = True,
    ) -> None:
        self._made, self._copy = made, copy
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
        again = self._made.whole.with_grad(wrt=wrt, copy=self._copy)
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


class WithGradient:
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
        kernel: Kernel,
        memory: Memory | None = None,
        *,
        wrt: Wrt | None = None,
        copy: bool = True,
    ) -> None:
        self.kernel = kernel
        self.wrt = None if wrt is None else self._names(wrt)
        self._memory = memory or Memory()
        self._copy = copy
        self._known: dict[_Key, tuple[CheckedDef, Differentiated]] = {}
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"<{self.kernel!r} with gradient>"

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in vars(self).items() if k not in ("_known", "_lock")}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state, _known={}, _lock=Lock())

    def __copy__(self) -> WithGradient:
        return self

    def __deepcopy__(self, memo: object) -> WithGradient:
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
        kernel = self.kernel.whole  # of a gradient, for which kept values are no parameters
        by_name = dict(zip(self.kernel.params, given.values, strict=True))
        values = tuple(by_name[p] for p in kernel.params)
        call = kernel.call(*values, **given.generics)
        checked = call.variant.checked
        made = self.of(checked, call.sizes)
        if self._copy:
            is_own = {id(v) for v in given.values[:own_values]}
            copies = {id(v): v if id(v) in is_own else own(v, n) for n, v in by_name.items()}
            values = tuple(copies[id(v)] for v in values)
        results = made.forward(*values)
        listed = tuple(results) if len(made.forward.returns) > 1 else (results,)
        outputs = listed[: len(checked.returns)]
        found = dict(zip(made.forward.returns, listed, strict=True))
        kept = [found[name] for name in made.gradient.kept]
        if self._copy:  # the caller may write to the outputs
            handed = {id(o) for o in outputs}
            kept = [own(k, "") if id(k) in handed else k for k in kept]
        by_return = {t.name: o for o, t in zip(outputs, checked.returns, strict=True)}
        pull = Pull(made, values, kept, by_return, copy=self._copy)
        return (self.kernel.result(outputs) if len(outputs) > 1 else outputs[0]), pull

    def with_grad(self, /, **generics: Any) -> WithGradient:
        """Return the gradient of the kernel with its gradient, for second derivatives.

        A call takes the kernel's parameters and an adjoint for each float return, and gives the
        gradient and the way back from it.
        """
        return self.derived(generics).whole.with_grad()

    def derived(self, generics: Mapping[str, Any]) -> Kernel:
        """Return the gradient of the kernel bound to generics; see `grad`."""
        types = {k: BY_NAME.get(v, v) if isinstance(v, str) else v for k, v in generics.items()}
        f = self.kernel.whole
        checked = f.session.variant(f.definition, types).checked
        return self.of(checked, None if checked.sizes else {}).backward

    def of(
        self,
        checked: CheckedDef,
        sizes: Mapping[str, int] | None = None,
        wrt: tuple[str, ...] | None = None,
    ) -> Differentiated:
        """Return the gradient of the kernel bound to types, made at its first use.

        Parameters
        ----------
        checked : CheckedDef
            The kernel bound to types.
        sizes : mapping of str to int, optional
            Those of a call, which may be too large for keeping every turn of a loop.
        wrt : tuple of str, optional
            The parameters that it is by, in place of those of this object: so one object serves
            calls that ask for different ones.
        """
        wrt = wrt or self.wrt
        plain = self._made(checked, self._memory.checkpoint, wrt)
        turns = self._memory.turns(checked, plain.gradient, sizes)
        return plain if turns == self._memory.checkpoint else self._made(checked, turns, wrt)

    def _made(
        self, checked: CheckedDef, turns: int | None, wrt: tuple[str, ...] | None
    ) -> Differentiated:
        key = id(checked), turns, wrt
        with self._lock:
            known = self._known.get(key)  # its definition is kept, so that the id stays its own
            if known is None:
                with stack_for(checked.name):
                    made = gradient(checked, turns, wrt)
                known = checked, Differentiated(made, self.kernel)
                self._known[key] = known
            return known[1]

    def _names(self, wrt: Wrt) -> tuple[str, ...]:
        """Return names of float parameters; types of the text's variables are known later."""
        kernel = self.kernel.whole
        kept = [p for p in self.kernel.params if p not in kernel.params]
        types = {
            p.name: None if p.type is None else BY_NAME.get(p.type.name)
            for p in kernel.definition.params
        }
        return checked_names(self.kernel.name, types, wrt, kept)


_Key = tuple[int, int | None, tuple[str, ...] | None]


def whole_of(kernel: K) -> K:
    """Return a gradient without its kept parameters: it computes them; any other kernel itself."""
    origin = kernel.session.origin
    if origin is None or set(origin.kept).isdisjoint(kernel.params):
        return kernel
    return _kernel(whole(origin), kernel, origin)


def _zeros_like(output: Any) -> Any:
    """Return zeros of a kind, place, shape and type."""
    return np.zeros_like(output) if isinstance(output, np.ndarray) else _zeros()(output)


@cache
def _zeros() -> Kernel:
    from tcdsl.definitions import define  # on use: it needs the kernels that need this

    text = "def zeros<T>(T(...) A) -> (Z) { Z(...) = T(0) where exists A(...) }"
    found: Any = define(text, tune="off", source="<zeros>")
    kernel: Kernel = found
    return kernel


def _kernel(program: Program, model: K, origin: Gradient | None = None) -> K:
    settings = model.session.settings
    if origin is not None:
        settings = settings.along(g.name for g in origin.given if g.output)
    session = Session(program, settings, origin)
    return model.derive(session, program.defs[-1])
