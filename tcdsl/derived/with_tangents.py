"""Calls of a kernel that give its outputs and their tangents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic

from tcdsl.calls.bindings.parsed import parsed
from tcdsl.calls.bindings.session import Session
from tcdsl.calls.process.bounded import thinned
from tcdsl.calls.process.locks import Lock
from tcdsl.codegen.gradient.derivatives import TANGENTS, Tangents
from tcdsl.codegen.gradient.wanted import Wrt, listed_names
from tcdsl.derived.differentiated import K, whole_of
from tcdsl.derived.texts import tangents_of
from tcdsl.grammar.text.cached import cached_property
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import TCTypeError, count
from tcdsl.grammar.types.builtins import is_builtin
from tcdsl.text.names import result_type

if TYPE_CHECKING:
    from tcdsl.calls.bindings.signature import Signature
    from tcdsl.calls.bindings.variant import Variant


@dataclass(frozen=True)
class Pushforward(Generic[K]):
    """A kernel bound to types with its tangents: the text, and a kernel of it."""

    tangents: Tangents
    model: K

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.tangents, self.model)

    @cached_property
    def kernel(self) -> K:
        """The Jacobian-vector product."""
        program = parsed(self.tangents.text, TANGENTS)
        session = Session(program, self.model.session.settings.along(self.tangents.given))
        return self.model.derive(session, program.defs[-1])

    @cached_property
    def called(self) -> K:
        """The same for calls of `jvp`: under the name that its user wrote, which errors tell."""
        kernel = self.kernel
        if is_builtin(self.model.name):  # which the tangents may call
            return kernel
        named = replace(kernel.definition, name=self.model.name)  # a name that tangents keep free
        program = replace(kernel.session.program, defs=(named,))
        return self.model.derive(Session(program, kernel.session.settings), named)

    @cached_property
    def result(self) -> Any:
        """The named tuple of the tangents, for several."""
        return result_type(self.tangents.name, self.tangents.results)


_MOST_KNOWN = 256  # definitions with tangents of a kernel: by types, generics, parameters


class WithTangents(Generic[K]):
    """A kernel whose calls return ``(outputs, tangents)``; see `Kernel.jvp`."""

    def __init__(self, kernel: K) -> None:
        self.kernel = kernel
        self._known: dict[tuple[int, tuple[str, ...] | None], tuple[Variant, Pushforward[K]]] = {}
        self._lock = Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.kernel,)

    def __copy__(self) -> WithTangents[K]:
        return self

    def __deepcopy__(self, memo: object) -> WithTangents[K]:
        return self

    def __call__(
        self,
        primals: Sequence[Any] | Mapping[str, Any],
        directions: Sequence[Any] | Mapping[str, Any],
        /,
        **generics: Any,
    ) -> tuple[Any, Any]:
        """Call the kernel; return its outputs and their tangents."""
        args, named = _arguments(self.kernel.name, primals)
        given = self.kernel.arguments(args, {**named, **generics})
        if given.outputs is not None:
            raise TCTypeError(f"{self.kernel.name}.jvp takes no out=: its outputs are fresh")
        kernel = whole_of(self.kernel)  # of a gradient, for which kept values are no parameters
        by_name = dict(zip(self.kernel.params, given.values, strict=True))
        values = tuple(by_name[p] for p in kernel.params)
        bound, _ = kernel.bound(values, given.generics)
        checked = bound.signature
        found = self._directions(checked, directions)
        made = self.of(bound, tuple(found))
        results = made.called(*values, *found.values())
        outputs = results[: len(checked.returns)]
        along = results[len(checked.returns) :][: len(made.tangents.results)]
        return (
            self.kernel.result(outputs) if len(outputs) > 1 else outputs[0],
            made.result._make(along) if len(along) > 1 else along[0],
        )

    def of(self, bound: Variant, wrt: Wrt | None = None) -> Pushforward[K]:
        """Return the kernel bound to types with its tangents, made at its first use.

        wrt: the parameters that have a tangent.
        """
        names = None if wrt is None else listed_names(bound.name, wrt)
        key = id(bound), names
        with self._lock:
            known = self._known.get(key)  # the variant is kept, so that the id stays its own
            if known is None:
                known = bound, Pushforward(tangents_of(bound, names), self.kernel)
                self._known = thinned(self._known, _MOST_KNOWN)
                self._known[key] = known
            return known[1]

    def _directions(
        self, checked: Signature, given: Sequence[Any] | Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the tangents that there are, by the names of their parameters."""
        name, params = self.kernel.name, self.kernel.params
        if isinstance(given, Mapping):
            unknown = [str(n) for n in given if n not in params]
            if unknown:
                raise TCTypeError(
                    f"{name}.jvp: there is no parameter '{unknown[0]}' to have a tangent; "
                    f"there are {', '.join(params)}"
                )
            by_name = {n: given.get(n) for n in params}
        else:
            args, _ = _arguments(name, given, "tangents")
            if len(args) != len(params):
                raise TCTypeError(
                    f"{name}.jvp: expected {count(len(params), 'tangent')} "
                    f"({', '.join(params)}), got {len(args)}\n"
                    "  give None for those that have none, or some by name, as a dict"
                )
            by_name = dict(zip(params, args, strict=True))
        found = {n: t for n, t in by_name.items() if t is not None}
        types = {t.name: t.dtype for t in checked.params}
        for n in found:
            if n not in types:
                raise TCTypeError(
                    f"{name}.jvp: '{n}' is kept of the forward pass, which makes it a function of "
                    "the parameters\n  give None for it, and tangents of those"
                )
            if not types[n].is_float:
                raise TCTypeError(
                    f"{name}.jvp: '{n}' is {types[n]}, which has no tangent\n  give None for it"
                )
        if not found:
            raise TCTypeError(
                f"{name}.jvp: no parameter has a tangent\n"
                "  give one at least, or call the kernel itself"
            )
        return found


def _arguments(
    name: str, given: Sequence[Any] | Mapping[str, Any], what: str = "primals"
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments as they are written in a call: by position, and by name."""
    if isinstance(given, Mapping):
        return (), dict(given)
    if isinstance(given, tuple | list):
        return tuple(given), {}
    raise TCTypeError(
        f"{name}.jvp: expected {what} as a tuple, or a dict by name, got {type(given).__name__}\n"
        f"  write {name}.jvp((x,), (t_x,)) for one argument"
    )


def with_tangents(kernel: K) -> WithTangents[K]:
    """Return a kernel such that a call gives tangents too; the same whenever it is asked."""
    return kernel.once("with tangents", lambda: WithTangents(kernel))
