"""Why a text is not a program: one message for each common slip, and a general one.

Each rule looks at the place where Lark stopped, at what could stand there and at what was read
before; the first rule that knows the slip says what to do about it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, get_args

from tcdsl.grammar.text.errors import Diagnostic, InternalError, Note
from tcdsl.grammar.text.foreign import (
    EXPRESSION,
    NAME,
    foreign_character,
    foreign_operator,
    foreign_word,
    foreign_word_before,
    malformed_number,
    short,
    shown,
)
from tcdsl.grammar.text.format import LEVELS
from tcdsl.grammar.text.nodes import AssignOp
from tcdsl.grammar.text.refusal import Refusal
from tcdsl.grammar.text.source import Span

KEYWORDS = {"def", "where", "in", "exists", "min", "max"}
_OPERATORS = {*LEVELS, "?"}
_TERMINALS = {
    "ID": "a name",
    "INT": "an integer",
    "NUMBER": "a number",
    "SCALAR": "a scalar type",
    "MINMAX": "'min' or 'max'",
    "ASSIGN": "'+=!'",
    "_DEF": "'def'",
    "_WHERE": "'where'",
    "_IN": "'in'",
    "_EXISTS": "'exists'",
    "_FOR": "'for'",
}


def explain(refusal: Refusal) -> Diagnostic:
    """Return the diagnostic of a refused text."""
    for rule in _RULES:
        if diagnostic := rule(refusal):
            return diagnostic
    return _unexpected(refusal)


def _no_definition(r: Refusal) -> Diagnostic | None:
    """Anything but `def` where a definition begins."""
    if r.wanted != {"_DEF"} and r.wanted != {"_DEF", "$END"}:
        return None
    if r.word == "}":
        return Diagnostic("TC010", "'}' closes nothing", r.span, "remove it")
    if r.word == ";":
        return foreign_character(r)
    message = f"expected a definition, got {shown(r.word)}"
    form = Note("write def name(float(N) A) -> (B) { B(i) = A(i) }")
    near = get_close_matches(r.word.lower(), ["def"])
    label = "did you mean 'def'?" if near else "expected 'def'"
    return Diagnostic("TC011", message, r.span, label, (form,))


def _results_in_parentheses(r: Refusal) -> Diagnostic | None:
    """Parentheses on the left: `(m, v) = moments(I)`."""
    if r.word != "(" or "}" not in r.wanted:
        return None
    results = r.match(rf"\(\s*({NAME}(\s*,\s*{NAME})+)\s*\)\s*=(?!=)")
    if results is None:
        return None
    span = r.span_of(r.at, r.source.text.index(")", r.at) + 1)
    names = ", ".join(re.findall(NAME, results[1]))
    label = f"drop the parentheses: {short(names)} = ..."
    return Diagnostic("TC005", "the results of a call stand in parentheses", span, label)


def _missing_parentheses(r: Refusal) -> Diagnostic | None:
    """No parameters or returns, or not in parentheses: `-> A {`, `def f {`."""
    if not r.wanted <= {"(", "<", "->"}:
        return None
    last, first = r.before(), r.before(2)
    if r.wanted == {"->"}:
        message = f"expected '->', got {shown(r.word)}"
        return Diagnostic("TC004", message, r.span, "the returns follow: -> (B)")
    if last is not None and last == "->":
        message = f"expected the returns in parentheses, got {shown(r.word)}"
        cure = f"write ({r.word})" if re.fullmatch(NAME, r.word) else "expected '('"
        return Diagnostic("TC004", message, r.span, cure)
    if first is not None and first.type == "_DEF":
        message = f"expected the parameters of '{last}' in parentheses, got {shown(r.word)}"
        form = Note(f"write def {last}(float(N) A) -> (B) {{ ... }}")
        return Diagnostic("TC004", message, r.span, "expected '('", (form,))
    return None


def _assignment(r: Refusal) -> Diagnostic | None:
    """No assignment after a target, or one that does not exist."""
    if r.wanted == {"=", ","}:
        label = "several results are assigned by '='"
        return Diagnostic("TC003", f"expected '=', got {shown(r.word)}", r.span, label)
    if r.word == "=" and r.before() == "=" and r.source.text[r.at - 1] == "=":
        span = r.span_of(r.at - 1, r.at + 1)
        return Diagnostic("TC003", "'==' is not an assignment", span, "write '='")
    if "ASSIGN" not in r.wanted:
        return None
    wrong = r.match(_NO_ASSIGNMENT)
    if wrong:
        word = "".join(wrong.group().split())
        span = r.span_of(r.at, wrong.end())
        if word in _ASSIGNMENTS:
            message = f"'{wrong.group()}' is not an assignment"
            return Diagnostic("TC003", message, span, f"write '{word}' without blanks")
        cure = _ASSIGNMENT_CURES.get(word, _ASSIGNMENT_LABEL)
        return Diagnostic("TC003", f"'{word}' is not an assignment", span, cure)
    if r.word == "," and r.before() == ")":
        message = "the results of a call have no subscripts"
        return Diagnostic("TC003", message, r.span, "write m, v = moments(I)")
    place, start = _target(r)
    if fault := foreign_word_before(r, start, "if", "let"):
        return fault
    target = " ".join(r.source.text[start : r.at].split("#")[0].split())
    notes: tuple[Note, ...] = ()
    if r.stack[place - 1] != "{" and r.source.text[:start].rpartition("\n")[2].strip():
        cure = f"if the statement before goes on, an operator is missing before '{short(target)}'"
        notes = (Note(cure),)
    message = f"expected an assignment after '{short(target)}', got {shown(r.word)}"
    return Diagnostic("TC003", message, r.span, _ASSIGNMENT_LABEL, notes)


def _target(r: Refusal) -> tuple[int, int]:
    """Return where the last target begins, on the stack and in the text."""
    for place in reversed(range(len(r.stack))):
        item: Any = r.stack[place]
        if getattr(item, "type", "") == "ID":
            return place, item.start_pos
        if getattr(item, "data", "") == "target":
            return place, item.meta.start_pos
    raise InternalError("an assignment is wanted after no target")


_ASSIGNMENTS = get_args(AssignOp)
_ASSIGNMENT_LABEL = "expected '=', '+=!', 'max=!' or another assignment"
_NO_ASSIGNMENT = (
    r"[-/%&|^:<]=|<-|->|=[=<>]|arg(min|max)\s*=(\s*!)?|(min|max|[+*])\s+=(\s*!)?"
    r"|(sum|add|prod|mul|mean|avg|any|all|and|or)=!?"
)
_ASSIGNMENT_CURES = {
    "-=": "write '+=' and change the sign of the right side",
    "/=": "write '*=' and 1.0 / the right side",
    "argmin=": "write 'argmin=!': it always starts anew",
    "argmax=": "write 'argmax=!': it always starts anew",
    "sum=": "write '+='",
    "sum=!": "write '+=!'",
    "prod=": "write '*='",
    "prod=!": "write '*=!'",
    ":=": "write '='",
    "<-": "write '='",
}


def _arguments(r: Refusal) -> Diagnostic | None:
    """Too few or too many arguments: `max(x)`, `max(a, b, c)`, `max()`, `float(x, y)`."""
    cast = r.before(3)
    if r.word == "," and cast is not None and cast.type == "SCALAR":
        return Diagnostic("TC007", f"'{cast}' converts one value", r.span, "expected ')'")
    for count, commas in ((0, 0), (1, 0), (2, 1)):
        width = 2 + count + commas
        word = r.before(width)
        if word is not None and word.type == "MINMAX" and r.before(width - 1) == "(":
            break
    else:
        return None
    span = r.span_of_token(word)
    if r.word == ")" and count < 2:
        message = f"'{word}' takes two arguments, got {count}"
        note = Note(f"to reduce over an index, write O(i) {word}=! A(i, k)")
        return Diagnostic("TC007", message, span, "expected two arguments", (note,))
    if r.word == "," and count == 2:
        message = f"'{word}' takes two arguments, got more"
        return Diagnostic("TC007", message, r.span, f"write {word}(a, {word}(b, c))")
    return None


def _order_of_a_parameter(r: Refusal) -> Diagnostic | None:
    """Parameters as in other languages: `A float(N)`, `A: float(N)`, `float A(N)`."""
    last, first = r.before(), r.before(2)
    if last is None or last.type != "ID" or any(item == "{" for item in r.stack):
        return None
    where = "the type with its dimensions stands before the name: float(N) A"
    if (r.word == ":" or re.fullmatch(_SCALAR, r.word)) and first in ("(", ","):
        return Diagnostic("TC018", f"'{last}' stands before its type", r.span, where)
    if r.word == "(" and {",", ")"} <= r.wanted and not r.wanted >= EXPRESSION:
        return Diagnostic("TC018", f"the dimensions of '{last}' follow its name", r.span, where)
    return None


def _keyword_as_name(r: Refusal) -> Diagnostic | None:
    """Keywords and types as names: `float(N) in`, `max(i) = ...`, `B = float + 1`."""
    last = r.before()
    if last is not None and last.type in ("SCALAR", "MINMAX") and r.wanted == {"("}:
        return _keyword(str(last), r.span_of_token(last))
    scalar = re.fullmatch(_SCALAR, r.word)
    if "ID" not in r.wanted or not (r.word in KEYWORDS or scalar):
        return None
    if r.wanted >= EXPRESSION and r.word not in ("in", "exists"):
        return None  # an expression is missing, rather than a name misused
    if r.word in ("def", "where") and r.wanted != {"ID"}:
        return None
    return _keyword(r.word, r.span)


def _keyword(word: str, span: Span) -> Diagnostic:
    kind = "a type" if re.fullmatch(_SCALAR, word) else "a keyword"
    label = f"choose another name, such as {word}_"
    return Diagnostic("TC009", f"'{word}' is {kind} and cannot be a name", span, label)


_SCALAR = r"bool|u?int(8|16|32|64)|float(16|32|64)?|bfloat16|double"


def _type_or_parameter(r: Refusal) -> Diagnostic | None:
    """Parameters without type or name: `f(3 A)`, `f(float(N))`."""
    if {"SCALAR", "ID"} <= r.wanted <= {"SCALAR", "ID", ")"}:
        if "->" in r.stack:
            message = f"expected a return, got {shown(r.word)}"
            return Diagnostic("TC018", message, r.span, "a return is written B or float(N) B")
        message = f"expected a type, got {shown(r.word)}"
        return Diagnostic("TC018", message, r.span, "a parameter is written float(N) A")
    if r.wanted <= {"ID", "("} and r.word in (",", ")") and _in_parameters(r):
        message = f"expected the name of a parameter, got '{r.word}'"
        return Diagnostic("TC018", message, r.span, "a parameter is written float(N) A")
    return None


def _in_parameters(r: Refusal) -> bool:
    return "ID" in r.wanted and not any(item == "{" for item in r.stack)


def _clause(r: Refusal) -> Diagnostic | None:
    """Ranges and clauses in another form: `where i < N`, `i in range(N)`, `i in 0:N:2`."""
    start, sign = r.before(4), r.before(2)
    if r.wanted == {":"} and sign is not None and sign.type == "_IN":
        return _no_range(r)
    if r.word == ":" and "{" not in r.wanted and start is not None and start.type == "_IN":
        note = Note("for every second element, read A(2 * i)")
        return Diagnostic("TC020", "unexpected ':'", r.span, "a range has no step", (note,))
    if r.wanted in ({"ID", "_EXISTS"}, {"=", "_IN"}):
        label = "write i in low:high, name = expression or exists A(i)"
        return Diagnostic("TC020", f"unexpected {shown(r.word)} in 'where'", r.span, label)
    if r.word == "where" and "," in r.wanted and "}" in r.wanted:
        label = "write ',' between the clauses of one 'where'"
        return Diagnostic("TC020", "a second 'where'", r.span, label)
    return None


def _no_range(r: Refusal) -> Diagnostic:
    """Return the diagnostic of `in range(N)`, `in N`."""
    sign: Any = r.stack[-2]
    text = r.source.text[sign.end_pos : r.at]
    value = text.split("#")[0].strip()
    start = sign.end_pos + len(text) - len(text.lstrip())
    steps = re.fullmatch(r"range\(\s*([^(),]+)(?:,\s*([^(),]+))?\)", value)
    label = "a range is written low:high"
    if steps is not None:
        label = f"write {short(steps[1])}:{short(steps[2])}" if steps[2] else f"write 0:{steps[1]}"
    span = r.span_of(start, start + max(1, len(value)))
    return Diagnostic("TC020", f"expected a range, got '{short(value)}'", span, label)


def _bracket(r: Refusal) -> Diagnostic | None:
    """One that is not closed, or closes nothing."""
    opened = r.open_brackets
    begins_line = not r.source.text[: r.at].rpartition("\n")[2].strip()
    goes_on = begins_line and ")" in r.wanted and opened[-1:] == ["("]
    if r.word not in ("", ")", "}", "def") and not goes_on:
        return None
    if not opened:
        if r.word not in (")", "}") or r.word in r.wanted:
            return None
        return Diagnostic("TC010", f"'{r.word}' closes nothing", r.span, "remove it")
    last = opened[-1]
    closing = {"(": ")", "{": "}"}[last]
    if r.word == closing:
        return None
    if r.word == ")" and "(" not in opened:
        return Diagnostic("TC010", "')' closes nothing", r.span, "remove it")
    note = Note("opened here", r.span_of_token(last))
    where = f" before {shown(r.word)}" if r.word else ""
    message = f"'{last}' is not closed{where}"
    return Diagnostic("TC010", message, r.span, f"expected '{closing}'", (note,))


def _dots(r: Refusal) -> Diagnostic | None:
    """Two points for three, and `A.x`."""
    if r.match(r"\.\.(?!\.)") and "..." in r.wanted:
        return Diagnostic("TC001", "unexpected '.'", r.span, "did you mean '...'?")
    if r.wanted == {"INT", "-"} and r.before() == ".":
        label = "expected the number of a dimension, as in A.0"
        return Diagnostic("TC001", f"unexpected {shown(r.word)}", r.span, label)
    return None


def _unexpected(r: Refusal) -> Diagnostic:
    """Anything else: what stands there and what could."""
    rest = set(r.wanted)
    choices = []
    if rest >= EXPRESSION:
        choices.append("an expression")
        rest -= EXPRESSION | {"..."}
    if rest >= {"ID", "_FOR"}:
        choices.append("a statement")
        rest -= {"ID", "_FOR"}
    if len(rest & _OPERATORS) > 1:
        choices.append("an operator")
        rest -= _OPERATORS | {"<=>", ".", "(", "="}
    choices += sorted(_TERMINALS.get(word, f"'{word}'") for word in rest)
    label = f"expected {_either(choices)}"
    if r.word == ":" and r.wanted >= EXPRESSION and r.before() in ("(", ","):
        label = "a whole dimension has an index too: A(i, j)"
    word = shown(r.word) if r.word else "end of the text"
    return Diagnostic("TC001", f"unexpected {word}", r.span, label)


def _either(choices: list[str]) -> str:
    """Join by commas and `or`."""
    return " or ".join([", ".join(choices[:-1]), choices[-1]] if choices[1:] else choices)


_RULES: tuple[Callable[[Refusal], Diagnostic | None], ...] = (
    _no_definition,
    malformed_number,
    foreign_character,
    _missing_parentheses,
    foreign_operator,
    foreign_word,
    _results_in_parentheses,
    _assignment,
    _arguments,
    _bracket,
    _order_of_a_parameter,
    _keyword_as_name,
    _type_or_parameter,
    _clause,
    _dots,
)
