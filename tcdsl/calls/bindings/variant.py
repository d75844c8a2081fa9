"""Which executable serves which sizes and layouts of a definition that is bound to types."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, Protocol

from tcdsl.calls.bindings import changing
from tcdsl.calls.bindings.binding import Bound
from tcdsl.calls.bindings.executables import Compiled, Sizes
from tcdsl.calls.bindings.meanwhile import Layouts, Meanwhile
from tcdsl.calls.bindings.traced import are_apart
from tcdsl.calls.operands.arguments import contiguous
from tcdsl.calls.operands.collapse import View
from tcdsl.calls.operands.collapse_rows import RowView
from tcdsl.calls.process.bounded import thinned
from tcdsl.calls.process.caller import warn
from tcdsl.calls.process.waits import waiting
from tcdsl.codegen.forms.base.regime import Regime
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.machine.spec import Spec
from tcdsl.codegen.toolchain import early
from tcdsl.grammar.text.errors import CompileError, ScheduleError
from tcdsl.grammar.text.stack import stack_for

_MAX_CONFIGS = 2  # on a GPU, of size-generic ones for the same layouts, unless none of them suits
_MAX_CHOICES = 4096  # of configs for sizes of about the same
_MAX_SERVED = 16384  # sizes and layouts that are known to have their executable
_UNSUITED = 2.0  # times the predicted time of what the model would choose


Alike = Callable[[Mapping[str, Any], View | RowView | None], bool]


class Advised(Protocol):
    """How to find another size's config."""

    def __call__(self, exact: Spec, left_open: Spec | None = None) -> Config | None:
        """Return a config for exact sizes, or for an executable that leaves some of them open."""


class Variant(Meanwhile):
    """A binding and what serves its calls: executables by sizes and layouts, as calls have come.

    A call is served by the first of these that there is:

    1. The executable of a tuned config for exactly these sizes.
    2. Of a pointwise definition, one of all sizes, ranks and layouts (`RankFree`), but for operands
       that no view collapses. Of one along rows too, but for the first call of all ranks.
    3. For the first sizes, one of their own, whose sizes are constants, unless the settings are
       `general`. Where nothing is lost by it (convolutions, rows), it leaves open how many images
       or rows there are, and serves all sizes of its regime that differ by that only, before one
       of all ranks is asked for.
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
    process. What some process compiled for these sizes alone is taken before anything is compiled
    for all. What that one imports from the library of the machine is
    compiled aside while the first sizes have theirs compiled. What has run keeps its executable, so
    that equal calls give equal bits; of ever new sizes, those that fell out of the table are chosen
    for again.
    """

    def __init__(self, bound: Bound) -> None:
        super().__init__(bound)
        self._serving: dict[tuple[Sizes, Layouts, bool, View | RowView | None], Compiled] = {}
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
                with stack_for(self.name), waiting(self.name), self._compiler_early():
                    found = self._choose(sizes, layouts, tuned, advised, is_small, view)
                self._serving = thinned(self._serving, _MAX_SERVED)
                self._serving[key] = found
            return found

    def _compiler_early(self) -> AbstractContextManager[None]:
        """Let a compiler start while its text is still in the making."""
        return nullcontext() if self.is_for_gpu else early.wanted(self.name)

    def forget_choices(self) -> None:
        """Choose anew at the next call of each size: a tuned config may have come."""
        with self._lock:
            self._serving.clear()
            self._by_size.clear()
            self._made.forget_choices()
            if self._rank_free is not None:
                self._rank_free.forget_choices()

    def served_alike(self, compiled: Compiled) -> Alike | None:
        """Return whether a call gets this executable, whatever comes between; None: none may.

        Where no config is tuned. What is returned is asked by sizes and view of a call, which may
        be extents that keep what is asked of them: calls like it are those that answer the same.
        """
        with self._lock:
            spec = compiled.spec
            if self.is_for_gpu or self._exact is None:
                return None
            own: Collection[Sizes] | None = ()
            if spec.open:
                if self._opened.get(spec, (None, None))[0] != compiled.config:
                    return None
            elif compiled.is_collapsed:
                own = [one.sizes or () for one in self._open_before_others()]
            else:
                is_one = spec.sizes is None and self.rank_free is None
                own = self._with_own(spec, compiled.config) if is_one else None
            if own is None:
                return None
            others = self._exact[0], *own  # the first sizes may have one of their own too
            return partial(self._is_alike, compiled, others)

    def _is_alike(
        self,
        compiled: Compiled,
        own: Collection[Sizes],
        sizes: Mapping[str, Any],
        view: View | RowView | None,
    ) -> bool:
        """Whether a call is served by an executable; own: sizes that have others."""
        if not all(are_apart(one, sizes) for one in own):
            return False
        with self._lock:
            if compiled.is_collapsed:
                assert self._rank_free is not None
                assert view is not None
                return self._rank_free.is_served_alike(compiled, view.extents)
            if compiled.spec.open:
                _, regime = self._opened[compiled.spec]
                is_of_it = all(sizes[name] == n for name, n in compiled.spec.sizes or ())
                return is_of_it and regime.holds(sizes)
            return self._made.is_served_alike(compiled, sizes)

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
        left_open = self._left_open(exact)
        opened = self._open_for(left_open, sizes)
        if opened is not None and self._exact != key:
            return self.compile(left_open, opened, sizes)
        if view is not None and not self._has_own(key, view):
            found = self.of_any_rank(view)
            if found is not None:
                return found
        if left_open.open and left_open not in self._opened:
            config = advised(exact, left_open)
            found = None if config is None else self._compile_found(left_open, config, sizes)
            if found is not None:
                self._opened[left_open] = found.config, Regime()
                return found
        if self._exact == key:
            found = self._own(exact, sizes)
            changing.sizes.met(self._follow)
            return found
        spec = self._for_all(layouts, is_small)
        if self.is_for_gpu:
            return self.compile(spec, self._config_at(spec, sizes), sizes)
        return (
            self._meanwhile(spec, exact, sizes)
            or self._rather_own(spec, exact, sizes)
            or self._made.at_hand(spec, sizes, self.signature.sizes)
            or self._own_at_hand(exact)[0]
            or self._beginning(spec, exact, sizes)
            or self._followed(spec, sizes)
            or self._made.for_all(spec, sizes)
        )

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
        if not self.waits_for_others(exact):
            self.executable(sizes, layouts, tuned, advised, view=view)

    def _open_before_others(self) -> Collection[Spec]:
        """Return what leaves sizes open, which calls ask for before that of all ranks.

        So will they for what first sizes have that are still to come.
        """
        if not self._is_expected or self._exact is None:
            return self._opened
        sizes, layouts = self._exact
        first = Spec(sizes, layouts, self.threads, is_deterministic=self.is_deterministic)
        return {*self._opened, self._left_open(first)}

    def _has_own(self, key: tuple[Sizes, Layouts], view: View | RowView) -> bool:
        """Whether a call has an executable of its own, though one for all ranks could serve it."""
        shared = self.rank_free
        if shared is None or self._exact != key:
            return False
        return shared.is_first((self._made, key), view)

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
