"""Which executable serves which sizes and layouts of a definition that is bound to types."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

from tcdsl.calls.bindings import changing
from tcdsl.calls.bindings.aside import LIBRARY, Aside
from tcdsl.calls.bindings.executables import Compiled
from tcdsl.calls.bindings.ownsizes import OwnSizes
from tcdsl.calls.bindings.rankfree import RankFree
from tcdsl.calls.bindings.signature import Signature
from tcdsl.calls.operands.arguments import contiguous
from tcdsl.calls.operands.collapse import View
from tcdsl.calls.operands.collapse_rows import RowView
from tcdsl.calls.process.bounded import thinned
from tcdsl.calls.process.caller import warn
from tcdsl.codegen.library import functions
from tcdsl.codegen.machine.config import Config, Value
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.codegen.machine.gpu import Gpu
from tcdsl.codegen.machine.spec import Layout, Spec
from tcdsl.codegen.toolchain.cachedir import is_lasting
from tcdsl.codegen.toolchain.host import usable_cores
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import CompileError, ScheduleError
from tcdsl.grammar.text.stack import on_own_stack, stack_for
from tcdsl.grammar.types.typed import CheckedDef

Layouts = tuple[Layout, ...]
Sizes = tuple[tuple[str, int], ...]

_STRIDED = Layout(0, contiguous=False, unit=None)  # every stride at run time
MAX_GENERIC = 3  # layout classes that get an executable of their own; others share a strided one
_MAX_CONFIGS = 2  # on a GPU, of size-generic ones for the same layouts, unless none of them suits
_MAX_CHOICES = 4096  # of configs for sizes of about the same
_MAX_SERVED = 16384  # sizes and layouts that are known to have their executable
SHARING_FORM = "contraction"  # whose tiles are in the library, unless the epilogue is in them
LONG_FORMS = {SHARING_FORM, "convolution", "convolution_weights"}  # for all sizes: all tiles
FOLLOWS = True  # tests count what they compile
MEANWHILE = 3  # sizes that have their own while that for all is built
_primed: set[str] = set()  # functions of the library that this process has had compiled aside
_UNSUITED = 2.0  # times the predicted time of what the model would choose


@dataclass(frozen=True, slots=True)
class _Begun:
    """What is built aside, and the specialisations that have executables of their own meanwhile."""

    aside: Aside
    served: set[Spec]


class Advised(Protocol):
    """How to find another size's config."""

    def __call__(self, exact: Spec, left_open: Spec | None = None) -> Config | None:
        """Return a config for exact sizes, or for an executable that leaves some of them open."""


