"""What serves the calls of one definition, wherever their arrays lie."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from sys import intern
from typing import TYPE_CHECKING, Any

from tcdsl.calls.arguments import Arguments, tell_apart
from tcdsl.calls.bindings.executables import Compiled
from tcdsl.calls.bindings.session import Session
from tcdsl.calls.bindings.variant import Variant
from tcdsl.calls.bounds import OperandNames
from tcdsl.calls.call import KernelCall
from tcdsl.calls.process.locks import Lock
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.machine.spec import Spec
from tcdsl.grammar.text import nodes
from tcdsl.grammar.text.cached import cached_property
from tcdsl.grammar.text.defaults import number_of
from tcdsl.text.names import result_type

if TYPE_CHECKING:
    from tcdsl.calls.at_calls import FirstCallTuning, OnlineSearch


class Dispatch:
    """A definition whose calls are told apart here, and served by executables chosen here.

    Calls themselves are made by `HostCalls` and `DeviceCalls`, which stand on this.

    Parameters
    ----------
    session : Session
    definition : nodes.Def
    forget : callable
        Lets calls choose their executables anew, where what was tuned at calls is found by them.
    """

    def __init__(
        self, session: Session, definition: nodes.Def, forget: Callable[[Variant], None]
    ) -> None:
        self.session = session
        self.definition = definition
        self.name = definition.name
        self.params = tuple(intern(p.name) for p in definition.params)
        defaults = tuple(map(number_of, definition.params))
        self.defaults = None if all(d is None for d in defaults) else defaults
        self.returns = tuple(p.name for p in definition.returns)
        self.operand_names = OperandNames(self.name, (*self.params, *self.returns))
        self._forget = forget
        self._online: dict[Spec, OnlineSearch] = {}
        self._first_calls: FirstCallTuning | None = None
        self._tuned_here: set[Spec] = set()
        self._lock = Lock()

    @cached_property
    def result_type(self) -> Any:
        """The named tuple of several outputs."""
        return result_type(self.name, self.returns)

    def arguments(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> Arguments:
        """Return parameters, outputs and generics of a call."""
        return tell_apart(self.definition, args, keywords, self.session.origin)

    def result(self, outs: tuple[Any, ...]) -> Any:
        """Return several outputs as the definition's named tuple."""
        return self.result_type._make(outs)

    def executable_for(self, call: KernelCall) -> Compiled:
        """Return the executable that serves calls of this form."""
        variant = call.variant
        return variant.executable(
            call.sizes,
            call.spec.layouts,
            self.session.tuned(variant),
            self.session.advised(variant),
            is_small=call.is_small,
            view=call.view,
        )

    def is_settled(self, call: KernelCall) -> bool:
        """Whether calls of this form go on with the same executable."""
        return not self._online or call.spec not in self._online

    def candidate(self, call: KernelCall) -> Compiled | None:
        """Return an executable that is tried in this very call, where tuning at calls says so."""
        if self.session.settings.tune not in ("first-call", "online"):
            return None
        config = self._tune_at_call(call)
        if config is None:
            return None
        return call.variant.compile(call.spec, config, call.sizes)

    def _tune_at_call(self, call: KernelCall) -> Config | None:
        """Tune as `tune="first-call"` and `"online"` say; return a candidate for this very call."""
        from tcdsl.calls import at_calls  # on use: it needs SQLite

        spec = call.spec
        if spec in self._tuned_here:
            return None
        if self.session.settings.tune == "first-call":
            with self._lock:
                first = self._first_calls = self._first_calls or at_calls.FirstCallTuning()
            first.once(spec, lambda: at_calls.tune_first_call(call, self.session))
            self._tuned_here.add(spec)
            return None
        with self._lock:
            online = self._online.get(spec)
            if online is None:
                online = self._online[spec] = at_calls.OnlineSearch(call, self.session)
            if not online.is_over:
                return online.take()
            self._tuned_here.add(spec)  # from now on the best serves, as in "cached"
            del self._online[spec]
        self._forget(call.variant)
        return None
