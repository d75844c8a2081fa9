"""Executables of sizes' own: which leave some open, and where that for all is good enough."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

from tcdsl.calls.bindings.binding import Binding, Bound
from tcdsl.calls.bindings.executables import Compiled
from tcdsl.calls.bindings.index import ForAll
from tcdsl.codegen.forms.base.regime import Regime
from tcdsl.codegen.library.load import Loaded
from tcdsl.codegen.machine.config import Config, Value
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.codegen.machine.spec import Spec
from tcdsl.codegen.toolchain import early
from tcdsl.codegen.toolchain.spare import later
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import ScheduleError
from tcdsl.grammar.text.stack import stack_for

LISTED = {"convolution", "convolution_weights"}  # of exact sizes: taps are listed
ASKED = 15  # sizes of which the model is asked whether that for all suits them
WELL_ABOVE = 1.3  # times the predicted time of their own
_FEW = 8  # of a size, which may be a window's
WORTH_NS = 20_000  # of each call: a compiler takes as long as some ten thousand calls gain


@dataclass(frozen=True, slots=True)
class Seen:
    """Of configs of executables of own sizes: their forms, and the most groups that list taps.

    count: of executables that were looked at. has_own: whether one of them is such.
    """

    count: int = 0
    has_own: bool = False
    forms: frozenset[Value] = frozenset()
    most_listed: int = 0

    def with_more(self, configs: Sequence[Config], count: int) -> Seen:
        """Return this with more configs, of so many executables in all."""
        forms = {v for c in configs for n, v in c.items if n.endswith(".form")}
        listed = max((count_of(c, LISTED) for c in configs), default=0)
        has_own = self.has_own or bool(configs)
        return Seen(count, has_own, self.forms | forms, max(self.most_listed, listed))


class OwnSizes(Binding):
    """A binding and the executables whose sizes are constants, but those that they leave open."""

    def __init__(self, bound: Bound) -> None:
        super().__init__(bound)
        self._outermost: tuple[str, ...] | None = None  # asked where an executable is chosen
        # Of what leaves sizes open, as calls came, and which values of these it is for.
        self._opened: dict[Spec, tuple[Config, Regime]] = {}
        self._never_open: Spec | None = None  # the last one that was seen to be slower than exact
        self._asked = 0  # sizes of which the model was asked
        self._suited: set[tuple[Spec, object]] = set()  # that for all, and sizes that it suits

    def _own(self, exact: Spec, sizes: Mapping[str, int]) -> Compiled:
        """Return the executable of these sizes' own, which may leave some of them open."""
        found, _ = self._own_at_hand(exact)
        if found is None:
            spec, config, regime = self._own_choice(exact, sizes)
            found = self.compile(spec, config, sizes)
            if self._index is not None and isinstance(found.loaded, Loaded):
                self._index.keep_own(spec, config, regime, found.loaded)
            if spec.open:
                self._note_open(spec, config, regime, sizes)
        return found

    def _own_choice(self, exact: Spec, sizes: Mapping[str, int]) -> tuple[Spec, Config, Regime]:
        """Return what these sizes have of their own, compiled or not, and the regime it is for."""
        left_open = self._left_open(exact)
        if left_open.open:
            found = self._config_of_open(left_open, exact, sizes)
            if found is not None:
                return left_open, *found
        return exact, self.default_of_calls(exact, sizes), Regime()

    def _note_open(
        self, spec: Spec, config: Config, regime: Regime, sizes: Mapping[str, int]
    ) -> None:
        """Let what sizes have of their own serve others; but what serves another regime stays."""
        if spec not in self._opened or self._opened[spec][1].holds(sizes):
            self._opened[spec] = config, regime

    def _open_for(self, left_open: Spec, sizes: Mapping[str, int]) -> Config | None:
        """Return the config of what leaves sizes open and serves these; None if nothing does yet.

        It is for the regime of the sizes that came first: what serves all sizes serves others.
        """
        config, regime = self._opened.get(left_open, (None, Regime()))
        return config if config is not None and regime.holds(sizes) else None

    def _own_at_hand(self, exact: Spec) -> tuple[Compiled | None, set[str]]:
        """Return the executable of these sizes' own if it was compiled before.

        With it comes which executables for all sizes were found to suit them, as text.
        """
        suited: set[str] = set()
        specs = dict.fromkeys((self._left_open(exact), exact))
        for spec, one in () if self._index is None else self._index.of_sizes(*specs):
            if isinstance(one, ForAll):
                suited.add(one.spec)
                continue
            sizes = dict(exact.sizes or ())
            found = self._made.named(spec, one) if one.regime.holds(sizes) else None
            if found is not None:
                if spec.open:
                    self._note_open(spec, found.config, one.regime, sizes)
                return found, suited
        return None, suited

    def _suits(self, for_all: Spec, config: Config, exact: Spec, sizes: Mapping[str, int]) -> bool:
        """Whether these sizes are served by an executable for all, as far as the model is asked.

        It is asked by what they would have of their own; what is found serves whoever asks next,
        of all sizes that this leaves open, and here sizes of about the same.
        """
        like = self._left_open(exact)
        about = for_all, tuple(map(_about, like.sizes or ()))
        if about in self._suited:
            if self._index is not None:
                self._index.keep_for_all(like, for_all)
            return True
        if self._asked >= ASKED:
            return True
        self._asked += 1
        spec, chosen, _ = self._own_choice(exact, sizes)
        common, own = (self._cost_ns(*x, sizes) for x in ((for_all, config), (spec, chosen)))
        found = common is None or own is None or common < max(WELL_ABOVE * own, own + WORTH_NS)
        if found:
            self._suited.add(about)
        if found and self._index is not None:
            self._index.keep_for_all(spec, for_all)
        return found

    def _cost_ns(self, spec: Spec, config: Config, sizes: Mapping[str, int]) -> float | None:
        """Return what the model says of a call; None of a config that other sizes have chosen."""
        from tcdsl.codegen.choose import compiler  # on use

        try:
            return compiler.cost_ns(self.program, spec, config, self.machine, sizes)
        except ScheduleError:  # what is legal, as how many pixels a task has, may hang on the sizes
            return None

    def _left_open(self, exact: Spec) -> Spec:
        """Return a specialisation without the sizes that may be left open; itself if there is none.

        At a size of 0 the executable would have nothing to begin with, and without constants it
        would be one for all sizes.
        """
        if self._outermost is None:
            self._outermost = () if self.is_for_gpu else self.signature.outermost
        names = self._outermost
        sizes = exact.sizes or ()
        if not names or not all(n for name, n in sizes if name in names):
            return exact
        others = tuple([x for x in sizes if x[0] not in names])
        if not others:
            return exact
        deterministic = exact.is_deterministic
        return Spec(others, exact.layouts, exact.threads, exact.is_small, deterministic, names)

    def _config_of_open(
        self, spec: Spec, exact: Spec, sizes: Mapping[str, int]
    ) -> tuple[Config, Regime] | None:
        """Return the analytic choice of an executable that leaves sizes open, None for none.

        Where only an exact one is at hand, none was found to be as fast.
        """
        if self._index is not None:
            for known, regime in self._index.generic_choices(spec, self.signature.sizes):
                if regime.holds(sizes) and self._made.found(spec, known, sizes) is not None:
                    return known, regime
            other = self._index.choice(exact, sizes)
            if other is not None and self._made.found(exact, other, sizes) is not None:
                return None
        found = self._open_choice(spec, sizes)
        if self._index is not None and found is not None:
            later(partial(self._index.keep_generic_choice, spec, *found))
        return found

    def _open_choice(self, spec: Spec, sizes: Mapping[str, int]) -> tuple[Config, Regime] | None:
        early.begin()
        from tcdsl.codegen.choose import compiler  # on use

        assert isinstance(self.machine, Machine)
        with stack_for(self.name):
            return compiler.open_choice(self.program, spec, self.machine, sizes)

    def opened_like(
        self, left_open: Spec, config: Config, there: Mapping[str, int], here: Mapping[str, int]
    ) -> tuple[Config, float] | None:
        """Return what leaves sizes open and is like a config tuned at other values of them.

        With it comes how the model sees it beside the default, here as a multiple of there. None
        where it is no config of this program, or of one that leaves the sizes open, all values.

        Parameters
        ----------
        there, here : mapping of str to int
            The sizes at which the config was tuned, and those of the call.
        """
        if left_open == self._never_open:
            return None
        from tcdsl.codegen.choose import compiler  # on use

        program, machine = self.program, self.machine
        assert isinstance(machine, Machine)
        tuned_at = replace(left_open, sizes=tuple(there.items()), open=())
        with stack_for(self.name):
            try:
                choice = compiler.open_choice(program, left_open, machine, here)
                if choice is None or choice[1].answers:
                    self._never_open = left_open
                    return None
                usual, _ = choice
                choice = compiler.open_choice(program, left_open, machine, here, config)
                if choice is None or choice[1].answers:
                    return None
                found, _ = choice
                default = compiler.default_config(program, tuned_at, machine, there)
                now, now_usual, then, then_usual = (
                    compiler.cost_ns(program, spec, c, machine, sizes)
                    for spec, sizes, both in (
                        (left_open, here, (found, usual)),
                        (tuned_at, there, (config, default)),
                    )
                    for c in both
                )
            except ScheduleError:
                return None
            return found, (now / then) / (now_usual / then_usual)

    def choice_of_first(self, exact: Spec, sizes: Mapping[str, int]) -> tuple[Spec, Config]:
        """Return what untuned first calls of these sizes compile, to be shown: no record is asked.

        But for pointwise definitions, whose calls are `rank_free`'s.
        """
        left_open = self._left_open(exact)
        found = self._open_choice(left_open, sizes) if left_open.open else None
        if found is None:
            return exact, self.default_config(exact, sizes)
        return left_open, found[0]


def _about(size: tuple[str, int]) -> int:
    """Return what sizes share that a convolution takes alike: one of images, up to its double.

    Those of windows, and others as few, stand for themselves.
    """
    _, n = size
    return n if n <= _FEW else -n.bit_length()


def count_of(config: Config, forms: Collection[str]) -> int:
    """Return how many groups of a config have one of these forms."""
    return sum(name.endswith(".form") and value in forms for name, value in config.items)
