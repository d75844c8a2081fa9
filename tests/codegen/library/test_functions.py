"""Functions that executables share: names, objects, what is damaged, who else compiles them."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from tcdsl.codegen import runtime
from tcdsl.codegen.choose import compiler
from tcdsl.codegen.forms.contraction.library import (
    Dots,
    Joining,
    LibraryFunction,
    Packing,
    Planning,
    Streams,
    Tiles,
)
from tcdsl.codegen.forms.contraction.names import library_unit, named
from tcdsl.codegen.forms.contraction.packer import Packer, Unit
from tcdsl.codegen.forms.contraction.problem import Term
from tcdsl.codegen.forms.contraction.words import ALL as WORDS
from tcdsl.codegen.library import functions
from tcdsl.codegen.library.load import load
from tcdsl.codegen.loops.loopir import Vector
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.codegen.toolchain.cc import INCLUDES, Kind, find_compiler
from tcdsl.codegen.toolchain.host import detect
from tcdsl.codegen.toolchain.objects import compile_source
from tcdsl.codegen.toolchain.source import SPARED, Source
from tcdsl.grammar.text.errors import InternalError
from tcdsl.grammar.types.dtypes import (
    BFLOAT16,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    UINT16,
    DType,
)
from tests.codegen.compiled import noted, recorded
from tests.codegen.harness import assert_same, call, expected, problem, spec_of
from tests.tiers import sampled

MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
MM_T = MM.replace("B(k,n)", "B(n,k)").replace("(K,N) B", "(N,K) B")
V16, V4, INTS = Vector(FLOAT32, 16), Vector(FLOAT64, 4), Vector(INT32, 16)
MACHINE = Machine("avx512", 64, 32, 32 << 10, 8, 1 << 20, 32 << 20, 2, 3.0, 2)
UNITS: tuple[Unit, ...] = ("x", "k", "batch", "none")


@pytest.fixture
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of what is compiled from here on, in a cache of its own."""
    assert isinstance(runtime.Entry, type), "the launcher is compiled before"
    recorded(monkeypatch, tmp_path / "cache")
    monkeypatch.setattr(functions, "_loaded", {})
    return noted(monkeypatch)


