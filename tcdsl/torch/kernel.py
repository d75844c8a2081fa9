"""The kernel of a PyTorch user: tensors in and out, seen by autograd and by transforms."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Self

import torch
from torch.overrides import handle_torch_function, has_torch_function

from tcdsl.calls.bindings.session import Session
from tcdsl.calls.bindings.variant import Variant
from tcdsl.calls.call import KernelCall
from tcdsl.grammar.text.defaults import number_of
from tcdsl.grammar.text.errors import TCTypeError
from tcdsl.grammar.text.nodes import Def
from tcdsl.torch import autocast, compat, eager, native, operator, transforms
from tcdsl.torch.differentiable import DifferentiableKernel
from tcdsl.torch.library import forget_choices, spelling_of
from tcdsl.torch.routes import Route, route_of, tensors_of
from tcdsl.torch.tuning import autotune_training

_is_any_autocast_enabled = torch._C._is_any_autocast_enabled
_OF_TUNING = frozenset({"sizes", "seconds", "trials", "seed", "target", "quiet"})


class Kernel(DifferentiableKernel):
    """A definition as a callable on tensors; on arrays of other kinds it is a `tcdsl.Kernel`.

    Calls on plain tensors of which none requires grad do not enter this class: the launcher runs
    them.

    Parameters
    ----------
    policy : "promote", "lower", "float32" or None
        What becomes of arguments under autocast; see `define`.
    backward : str
        The definition of the text that is the way back; "" where it is derived.
    """

    def __init__(
        self,
        session: Session,
        definition: Def,
        policy: autocast.Policy = "promote",
        backward: str = "",
    ) -> None:
        super().__init__(session, definition, backward)
        self._autocast = policy
        known = tuple(g.name for g in definition.generics)
        wide = tuple(p.name for p in definition.params if p.type and p.type.name == "uint64")
        # strings, not this object, are what a graph holds and is guarded by
        head = (tuple(spelling_of(self, backward)), self.params, self.returns, known, wide)
        defaults = tuple((p.name, d) for p in definition.params if (d := number_of(p)) is not None)
        self.spelled = (*head, defaults, autocast.declared(definition), policy)
        self._by_cache: dict[Path, Self] = {}
        if policy in ("lower", "float32"):  # others leave arguments that fit as they are
            self.unusual = torch._C._is_any_autocast_enabled
        self.recorded = self._call_recorded
        if not session.settings.threads:
            self.max_threads = torch.get_num_threads

    def _with_way_back(self, session: Session, definition: Def, backward: str) -> Self:
        return type(self)(session, definition, self._autocast, backward)

    def with_autocast(self, policy: autocast.Policy) -> Self:
        """Return this kernel with another policy for arguments under autocast; see `define`."""
        if policy == self._autocast:
            return self
        return type(self)(self.session, self.definition, policy, self._backward)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.session, self.name, self._autocast, self._backward)

    def call(self, /, *args: Any, **generics: Any) -> KernelCall:
        """Return what a call with these arguments means, without making it."""
        with torch.no_grad():  # nothing is computed that training could miss
            return super().call(*args, **generics)

    def bound(
        self, args: Sequence[Any], generics: Mapping[str, Any]
    ) -> tuple[Variant, Mapping[str, int]]:
        """Return what takes these arguments, and the sizes that they bring."""
        with torch.no_grad():  # as above
            return super().bound(args, generics)

    def _forget_choices(self, variant: Variant) -> None:
        super()._forget_choices(variant)
        forget_choices(self)

    def autotune(
        self,
        /,
        *args: Any,
        cache: str | PathLike[str] | bool | None = None,
        training: bool | None = None,
        **named: Any,
    ) -> Any:
        """Search the fastest config; see `tcdsl.Kernel.autotune`.

        Parameters
        ----------
        cache : path or bool, optional
            A file; calls look into it with ``cache=`` too. True is the usual one.
        training : bool, optional
            Tune the way back as well, for tensors and shapes; by default where it was written by
            hand, as the first Python API did.
        **named
            As there; the first Python API's keywords too (`compat`): ``generations`` times
            ``pop_size`` are trials.
        """
        own = {*self.params, *(g.name for g in self.definition.generics)}
        by_sizes = not args and named.get("sizes") is None
        named = compat.tuning(self.name, named, own | _OF_TUNING, by_sizes=by_sizes)
        place = None if isinstance(cache, bool) else cache
        if args and (self.session.has(self._backward) if training is None else training):
            autotune_training(self, args, place, self.generics_in(named), named)
        return super().autotune(*args, cache=place, **named)

    def generics_in(self, named: Mapping[str, Any]) -> dict[str, Any]:
        """Return what of keywords are values of generics."""
        return {g.name: named[g.name] for g in self.definition.generics if g.name in named}

    def with_cache(self, cache: str | PathLike[str]) -> Self:
        """Return this kernel with another file of tuned configs that its calls look into."""
        path = Path(cache)
        found = self._by_cache.get(path)
        if found is None:
            found = self._by_cache[path] = self._with_settings(cache=path)
        return found

    def _call_slowly(self, /, *args: Any, **keywords: Any) -> Any:
        if not compat.OF_CALLS.isdisjoint(keywords):
            theirs = compat.OF_CALLS - {*self.params, *self.generics_in(keywords)}
            if not theirs.isdisjoint(keywords):
                return self._call_as_in_2018(args, keywords, theirs)
        if any(isinstance(v, torch.fx.Proxy) for v in args):
            raise TCTypeError(
                f"{self.name}: torch.fx.symbolic_trace follows Python, and a kernel is none\n"
                "  torch.export.export(model, inputs) gives a graph that has its calls"
            )
        tensors = [*tensors_of(args, keywords)]
        if not tensors:
            return super()._call_slowly(*args, **keywords)
        if has_torch_function(tensors):  # a subclass, or a mode as torch.device is
            found = handle_torch_function(self._listed, tensors, *args, **keywords)
            return found if len(self.returns) == 1 else self.result(found)
        native.begin()
        place = tensors[0].device.type
        if self._autocast is not None and autocast.is_active(place):
            given = self.arguments(args, keywords)
            args = autocast.cast(self.definition, given, self._autocast, place)
            tensors = [*tensors_of(args, keywords)]
            keywords = {**given.generics, "out": given.outputs}
        match route_of(tensors):
            case Route.PLAIN:
                return super()._call_slowly(*args, **keywords)
            case Route.RECORDED:
                return eager.call(self, self.arguments(args, keywords))
            case Route.OPERATOR:
                return operator.call(self, self.arguments(args, keywords))
            case Route.TRANSFORM:
                return transforms.call(self, self.arguments(args, keywords))

    def _call_recorded(self, /, *values: Any, **generics: int) -> Any:
        """Call where one requires grad and no mode is active, as the launcher knows."""
        if self._autocast is not None and _is_any_autocast_enabled():
            return self._call_slowly(*values, **generics)
        results = native.apply(eager.Call, self, generics, *values)
        return self.result(results) if type(results) is tuple else results

    def _listed(self, /, *args: Any, **keywords: Any) -> Any:
        """Call; several results are a plain tuple, whose type takes a sequence of others."""
        found = self(*args, **keywords)
        return found if len(self.returns) == 1 else tuple(found)

    def _call_as_in_2018(
        self, args: Sequence[Any], keywords: dict[str, Any], theirs: Collection[str]
    ) -> Any:
        """Call with keywords of the first Python API."""
        others = {k: keywords.pop(k) for k in [*keywords] if k in theirs}
        cache = compat.calling(self.name, others)
        kernel = self if cache is None or isinstance(cache, bool) else self.with_cache(cache)
        return kernel(*args, **keywords)


def _restored(
    kind: type[Kernel], session: Session, name: str, policy: autocast.Policy, backward: str = ""
) -> Kernel:
    """Return a kernel from what pickle has of it."""
    return kind(session, session.definition(name), policy, backward)
