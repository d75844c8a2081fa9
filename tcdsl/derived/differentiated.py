"""A kernel with its gradient as texts, and kernels of these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tcdsl.calls.bindings.parsed import parsed
from tcdsl.calls.bindings.session import Session
from tcdsl.codegen.gradient.derivatives import FORWARD, GRADIENT, Gradient
from tcdsl.grammar.check.bind import bind
from tcdsl.grammar.text.cached import cached_property
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import TCTypeError
from tcdsl.grammar.types.builtins import is_builtin
from tcdsl.plain.kernel import PlainKernel

if TYPE_CHECKING:
    from tcdsl.calls.bindings.aside import Aside
    from tcdsl.calls.bindings.executables import Sizes
    from tcdsl.calls.bindings.settings import Settings
    from tcdsl.calls.bindings.signature import Signature
    from tcdsl.calls.bindings.variant import Variant
    from tcdsl.grammar.text.nodes import Program
    from tcdsl.grammar.types.typed import Tensor

K = TypeVar("K", bound=PlainKernel)

MEMORY_LIMIT = 2**30  # bytes kept of a forward pass, from which on loops keep checkpoints


@dataclass(frozen=True, slots=True)
class CheckpointPolicy:
    """How much a gradient may keep of a forward pass; see `grad`."""

    checkpoint: int | None = None
    limit: int = MEMORY_LIMIT

    def __post_init__(self) -> None:
        if self.checkpoint is not None and self.checkpoint < 1:
            raise TCTypeError(f"checkpoint: expected a number of turns, got {self.checkpoint}")

    def turns(self, bound: Variant, made: Gradient, sizes: Mapping[str, int] | None) -> int | None:
        """Return the turns between checkpoints, None for none, given the gradient without."""
        if self.checkpoint is not None or sizes is None:
            return self.checkpoint
        if made.memory.evaluate(sizes) <= self.limit:
            return None
        from tcdsl.codegen.gradient.checkpoint import turns_between  # on use: of large loops

        turns = turns_between(bound.checked, sizes)
        return turns if turns > 1 else None


@dataclass(frozen=True)
class Differentiated(Generic[K]):
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
    begun : dict
        The ways back that are built aside (`beforehand.py`), by the sizes of the kernel.
    first : list
        The kernel's parameters and sizes at its first call, until the backward pass knows of them.
    order : list
        The sizes of that call, for good: who builds a way back aside may not have built the first.
    """

    gradient: Gradient
    model: K
    begun: dict[Sizes, Aside] = field(default_factory=dict, init=False, repr=False, compare=False)
    first: list[tuple[tuple[Tensor, ...], Mapping[str, int]] | None] = field(
        default_factory=list, init=False, repr=False, compare=False
    )
    order: list[Sizes] = field(default_factory=list, init=False, repr=False, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.gradient, self.model)

    @cached_property
    def forward(self) -> K:
        """The training forward.

        It has the name of the definition, which its text has not: a user knows no other.
        """
        program = parsed(self.gradient.forward, FORWARD)
        (definition,) = program.defs
        if is_builtin(self.model.name):  # which the text may call
            return _kernel(program, self.model)
        named = replace(definition, name=self.model.name)  # a name that gradients keep free
        return _kernel(replace(program, defs=(named,)), self.model)

    @cached_property
    def backward(self) -> K:
        """The vector-Jacobian product."""
        return _kernel(parsed(self.gradient.text, GRADIENT), self.model, self.gradient)

    @property
    def backward_settings(self) -> Settings:
        """The settings of the vector-Jacobian product."""
        return _settings(self.model, self.gradient)

    @cached_property
    def whole(self) -> K:
        """The vector-Jacobian product with the forward pass in it."""
        return whole_of(self.backward)


def whole_of(kernel: K) -> K:
    """Return a gradient without its kept parameters: it computes them; any other kernel itself."""
    origin = kernel.session.origin
    if origin is None or set(origin.kept).isdisjoint(kernel.params):
        return kernel

    def made() -> K:
        from tcdsl.codegen.gradient.whole import whole  # on use: calls with kept values do without

        return _kernel(whole(origin), kernel, origin)

    return kernel.once("whole", made)


def _kernel(program: Program, model: K, origin: Gradient | None = None) -> K:
    session = Session(program, _settings(model, origin), origin)
    return model.derive(session, program.defs[-1])


def _settings(model: PlainKernel, origin: Gradient | None) -> Settings:
    settings = model.session.settings
    return settings.along(g.name for g in origin.given if g.output) if origin else settings


def sizes_of_backward(
    gradient: Gradient,
    signature: Signature,
    params: Sequence[Tensor],
    sizes: Mapping[str, int],
) -> dict[str, int]:
    """Return the sizes of a vector-Jacobian product, or of the training forward.

    signature: its own. params, sizes: the kernel's; names in the gradient may be others.
    """
    shapes = [tuple(n.evaluate(sizes) for n in t.shape) for t in params]
    known = dict(sizes)
    for t, p, shape in zip(params, signature.params, shapes, strict=False):
        known |= {str(n): length for n, length in zip(p.shape, shape, strict=True)}
        known |= {p.name: sizes[t.name]} if t.name in sizes else {}
    if len(signature.params) > len(params):
        shapes += [tuple(n.evaluate(known) for n in g.shape) for g in gradient.given]
    return bind(signature, shapes, None, {n: known[n] for n in signature.scalars})
