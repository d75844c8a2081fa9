"""Slips of those who know other languages: characters, numbers, operators and words of theirs.

Each rule returns what is wrong with a refused text if it knows the slip, else None.

Blanks are the six of ASCII: a no-break space pasted from a page is refused with a word about it,
since nobody can see it.
"""

from __future__ import annotations

import re
import unicodedata
from difflib import get_close_matches

from tcdsl.grammar.text.errors import Diagnostic
from tcdsl.grammar.text.refusal import Refusal

NAME = r"[A-Za-z_][A-Za-z0-9_]*"
EXPRESSION = {"ID", "INT", "NUMBER", "SCALAR", "MINMAX", "(", "-", "!", "~"}  # what may begin one


def foreign_character(r: Refusal) -> Diagnostic | None:
    """Signs of other languages and of word processors; characters that nobody types."""
    word = r.word
    if word in _FOREIGN_SIGNS:
        message, label = _FOREIGN_SIGNS[word]
        return Diagnostic("TC002", message, r.span, label)
    if word.isascii() and word.isprintable():
        return None
    message = f"unexpected character {shown(word)}"
    meant = _LOOK_ALIKES.get(word) or unicodedata.normalize("NFKC", word)
    if meant != word and meant.isascii() and meant.isprintable():
        cure = "a blank" if meant == " " else f"'{meant}'"
        return Diagnostic("TC002", message, r.span, f"did you mean {cure}?")
    letter = unicodedata.category(word).startswith("L")
    label = "names are made of A-Z, a-z, 0-9 and '_'" if letter else "remove it"
    return Diagnostic("TC002", message, r.span, label)


_FOREIGN_SIGNS = {
    ";": ("unexpected ';'", "remove it: no sign separates statements"),
    "[": ("unexpected '['", "dimensions and subscripts stand in parentheses: A(i, j)"),
    "]": ("unexpected ']'", "dimensions and subscripts stand in parentheses: A(i, j)"),
    "@": ("unexpected '@'", "a product of matrices is a sum: C(i, j) +=! A(i, k) * B(k, j)"),
    "'": ("unexpected quote", "the language has no strings"),
    '"': ("unexpected quote", "the language has no strings"),
}
_LOOK_ALIKES = {
    "\u00d7": "*",
    "\u00b7": "*",
    "\u00f7": "/",
    "\u2010": "-",
    "\u2011": "-",
    "\u2012": "-",
    "\u2013": "-",
    "\u2014": "-",
    "\u2212": "-",
    "\u2217": "*",
    "\u2192": "->",
    "\u2208": "in",
    "\u2227": "&&",
    "\u2228": "||",
    "\u00ac": "!",
    "\u2260": "!=",
    "\u2264": "<=",
    "\u2265": ">=",
}


def malformed_number(r: Refusal) -> Diagnostic | None:
    """Letters, digits or points after a number: `2x`, `1.5f`, `1_000`, `0x`, `1.2.3`."""
    text = r.source.text
    start = r.at
    while start > 0 and re.match(r"[A-Za-z0-9_.]", text[start - 1]):
        start -= 1
    run = re.compile(r"(\.?[0-9])[A-Za-z0-9_.]*([+-](?<=[eE][+-])[0-9]+)?").match(text, start)
    if run is None or run.end() <= r.at or re.fullmatch(_VALID_NUMBER, run.group()):
        return None
    word, span = run.group(), r.span_of(start, run.end())
    if r.wanted == {"ID"}:
        label = "a name begins with a letter or '_'"
        return Diagnostic("TC008", f"'{short(word)}' is not a name", span, label)
    last = r.before()
    sign = ":" if last is not None and last.type == "_IN" else " * "
    cure = _number_cure(word, sign)
    return Diagnostic("TC008", f"'{short(word)}' is not a number", span, cure)


def _number_cure(word: str, sign: str) -> str:
    if word.lower().startswith(("0x", "0b", "0o")):
        return "integers are written in decimal, or as 0x1F"
    if word.lower().endswith("e"):
        return "digits follow the exponent: 1e-5"
    if re.fullmatch(r"[0-9_]+", word):
        return f"write {short(word.replace('_', ''))}"
    if suffixed := re.fullmatch(rf"({_VALID_NUMBER})([fFlLuUhHdD]+)", word):
        number, suffix = short(suffixed[1]), suffixed[2]
        type_ = _type_of_suffix(suffix.lower(), is_integer=number.isdigit())
        return f"remove '{suffix}'; a cast gives a type: {type_}({number})"
    if product := re.fullmatch(rf"({_VALID_NUMBER})({NAME})", word):
        return f"write {short(product[1])}{sign}{short(product[2])}"
    return "no letter, digit or point follows a number"


def _type_of_suffix(suffix: str, *, is_integer: bool) -> str:
    """Return the type that a suffix means in C and CUDA."""
    if "u" in suffix:
        return "uint64" if "l" in suffix else "uint32"
    if is_integer and "l" in suffix:
        return "int64"
    return {"f": "float", "h": "float16"}.get(suffix, "double")


