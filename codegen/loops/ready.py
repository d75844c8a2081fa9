"""A unit of the CPU made ready to be printed: cleaned, checked; what was so before is not again.

Units of one program under other configs have many functions alike, if they are lowered under one
name: register tiles, packers, phases of groups that a config leaves as they were. `Before` keeps
what became of each.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any

from tcdsl.codegen.loops.checked import Checked, Kept
from tcdsl.codegen.loops.cut import cut
from tcdsl.codegen.loops.emit import Printed
from tcdsl.codegen.loops.loopir import Function, Unit
from tcdsl.codegen.loops.merge import merge
from tcdsl.codegen.loops.opaque import opaque
from tcdsl.codegen.loops.shorten import shorten
from tcdsl.codegen.loops.simplify import simplify
from tcdsl.codegen.loops.stage import stage
from tcdsl.codegen.loops.verify import verify


class _Hashed:
    """A function as a key: to hash one goes through all of it."""

    def __init__(self, function: Function) -> None:
        self._function, self._hash = function, hash(function)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Hashed) and self._function == other._function


class Before:
    """What became of functions of earlier units, by what they are."""

    def __init__(self) -> None:
        self._cleaned = Kept[_Hashed, Function]()
        self._of_same = Kept[int, tuple[Function, Function]]()  # by identity, which this keeps
        self.groups = Kept[Hashable, Any]()  # lowered, by what they hang on (`choose/units.py`)
        self.checked, self.printed = Checked(), Printed()

    def cleaned(self, unit: Unit) -> Unit:
        """Return a unit with cleaned functions: of equal ones the same object."""
        return replace(unit, functions=tuple(self._function(f, unit) for f in unit.functions))

    def _function(self, f: Function, unit: Unit) -> Function:
        if (same := self._of_same.get(id(f))) is not None:
            return same[1]
        key = _Hashed(f)
        done = self._cleaned.get(key)
        if done is None:
            (done,) = _cleaned(replace(unit, functions=(f,))).functions
            self._cleaned.put(key, done)
        self._of_same.put(id(f), (f, done))
        return done


def ready(unit: Unit, before: Before | None = None) -> Unit:
    """Return a unit as it is printed.

    Raises
    ------
    InternalError
        If it breaks a law of loop nests: our own mistake.
    """
    unit = merge(_cleaned(unit) if before is None else before.cleaned(unit))
    verify(unit, None if before is None else before.checked)
    return unit


def _cleaned(unit: Unit) -> Unit:
    return shorten(opaque(cut(simplify(stage(unit)))))  # each of a function alone
