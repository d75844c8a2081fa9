"""What calls ask of a definition is found by a record: what was right is not checked again."""

from __future__ import annotations

import copy
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.calls.bindings import signature
from tcdsl.codegen.toolchain import records
from tcdsl.grammar.check import definition
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.proofs.plain import plain
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.errors import RangeError, ShapeError, TCError, TCTypeError
from tcdsl.grammar.text.parser import parse
from tests.tiers import sampled

X = np.arange(1, 7, dtype=np.float32)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TCDSL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(records, "generator", lambda: "0" * 32)
    return tmp_path / "cache"


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The definitions that are checked from now on."""
    done: list[str] = []

    def count(program: Any, name: str, **options: Any) -> Any:
        done.append(name)
        return check(program, name, **options)

    monkeypatch.setattr(definition, "check", count)
    return done


TEXTS = {
    "plain": "def f(float(M,N) x, int32 k) -> (y, z) { y(i) +=! x(i, j) * k  z(i) = y(i) }",
    "constraints": "def f(float(H) x, float(K) w) -> (y) { y(h) +=! x(2 * h + k) * w(k) }",
    "a scalar in bounds": "def f(float(N) x, int32 k) -> (y) { y(i) = x(i + k) where i in 0:N-k }",
    "loops": "def f(float(N) x, int32 T) -> (y) { y(i) = x(i)  for t in 0:T { y(i) += x(i) } }",
    "extents only": "def f(float(N) x) -> (y) { y(i) = 1.0 where i in 0:N }",
    "a lowest element": "def f(float(N) x) -> (y) { y(i + 2) = x(i) }",
    "divisions": "def f(float(N) x) -> (y) { y(i) = x(3 * i + N % 3) where i in 0:max(0, N/3-1) }",
    "calls": "def g(float(N) x) -> (t, u) { t(i) = x(i) + 1  u(i) = t(N - 1 - i) }"
    "  def f(float(N) x) -> (y) { y, _ = g(x) }",
}
TEXTS["calls"] = TEXTS["calls"].replace("y, _ = g(x)", "y, v = g(x)  y(i) += v(i)")


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_record_says_what_the_check_says(checks: list[str], text: str) -> None:
    first = tc.define_all(text)["f"].variant().signature
    count = len(checks)
    assert count
    again = tc.define_all(text)["f"].variant()
    assert again.signature == first
    assert len(checks) == count
    assert [str(t.span) for t in again.signature.params] == [str(t.span) for t in first.params]
    assert again.checked.params == first.params  # who asks for the statements has them
    assert len(checks) == count + 1


def test_faults_of_calls_are_told_as_after_a_check(checks: list[str]) -> None:
    text = "def conv(float(H) x, float(K) w, int32 n) -> (y) { y(h) +=! x(h + k) * w(k) + n }"

    def told() -> list[str]:
        k: Any = tc.define(text)
        said = []
        for error, args in (
            (ShapeError, (X[:2], X, 1)),
            (ShapeError, (X.reshape(2, 3), X, 1)),
            (TCTypeError, (X, X.astype(float), 1)),
            (TCTypeError, (X, X, 1.5)),
        ):
            with pytest.raises(error) as caught:
                k(*args)
            said.append(str(caught.value))
        return said

    first = told()
    assert "asked for by <text>:1:" in first[0]
    assert checks == ["conv"]
    assert told() == first
    assert checks == ["conv"]


def test_places_are_those_of_the_text_at_hand(checks: list[str]) -> None:
    text = "def conv(float(H) x, float(K) w) -> (y) { y(h) +=! x(h + k) * w(k) }"
    for source, lines in (("a.tc", 0), ("a.tc", 3), ("b.tc", 0)):
        k: Any = tc.define("\n" * lines + text, source=source)
        with pytest.raises(ShapeError) as error:
            k(X[:2], X)
        assert f"asked for by {source}:{1 + lines}:" in str(error.value)
    assert len(checks) == 2  # the second text is another one


def test_a_text_with_faults_or_warnings_says_them_each_time(checks: list[str]) -> None:
    for _ in range(2):
        with pytest.raises(RangeError):
            tc.define("def f(float(N) x) -> (y) { y(i) = x(i + 1) where i in 0:N }")
    twice = "def f(float(N) x) -> (y) { y(i) = x(i) } "
    tc.define_all(twice)
    with pytest.raises(TCError, match="defined twice"):
        tc.define_all(twice + twice)
    updated = "def f(float(N) x) -> (y) { y(i) max= x(i) }"
    said = []
    for _ in range(2):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            tc.define(updated)
        said.append([str(w.message) for w in caught])
    assert "TC150" in said[0][0]
    assert said[0] == said[1]


def test_types_generics_and_ranks_have_their_own(checks: list[str]) -> None:
    text = "def f<T, S>(T(...) x) -> (y) { y(...) = x(...) * T(S) }"
    for _ in range(2):
        k: Any = tc.define(text)
        for x in (X, X.astype(np.float64), X.reshape(2, 3), X.reshape(1, 6)):
            shape = k.output_shapes(x, S=2)["y"]
            assert shape == x.shape
            assert k.output_dtypes(x, S=3)["y"] == x.dtype
    assert len(checks) == 6  # a repeated dimension of an only operand is as any other


def test_whoever_writes_a_definition_has_its_own(checks: list[str]) -> None:
    """A program that code made, whose places are those of another text, is not mistaken for it."""
    text = "def f(float(N) x) -> (y) { y(i) = 2 * x(i) }"
    k: Any = tc.define(text)
    other = k.batched("x")
    again: Any = tc.define(text)
    assert again.batched("x").variant().signature == other.variant().signature
    assert again.variant().signature != other.variant().signature


TEXT = "def f(float(M,N) x, float(N) w) -> (y) { y(m) +=! x(m, n + 1) * w(n) }"


def value_of() -> Any:
    """Return the signature of `TEXT` as a record has it."""
    kept: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "write", lambda kind, parts, value, name: kept.append(value))
        tc.define(TEXT)
    return json.loads(json.dumps(kept[-1]))


def changed() -> list[Any]:
    """Return values that are none of `TEXT`'s: each part as something else."""
    value = value_of()
    found: list[Any] = [None, [], {}, value[:-1], [*value, 1], "f"]
    for i in range(len(value)):
        nothing = [None] if value[i] is not None else []  # is what it says where nothing collapses
        others: list[Any] = [*nothing, 7, ["x", 3], [[["x"]]], {"a": 1}]
        found += [[*value[:i], other, *value[i + 1 :]] for other in others]
    for i, part in ((3, 0), (3, 1), (3, 2), (3, 5), (4, 0), (4, 1), (5, 1), (5, 3)):
        one = copy.deepcopy(value)
        one[i][0][part] = [10**6, 10**6 + 1] if part in (3, 5) and i != 4 else ["elsewhere"]
        found.append(one)
    for shorter in (3, 4, 6):
        one = copy.deepcopy(value)
        one[shorter] = one[shorter][1:]
        found.append(one)
    outside = copy.deepcopy(value)
    outside[8] = [[0, 9]]
    return [*found, outside]