_VALID_NUMBER = (
    r"0[xX][0-9a-fA-F]+|[0-9]+|(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
    r"|[0-9]+[eE][+-]?[0-9]+"
)


def foreign_operator(r: Refusal) -> Diagnostic | None:
    """Operators written otherwise here, such as `=<`, `**`, unary `+`, `=` for `==`."""
    text = r.source.text
    touching = text[max(0, r.at - 1) : r.at + 1] if r.wanted >= EXPRESSION else ""
    for start, word in ((r.at - 1, touching), (r.at, r.word)):
        if word in _FOREIGN_OPERATORS and "ASSIGN" not in r.wanted:
            span = r.span_of(start, start + len(word))
            message = f"'{word}' is not an operator"
            return Diagnostic("TC006", message, span, _FOREIGN_OPERATORS[word])
    if r.word == "+" and r.wanted >= EXPRESSION:
        return Diagnostic("TC006", "there is no unary '+'", r.span, "remove it")
    if r.word == "=" and "==" in r.wanted:
        return Diagnostic("TC006", "unexpected '='", r.span, "to compare, write '=='")
    return None


_FOREIGN_OPERATORS = {
    "=<": "write '<='",
    "=>": "write '>='",
    "<>": "write '!='",
    "**": "write pow(x, y)",
    "//": "write '/', which rounds down for integers; a comment starts with '#'",
    "/*": "a comment starts with '#' and ends with the line",
    "++": "write '+ 1'",
    ":=": "write '='",
}


def foreign_word(r: Refusal) -> Diagnostic | None:
    """Words such as `and`, `not`, `if`, `return`; loops of Python and C; misspelt keywords."""
    last = r.before()
    if r.word in _FOREIGN_WORDS:
        return Diagnostic("TC006", f"unexpected '{r.word}'", r.span, _FOREIGN_WORDS[r.word])
    loop = _FOREIGN_WORDS["while"]
    if r.word == "in" and r.before(3) == "for":
        return Diagnostic("TC006", "a loop in parentheses", r.span, loop)
    if last is None or last.type != "ID":
        return None
    span = r.span_of_token(last)
    if "ASSIGN" in r.wanted and (fault := foreign_word_before(r, span.start, "not")):
        return fault
    if last in _FOREIGN_WORDS and not r.match(r"[-+*/%]?="):
        return Diagnostic("TC006", f"unexpected '{last}'", span, _FOREIGN_WORDS[last])
    if last == "for":
        return Diagnostic("TC006", "'for' without a range", span, loop)
    if re.match(NAME, r.word) and (near := get_close_matches(last, ("where", "exists", "for"), 1)):
        message = f"unexpected '{r.word}' after '{last}'"
        return Diagnostic("TC001", message, span, f"did you mean '{near[0]}'?")
    return None


def foreign_word_before(r: Refusal, at: int, *words: str) -> Diagnostic | None:
    """Return what is wrong with one of `words` right before an offset, read there as a name."""
    found = re.search(rf"\b({'|'.join(words)})\s*$", r.source.text[:at])
    if found is None:
        return None
    span = r.span_of(*found.span(1))
    return Diagnostic("TC006", f"unexpected '{found[1]}'", span, _FOREIGN_WORDS[found[1]])


_FOREIGN_WORDS = {
    "and": "write '&&'",
    "or": "write '||'",
    "not": "write '!'",
    "if": "a choice is written condition ? value : other",
    "else": "a choice is written condition ? value : other",
    "return": "name the results after '->' and assign to them",
    "while": "a loop is written for t in a:b { ... }",
    "let": "a name of an expression follows the statement: where x = A(i)",
}
FOREIGN_FUNCTIONS = {
    "sum": "a sum is an assignment: s(i) +=! A(i, k)",
    "prod": "a product is an assignment: p(i) *=! A(i, k)",
    "mean": "a mean is a sum, m(i) +=! A(i, k), over the number of its terms",
    "argmin": "a place is an assignment: at(i) argmin=! A(i, k)",
    "argmax": "a place is an assignment: at(i) argmax=! A(i, k)",
    "swish": "write silu(x)",
    "square": "write x * x",
    "ln": "write log(x)",
    "power": "write pow(x, y)",
    "relu6": "write clamp(x, 0, 6)",
    "if": "a choice is written condition ? value : other",
    "select": "a choice is written condition ? value : other",
    "mod": "write x % y, which rounds down; fmod(x, y) rounds to zero",
}  # names of other libraries, and what says the same here
FOREIGN_CONSTANTS = {"true": "1 == 1", "false": "1 == 0"}


def shown(word: str) -> str:
    """Return a word as messages show it."""
    if not word:
        return "the end of the text"
    if word.isprintable():
        return f"'{short(word)}'"
    return f"U+{ord(word[0]):04X}"


def short(word: str) -> str:
    """Return a word cut to a length that a message can hold."""
    return word if len(word) <= 40 else f"{word[:37]}..."
