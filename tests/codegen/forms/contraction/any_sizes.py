"""Executables for any sizes of a form, against the reference."""

from __future__ import annotations

from collections.abc import Sequence

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.codegen.toolchain.host import detect
from tests.codegen.harness import Case, Problem, differential, spec_of


def titles_of(p: Problem, machine: Machine | None = None) -> str:
    """Return the forms of all statements in an executable for any sizes."""
    found = compiler.describe(
        p.program, spec_of(p, exact=False), Config(), machine or detect(), p.sizes
    )
    return ", ".join(form for _, form in found)


def held_as(title: str, listed: Sequence[Problem], terms: int) -> None:
    """Hold problems against the reference, after a look at their form."""
    for p in listed:
        assert title in titles_of(p), p.program.text
    differential([Case(p, exact=False) for p in listed], terms)
