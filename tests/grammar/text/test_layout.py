"""A text and its comments in the pretty layout."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tcdsl.grammar.text import nodes as n
from tcdsl.grammar.text.errors import TCSyntaxError
from tcdsl.grammar.text.format import format_program
from tcdsl.grammar.text.layout import format_text
from tcdsl.grammar.text.parser import parse
from tests.grammar.text.test_format import programs

TESTS = Path(__file__).parents[2]
CATALOG = json.loads((TESTS / "data" / "tc_catalog.json").read_text())
OWN = sorted(p for f in ("examples", "tcdsl") for p in (TESTS.parent / f).rglob("*.tc"))

TYPED = """\
# what the file is for


# mean of rows
def mean < S=0x10 > (float(N,M)A ,  # rows
       float(N) w   # weights
   )  # returns the means
   -> (float(N) B  # of each
   )
   # they are sums
   {

  # a sum

  # over the row
  B(i)+=!((A(i,k)))   # an element
       *((w(i))     # its weight
         ) #and
       / ( float(M)+1) # not -0
       where k in 0:M,# all
         # but the last
         i in -0:0xF  # few
  # two


  B(i) = B(i) # one
         C(i) = B(i) D(i) = C(i)   # D
  for t in 0:3 {# turns
    # none

    }   # done

  # end
} # end of mean
# behind it

def nothing()->(){# at all
}
def later() -> ()
# or later
{ }
   # end of file
"""

PRETTY = """\
# what the file is for

# mean of rows
def mean<S=16>(float(N, M) A,  # rows
    float(N) w  # weights
    )  # returns the means
    -> (float(N) B) {  # of each
  # they are sums

  # a sum

  # over the row
  B(i) +=! A(i, k)  # an element
      * w(i)  # its weight
      #and
      / (float(M) + 1)  # not -0
      where k in 0:M,  # all
      # but the last
      i in 0:0xF  # few
  # two

  B(i) = B(i)  # one
  C(i) = B(i)
  D(i) = C(i)  # D
  for t in 0:3 {  # turns
    # none
  }  # done

  # end
}  # end of mean
# behind it

def nothing() -> () {}  # at all

