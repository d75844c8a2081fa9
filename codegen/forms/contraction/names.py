"""The functions of the library by their names, and which of them products usually want."""

from __future__ import annotations

import re
from typing import get_args

from tcdsl.codegen.forms.contraction.library import (
    TRAITS,
    Dots,
    Joining,
    LibraryFunction,
    Packing,
    Planning,
    Streams,
    Tiles,
)
from tcdsl.codegen.forms.contraction.packer import Packer, Unit
from tcdsl.codegen.forms.contraction.problem import Term
from tcdsl.codegen.forms.contraction.roles import FACTORS, SUMS
from tcdsl.codegen.forms.contraction.words import ALL
from tcdsl.codegen.loops import loopir
from tcdsl.codegen.loops.loopir import Vector
from tcdsl.codegen.loops.target import short_name
from tcdsl.codegen.machine.cpu import Machine, has_few
from tcdsl.grammar.types.dtypes import DType

_TYPES = {short_name(t): t for t in FACTORS}
_TYPE = "|".join(_TYPES)
_SUM = "|".join(map(short_name, SUMS))
_VECTOR = rf"v(?P<lanes>[1-9]\d?)(?P<type>{_SUM})"
_REGISTERS = r"r(?P<registers>[1-9]\d?)"
_UNIT = "|".join(get_args(Unit))


def library_unit(name: str) -> loopir.Unit:
    """Return the unit that exports the function of a name.

    Raises
    ------
    KeyError
        If no function is called so.
    """
    f = named(name)
    tables = (f.table(),) if isinstance(f, Planning) else ()
    return loopir.Unit(name, f"{name}: of contractions for all sizes", tuple(f.functions()), tables)


def named(name: str) -> LibraryFunction:
    """Return the function of a name.

    Raises
    ------
    KeyError
        If no function is called so.
    """
    makers = _tiles, _dots, _streams, _packing, _joining, _planning
    found = next((f for make in makers if (f := make(name)) is not None), None)
    if found is None or found.name != name:
        raise KeyError(name)
    return found


def usual(machine: Machine, dtype: DType) -> tuple[LibraryFunction, ...]:
    """Return the functions that products A * B and A * B^T of a type call."""
    v = Vector(dtype, machine.lanes(dtype.size_bytes))
    units: tuple[Unit, ...] = ("x", "k")
    return (
        Tiles(v, machine.registers, shares=machine.shares_ports),
        Dots(v, machine.registers, dtype, dtype, dtype, resumes=False),
        Streams(v, machine.registers, dtype),
        *(Packing(Packer(dtype, dtype, v.lanes, unit)) for unit in units),
        *(Planning.of(machine, v, traits) for traits in ("ludst", "lubd")),
    )


# ---- names


def _vector(found: re.Match[str]) -> Vector:
    return Vector(_TYPES[found["type"]], int(found["lanes"]))


def _tiles(name: str) -> Tiles | None:
    words, terms = {w.name: w for w in ALL}, get_args(Term)
    kind = rf"(_(?P<words>{'|'.join(words)}))?(_(?P<term>{'|'.join(terms)}))?"
    kind += "(?P<ahead>_ahead)?(?P<shares>_shared)?"
    found = re.fullmatch(rf"tc_tile_{_VECTOR}_{_REGISTERS}(?P<table>_table)?{kind}", name)
    if found is None:
        return None
    by_table = found["table"] is not None
    term: Term = next((t for t in terms if t == found["term"]), "product")
    registers, ahead = int(found["registers"]), found["ahead"] is not None
    if ahead and (not has_few(registers) or found["words"] is not None):
        return None
    shares = found["shares"] is not None
    if shares and found["words"] is not None:
        return None
    vector = _vector(found)
    return Tiles(vector, registers, by_table, words.get(found["words"]), term, ahead, shares)


def _dots(name: str) -> Dots | None:
    stored = "".join(f"(?P<{x}>{_TYPE})" for x in "abc")
    found = re.fullmatch(rf"tc_dot_{_VECTOR}_{_REGISTERS}_{stored}(?P<onto>_onto)?", name)
    if found is None:
        return None
    a, b, c = (_TYPES[found[x]] for x in "abc")
    return Dots(_vector(found), int(found["registers"]), a, b, c, found["onto"] is not None)


def _streams(name: str) -> Streams | None:
    found = re.fullmatch(rf"tc_stream_{_VECTOR}_{_REGISTERS}_(?P<b>{_TYPE})", name)
    if found is None:
        return None
    vector, b = _vector(found), _TYPES[found["b"]]
    is_read = b == vector.dtype or (b.is_float and vector.dtype.is_float)
    return Streams(vector, int(found["registers"]), b) if is_read else None


def _packing(name: str) -> Packing | None:
    tables = "(?P<columns>_columns)?(?P<depth>_depth)?"
    words = {w.name: w for product in ALL for w in map(product.of, "ab")}
    word = f"(_(?P<word>{'|'.join(words)}))?"
    pattern = rf"tc_pack_(?P<unit>{_UNIT}){tables}_{_VECTOR}_(?P<source>{_TYPE}){word}"
    found = re.fullmatch(pattern, name)
    if found is None:
        return None
    vector, unit = _vector(found), next(u for u in get_args(Unit) if u == found["unit"])
    return Packing(
        Packer(
            _TYPES[found["source"]],
            vector.dtype,
            vector.lanes,
            unit,
            x_table=found["columns"] is not None,
            k_table=found["depth"] is not None,
            word=words.get(found["word"]),
        )
    )


def _planning(name: str) -> Planning | None:
    number = r"([1-9]\d{0,11})"
    traits = "".join(f"{letter}?" for letter in TRAITS)
    pattern = (
        rf"tc_plan_{_VECTOR}_{_REGISTERS}_{number}_{number}_{number}_{number}(c?)(n?)_({traits})"
    )
    found = re.fullmatch(pattern, name)
    if found is None:
        return None
    *_, l1_bytes, l1_ways, l2_bytes, fma, crosses, keeps_up, has = found.groups()
    caches = int(l1_bytes), int(l1_ways), int(l2_bytes)
    registers = int(found["registers"])
    speed = int(fma), bool(crosses), bool(keeps_up)
    return Planning(_vector(found), registers, *caches, *speed, has)


def _joining(name: str) -> Joining | None:
    found = re.fullmatch(rf"tc_join(?P<table>_columns)?_{_VECTOR}_(?P<stored>{_TYPE})", name)
    by_table = found is not None and found["table"] is not None
    return found and Joining(_vector(found), _TYPES[found["stored"]], by_table)