def test_what_is_no_signature_is_refused() -> None:
    (definition,) = parse(TEXT).defs
    reader = signature._Reader(definition, definition.span.source)  # type: ignore[union-attr]
    assert reader.signature(value_of()).name == "f"
    for value in changed():
        with pytest.raises(ValueError, match=r"expected|it is|size|term|atom"):
            reader.signature(value)


PLACES = [[0, 1], [1], [0, 1]]


@pytest.mark.parametrize(
    "pointwise",
    [
        ["0" * 31, PLACES, []],  # no key
        ["0" * 32, PLACES[1:], []],  # of fewer operands
        ["0" * 32, [[0, 0], *PLACES[1:]], []],  # two dimensions in one place
        ["0" * 32, [[0, 2], *PLACES[1:]], []],  # a place that the results do not have
        ["0" * 32, [[0], *PLACES[1:]], []],  # another rank
        ["0" * 32, [*PLACES[:2], [1, 0]], []],  # results as they are not
        ["0" * 32, [*PLACES[:2], None], []],
        ["0" * 32, PLACES, [[2]]],  # no parameter
        ["0" * 32, [PLACES[0], None, PLACES[2]], [[1]]],  # one that is not read
        ["0" * 32, PLACES, [[True]]],
    ],
)
def test_what_is_no_way_to_collapse_is_refused(pointwise: Any) -> None:
    text = "def f(float(M,N) x, float(N) w) -> (y) { y(m, n) = x(m, n) / w(n) }"
    (definition,) = parse(text).defs
    reader = signature._Reader(definition, definition.span.source)  # type: ignore[union-attr]
    kept: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "write", lambda kind, parts, value, name: kept.append(value))
        tc.define(text)
    value = json.loads(json.dumps(kept[-1]))
    assert value[-2][1:] == [PLACES, [[0, 1]]]
    assert reader.signature(value).pointwise is not None
    with pytest.raises(ValueError, match=r"expected|it is"):
        reader.signature([*value[:-2], pointwise, None])


