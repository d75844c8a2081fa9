"""Executables for all sizes that are built aside, and what serves calls until they are there."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice

from tcdsl.calls.bindings import changing
from tcdsl.calls.bindings.aside import LIBRARY, Aside, packed
from tcdsl.calls.bindings.binding import Bound
from tcdsl.calls.bindings.executables import Compiled, Sizes
from tcdsl.calls.bindings.ownsizes import LISTED, OwnSizes, Seen, count_of
from tcdsl.calls.process.bounded import thinned
from tcdsl.codegen.library import functions
from tcdsl.codegen.machine.config import Config, Value
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.codegen.machine.spec import Layout, Spec
from tcdsl.codegen.toolchain.cachedir import is_lasting
from tcdsl.codegen.toolchain.host import usable_cores
from tcdsl.codegen.toolchain.spare import later
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.stack import stack_for

Layouts = tuple[Layout, ...]

_STRIDED = Layout(0, contiguous=False, unit=None)  # every stride at run time
MAX_GENERIC = 3  # layout classes that get an executable of their own; others share a strided one
SHARING_FORM = "contraction"  # whose tiles are in the library, unless the epilogue is in them
LONG_FORMS = {SHARING_FORM, *LISTED}  # for all sizes: all tiles
FOLLOWS = True  # tests count what they compile
MEANWHILE = 4  # sizes that have their own while that for all is built: a GPT has five layers
_SLIDING = {"sliding", "sliding_weights"}  # what is nearly as fast at all sizes
_MOST_APART = 64  # sizes that have their own, of which a rule asks whether a call brings them
_MAX_SERVED = 16384  # sizes that are known to have that for all
_primed: set[str] = set()  # functions of the library that this process has had compiled aside


@dataclass(frozen=True, slots=True)
class _Begun:
    """What is built aside, and the specialisations that have executables of their own meanwhile."""

    aside: Aside
    served: set[Spec]


class Meanwhile(OwnSizes):
    """A binding, its executables for all sizes, and how they come about."""

    def __init__(self, bound: Bound) -> None:
        super().__init__(bound)
        self._own_classes: list[Layouts] = []
        self._exact: tuple[Sizes, Layouts] | None = None
        self._is_expected = False  # those came from `expect`: they may have no executable yet
        self._expected: Config | None = None  # what they will have, once somebody asked
        self._asides: dict[Spec, _Begun] = {}
        self._followers: dict[Spec, Aside] = {}
        self._general: dict[Spec, None] = {}  # sizes that the executable for all serves
        self._seen = Seen()

    def expect(self, sizes: Mapping[str, int], layouts: Layouts) -> None:
        """Let these be the first sizes, whichever calls come first; unless some have come."""
        with self._lock:
            if self._exact is None and self.signature.sizes:
                self._exact = tuple(sizes.items()), layouts
                self._is_expected = True

    def compile(self, spec: Spec, config: Config, sizes: Mapping[str, int]) -> Compiled:
        """Return the executable of a specialisation and a config, made once."""
        if spec.sizes is not None and self._made.found(spec, config, sizes) is None:
            later(partial(self._prime, config))
        return super().compile(spec, config, sizes)

    def compile_for_all(
        self, sizes: Mapping[str, int], layouts: Layouts, *, is_short: bool = False
    ) -> Compiled | None:
        """Return what serves these sizes where others came first, on the CPU.

        is_short: compile it only where a compiler takes about as long for it as for that of some
        sizes; else nothing is compiled, and None returned.
        """
        with self._lock, stack_for(self.name):
            spec = self._for_all(layouts, is_small=False)
            if is_short and self._has_own_tiles(spec, sizes):
                return None
            found = self._made.at_hand(spec, sizes, self.signature.sizes)
            found = found or self._made.for_all(spec, sizes)
            if SHARING_FORM in (value for _, value in found.config.items):
                functions.addresses(self._library())  # all that the next one may import
            return found

    def _for_all(self, layouts: Layouts, is_small: bool) -> Spec:
        """Return the specialisation of what serves all sizes with these layouts."""
        if layouts not in self._own_classes and len(self._own_classes) < MAX_GENERIC:
            self._own_classes.append(layouts)
        has_own = layouts in self._own_classes
        classes = layouts if has_own else tuple(replace(_STRIDED, rank=x.rank) for x in layouts)
        return Spec(None, classes, self.threads, is_small, self.is_deterministic)

    def waits_for_others(self, exact: Spec) -> bool:
        """Whether sizes have none of their own, since that for all is built."""
        begun = self._asides.get(self._for_all(exact.layouts, is_small=False))
        if begun is None or len(begun.served) < MEANWHILE:
            return False
        return begun.served.isdisjoint((exact, self._left_open(exact)))

    def _meanwhile(self, spec: Spec, exact: Spec, sizes: Mapping[str, int]) -> Compiled | None:
        """Return an executable of these sizes' own while that for all sizes is built.

        None where that is not built, or to be waited for no longer: how many sizes have their own
        is a number, so that the clock decides about no bits. Sizes that it does not suit do not
        wait for it.
        """
        begun = self._asides.get(spec)
        if begun is None:
            return None
        is_known = not begun.served.isdisjoint((exact, self._left_open(exact)))
        if not is_known and len(begun.served) == MEANWHILE:
            found = self._rather_own(spec, exact, sizes)
            if found is None:
                begun.aside.wait()
            return found
        found = self._own(exact, sizes)
        begun.served.add(found.spec)
        return found

    def _beginning(self, spec: Spec, exact: Spec, sizes: Mapping[str, int]) -> Compiled | None:
        """Return an executable of these sizes' own, and have that for all sizes built from now on.

        None where a compiler takes no longer for that, or no other process would find it.
        """
        if spec in self._asides or self._index is None or not is_lasting():
            return None
        if not self._takes_long(spec, sizes):
            return None
        found = self._own(exact, sizes)
        aside = Aside(self._task_for_all(spec, sizes), self.name)
        self._asides[spec] = _Begun(aside, {found.spec})
        return found

    def _rather_own(self, spec: Spec, exact: Spec, sizes: Mapping[str, int]) -> Compiled | None:
        """Return an executable of these sizes' own where that for all is slow for their windows.

        None where that is neither at hand nor being built. Sizes that had it keep it, whatever is
        compiled later, and so do those that differ by the number of images only.
        """
        if not self.has_windows():
            return None
        like = self._left_open(exact)
        if like in self._general:
            return None
        common = self._made.at_hand(spec, sizes, self.signature.sizes)
        if common is None and spec not in self._asides:
            return None
        found, suited = self._own_at_hand(exact)
        if found is None and repr(spec) not in suited:
            config = self._made.generic_choice(spec, sizes)[0] if common is None else common.config
            if not self._is_as_good(config) and not self._suits(spec, config, exact, sizes):
                found = self._own(exact, sizes)
        if found is None:
            self._general = thinned(self._general, _MAX_SERVED)
            self._general[like] = None
        return found

    def _with_own(self, spec: Spec, config: Config) -> Collection[Sizes] | None:
        """Return the sizes that have their own beside an executable for all; None: more may get it.

        But for the first ones. They are without those that their own leaves open.
        """
        begun = self._asides.get(spec)
        if begun is not None and len(begun.served) < MEANWHILE:
            return None
        found = {one.sizes or (): None for one in self._opened}
        if begun is not None:
            found |= {one.sizes or (): None for one in begun.served}
        if self.has_windows():
            if not self._is_as_good(config) or spec.layouts not in self._own_classes:
                return None
            if self._index is not None:
                found |= dict.fromkeys(self._index.with_own(spec))
        return found if len(found) <= _MOST_APART else None

    def _is_as_good(self, config: Config) -> bool:
        """Whether a config for all sizes slides over each window that sizes of their own list."""
        return count_of(config, _SLIDING) >= self._seen_of_own().most_listed

    def has_windows(self) -> bool:
        """Whether sizes of their own have a list of the taps of known windows."""
        return not self._own_forms().isdisjoint(LONG_FORMS - {SHARING_FORM})

    def _own_forms(self) -> frozenset[Value]:
        """Return the forms of executables of own sizes, so far."""
        return self._seen_of_own().forms

    def _seen_of_own(self) -> Seen:
        """Return what is asked of the configs of executables of own sizes, so far.

        Before the first of them, where other calls told which sizes come first: of what these will
        have. Else the order in which layers go back would decide what their sizes get.
        """
        seen = self._seen
        new = [*islice(self._made.compiled, seen.count, None)]  # what was there stays
        if new:
            own = [config for spec, config in new if spec.sizes is not None]
            seen = self._seen = seen.with_more(own, seen.count + len(new))
        if not seen.has_own and self._is_expected and self._exact is not None:
            return seen.with_more([self._expected_choice(*self._exact)], seen.count)
        return seen

    def _expected_choice(self, sizes: Sizes, layouts: Layouts) -> Config:
        """Return what sizes that are still to come will have, worked out once."""
        if self._expected is None:
            exact = Spec(sizes, layouts, self.threads, is_deterministic=self.is_deterministic)
            self._expected = self._own_choice(exact, dict(sizes))[1]
        return self._expected

    def _follow(self, *, is_later: bool) -> bool:
        """Have the executable for all sizes built aside, where the first ones had their own.

        Not where calls would have another one meanwhile: how long that takes would decide which.
        is_later: after others. Returned is whether it is to be built.
        """
        with self._lock:
            if self._exact is None or not self.signature.sizes or not FOLLOWS:
                return False
            if self.rank_free is not None:  # which serves others
                return False
            sizes, layouts = self._exact
            spec = Spec(None, layouts, self.threads)
            is_new = spec not in self._asides and not self._own_classes
            taken = {v for s, c in self._made.compiled if s.sizes is not None for _, v in c.items}
            if not is_new or not taken.isdisjoint(LONG_FORMS - {SHARING_FORM}):
                return False
            if self.is_for_gpu or self._index is None or not is_lasting() or usable_cores() < 2:
                return False
            if self._made.at_hand(spec, dict(sizes), self.signature.sizes) is not None:
                return False
            task = self._task_for_all(spec, dict(sizes), is_short=True)
            self._followers[spec] = Aside(task, self.name, is_later=is_later)
            return True

    def _followed(self, spec: Spec, sizes: Mapping[str, int]) -> Compiled | None:
        """Return what was built aside since sizes change; now they do.

        It is built for the regime of the first sizes: those of another one do not wait for it, and
        leave it to later ones. What has not begun by then these take from the builder, which would
        make the same one at the same time, kernel after kernel.
        """
        if self._index is None:
            return None
        changing.sizes.changed()
        one = self._followers.get(spec)
        if one is None:
            return None
        known = self._made.at_hand(spec, sizes, self.signature.sizes)
        if known is None and self._exact is not None:
            _, regime = self._made.generic_choice(spec, sizes)
            if regime.holds(dict(self._exact[0])):
                del self._followers[spec]
                one.wait()
                known = self._made.at_hand(spec, sizes, self.signature.sizes)
        return known

    def _takes_long(self, spec: Spec, sizes: Mapping[str, int]) -> bool:
        """Whether a compiler takes far longer for the executable for all sizes than for others."""
        taken = self._own_forms()
        if (taken & LONG_FORMS) != {SHARING_FORM}:
            return not taken.isdisjoint(LONG_FORMS)
        return self._has_own_tiles(spec, sizes)

    def _has_own_tiles(self, spec: Spec, sizes: Mapping[str, int]) -> bool:
        from tcdsl.codegen.choose import compiler  # on use

        config, _ = self._made.generic_choice(spec, sizes)
        return compiler.has_own_tiles(config)

    def _prime(self, config: Config) -> None:
        """Let another process compile what the next sizes will import, while we compile for these.

        Their call waits for what is left of it.
        """
        is_product = SHARING_FORM in (value for _, value in config.items)
        if not is_product or SHARING_FORM not in LONG_FORMS or not self.signature.sizes:
            return
        if self._index is not None and is_lasting():
            wanted = functions.missing([n for n in self._library() if n not in _primed])
            _primed.update(wanted)
            if wanted:
                Aside(json.dumps(wanted).encode(), self.name, LIBRARY)

    def _library(self) -> tuple[str, ...]:
        from tcdsl.codegen.choose import compiler  # on use

        assert isinstance(self.machine, Machine)
        return compiler.library_of(self.program, self.machine)

    def _task_for_all(
        self, spec: Spec, sizes: Mapping[str, int], *, is_short: bool = False
    ) -> bytes:
        """Return what `building.py` takes."""
        order, checked = tuple(sizes.items()), self.checked
        what = (
            checked,
            self.machine,
            self.threads,
            self.identity,
            order,
            spec.layouts,
            is_short,
        )
        return packed(what)
