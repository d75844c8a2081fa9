"""The tables of the grammar, which Lark builds: kept beside it, so that programs need not.

After a change of `tc.lark`, or with another Lark:

    PYTHONHASHSEED=0 python -m tcdsl.grammar.text.tables

`lalr.json` has what reads texts (`lalr.py`), `tables.json` the same as Lark loads it, for texts
that are refused. Lark takes a fifth of a second to build them. Its own files of tables are pickles;
these are its names and numbers as JSON, which run nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tcdsl.grammar.text.errors import InternalError
from tcdsl.grammar.text.lalr import Parser

HERE = Path(__file__).parent
OURS, LARKS = "lalr.json", "tables.json"
_FAULTS = (OSError, ValueError, LookupError, TypeError, AssertionError, RecursionError)


def read() -> Parser | None:
    """Return what reads texts; None if the tables are another grammar's.

    Raises
    ------
    InternalError
        If they are missing or damaged.
    """

    def of(kept: Any) -> Parser | None:
        return Parser(**kept["tables"]) if kept["grammar"] == _digest(_grammar()) else None

    found: Parser | None = _of_file(OURS, of)
    return found


def read_by_lark() -> Any | None:
    """Return Lark's parser that the tables describe; None if they are another Lark's or grammar's.

    Raises
    ------
    InternalError
        If they are missing or damaged.
    """
    import lark

    def of(kept: Any) -> Any | None:
        if kept["lark"] != lark.__version__ or kept["grammar"] != _digest(_grammar()):
            return None
        return lark.Lark.load(kept["tables"])

    return _of_file(LARKS, of, _with_numbers)


def _of_file(name: str, of: Callable[[Any], Any], pairs: Any = None) -> Any:
    """Return what is made of a file of tables."""
    path = HERE / name
    try:
        return of(json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=pairs))
    except _FAULTS as error:
        raise InternalError(
            f"'{path}', which came with tcdsl, is missing or damaged: install tcdsl again\n"
            f"  {type(error).__name__}: {str(error)[:200]}"
        ) from error


def built() -> Any:
    """Return the parser of tc.lark, built by Lark."""
    from lark import Lark

    return Lark(_grammar(), parser="lalr", propagate_positions=True, maybe_placeholders=False)


def written() -> dict[str, str]:
    """Return the tables as they are kept, by file, made by the Lark that is installed."""
    import lark
    from lark.grammar import Rule
    from lark.lexer import TerminalDef

    parser = built()
    data, memo = parser.memo_serialize([TerminalDef, Rule])
    grammar = {"grammar": _digest(_grammar())}
    files = {
        OURS: grammar | {"tables": _plain(parser)},
        LARKS: {"lark": lark.__version__, **grammar, "tables": {"data": data, "memo": memo}},
    }
    return {name: json.dumps(kept, separators=(",", ":")) + "\n" for name, kept in files.items()}


def _plain(lark: Any) -> dict[str, Any]:
    """Return what `lalr.Parser` takes."""
    lexer, table = lark.parser.lexer.root_lexer, lark.parser.parser._parse_table
    assert lexer.scanner, "is made now, with what tells words of two terminals apart"
    assert not lexer.callback, "there are such words"
    terminals = lexer.terminals  # sorted as they are tried
    rules = sorted(lark.rules, key=lambda rule: (rule.origin.name, rule.order))
    made = sorted({rule.origin.name for rule in rules})
    names = [*(t.name for t in terminals), "$END", *made]
    symbol = {name: n for n, name in enumerate(names)}
    number = {rule: n for n, rule in enumerate(rules)}

    def action(kind: Any, to: Any) -> int:
        return -1 - number[to] if str(kind) == "Reduce" else to

    return {
        "terminals": [
            (t.name, *((t.pattern.value, "") if t.pattern.type == "str" else ("", t.pattern.value)))
            for t in terminals
        ],
        "ignored": [symbol[name] for name in lark.ignore_tokens],
        "rules": [
            (
                symbol[rule.origin.name],
                rule.alias or rule.origin.name,
                len(rule.expansion),
                [
                    (n, not part.is_term and part.name.startswith("_"))
                    for n, part in enumerate(rule.expansion)
                    if rule.options.keep_all_tokens or not (part.is_term and part.filter_out)
                ],
                bool(rule.options.expand1 and not rule.alias),
            )
            for rule in rules
        ],
        "states": [
            sorted((symbol[name], action(*found)) for name, found in table.states[n].items())
            for n in range(len(table.states))
        ],
        "begin": table.start_states["start"],
        "end": table.end_states["start"],
    }


def _grammar() -> str:
    return (HERE / "tc.lark").read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _with_numbers(pairs: list[tuple[str, Any]]) -> dict[Any, Any]:
    """Return an object of JSON, whose keys are text, with the numbers that its keys were."""
    return {int(key) if key.isdecimal() else key: value for key, value in pairs}


if __name__ == "__main__":
    for name, text in written().items():
        (HERE / name).write_text(text, encoding="utf-8")
