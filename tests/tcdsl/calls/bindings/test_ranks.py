"""A definition of any rank is written for the ranks of a call once; later processes find it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.calls.bindings import ranks
from tcdsl.calls.bindings.parsed import parsed
from tcdsl.codegen.toolchain import records

ADD = "def add(float(...) A, float(...) B) -> (C) { C(...) = A(...) + B(...) }"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TCDSL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(records, "generator", lambda: "0" * 32)
    parsed.cache_clear()
    return tmp_path / "cache"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What is written anew from now on: a name, and 1 or 2 for each extent."""
    done: list[object] = []
    real = ranks._at_ranks

    def count(program: Any, *form: Any) -> Any:
        done.append(form)
        return real(program, *form)

    monkeypatch.setattr(ranks, "_at_ranks", count)
    return done


def variant(text: str, *shapes: tuple[int, ...]) -> Any:
    parsed.cache_clear()
    kernel: Any = tc.define(text, tune="off", check="off")
    return kernel.call(*(np.ones(shape, np.float32) for shape in shapes)).variant


def test_another_process_binds_to_ranks_without_a_tree(made: list[object]) -> None:
    first = variant(ADD, (2, 3), (3,))
    assert made == [("add", ((2, 2), (2, 2))), ("add", ((2, 2), (2,)))], "`define` checks the first"
    again = variant(ADD, (4, 5), (5,))
    assert (again.identity, again.signature) == (first.identity, first.signature)
    assert len(made) == 2
    assert again.checked.params == first.checked.params  # who asks for statements has the tree
    assert len(made) == 3


def test_one_repeated_or_of_another_rank_is_another_text(made: list[object]) -> None:
    texts = {
        variant(ADD, a, b).identity for a, b in [((2, 3), (2, 3)), ((2, 3), (1, 3)), ((2,),) * 2]
    }
    assert (len(texts), len(made)) == (3, 3)


def test_names_of_other_definitions_are_not_taken(made: list[object]) -> None:
    """Sizes of a definition get a letter that is none of the whole text's."""
    with_sizes = ADD + " def other(float(D0) x) -> (y) { y(i0) = 2 * x(i0) }"
    alone = variant(ADD, (2,), (2,))
    parsed.cache_clear()
    kernel: Any = tc.define_all(with_sizes, tune="off", check="off")["add"]
    other = kernel.call(*(np.ones(2, np.float32),) * 2).variant
    assert len(made) == 4
    assert "D0" in alone.signature.sizes
    assert "D0" not in other.signature.sizes


def test_a_rank_without_a_meaning_is_refused_each_time() -> None:
    text = "def total(float(N, ...) A) -> (C) { C(n) +=! A(n, ...) }"
    variant(text, (2, 3))
    for _ in range(2):
        with pytest.raises(tc.TCError, match="at least 1 dimension"):
            variant(text, ())


def test_what_is_no_text_is_made_anew(made: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    program, shapes = parsed(ADD), ((2,), (2,))
    (definition,) = program.defs
    with monkeypatch.context() as patch:
        patch.setattr(ranks, "_at_ranks", lambda program, name, shapes: (definition, 3))
        wrong: Any = ranks.Ranks(program).text(definition, shapes)
        assert wrong == 3
    for _ in range(2):
        assert "C(i0) = A(i0) + B(i0)" in ranks.Ranks(program).text(definition, shapes)
    assert len(made) == 1
