"""The one printer of units: headers, tables, functions and executables as the text of a target."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tcdsl.codegen.loops.checked import Kept
from tcdsl.codegen.loops.loopir import Call, Executable, Function, Table, Unit
from tcdsl.codegen.loops.printer import Printer
from tcdsl.codegen.loops.spelling import in_comment
from tcdsl.codegen.loops.target import Target
from tcdsl.codegen.loops.walk import all_exprs
from tcdsl.grammar.types.builtins import BUILTINS

# Builtins of the language that smath.h has; % of floats in vectors is there too.
_MATHS = frozenset({*BUILTINS, "any"}) - {"fmin", "fmax"}
_MOD_OF_VECTORS = "tc_mod_v"

# What words.h has: vectors read from narrower integers, words, squares of integers.
_WORDS = re.compile(
    r"tc_(loadm?_v\d+i\d+_[iu]\d+|(dot|wide|weave|line|put)m?\d(su|us|bf)?(_|$)|least_|transpose_v\d+i)"
)

# What tiles.h has.
_TILES = re.compile(r"tc_(tiled\d|shape_tiles|drop_tiles|least_rows_)")

# What scans.h has.
_SCANS = re.compile(r"tc_r?scan_")


class Printed:
    """Functions that were printed for one target, by their identity: text, what each calls."""

    def __init__(self) -> None:
        self._known = Kept[int, tuple[Function, str, frozenset[str]]]()

    def of(self, f: Function, target: Target) -> tuple[str, frozenset[str]]:
        """Return the text of a function and the names of what it calls."""
        found = self._known.get(id(f))
        if found is None:
            printer = Printer(target)
            printer.function(f)
            found = f, printer.out.text().rstrip("\n"), _called(f)
            self._known.put(id(f), found)
        return found[1:]


def emit(unit: Unit, target: Target, printed: Printed | None = None) -> str:
    """Return the text of a unit; texts of several units may be joined into one file.

    printed : functions that were printed before for this target.
    """
    return _UnitPrinter(target).unit(unit, printed or Printed())


def signature(f: Function, target: Target) -> str:
    """Return what stands before the body of a function."""
    return Printer(target).head(f)


class _UnitPrinter(Printer):
    """Lines of a unit in the making."""

    def unit(self, u: Unit, known: Printed) -> str:
        """Return the whole text."""
        first, *rest = in_comment(u.header).splitlines() or [u.name]
        self.out.add(f"/* {first}".rstrip())
        for line in rest:
            self.out.add(f" * {line}".rstrip())
        self.out.add(" */")
        self.out.add(self.target.prelude)
        texts = [known.of(f, self.target) for f in u.functions]
        called = frozenset[str]().union(*(names for _, names in texts))
        if any(map(_is_maths, called)):
            self.out.add(self.target.maths)
        if self.target.words and any(map(_WORDS.match, called)):
            self.out.add(self.target.words)
        if self.target.tiles and any(map(_TILES.match, called)):
            self.out.add(self.target.tiles)
        if self.target.scans and any(map(_SCANS.match, called)):
            self.out.add(self.target.scans)
        late = [t for t in u.tables if any(isinstance(v, str) for v in t.values)]
        for t in u.tables:
            if t not in late:
                self.out.add("")
                self._table(t)
        printed: set[str] = set()
        for f, (text, _) in zip(u.functions, texts, strict=True):
            self.out.add("")
            self.out.add(text)
            printed.add(f.name)
            # a table of functions stands right after the last one it names
            for t in [
                t for t in late if printed.issuperset(v for v in t.values if isinstance(v, str))
            ]:
                self.out.add("")
                self._table(t)
                late.remove(t)
        assert not late, f"tables {[t.name for t in late]} name functions the unit does not have"
        imports = [f.name for f in u.functions if f.linkage == "import"]
        for e in u.executables:
            self.out.add("")
            self._executable(e, imports)
        return self.out.text()

    def _table(self, t: Table) -> None:
        kind = self.type(t.type)
        const = "" if kind.startswith("const ") else "const "
        values = ", ".join(map(str, t.values))
        head = f"{self.target.table} {const}{kind}{t.name}"
        self.out.add(f"{head}[{len(t.values)}] = {{{values}}};")

    def _executable(self, e: Executable, imports: Sequence[str]) -> None:
        phases = ", ".join(e.phases) or "0"
        slots = f"tc_imports_{e.name}"
        if imports:
            listed = ", ".join(f'{{"{name}", &{name}}}' for name in imports)
            self.out.add(f"static const tc_import {slots}[] = {{{listed}}};")
        self.out.add(f"{self.target.export} const tc_executable tc_exe_{e.name} = {{")
        loops = ", ".join(f"{{{x.first}, {x.last}, {x.range}}}" for x in e.loops)
        tail = f", {len(e.loops)}, {{{loops}}}" if e.loops else ""
        tail += f", .imports = {len(imports)}, .import = {slots}" if imports else ""
        self.out.add(f"  TC_ABI, {len(e.phases)}, {e.plan}, {{{phases}}}{tail}")
        self.out.add("};")


def _is_maths(name: str) -> bool:
    """Whether a function is a builtin that the prelude does not have."""
    if name.startswith(_MOD_OF_VECTORS):
        return True
    return name.startswith("tc_") and name.split("_", 1)[1].rsplit("_", 1)[0] in _MATHS


def _called(f: Function) -> frozenset[str]:
    """Return the names of all functions that a function calls."""
    return frozenset(e.function for e in all_exprs(f.body) if isinstance(e, Call))