def later() -> () {
  # or later
}
# end of file
"""


def test_comments_and_empty_lines_stay_where_they_are() -> None:
    assert format_text(TYPED) == PRETTY
    assert format_text(PRETTY) == PRETTY


def test_a_comment_right_below_a_definition_stays_there_where_a_gap_follows() -> None:
    one = "def f() -> () {}\n# of f\n# too\n\n# of g\ndef g() -> () {}\n# of g\n\n# end\n"
    assert format_text(one) == one
    two = "def f() -> () {}\n# of f\n\ndef g() -> () {}\n"
    assert format_text(two) == two
    assert format_text(two.replace("\n\n", "\n")) == two.replace("\n#", "\n\n#").replace(
        "f\n\ndef", "f\ndef"
    )


def test_parentheses_around_an_operation_that_is_an_operand_stay() -> None:
    body = "B = (a * b) + (c) - ((f((d + e))) / (g && (h)))"
    want = "  B = (a * b) + c - (f(d + e) / (g && h))\n"
    assert want in format_text(f"def f() -> (B) {{ {body} }}")


def test_a_line_that_is_too_long_ends_at_outer_breaks_first() -> None:
    subscripts = "n, c, h + stride_of_rows * kh - padding_of_rows, w + kw - padding_of_columns"
    text = f"def f() -> (O) {{ O(n) +=! pad(I({subscripts}), 0) * K(f) where h in 0:H, w in 0:W }}"
    assert format_text(text).splitlines()[1:-1] == [
        f"  O(n) +=! pad(I({subscripts}), 0)",
        "      * K(f)",
        "      where h in 0:H, w in 0:W",
    ]


@pytest.mark.parametrize(
    "rows",
    [
        [
            "B = last * (w / (s - 1) + 0.5 + s / (12 * w) * (1 - (s + 1) * (s + 2) / (60 * v)",
            "    * (1 - (s + 3) * (s + 4) / (42 * v) * (1 - (s + 5) * (s + 6) / (40 * v)",
            "    * (1 - (s + 7) * (s + 8) / (39 * v) * (1 - (s + 9) * (s + 10) / (39 * v)))))))",
        ],
        [
            "B = 0.706656657 + s * (0.131987281 + s * (-0.0163900853 + s * (0.00253876436",
            "    + s * (-0.000327487926 + s * (-8.70923237e-6 + s * 1.53206705e-5)))))",
        ],
        [
            "B = 0.5 * log(6.28) - (1.0 / 12 - (1.0 / 360 - (1.0 / 1260 - (1.0 / 1680",
            "    - (1.0 / 1188 - (691.0 / 360360 - r / 156) * r) * r) * r) * r) * r) / top",
        ],
    ],
    ids=["product in front", "factor in front", "factor behind"],
)
def test_sums_in_products_in_sums_fill_rows(rows: list[str]) -> None:
    text = "def f() -> (B) {\n" + "".join(f"  {row}\n" for row in rows) + "}\n"
    assert format_text(text) == text
    assert format_text(" ".join(text.split())) == text


def test_rows_of_an_expression_stand_further_in_than_the_one_in_which_it_begins() -> None:
    long = "pad(I(n, c, h + stride_of_rows * kh - padding_of_rows), 0)"
    rows = [
        f"O(n) = K(n) < 0 ? inf : K(n) == 0 ? {long}",
        f"    : {long}",
        f"        + {long}",
        "    where x = is_of_some_kind(n)",
        f"        && {long} == 0",
        f"        ? (is_of_another(n) ? 1 : 2) : {long}",
    ]
    text = "def f() -> (O) {\n" + "".join(f"  {row}\n" for row in rows) + "}\n"
    assert format_text(" ".join(text.split())) == text


def test_a_text_without_comments_is_laid_out_as_its_program() -> None:
    for entry in CATALOG[::8]:
        bare = re.sub("#[^\n]*", "", entry["tc"])
        formatted = format_text(bare)
        assert formatted.replace("\n\n", "\n") == format_program(
            parse(bare, keeps_groups=True)
        ).replace("\n\n", "\n")


@pytest.mark.parametrize("path", OWN, ids=lambda p: p.stem)
def test_our_own_texts_are_formatted(path: Path) -> None:
    assert format_text(path.read_text()) == path.read_text(), "run tcdsl fmt"


def commented(text: str, rng: Random) -> tuple[str, list[str]]:
    """Return a text with blanks, line ends and comments at random between its words."""
    comments: list[str] = []
    made = []
    for part in re.split(r"(\s+|(?<=[(),{}]))", text):
        made.append(part)
        if part.isspace() or not part:
            for _ in range(rng.choice((0, 0, 0, 1, 2))):
                comments.append(f"# {len(comments)} ) {{ max=!")
                made.append(rng.choice((" ", "\n", "\n\n")) + comments[-1] + "\n")
            made.append(rng.choice(("", "\t", "\n\n\n")))
    return "".join(made), comments


@pytest.mark.parametrize("count", [3, pytest.param(150, marks=pytest.mark.wide)])
def test_any_comments_anywhere_stay_and_formatting_twice_is_formatting_once(count: int) -> None:
    settings(max_examples=count)(given(programs, st.integers(0))(comments_stay))()


def comments_stay(program: n.Program, seed: int) -> None:
    text, comments = commented(format_program(program), Random(seed))
    formatted = format_text(text)
    assert parse(formatted) == program
    assert re.findall("#[^\n]*", formatted) == comments
    assert format_text(formatted) == formatted
    assert not re.search(r"\n\n\n|[ \t]\n|\{\n\n|\n\n *\}", formatted)


def test_a_text_that_does_not_parse_is_refused_at_its_place() -> None:
    with pytest.raises(TCSyntaxError, match=r"f\.tc:1:32: error\[TC001\]"):
        format_text("def f(float(N) A) -> (B) { B = ? }", "f.tc")


def test_hexadecimal_digits_stay_as_typed() -> None:
    hexadecimal = "def f(float(N) A) -> (B) {\n  B(i) = A(i) + -0xfF where i in 0x0:0X10\n}\n"
    assert format_text(hexadecimal) == hexadecimal