class Variant(OwnSizes):
    """A binding and what serves its calls: executables by sizes and layouts, as calls have come.

    A call is served by the first of these that there is:

    1. The executable of a tuned config for exactly these sizes.
    2. Of a pointwise definition, one of all sizes, ranks and layouts (`RankFree`), but for operands
       that no view collapses. Of one along rows too, but for the first call of all ranks.
    3. For the first sizes, one of their own, whose sizes are constants, unless the settings are
       `general`. Where nothing is lost by it (convolutions), it leaves open how many images there
       are, and serves all sizes that differ by that only.
    4. For others, a size-generic one, from then on: of a layout class of its own up to
       `MAX_GENERIC`, then with every stride at run time. It is chosen by sizes that stand for all,
       and so the same in every process; a program whose choice has no one answer for all sizes gets
       one for each `Regime` that calls bring. On a GPU, where its tiles are part of the config,
       there are two where the model wants another for other sizes, and a third only for sizes at
       which those are far slower.

    Where a compiler takes far longer for a size-generic one than for one of some sizes, it is built
    meanwhile: the sizes that bring it, and the next ones, `MEANWHILE` in all, have their own, and
    those after them wait for what is left. Where it is slow for windows that their own list tap by
    tap, further sizes have their own too, whether or not that for all is there: all that are at
    hand, and of others those that the model says it for, of which it is asked `ASKED` times in a
    process. What it imports from the library of the machine is
    compiled aside while the first sizes have theirs compiled. What has run keeps its executable, so
    that equal calls give equal bits; of ever new sizes, those that fell out of the table are chosen
    for again.
    """

    def __init__(
        self,
        checked: CheckedDef | Callable[[], CheckedDef],
        machine: Machine | Gpu,
        threads: int,
        *,
        is_deterministic: bool = False,
        identity: str | None = None,
        signature: Signature | None = None,
        shared: Callable[[Variant], RankFree] | None = None,
    ) -> None:
        super().__init__(
            checked,
            machine,
            threads,
            is_deterministic=is_deterministic,
            identity=identity,
            signature=signature,
            shared=shared,
        )
        self._serving: dict[tuple[Sizes, Layouts, bool, View | RowView | None], Compiled] = {}
        self._own_classes: list[Layouts] = []
        self._exact: tuple[Sizes, Layouts] | None = None
        self._is_expected = False  # those came from `expect`: they may have no executable yet
        self._expected: Config | None = None  # what they will have, once somebody asked
        self._asides: dict[Spec, _Begun] = {}
        self._followers: dict[Spec, Aside] = {}
        self._general: dict[Spec, None] = {}  # sizes that the executable for all serves
        self._by_size: dict[tuple[Spec, tuple[tuple[int, bool], ...]], Config] = {}  # on a GPU

    def executable(
        self,
        sizes: Mapping[str, int],
        layouts: Layouts,
        tuned: Callable[[Spec], Config | None],
        advised: Advised,
        *,
        is_small: bool = False,
        view: View | RowView | None = None,
    ) -> Compiled:
        """Return the executable for these sizes and layouts, compiled if it has to be.

        Parameters
        ----------
        sizes : mapping of str to int
            Values of the size symbols.
        layouts : tuple of Layout
            Of parameters and returns.
        tuned : callable
            Gives the tuned config of an exact specialisation, or None.
        advised : callable
            Gives the config of another size where the model puts it above the default, or None;
            asked for the first sizes only, since others are served without compiling. Given what
            leaves sizes open too, the config of other values of these, asked before the first.
        is_small : bool, default False
            Whether a GPU may compute addresses in 32 bits (`Spec.is_small`).
        view : View, optional
            The operands with their dimensions collapsed, where `rank_free` may serve them.
        """
        key = (tuple(sizes.items()), layouts, is_small, view)
        with self._lock:
            found = self._serving.get(key)
            if found is None:
                with stack_for(self.name):
                    found = self._choose(sizes, layouts, tuned, advised, is_small, view)
                self._serving = thinned(self._serving, _MAX_SERVED)
                self._serving[key] = found
            return found

    def expect(self, sizes: Mapping[str, int], layouts: Layouts) -> None:
        """Let these be the first sizes, whichever calls come first; unless some have come."""
        with self._lock:
            if self._exact is None and self.signature.sizes:
                self._exact = tuple(sizes.items()), layouts
                self._is_expected = True

    def forget_choices(self) -> None:
        """Choose anew at the next call of each size: a tuned config may have come."""
        with self._lock:
            self._serving.clear()
            self._by_size.clear()
            self._made.forget_choices()
            if self._rank_free is not None:
                self._rank_free.forget_choices()

    def compile(self, spec: Spec, config: Config, sizes: Mapping[str, int]) -> Compiled:
        """Return the executable of a specialisation and a config, made once."""
        if spec.sizes is not None and self._made.found(spec, config, sizes) is None:
            self._prime(config)
        return super().compile(spec, config, sizes)

    def _choose(
        self,
        sizes: Mapping[str, int],
        layouts: Layouts,
        tuned: Callable[[Spec], Config | None],
        advised: Advised,
        is_small: bool,
        view: View | RowView | None,
    ) -> Compiled:
        key = (tuple(sizes.items()), layouts)
        exact = Spec(key[0], layouts, self.threads, is_deterministic=self.is_deterministic)
        config = tuned(exact)
        if config is not None and (found := self._compile_found(exact, config, sizes)) is not None:
            return found
        if self._exact is None or not self.signature.sizes:
            self._exact = key
        if self._exact == key:
            config = advised(exact)
            found = None if config is None else self._compile_found(exact, config, sizes)
            if found is not None:
                return found
        if view is not None and not self._has_own(key):
            found = self.of_any_rank(view)
            if found is not None:
                return found
        left_open = self._left_open(exact)
        if left_open.open and left_open not in self._opened:
            config = advised(exact, left_open)
            found = None if config is None else self._compile_found(left_open, config, sizes)
            if found is not None:
                self._opened[left_open] = found.config
                return found
        if self._exact == key:
            found = self._own(exact, sizes)
            changing.sizes.met(self._follow)
            return found
        if left_open in self._opened:
            return self.compile(left_open, self._opened[left_open], sizes)
        spec = self._for_all(layouts, is_small)
        if self.is_for_gpu:
            return self.compile(spec, self._config_at(spec, sizes), sizes)
        return (
            self._meanwhile(spec, exact, sizes)
            or self._rather_own(spec, exact, sizes)
            or self._made.at_hand(spec, sizes, self.signature.sizes)
            or self._beginning(spec, exact, sizes)
            or self._followed(spec, sizes)
            or self._made.for_all(spec, sizes)
        )

    def _rather_own(self, spec: Spec, exact: Spec, sizes: Mapping[str, int]) -> Compiled | None:
        """Return an executable of these sizes' own where that for all is slow for their windows.

        None where that is neither at hand nor being built. Sizes that had it keep it, whatever is
        compiled later, and so do those that differ by the number of images only.
        """
        windows = LONG_FORMS - {SHARING_FORM}  # forms with a list of the taps of known windows
        if windows.isdisjoint(self._own_forms()):
            return None
        common = self._made.at_hand(spec, sizes, self.signature.sizes)
        like = self._left_open(exact)
        if like in self._general:
            return None
        if common is None and spec not in self._asides:
            return None
        found, suited = self._own_at_hand(exact)
        if found is None and repr(spec) not in suited:
            config = self._made.generic_choice(spec, sizes)[0] if common is None else common.config
            if not self._suits(spec, config, exact, sizes):
                found = self._own(exact, sizes)
        if found is None:
            self._general = thinned(self._general, _MAX_SERVED)
            self._general[like] = None
        return found

    def _own_forms(self) -> set[Value]:
        """Return the forms of executables of own sizes, so far.

        Before the first of them, where other calls told which sizes come first: of what these will
        have. Else the order in which layers go back would decide what their sizes get.
        """
        own = [config for s, config in self._made.compiled if s.sizes is not None]
        if not own and self._is_expected and self._exact is not None:
            own = [self._expected_choice(*self._exact)]
        return {v for config in own for name, v in config.items if name.endswith(".form")}

    def _expected_choice(self, sizes: Sizes, layouts: Layouts) -> Config:
        """Return what sizes that are still to come will have, worked out once."""
        if self._expected is None:
            exact = Spec(sizes, layouts, self.threads, is_deterministic=self.is_deterministic)
            self._expected = self._own_choice(exact, dict(sizes))[1]
        return self._expected

    def _follow(self) -> None:
        """Have the executable for all sizes built aside, where the first ones had their own.

        Not where calls would have another one meanwhile: how long that takes would decide which.
        """
        with self._lock:
            if self._exact is None or not self.signature.sizes or not FOLLOWS:
                return
            if self.rank_free is not None:  # which serves others
                return
            sizes, layouts = self._exact
            spec = Spec(None, layouts, self.threads)
            is_new = spec not in self._asides and not self._own_classes
            taken = {v for s, c in self._made.compiled if s.sizes is not None for _, v in c.items}
            if not is_new or not taken.isdisjoint(LONG_FORMS - {SHARING_FORM}):
                return
            if not self.is_for_gpu and self._index is not None and is_lasting():
                known = self._made.at_hand(spec, dict(sizes), self.signature.sizes)
                if known is None and usable_cores() > 1:
                    task = self._task_for_all(spec, dict(sizes), is_short=True)
                    self._followers[spec] = Aside(task, self.name)

    def _followed(self, spec: Spec, sizes: Mapping[str, int]) -> Compiled | None:
        """Return what was built aside since sizes change; now they do."""
        if self._index is None:
            return None
        changing.sizes.changed()
        one = self._followers.pop(spec, None)
        if one is None:
            return None
        one.wait()
        return self._made.at_hand(spec, sizes, self.signature.sizes)

    def compile_ahead(
        self,
        sizes: Mapping[str, int],
        layouts: Layouts,
        tuned: Callable[[Spec], Config | None],
        advised: Advised,
        view: View | RowView | None,
    ) -> None:
        """Compile what would serve these sizes, came calls in the order of those asked for here.

        But never what calls have built aside: they would find it sooner or later, by the clock.
        """
        exact = Spec(tuple(sizes.items()), layouts, self.threads)
        own = exact, self._left_open(exact)
        begun = self._asides.get(self._for_all(layouts, is_small=False))
        if begun is None or len(begun.served) < MEANWHILE or not begun.served.isdisjoint(own):
            self.executable(sizes, layouts, tuned, advised, view=view)

    def _has_own(self, key: tuple[Sizes, Layouts]) -> bool:
        """Whether a call has an executable of its own, though one for all ranks could serve it."""
        shared = self.rank_free
        return shared is not None and self._exact == key and shared.is_first((self._made, key))

    def compile_for_all(
        self, sizes: Mapping[str, int], layouts: Layouts, *, is_short: bool = False
    ) -> Compiled | None:
        """Return what serves these sizes where others came first, on the CPU.

        is_short: None where a compiler takes far longer for it than for that of some sizes.
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
        return on_own_stack(pickle.dumps)(what)  # which asks for no lock that we hold

    def _compile_found(
        self, exact: Spec, config: Config, sizes: Mapping[str, int]
    ) -> Compiled | None:
        """Return the executable of a config that a file had; None if the compiler refuses it."""
        try:
            return self.compile(exact, config, sizes)
        except (ScheduleError, CompileError) as error:
            text = f"{self.name}: a tuned config is not used: {str(error)[:400]}"
            warn(text)
            return None

    def _for_all(self, layouts: Layouts, is_small: bool) -> Spec:
        """Return the specialisation of what serves all sizes with these layouts."""
        if layouts not in self._own_classes and len(self._own_classes) < MAX_GENERIC:
            self._own_classes.append(layouts)
        has_own = layouts in self._own_classes
        classes = layouts if has_own else tuple(replace(_STRIDED, rank=x.rank) for x in layouts)
        return Spec(None, classes, self.threads, is_small, self.is_deterministic)

    def _config_at(self, spec: Spec, sizes: Mapping[str, int]) -> Config:
        """Return the choice for these sizes: that of the first ones of about these sizes.

        The model takes milliseconds, which a program of ever new sizes would pay at each call.
        """
        key = spec, tuple(map(_about, sizes.values()))
        found = self._by_size.get(key)
        if found is None:
            found = self._chosen_config(spec, sizes)
            self._by_size = thinned(self._by_size, _MAX_CHOICES)
            self._by_size[key] = found
        return found

    def _chosen_config(self, spec: Spec, sizes: Mapping[str, int]) -> Config:
        """Return the model's choice for these sizes, or what is compiled and comes near it."""
        from tcdsl.codegen.choose import compiler  # on use

        wanted = self.default_of_calls(spec, sizes)
        known = [c for s, c in self._made.compiled if s == spec]
        if wanted in known or len(known) < _MAX_CONFIGS:
            return wanted

        def predicted_ns(config: Config) -> float:
            return compiler.cost_ns(self.program, spec, config, self.machine, sizes)

        def rank(config: Config) -> tuple[float, int]:
            return predicted_ns(config), len({*config.items} - {*wanted.items})

        best = min(known, key=rank)
        return wanted if predicted_ns(best) > _UNSUITED * predicted_ns(wanted) else best


def _about(size: int) -> tuple[int, bool]:
    """Return what sizes share that differ by less than an eighth: 16, 18, .. 32, 36, .. 64, 72, ..

    Multiples of 16 stand apart: they have no remainders.
    """
    low_bits = max(0, size.bit_length() - 4)
    return size >> low_bits << low_bits, size % 16 == 0


def spec_for(variant: Variant, sizes: Mapping[str, int]) -> Spec:
    """Return the specialisation to exact sizes, all operands in C order."""
    signature = variant.signature
    layouts = tuple(contiguous(len(t.shape)) for t in (*signature.params, *signature.returns))
    exact = tuple(sizes.items())
    return Spec(exact, layouts, variant.threads, is_deterministic=variant.is_deterministic)
