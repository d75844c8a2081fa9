"""The adjoints of versions: what they are called, which are wanted, how they begin and end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tcdsl.codegen.gradient import build as g
from tcdsl.codegen.gradient.cancelled import cancelled
from tcdsl.codegen.gradient.combine import computed
from tcdsl.codegen.gradient.lines import Line, Part
from tcdsl.codegen.gradient.versions import Version, Versions, VersionStep, reads_in, steps
from tcdsl.codegen.program.expressions import reads_of
from tcdsl.grammar.proofs.ranges import Interval
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.fresh import counted
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.typed import Expr


class Adjoints:
    """The adjoints of versions: their names and types, and the lines that begin and end them.

    Attributes
    ----------
    values : dict
        All tensors by name: those of the definition, adjoints, and what else lines need.
    adjoints : dict
        What the adjoint of a version is called.
    zeros : list
        Lines that begin adjoints, to stand before all others.
    """

    def __init__(self, versions: Versions) -> None:
        self.versions = versions
        self.values = dict(versions.values)
        self.taken = {*versions.taken, *versions.values}
        self.taken |= {r.name for s in steps(versions.nodes) for r in s.ranges}
        self.adjoints: dict[str, str] = {}
        self.rounded: dict[str, str] = {}
        self.products: dict[VersionStep, typed.Read] = {}
        self.compared: set[str] = set()
        self.searches: dict[str, VersionStep] = {}
        self.returned: set[str] = set()
        self.begun: set[str] = set()
        self.zeros: list[Part] = []
        self.box, self.at = versions.box, versions.at
        self._active: set[str] = set()  # what depends on the parameters
        self._useful: set[str] = set()  # what the returns depend on
        self._private: frozenset[str] = frozenset()  # of the innermost loop gone through
        self._around: dict[str, Interval] = {}  # the variables of all of these

    def fresh(self, name: str) -> str:
        """Return a name like this one that nothing else has."""
        candidate = counted(name, self.taken)
        self.taken.add(candidate)
        return candidate

    def makers(self, name: str) -> Sequence[Expr]:
        """Return what may be computed again where a version is read; nothing of one in memory."""
        if name in self.versions.finals.values():
            return ()
        made = (s for s in steps(self.versions.nodes) if s.target == name and s.op == "=")
        return [s.value for s in made]

    def seed(self, version: str, given: str) -> list[Part]:
        """Begin the adjoint of a return as what the caller gives; return the line for that."""
        v = self.values[version]
        self.values.setdefault(given, Version(given, version, v.dtype, v.shape))
        name, lines = given, list[Part]()
        changes = version in self.versions.in_place or any(
            s.base == version or any(r.tensor == version for r in reads_in(s))
            for s in steps(self.versions.nodes)
        )
        if changes:
            name = self.fresh(f"a_{v.tensor}")
            self.values[name] = Version(name, version, v.dtype.computed, v.shape)
            value = computed(typed.Read(given, self.at(version), v.dtype))
            lines.append(self._full(name, version, value))
        self.adjoints[version] = name
        self.begun.add(version)
        return lines

    def result(self, parameter: str, name: str) -> None:
        """Let the adjoint of a parameter be called so."""
        v = self.values[parameter]
        self.values[name] = Version(name, parameter, v.dtype, v.shape)
        self.adjoints[parameter] = name
        self.returned.add(name)
        if v.dtype.is_half:  # summed in float32, rounded once
            self.rounded[parameter] = name
            del self.adjoints[parameter]
            self._adjoint(parameter)
        self._active.add(parameter)

    def activate(self) -> None:
        """Find what depends on the parameters whose gradient is wanted, and what the returns do."""
        before, shifts = -1, cancelled(self.versions)
        while len(self._active) != before:  # loops carry on what a later step makes
            before = len(self._active)
            for s in steps(self.versions.nodes):
                is_active = s.base in self._active or any(
                    r.tensor in self._active for r in reads_of(s.value)
                )
                if is_active and self.values[s.target].dtype.is_float and s.target not in shifts:
                    self._active.add(s.target)
        self._useful = set(self.versions.finals.values())
        before = -1
        while len(self._useful) != before:
            before = len(self._useful)
            for s in reversed([*steps(self.versions.nodes)]):  # a reader first: one pass tells all
                if s.target in self._useful:
                    self._useful |= {r.tensor for r in reads_in(s)}
                    self._useful |= {s.base} if s.base is not None else set()

    def finished(self, parameter: str) -> list[Part]:
        """Return the line that sets an adjoint to 0 to which nothing was added; or rounds it."""
        v, name = self.values[parameter], self.adjoints[parameter]
        lines: list[Part] = []
        if parameter not in self.begun:
            lines.append(self._full(name, parameter, g.number(0, v.dtype.computed)))
        if parameter in self.rounded:
            exact = typed.Read(name, self.at(parameter), v.dtype.computed)
            rounded = typed.Cast(exact, v.dtype)
            lines.append(self._full(self.rounded[parameter], parameter, rounded))
        return lines

    def _full(self, name: str, version: str, value: Expr) -> Line:
        return Line(name, self.at(version), "=", value, self.box(version))

    def _adjoint(self, version: str) -> str:
        if version not in self.adjoints:
            v = self.values[version]
            name = self.adjoints[version] = self.fresh(f"a_{version}")
            self.values[name] = Version(name, version, v.dtype.computed, v.shape)
        return self.adjoints[version]

    def _add(
        self, lines: Sequence[Line], version: str, zeros: list[Part], *, in_loop: bool
    ) -> list[Line]:
        """Return lines that add to an adjoint; the first one starts it, or zeros do.

        Elements of a return that no line reaches are 0; of anything else lines also give the box.
        """
        if version in self.begun or not lines:
            return [*lines]
        self.begun.add(version)
        v, first = self.values[version], lines[0]
        if any(x.is_ragged_scatter for x in lines):  # which can only go on
            zeros.append(self._full(first.target, version, g.number(0, v.dtype.computed)))
            return [*lines]
        covers = [g.index(r.name) for r in first.ranges[: len(v.shape)]] == [*first.subs] and all(
            r.low == Size.const(0) and r.high == extent
            for r, extent in zip(first.ranges, v.shape, strict=False)
        )
        starts = not in_loop or version in self._private
        is_returned = first.target in self.returned and not in_loop
        if not is_returned and not (covers and starts):
            zeros.append(self._full(first.target, version, g.number(0, v.dtype.computed)))
            starts = starts and len(lines) > 1  # lines that share no elements begin their own
        started: set[tuple[Expr, ...]] = set()
        out: list[Line] = []
        for line in lines:
            begins = starts and line.subs not in started
            out.append(replace(line, op="+=!") if begins else line)
            started.add(line.subs)
        return out
