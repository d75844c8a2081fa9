"""The library of products is built aside when something is first compiled on a machine."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.calls.bindings import beginning
from tcdsl.calls.bindings.aside import LIBRARY
from tcdsl.codegen.choose.compiler import library_for
from tcdsl.codegen.library import building
from tcdsl.codegen.toolchain.host import detect


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[list[str], str]]:
    """Return what the builder would be given, in a cache of the test's own."""
    found: list[tuple[list[str], str]] = []
    monkeypatch.setenv("TCDSL_CACHE", str(tmp_path))
    monkeypatch.setattr(beginning, "BEGINS", True)
    monkeypatch.setattr(beginning, "_seen", set())
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


def test_a_type_stands_for_what_its_products_import(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(building, "addresses", asked.append)
    building.build(json.dumps(["float32", "tc_other"]).encode())
    (names,) = asked
    assert names == [*library_for(["float32"], detect()), "tc_other"]
    assert any(name.startswith("tc_tile_") for name in names)
