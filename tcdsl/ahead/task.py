"""One part of a kernel at some sizes: which executables calls need, and their compilation."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any, Literal

from tcdsl.calls.bindings.rankfree import view_of
from tcdsl.calls.bindings.session import Session
from tcdsl.calls.bindings.settings import Settings
from tcdsl.calls.bindings.sizes import check_sizes
from tcdsl.calls.bindings.variant import Variant, spec_for
from tcdsl.codegen.gradient.derivatives import Gradient
from tcdsl.derived.differentiated import sizes_of_backward
from tcdsl.derived.with_gradient import with_gradient
from tcdsl.grammar.text import nodes
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.stack import on_own_stack
from tcdsl.plain.kernel import PlainKernel

Part = Literal["kernel", "forward", "backward"]

_MODEL_SIZE = 128  # of each symbol, where nobody names sizes: what the choice for all is made with


@dataclass(frozen=True, slots=True)
class Work:
    """A kernel bound to generics, as it travels to another process.

    Its definitions go as they are, not as text: what is compiled tells each statement as it was
    written. wrt: the parameters that gradients are by, None for all that are floats.
    """

    program: nodes.Program
    name: str
    settings: Settings
    origin: Gradient | None = None
    out_dims: tuple[int | None, ...] | None = None
    generics: tuple[tuple[str, Any], ...] = ()
    wrt: tuple[str, ...] | None = None

    @staticmethod
    def of(
        kernel: PlainKernel, generics: Mapping[str, Any], wrt: tuple[str, ...] | None = None
    ) -> Work:
        """Return what travels of a kernel."""
        s = kernel.session
        values = tuple(generics.items())
        return Work(s.program, kernel.name, s.settings, s.origin, s.out_dims, values, wrt)

    @property
    def kernel(self) -> PlainKernel:
        """The kernel again."""
        session = Session(self.program, self.settings, self.origin, self.out_dims)
        return PlainKernel(session, session.definition(self.name))


@dataclass(frozen=True, slots=True)
class Task:
    """What is compiled together.

    part: the kernel itself; or, of its gradient, the forward pass that keeps what the way back
    takes, or the way back. sizes: those of the kernel; None for no executable but that for all.
    """

    work: Work
    part: Part
    sizes: tuple[tuple[str, int], ...] | None


@on_own_stack
def packed(task: Task) -> bytes:
    """Return a task as bytes, however deep its expressions are."""
    return pickle.dumps(task)


@on_own_stack
def unpacked(data: bytes) -> Task:
    """Return a task that was packed by this very program."""
    task: Task = pickle.loads(data)
    return task


def run(task: Task) -> None:
    """Compile what calls of the part need, for operands in C order.

    With sizes that is an executable of their own, as tuned if they were, and the one for all sizes;
    without them the latter, and so where that serves first calls too and the sizes are not tuned.

    Raises
    ------
    TCError
        If the sizes do not fit, there is no such gradient, or a compiler refuses.
    """
    work = task.work
    kernel = work.kernel
    variant = kernel.session.variant(kernel.definition, dict(work.generics))
    sizes = None if task.sizes is None else check_sizes(variant.signature, dict(task.sizes))
    if task.part != "kernel":
        kernel, variant, sizes = _of_gradient(kernel, variant, task.part, work.wrt, sizes)
    _compile(kernel.session, variant, sizes)


def _of_gradient(
    kernel: PlainKernel,
    variant: Variant,
    part: Part,
    wrt: tuple[str, ...] | None,
    sizes: Mapping[str, int] | None,
) -> tuple[PlainKernel, Variant, dict[str, int] | None]:
    """Return a part of a gradient, its variant, and its sizes at those of the kernel."""
    made = with_gradient(kernel, wrt=wrt).of(variant, sizes)
    found = made.forward if part == "forward" else made.backward
    of = found.session.variant(found.definition, {})
    if sizes is None:
        return found, of, None
    params = variant.signature.params
    return found, of, sizes_of_backward(made.gradient, of.signature, params, sizes)


def _compile(session: Session, variant: Variant, sizes: Mapping[str, int] | None) -> None:
    known = variant.signature.sizes
    model = dict.fromkeys(known, _MODEL_SIZE) if sizes is None else sizes
    exact = spec_for(variant, model)
    view = view_of(variant.signature, model)
    shared = variant.rank_free if view is not None else None
    if view is not None and shared is not None:
        variant.of_any_rank(view)
    elif known:
        variant.compile_for_all(model, exact.layouts)
    if sizes is None and known:
        return
    config = session.tuned(variant)(exact) or session.advised(variant)(exact)
    if config is None and view is not None and shared is not None and shared.serves_first(view):
        return
    variant.compile(exact, config or variant.default_of_calls(exact, model), model)
