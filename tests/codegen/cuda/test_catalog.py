"""Every program that users of the original wrote, as kernels: compiled by NVRTC, run in cusim."""

from __future__ import annotations

import re
import warnings
import zlib
from functools import cache
from typing import Any

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.codegen.choose import compiler
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.machine.gpu import gpu_of
from tcdsl.codegen.machine.spec import Layout, Spec
from tcdsl.codegen.program.ssa import program_of
from tcdsl.codegen.toolchain.nvrtc import compile_cuda
from tcdsl.grammar.text.syntax import KEYWORDS
from tcdsl.grammar.types.builtins import BUILTINS
from tcdsl.grammar.types.dtypes import BY_NAME
from tcdsl.grammar.types.typed import CheckedDef
from tests.codegen.harness import Problem
from tests.cusim.harness import lowered, simulate
from tests.cusim.simulator import Order
from tests.tcdsl.differential import assert_close, reference
from tests.tcdsl.programs.catalog import (
    LEGAL,
    arguments,
    holds,
    name_of,
    points,
    small_sizes,
)
from tests.tiers import sampled

Entry = dict[str, Any]


_WORDS = {*KEYWORDS, *BUILTINS, *BY_NAME, "argmax", "argmin", "for", "pad", "rand"}


def _without_names(entry: Entry) -> str:
    """Return an entry's text with its names counted: it is checked only where it is tested."""
    count: dict[str, str] = {}

    def counted(word: re.Match[str]) -> str:
        return word[0] if word[0] in _WORDS else count.setdefault(word[0], f"_{len(count)}")

    text = re.sub(r"[A-Za-z_]\w*", counted, re.sub(r"#.*", "", entry["tc"]))
    return f"{count.get(name_of(entry))}: {''.join(text.split())}"


@cache
def _distinct() -> tuple[Entry, ...]:
    """Return one entry of those that differ in names only."""
    found: dict[str, Entry] = {}
    for entry in LEGAL:
        found.setdefault(_without_names(entry), entry)
    return tuple(found.values())


def _defined(entry: Entry) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tc.define(entry["tc"], name_of(entry), tune="off", source=entry["name"])


def _checked(entry: Entry) -> CheckedDef:
    checked: CheckedDef = _defined(entry).variant().checked
    return checked


def _rng(entry: Entry) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(entry["name"].encode()))


def _own_sizes(checked: CheckedDef, entry: Entry) -> dict[str, int]:
    """Return the entry's own sizes, or small ones where it has no legal ones."""
    own: dict[str, int] = entry.get("sizes") or entry["suggested_sizes"]
    sizes = {n: own[n] for n in checked.sizes if n in own}
    whole = len(sizes) == len(checked.sizes)
    return sizes if whole and holds(checked, sizes) else small_sizes(checked, entry, _rng(entry))


def _deep(*values: str) -> Any:
    return pytest.param(*values, marks=pytest.mark.deep)


@pytest.mark.nvrtc
@pytest.mark.parametrize(
    ("arch", "form"),
    [
        ("sm_90", "exact"),
        ("sm_80", "small"),
        _deep("sm_80", "exact"),
        _deep("sm_90", "small"),
        _deep("sm_80", "wide"),
        _deep("sm_90", "wide"),
    ],
)
@sampled("entry", _distinct(), ids=lambda e: e["name"], keep=4, wide=16)
def test_nvrtc_takes_every_program_without_a_spill(entry: Entry, arch: str, form: str) -> None:
    checked = _checked(entry)
    program, sizes = program_of(checked), _own_sizes(checked, entry)
    ranks = [len(program.buffer(n).shape) for n in program.operands]
    layouts = tuple(Layout(r, True, r - 1 if r else None) for r in ranks)
    extents = tuple((n, sizes[n]) for n in program.sizes if n not in program.scalars)
    spec = Spec(extents if form == "exact" else None, layouts, 0, form == "small")
    unit = compiler.lower(program, spec, Config(), gpu_of(arch), sizes, "k")
    text = compiler.emit_cuda(unit)
    cubin = compile_cuda(text, arch, name="k")
    assert not cubin.warnings, f"{cubin.log}\n{text}"
    if form != "wide":  # addresses of 64 bits take twice the registers, and are rarely needed
        assert cubin.report.objection is None, f"{cubin.report.objection}\n{text}"


@pytest.mark.cusim
@pytest.mark.parametrize("form", ["exact", _deep("small"), _deep("wide")])
@sampled("entry", _distinct(), ids=lambda e: e["name"], keep=5, wide=20)
def test_every_program_computes_what_the_reference_computes(entry: Entry, form: str) -> None:
    rng, checked = _rng(entry), _checked(entry)
    sizes = small_sizes(checked, entry, rng)
    problem = Problem(checked, tuple(arguments(checked, sizes, rng)))
    want = reference(checked, problem.args, float64=True)
    terms = 8 * max(points(checked, sizes) // max(min(w.size for w in want), 1), 8)
    unit = lowered(problem, exact=form == "exact", is_small=form == "small")
    text = compiler.emit_cuda(unit)
    orders: tuple[Order, ...] = ("forward", "reverse")
    for order in orders:
        got, report = simulate(unit, text, problem, order=order)
        report.assert_clean(text)
        for g, w in zip(got, want, strict=True):
            assert_close(g, w, terms)
