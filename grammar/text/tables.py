"""The tables of the grammar, which Lark builds: kept beside it, so that programs need not.

After a change of `tc.lark`, or with another Lark:

    PYTHONHASHSEED=0 python -m tcdsl.grammar.text.tables > grammar/text/tables.json

Lark takes a fifth of a second to build them, and some milliseconds to read them. Its own files of
tables are pickles; these are its names and numbers as JSON, which run nothing.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from tcdsl.grammar.text.errors import InternalError

HERE = Path(__file__).parent


def read() -> Any | None:
    """Return the parser that the tables describe; None if they are another Lark's or grammar's.

    Raises
    ------
    InternalError
        If they are missing or damaged.
    """
    import lark

    path = HERE / "tables.json"
    try:
        kept = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_with_numbers)
        if kept["lark"] != lark.__version__ or kept["grammar"] != _digest(_grammar()):
            return None
        from tcdsl.grammar.text.scanner import use_words  # on use: it asks what Lark hides

        return use_words(lark.Lark.load(kept["tables"]))
    except (OSError, ValueError, LookupError, TypeError, AssertionError, RecursionError) as error:
        raise InternalError(
            f"'{path}', which came with tcdsl, is missing or damaged: install tcdsl again\n"
            f"  {type(error).__name__}: {str(error)[:200]}"
        ) from error


def built() -> Any:
    """Return the parser of tc.lark, built by Lark."""
    from lark import Lark

    return Lark(_grammar(), parser="lalr", propagate_positions=True, maybe_placeholders=False)


def written() -> str:
    """Return the tables as they are kept, made by the Lark that is installed."""
    import lark
    from lark.grammar import Rule
    from lark.lexer import TerminalDef

    data, memo = built().memo_serialize([TerminalDef, Rule])
    tables = {"data": data, "memo": memo}
    kept = {"lark": lark.__version__, "grammar": _digest(_grammar()), "tables": tables}
    return json.dumps(kept, separators=(",", ":")) + "\n"


def _grammar() -> str:
    return (HERE / "tc.lark").read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _with_numbers(pairs: list[tuple[str, Any]]) -> dict[Any, Any]:
    """Return an object of JSON, whose keys are text, with the numbers that its keys were."""
    return {int(key) if key.isdecimal() else key: value for key, value in pairs}


if __name__ == "__main__":
    sys.stdout.write(written())