def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what this process has loaded, as another one has loaded nothing."""
    monkeypatch.setattr(functions, "_loaded", {})


def small(stored: DType = FLOAT32) -> str:
    """Return the name of a function that is compiled in no time, with vectors of this machine."""
    return Joining(Vector(FLOAT32, detect().lanes(4)), stored).name


def everything() -> list[LibraryFunction]:
    stored = (FLOAT16, BFLOAT16, FLOAT32)
    return [
        *(
            Tiles(v, r, table, term=term)
            for v, r, table in product((V16, V4), (16, 32), (False, True))
            for term in get_args(Term)
        ),
        *(
            Tiles(V4, 16, table, ahead=True, shares=s)
            for table, s in product((False, True), repeat=2)
        ),
        Tiles(V16, 32, term="square", shares=True),
        *(
            Dots(V16, 32, a, b, c, resumes=r)
            for a, b, c, r in product(stored, stored, stored, (False, True))
        ),
        *(Streams(v, r, b) for v, r, b in product((V16, V4), (16, 32), stored)),
        *(
            Packing(Packer(t, FLOAT32, 16, unit, x, k))
            for t, unit, x, k in product(stored, UNITS, (False, True), (False, True))
        ),
        *(Joining(V16, t, by_table) for t in stored for by_table in (False, True)),
        *(Tiles(INTS, 32, words=w) for w in WORDS),
        *(
            Packing(Packer(t, INT32, 16, unit, word=w))
            for t, unit, w in product(
                (INT8, INT16, UINT16), UNITS, {w.of(x) for w in WORDS for x in "ab"}
            )
        ),
        *(
            Planning(v, 32, 32768, 8, 1 << 20, 2, crosses, keeps_up, traits)
            for v in (V16, V4)
            for crosses, keeps_up in ((False, False), (False, True), (True, False))
            for traits in ("lu", "lubd", "abxyzw", "luk", "lus")
        ),
    ]


def test_a_name_says_all_of_a_function() -> None:
    listed = everything()
    assert [named(f.name) for f in listed] == listed
    assert len({f.name for f in listed}) == len(listed)


@pytest.mark.parametrize(
    "name",
    [
        "", "f", "tc_tile", "tc_tile_v16f32_r32_", "tc_tile_v016f32_r32", "tc_tile_v16u32_r32",
        "tc_plan_v16f32_r32_0_8_1_1_lu", "tc_plan_v16f32_r32_1_8_1_1_ul",
        "tc_tile_v16f32_r32_ahead", "tc_tile_v16i32_r32_dot4", "tc_pack_x_v16i32_i8_x3",
        "tc_pack_y_v16f32_f32", "tc_join_v16f32_f32\n", "tc_dot_v16f32_r32_f32f32",
        "tc_stream_v16f32_r32", "tc_stream_v16f32_r32_i32",
    ],
)  # fmt: skip
def test_another_name_is_none_of_ours(name: str) -> None:
    with pytest.raises(KeyError):
        library_unit(name)


def test_what_a_unit_exports_is_what_others_declare() -> None:
    for f in (Tiles(V4, 16, True), Dots(V16, 32, FLOAT16, FLOAT32, FLOAT32, True)):
        *inner, last = library_unit(f.name).functions
        assert (last.name, last.params, last.linkage) == (f.name, f.params, "export")
        assert {x.linkage for x in inner} == {"micro"}


@pytest.mark.cc
def test_gcc_looks_for_nothing_in_kernels_that_are_spelled_out() -> None:
    def flags(f: LibraryFunction) -> set[str]:
        return {*functions._source(f.name).all_flags(replace(find_compiler(), kind=kind))}

    packer = Packing(Packer(FLOAT32, FLOAT32, 16, "x"))
    kind: Kind = "gcc"
    dots = Dots(V16, 32, FLOAT32, FLOAT32, FLOAT32, resumes=False)
    for kernel in (Tiles(V16, 32), dots, Streams(V16, 32, FLOAT32)):
        assert "-fno-tree-pre" in flags(kernel)
    assert "-fno-tree-pre" not in flags(packer)
    kind = "clang"
    assert not any("tree" in flag for flag in flags(Tiles(V16, 32)) - {*find_compiler().flags})


def test_gcc_is_spared_the_same_in_functions_of_a_unit_but_ranges_of_values() -> None:
    text = (INCLUDES / "prelude.h").read_text()
    asked = re.search(r"optimize\((.*?)\)\)\)", text, re.S)
    assert asked is not None
    spared = [f"-f{name}" for name in re.findall(r'"(.*?)"', asked[1])]
    assert spared == [flag for flag in SPARED["gcc"] if flag != "-fno-tree-vrp"]


@pytest.mark.cc
def test_a_function_is_compiled_once_on_a_machine(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = functions.addresses([small()])
    assert functions.addresses([small(), small()]) == first * 2
    monkeypatch.setattr(compiler, "lower_library", None)
    later(monkeypatch)
    assert functions.addresses([small()]) == first, "the same object, found by its record"
    assert compiled == [small()]


@pytest.mark.cc
def test_a_damaged_function_is_compiled_again(
    compiled: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    functions.addresses([small()])
    (path,) = tmp_path.glob(f"cache/objects/*/{small()}-*.so")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.unlink()
    path.write_bytes(content)
    later(monkeypatch)
    assert functions.addresses([small()])
    assert compiled == [small(), small()]


@pytest.mark.cc
@sampled("record", ['"x"', '{"version": 1}', "[[[[", "\xff"], keep=1)
def test_a_damaged_record_is_made_again(
    compiled: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record: str
) -> None:
    first = functions.addresses([small()])
    (path,) = tmp_path.glob(f"cache/objects/*/{small()}*.library-*.json")
    path.write_text(record)
    later(monkeypatch)
    assert functions.addresses([small()]) == first
    assert compiled == [small()], "its text leads to the object"


@pytest.mark.cc
def test_what_is_missing_is_told(compiled: list[str]) -> None:
    names = [small(), small(FLOAT16), small()]
    assert functions.missing(names) == names[:2]
    functions.addresses(names[:1])
    assert functions.missing(names) == names[1:2]


@pytest.mark.wide
@pytest.mark.cc
def test_two_processes_compile_a_function_once(compiled: list[str], tmp_path: Path) -> None:
    cc = tmp_path / "cc"
    runs = tmp_path / "runs"
    real = find_compiler().command[0]
    cc.write_text(
        f'#!/bin/sh\ncase " $* " in *" -shared "*) echo run >> {runs}; sleep 0.5;; esac\n'
        f'exec {real} "$@"\n'
    )
    cc.chmod(0o700)
    code = f"from tcdsl.codegen.library import functions; functions.addresses([{small()!r}])"
    started = [
        subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "TCDSL_CC": str(cc)})
        for _ in range(2)
    ]
    assert [p.wait() for p in started] == [0, 0]
    assert runs.read_text().splitlines() == ["run"]


@pytest.mark.deep
@pytest.mark.cc
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_calls_the_same_functions(rng: np.random.Generator) -> None:
    p = problem(MM, *(rng.normal(size=s).astype(np.float32) for s in ((9, 40), (40, 21))))
    unit = compiler.lower(p.program, spec_of(p, exact=False), Config(), detect(), p.sizes, "mm")
    address = load(compile_source(Source("mm", compiler.emit_c(unit))), "mm").address
    child = os.fork()
    if child == 0:
        failed = 1
        try:
            assert_same(call(address, p, 1, rng), expected(p), terms=40)
            failed = 0
        finally:
            os._exit(failed)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert_same(call(address, p, 1, rng), expected(p), terms=40)


def test_known_sizes_have_all_but_what_turns_squares_around(rng: np.random.Generator) -> None:
    x, w = (rng.normal(size=s).astype(np.float32) for s in ((24, 48), (64, 48)))
    for text, second, imported in ((MM_T, w, ["tc_pack_k_v16f32_f32"]), (MM, w.T.copy(), [])):
        p = problem(text, x, second)
        unit = compiler.lower(p.program, spec_of(p, exact=True), Config(), MACHINE, p.sizes, "mm")
        assert [f.name for f in unit.functions if f.linkage == "import"] == imported


@pytest.mark.cc
def test_an_executable_without_its_functions_is_refused(rng: np.random.Generator) -> None:
    p = problem(MM, *(rng.normal(size=s).astype(np.float32) for s in ((2, 4), (4, 3))))
    unit = compiler.lower(p.program, spec_of(p, exact=False), Config(), detect(), p.sizes, "mm")
    path = compile_source(Source("mm", compiler.emit_c(unit) + "\n/* of nobody else */"))
    address = ctypes.addressof(ctypes.c_char.in_dll(ctypes.CDLL(str(path)), "tc_exe_mm"))
    with pytest.raises(InternalError, match="was not given its function 'tc_"):
        runtime.Entry(address, (), (), ())
    assert load(path, "mm").address == address
    assert runtime.Entry(address, (), (), ())
