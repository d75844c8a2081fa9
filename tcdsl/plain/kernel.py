"""A definition that is called with arrays: all of `Kernel` but what is made of one."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from sys import intern
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar, cast

from tcdsl.calls.arguments import Arguments
from tcdsl.calls.bindings.parsed import parsed
from tcdsl.calls.bindings.session import Session
from tcdsl.calls.bindings.settings import Settings
from tcdsl.calls.bindings.variant import Variant
from tcdsl.calls.bounds import bounds_error
from tcdsl.calls.call import KernelCall
from tcdsl.calls.dispatch import Dispatch
from tcdsl.calls.host import HostCalls
from tcdsl.calls.operands.device_arrays import is_on_device
from tcdsl.calls.operands.foreign import recording
from tcdsl.calls.process.bounded import thinned
from tcdsl.calls.process.locks import Lock
from tcdsl.codegen.runtime import MAX_OPERANDS
from tcdsl.grammar.text import nodes
from tcdsl.grammar.text.cached import cached_property
from tcdsl.grammar.text.errors import TCTypeError
from tcdsl.grammar.text.heads import shapes_of_rank
from tcdsl.plain.described import Described

if TYPE_CHECKING:
    from tcdsl.calls.gpu.device_calls import DeviceCalls
    from tcdsl.calls.gpu.raw import RawCall

T = TypeVar("T")

_MAX_MADE = 1024  # kernels over batches, gradients, ...: by what was asked


class PlainKernel(Described):
    """A definition as a callable on arrays, on the host or on a GPU.

    A call is the launcher's, in C (`codegen.runtime.Launcher`, of which this is one): it looks the
    exact form of the arguments up and runs what lies there. `_call_slowly` takes calls of forms
    that it does not know, which `HostCalls` and `DeviceCalls` make and install.
    """

    def __init__(self, session: Session, definition: nodes.Def) -> None:
        self.session = session
        self.definition = definition
        self._made: dict[Hashable, object] = {}
        self._lock = Lock()
        operands = len(definition.params) + len(definition.returns)
        if operands > MAX_OPERANDS:
            raise TCTypeError(
                f"{definition.name} has {operands} parameters and returns, "
                f"a kernel has at most {MAX_OPERANDS}\n  join some into arrays"
            )
        self._dispatch = dispatch = Dispatch(session, definition, self._forget_choices)
        super().__init__(
            dispatch.name,
            dispatch.params,
            dispatch.returns,
            self._call_slowly,
            self._raise_fault,
            dispatch.result_type if len(dispatch.returns) > 1 else None,
            tuple(intern(g.name) for g in definition.generics),
            dispatch.defaults,
        )
        self._host = HostCalls(dispatch, self)
        self.__name__ = self.__qualname__ = definition.name  # as functions have it

    @cached_property
    def _devices(self) -> DeviceCalls:
        from tcdsl.calls.gpu.device_calls import DeviceCalls  # on use: most programs have no GPU

        return DeviceCalls(self._dispatch, self._host)

    def derive(self, session: Session, definition: nodes.Def) -> Self:
        """Return a kernel of another session like this one: whatever is made of a kernel is.

        A subclass with state of its own hands it on here, and in `__reduce__`.
        """
        return type(self)(session, definition)

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what is made of this kernel under a key, made at its first use.

        A kernel of which more is made than `_MAX_MADE` makes some of it again.
        """
        found = self._made.get(key)
        if found is None:
            made = make()
            with self._lock:
                if key not in self._made:
                    self._made = thinned(self._made, _MAX_MADE)
                found = self._made.setdefault(key, made)
        return cast(T, found)

    def with_rank(self, rank: int) -> Self:
        """Return this kernel with each `...` of its parameters standing for so many dimensions.

        Its sizes are named `D0`, `D1`, ...; calls do not need it, they have arrays with ranks.

        Raises
        ------
        TCTypeError
            If it is no number of dimensions.
        """
        if not isinstance(rank, int) or isinstance(rank, bool) or rank < 0:
            raise TCTypeError(
                f"{self.name}: expected a number of dimensions from 0 on, got {rank!r}"
            )
        return self.with_shapes(*shapes_of_rank(self.definition, rank))

    def with_shapes(self, *shapes: tuple[int, ...]) -> Self:
        """Return this kernel for arguments of the ranks of these, and 1 where these are repeated.

        Like `with_rank`, where the ranks differ.
        """
        if not self.has_any_rank:
            return self
        return self.derive(*self.session.with_shapes(self.definition, shapes))

    def call(self, /, *args: Any, **generics: Any) -> KernelCall:
        """Return what a call with these arguments means, without making it."""
        given = self.arguments(args, generics)
        return (
            self._calls_on_device(args).call_of(given)
            if any(map(is_on_device, args))
            else self._host.call_of(given)[0]
        )

    def bound(
        self, args: Sequence[Any], generics: Mapping[str, Any]
    ) -> tuple[Variant, Mapping[str, int]]:
        """Return what takes these arguments, and the sizes that they bring."""
        if any(map(is_on_device, args)):
            call = self.call(*args, **generics)
            return call.variant, call.sizes
        variant, sizes, _ = self._host.bound(self.arguments(args, generics))
        return variant, sizes

    def arguments(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> Arguments:
        """Return parameters, outputs and generics of a call."""
        return self._dispatch.arguments(args, keywords)

    def raw(self, /, *args: Any, **keywords: Any) -> RawCall:
        """Return what a call with these arguments starts on a GPU, as CuPy's own kernels.

        ``raw = k.raw(x, w, b)`` takes what ``k(x, w, b)`` does, `out` too, and starts nothing.
        Each ``start`` of ``for start in raw`` has a `cupy.RawKernel`, its grid, block, arguments
        and shared memory; ``raw()`` starts them all. The machine code is that of calls.

        Raises
        ------
        TCTypeError
            If no argument lies on a GPU, or the kernel adds to an output that is not given.
        ShapeError
            If an output overlaps an input in a way that calls would make a copy for.
        """
        return self._devices.raw(self.arguments(args, keywords))

    def _call_slowly(self, /, *args: Any, **kwargs: Any) -> Any:
        own = recording((*args, *_values_of(kwargs)))
        if own is not None:
            return own.recorded(self, args, kwargs)
        if any(map(is_on_device, args)) or any(map(is_on_device, _values_of(kwargs))):
            return self._calls_on_device((*args, *_values_of(kwargs)))(args, kwargs)
        return self._host(self.arguments(args, kwargs))

    def _calls_on_device(self, values: Iterable[Any]) -> DeviceCalls:
        """Return what makes calls with these values on a GPU: a subclass may have its own."""
        return self._devices

    def result(self, outs: tuple[Any, ...]) -> Any:
        """Return several outputs as the definition's named tuple."""
        return self._dispatch.result(outs)

    def _raise_fault(self, operand: int, dim: int, value: int, extent: int) -> NoReturn:
        raise bounds_error(self._dispatch.operand_names, operand, dim, value, extent)

    def _forget_choices(self, variant: Variant) -> None:
        """Let the next calls find what was tuned.

        Choices go and so do the launcher's rows; executables that are made stay and serve again.
        """
        self._host.forget(variant)
        devices: DeviceCalls | None = vars(self).get("_devices")
        if devices is not None:
            devices.clear()


def kernel_of_ours(text: str, name: str) -> PlainKernel:
    """Return the kernel of a text that stands in our own code; messages name it `<name>`."""
    session = Session(parsed(text, f"<{name}>"), Settings(tune="off"))
    return PlainKernel(session, session.definition(name))


def _values_of(keywords: Mapping[str, Any]) -> Iterator[Any]:
    """Yield what keywords give, several outputs one by one."""
    for value in keywords.values():
        if isinstance(value, tuple | list):
            yield from value
        else:
            yield value
