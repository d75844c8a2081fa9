"""Texts that are no programs: each slip has its code, its place and its words."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tcdsl.grammar.text.errors import TCSyntaxError
from tcdsl.grammar.text.parser import parse
from tcdsl.grammar.text.source import MAX_TEXT_BYTES
from tcdsl.grammar.types.dtypes import BY_NAME

NEGATIVE = json.loads((Path(__file__).parents[2] / "data" / "tc_negative.json").read_text())
REFUSED_TEXTS = {entry["name"]: entry["tc"] for entry in NEGATIVE}
LEGAL_HERE = {"sum1D_v0", "ellipsis_rank"}  # what the original's parser refused and ours takes
REFUSED = [e["name"] for e in NEGATIVE if e["stage"] == "parse" and e["name"] not in LEGAL_HERE]
REFUSED += ["untyped_param", "RestoreCandidates_NotATCid", "python_bad_fusion"]


def refused(text: str) -> TCSyntaxError:
    with pytest.raises(TCSyntaxError) as caught:
        parse(text, "f.tc")
    return caught.value


@pytest.mark.parametrize("name", BY_NAME)
def test_a_type_is_no_name(name: str) -> None:
    (found,) = refused(f"def f() -> (B) {{ B = {name} + 1 }}").diagnostics
    assert found.message == f"'{name}' is a type and cannot be a name"
    parse(f"def f({name} {name}x) -> (B) {{ B = {name}({name}x) }}")


def body(statements: str) -> str:
    return f"def f(float(N) A, int32 a) -> (B) {{\n  {statements}\n}}"


# code, line and column of the first fault, text
FAULTS = [
    ("TC001", 2, 7, body("B = * a")),
    ("TC001", 2, 11, body("B = A(a a)")),
    ("TC001", 3, 1, body("B = a +")),
    ("TC001", 3, 1, body("B = a ? 1")),
    ("TC001", 2, 9, body("B = A(..)")),
    ("TC001", 2, 9, body("B = A.x")),
    ("TC001", 2, 12, body("B = A(...+1)")),
    ("TC001", 2, 9, body("B = a were i in 0:3")),
    ("TC001", 2, 15, body("B = a where exist A(i)")),
    ("TC001", 2, 16, body("for i in 0:3 B = 1")),
    ("TC001", 2, 15, body("m, v = f(A) + 1")),
    ("TC001", 2, 10, body("m, v = 3")),
    ("TC001", 1, 4, "def"),
    ("TC001", 1, 7, "def f<>() -> () {}"),
    ("TC001", 1, 34, "def f(float(N) A) -> (float(N) B): B(i) = A(i)"),
    ("TC002", 2, 11, body("B = A(i); B = 1")),
    ("TC002", 2, 8, body("B = A[i]")),
    ("TC002", 1, 12, "def f(float[N] A) -> (B) {}"),
    ("TC002", 2, 9, body("B = a \u00d7 2")),
    ("TC002", 2, 8, body("B = a\u00a0+ 2")),
    ("TC002", 2, 7, body("B = 𝜇")),
    ("TC002", 2, 7, body("B = 'a'")),
    ("TC002", 2, 12, body("B = a  # \0 in a comment")),
    ("TC002", 1, 3, "# \ud800"),
    ("TC003", 2, 8, body("B(i) A(i)")),
    ("TC003", 2, 8, body("B(i) -= A(i)")),
    ("TC003", 2, 8, body("B(i) argmin= A(i)")),
    ("TC003", 2, 8, body("B(i) max =! A(i)")),
    ("TC003", 2, 8, body("B(i) sum= A(i)")),
    ("TC003", 2, 8, body("B(i) == A(i)")),
    ("TC003", 2, 17, body("B(i) = 2 A(i)\n  C(i) = A(i)").replace("\n  C", " C")),
    ("TC003", 2, 8, body("m, v += f(A)")),
    ("TC003", 2, 7, body("m(i), v(i) = f(A)")),
    ("TC004", 1, 6, "def f{} {}"),
    ("TC004", 1, 22, "def f(float(N) A) -> B { B(i) = A(i) }"),
    ("TC004", 1, 22, "def f(float(N) A) -> { B(i) = A(i) }"),
    ("TC004", 1, 19, "def f(float(N) A) { B(i) = A(i) }"),
    ("TC005", 2, 3, body("(m, v) = moments(A)")),
    ("TC006", 2, 9, body("B = a and a")),
    ("TC006", 2, 10, body("B = (a or a)")),
    ("TC006", 2, 7, body("B = not a")),
    ("TC006", 2, 9, body("B = a =< 3 ? 1 : 2")),
    ("TC006", 2, 9, body("B = a if a else 2")),
    ("TC006", 2, 9, body("B = a ** 2")),
    ("TC006", 2, 9, body("B = a // 2")),
    ("TC006", 2, 7, body("B = +a")),
    ("TC006", 2, 10, body("B = (a = 2) ? 1 : 2")),
    ("TC006", 2, 3, body("return A")),
    ("TC006", 2, 3, body("for i = 0 { B = i }")),
    ("TC006", 2, 10, body("for (i in 0:3) { B = i }")),
    ("TC007", 2, 7, body("B = max(A(i))")),
    ("TC007", 2, 15, body("B = min(a, a, a)")),
    ("TC007", 2, 7, body("B = min()")),
    ("TC007", 2, 14, body("B = float(a, 2)")),
    ("TC008", 2, 7, body("B = 2x")),
    ("TC008", 2, 23, body("B = A(i) where i in 0N")),
    ("TC008", 2, 7, body("B = 1.5f")),
    ("TC008", 2, 7, body("B = 1_000")),
    ("TC008", 2, 7, body("B = 0b11")),
    ("TC008", 2, 7, body("B = 1e")),
    ("TC008", 2, 9, body("B = A(1.2.3)")),
    ("TC008", 1, 5, "def 2f() -> () {}"),
    ("TC009", 1, 13, "def f(float max) -> (B) {}"),
    ("TC009", 1, 5, "def where() -> (B) {}"),
    ("TC009", 2, 3, body("in = 3")),
    ("TC009", 2, 7, body("B = float + 1")),
    ("TC009", 2, 9, body("B = A(exists)")),
    ("TC010", 3, 1, body("B = A(i")),
    ("TC010", 2, 11, body("B = A(i))")),
    ("TC010", 3, 3, body("B(i) = max(A(i), 2\n  C(i) = A(i)")),
    ("TC010", 1, 37, "def f(float A) -> (B) { B = max(A, 2"),
    ("TC010", 2, 1, "def f(float A) -> (B) { B = A\ndef g() -> () {}"),
    ("TC010", 1, 19, "def f() -> (B) {} }"),
    ("TC011", 1, 1, ""),
    ("TC011", 1, 1, "# a comment\n   "),
    ("TC011", 1, 1, "bla"),
    ("TC011", 1, 1, "Def f() -> () {}"),
    ("TC012", 1, 222, f"def f() -> (B) {{ B = {'(' * 201}1{')' * 201} }}"),
    ("TC012", 1, 222, f"def f() -> (B) {{ B = {'-' * 201}x }}"),
    ("TC013", 2, 7, body("B = 9223372036854775808")),
    ("TC013", 2, 7, body("B = - 9223372036854775809")),
    ("TC013", 2, 7, body("B = 0x10000000000000000")),
    ("TC013", 1, 7, "def f<N=99999999999999999999>() -> () {}"),
    ("TC014", 1, 7, "def f(A) -> (B) { B(i) = A(i) }"),
    ("TC015", 1, 13, "def f(float(N + 1) A) -> (B) { B(i) = A(i) }"),
    ("TC015", 1, 13, "def f(float(-1) A) -> (B) { B(i) = A(i) }"),
    ("TC017", 2, 7, body("B = 1e999")),
    ("TC018", 1, 7, "def f(3 A) -> (B) { B = A }"),
    ("TC018", 1, 15, "def f(float(N)) -> (B) { B = 1 }"),
    ("TC018", 1, 18, "def f(float(N) A,) -> (B) { B = 1 }"),
    ("TC018", 1, 16, "def f() -> (A, , B) { B = 1 }"),
    ("TC019", 2, 18, body("B = g(A, SH=1, a)")),
    ("TC020", 2, 20, body("B = A(i) where i < 3")),
    ("TC020", 2, 23, body("B = A(i) where i in range(3)")),
    ("TC020", 2, 23, body("B = A(i) where i in range(1, N)")),
    ("TC020", 2, 12, body("for i in N / 2 { B = i }")),
    ("TC020", 2, 26, body("B = A(i) where i in 0:3:2")),
    ("TC021", 1, 20, "def f(float(N) x = 3) -> (y) { y(i) = x(i) }"),
    ("TC021", 1, 33, "def f(float(N) x) -> (float y = 3) { y +=! x(i) }"),
    ("TC021", 1, 28, "def f(float(N) x, int8 k = 300) -> (y) { y(i) = x(i) * k }"),
    ("TC021", 1, 26, "def f(float x, uint8 k = -1) -> (y) { y = x * k }"),
    ("TC021", 1, 23, "def f(float x, bool b=true) -> (y) { y = b ? x : 0 }"),
    ("TC020", 2, 27, body("B = A(i) where i in 0:3 where a = 3")),
]


@pytest.mark.parametrize(("code", "line", "column", "text"), FAULTS)
def test_a_fault_has_its_code_and_place(code: str, line: int, column: int, text: str) -> None:
    first = str(refused(text)).split("\n")[0]
    assert first.startswith(f"f.tc:{line}:{column}: error[{code}]: ")


def test_the_words_of_the_faults(golden: Callable[[str, str], None]) -> None:
    golden("\n\n".join(str(refused(text)) for *_, text in FAULTS) + "\n", "errors/syntax.txt")


def test_texts_that_the_original_refused(golden: Callable[[str, str], None]) -> None:
    shown = [f"# {name}\n{refused(REFUSED_TEXTS[name])}" for name in REFUSED]
    assert len({text.split("\n")[1].split(": ", 2)[2] for text in shown}) == len(shown)
    golden("\n\n".join(shown) + "\n", "errors/original.txt")


@pytest.mark.parametrize("name", sorted(LEGAL_HERE))
def test_texts_that_only_the_original_refused(name: str) -> None:
    parse(REFUSED_TEXTS[name])


def test_a_text_above_the_limit_is_refused_unread() -> None:
    text = "# " + "é" * (MAX_TEXT_BYTES // 2)
    message = f"error[TC016]: the text has {MAX_TEXT_BYTES + 2} bytes; the most is {MAX_TEXT_BYTES}"
    assert str(refused(text)) == message
    parse(f"def f() -> () {{}}{' ' * (MAX_TEXT_BYTES - 17)}")


def test_after_a_fault_reading_goes_on_at_the_next_definition() -> None:
    text = "def f() -> (B) { B += }\ndef g(A) -> (C) { C = 1 }\ndef h( -> (C) { C = 1e999 }"
    faults = refused(text).diagnostics
    assert [fault.code for fault in faults] == ["TC001", "TC018"]
    faults = refused(text.replace("h(", "h(x)")).diagnostics
    assert [fault.code for fault in faults] == ["TC001", "TC014", "TC014", "TC017"]


def test_ten_broken_definitions_are_enough() -> None:
    assert len(refused("def f(\n" * 30).diagnostics) == 10


def test_no_message_speaks_of_the_parser() -> None:
    for *_, text in FAULTS:
        message = str(refused(text))
        assert not any(word in message for word in ("Token", "RPAR", "ANON", "lark", "Expected"))