EXTENTS = [plain(Size.symbol("M")), plain(Size.symbol("N"))]


@pytest.mark.parametrize(
    "rowwise",
    [
        ["0" * 31, EXTENTS, 1, [[0, 1], [0]], True],  # no key
        ["0" * 32, EXTENTS, 1, [[0, 1]], True],  # of fewer operands
        ["0" * 32, EXTENTS, 1, [[0, 0], [0]], True],  # two dimensions in one place
        ["0" * 32, EXTENTS, 1, [[0, 2], [0]], True],  # a place that there is not
        ["0" * 32, EXTENTS, 1, [[0, 1], [1]], True],  # a result that leaves a kept dimension out
        ["0" * 32, EXTENTS, 1, [[0, 1], None], True],
        ["0" * 32, EXTENTS, 2, [[0, 1], [0]], True],  # rows of no dimension
        ["0" * 32, [EXTENTS[0], plain(Size.symbol("Q"))], 1, [[0, 1], [0]], True],
        ["0" * 32, EXTENTS, 1, [[0, 1], [0]], 1],
        ["0" * 32, EXTENTS, -1, [[0, 1], [0]], True],
    ],
)
def test_what_is_no_way_to_collapse_rows_is_refused(rowwise: Any) -> None:
    text = "def f(float(M,N) x) -> (y) { y(m) +=! x(m, n) }"
    (definition,) = parse(text).defs
    reader = signature._Reader(definition, definition.span.source)  # type: ignore[union-attr]
    kept: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "write", lambda kind, parts, value, name: kept.append(value))
        tc.define(text)
    value = json.loads(json.dumps(kept[-1]))
    assert value[-1][1:] == json.loads(json.dumps([EXTENTS, 1, [[0, 1], [0]], True]))
    assert reader.signature(value).rowwise is not None
    with pytest.raises(ValueError, match=r"expected|it is"):
        reader.signature([*value[:-1], json.loads(json.dumps(rowwise))])


@pytest.mark.cc
@sampled("which", range(0, 40, 7), keep=1)
def test_a_record_of_another_shape_is_a_miss(
    monkeypatch: pytest.MonkeyPatch, checks: list[str], which: int
) -> None:
    value = changed()[which]
    write = records.write
    with monkeypatch.context() as patch:
        patch.setattr(records, "write", lambda kind, parts, _, of: write(kind, parts, value, of))
        tc.define(TEXT)
    checks.clear()
    k: Any = tc.define(TEXT)
    np.testing.assert_array_equal(k(X[None], X), [X[1:] @ X[:-1]])
    assert checks == ["f"]
    tc.define(TEXT)
    assert checks == ["f"]
