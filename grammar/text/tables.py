"""The tables of `automaton.py`, made of `tc.lark` by Lark: `python -m tcdsl.grammar.text.tables`.

Only those who change the grammar need Lark: a test holds that the tables are those of the grammar.
States are numbered as a walk from the first one meets them, rules by what they say, so that the
tables of a grammar are always the same text.
"""

from __future__ import annotations

import json
from typing import Any

from tcdsl.grammar.text.automaton import END, TABLES


def tables_of(grammar: str) -> dict[str, Any]:
    """Return the tables of a grammar.

    Raises
    ------
    GrammarError
        If it is no LALR(1), or two patterns match one word where both can stand.
    ValueError
        If it has what the automaton does not know: a word that belongs to a pattern too, a rule
        that loses all but one child.
    """
    from lark import Lark

    lark: Any = Lark(grammar, parser="lalr", strict=True, maybe_placeholders=False)
    lexer = lark.parser.lexer.root_lexer
    assert lexer.scanner  # which finds the words that are patterns too
    if lexer.callback:
        raise ValueError(f"words that a pattern matches too: {[*lexer.callback]}")
    called = {
        t.name: t.pattern.value if t.pattern.type == "str" else t.name for t in lark.terminals
    }
    called[END] = END
    rules = {rule: _rule(rule) for rule in lark.rules}
    ordered = sorted({str(entry): entry for entry in rules.values()}.values())
    number = {rule: ordered.index(entry) for rule, entry in rules.items()}
    table = lark.parser.parser._parse_table
    (start,), (end,) = table.start_states.values(), table.end_states.values()
    order, rows = [start], []
    for state in order:  # grows
        row = {}
        actions = {called.get(s, s): action for s, action in table.states[state].items()}
        for symbol, (action, arg) in sorted(actions.items()):
            if str(action) == "Shift":
                if arg not in order:
                    order.append(arg)
                row[symbol] = order.index(arg)
            else:
                row[symbol] = -1 - number[arg]
        rows.append(row)
    different = [row for i, row in enumerate(rows) if row not in rows[:i]]
    return {
        "terminals": {called[t.name]: t.pattern.to_regexp() for t in lexer.terminals},
        "ignored": sorted(lexer.ignore_types),
        "rules": ordered,
        "rows": different,
        "states": [different.index(row) for row in rows],
        "end": order.index(end),
    }


def _rule(rule: Any) -> list[Any]:
    """Return a rule as the automaton has it."""
    options = rule.options
    kept = [
        [i, int(not s.is_term and s.name.startswith("_"))]
        for i, s in enumerate(rule.expansion)
        if options.keep_all_tokens or not (s.is_term and s.filter_out)
    ]
    single = options.expand1 and not rule.alias
    size = len(rule.expansion)
    if single and len(kept) == 1 and size > 1:
        raise ValueError(f"a rule that loses all but one child has no place: {rule}")
    return [str(rule.alias or rule.origin.name), str(rule.origin.name), size, kept, int(single)]


def text_of(tables: dict[str, Any]) -> str:
    """Return tables as JSON, each entry in a line of its own."""
    parts = []
    for name, value in tables.items():
        if isinstance(value, dict):
            lines = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in value.items()]
            parts.append(f"{json.dumps(name)}: {{\n" + ",\n".join(lines) + "\n}")
        elif isinstance(value, list) and name != "states":
            parts.append(f"{json.dumps(name)}: [\n" + ",\n".join(map(json.dumps, value)) + "\n]")
        else:
            parts.append(f"{json.dumps(name)}: {json.dumps(value)}")
    return "{" + ",\n".join(parts) + "}\n"


def made() -> str:
    """Return the tables of our grammar."""
    grammar = TABLES.with_name("tc.lark").read_text(encoding="utf-8")
    return text_of(tables_of(grammar))


if __name__ == "__main__":
    TABLES.write_text(made(), encoding="utf-8")
