"""The library of products is built aside when something is first compiled on a machine."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tcdsl as tc
from tcdsl import library
from tcdsl.calls.bindings import beginning
from tcdsl.calls.bindings.aside import LIBRARY, USUAL
from tcdsl.codegen.choose.compiler import library_for
from tcdsl.codegen.library import building
from tcdsl.codegen.toolchain.host import detect
from tcdsl.library import usual
from tcdsl.ops.forms import forget_forms
from tests.codegen.compiled import noted, recorded


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[list[str], str]]:
    """Return what the builder would be given, in a cache of the test's own."""
    found: list[tuple[list[str], str]] = []
    monkeypatch.setenv("TCDSL_CACHE", str(tmp_path))
    monkeypatch.setattr(beginning, "BEGINS", True)
    monkeypatch.setattr(beginning, "_seen", set())
    monkeypatch.setattr(beginning, "_of_tensors", False)
    monkeypatch.setattr(beginning, "usable_cores", lambda: 2)
    monkeypatch.setattr(
        beginning, "Aside", lambda task, name, module: found.append((json.loads(task), module))
    )
    return found


def test_it_is_begun_once_on_a_machine(
    started: list[tuple[list[str], str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    k = tc.define("def k(float(N) A) -> (B) { B(i) = 3 * A(i) }")
    k(np.ones(3, np.float32))
    assert started == [(["float32"], LIBRARY)]
    monkeypatch.setattr(beginning, "_seen", set())  # as in another process
    beginning.begin("k", detect())
    assert len(started) == 1


def test_what_is_usual_is_begun_by_programs_of_tensors_until_all_is_there(
    started: list[tuple[Any, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    beginning.say_of_tensors()
    beginning.begin("k", detect())
    assert started[1:] == [(0, USUAL)]
    monkeypatch.setattr(beginning, "_seen", set())  # as in another process
    monkeypatch.setattr(usual, "Aside", vars(beginning)["Aside"])
    monkeypatch.setattr(usual, "_CALLS", (int, int))
    beginning.begin("k", detect())
    usual.build(b"0")
    usual.build(b"1")
    assert started[2:] == [(0, USUAL), (1, USUAL)]
    monkeypatch.setattr(beginning, "_seen", set())
    beginning.begin("k", detect())
    assert len(started) == 4


@pytest.mark.wide
def test_what_is_usual_is_found_by_calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    recorded(monkeypatch, tmp_path)
    forget_forms()
    monkeypatch.setattr(usual, "Aside", lambda *_: None)
    for number in range(len(usual._CALLS)):
        usual.build(str(number).encode())
    names = noted(monkeypatch)
    a = library.ones(3, 5, requires_grad=True)
    b = a.detach() * 2 - a.detach() / 3
    (a * b + a).sum().backward()
    assert not {"ones", "zeros", "plus", "fill", "add", "sub", "mul", "div"} & {*names}


def test_a_type_stands_for_what_its_products_import(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(building, "addresses", asked.append)
    building.build(json.dumps(["float32", "tc_other"]).encode())
    (names,) = asked
    assert names == [*library_for(["float32"], detect()), "tc_other"]
    assert any(name.startswith("tc_tile_") for name in names)
