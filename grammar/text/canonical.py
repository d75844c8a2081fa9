"""The text of a definition in which names do not matter.

Two definitions have the same canonical text exactly if they differ only in the names they choose,
in layout, comments, needless parentheses, the spelling of literals, and `<=>` notes. The text is
itself a definition of the language, and its own canonical text.

Indices and names of `where` are counted anew in each statement, since no statement sees another's.
Names that mean something outside stay: builtins, other definitions, the argument names of calls.
Kept, though they may not matter: the order of statements, parameters and clauses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from tcdsl.grammar.text import nodes as n
from tcdsl.grammar.text.format import (
    Callee,
    Digits,
    Hex,
    Ident,
    expr_pieces,
    head_pieces,
    loop_pieces,
    stmt_pieces,
)
from tcdsl.grammar.text.stack import on_own_stack


@on_own_stack
def canonical(definition: n.Def) -> str:
    """Return the canonical text of a definition.

    Names are replaced in the order in which they first appear: the definition's by `f0`, generics
    by `G0`.., sizes by `N0`.., tensors by `T0`.., loop variables by `t0`.. and, counted anew in
    each statement, where-names by `v0`.. and indices by `i0`... A name before parentheses that the
    definition does not declare (a builtin, another definition) stays, as do the argument names of
    calls and the literals `inf` and `nan`.

    Examples
    --------
    >>> from tcdsl.grammar.text.parser import parse
    >>> text = "def mv(float(M,K) A, float(K) x) -> (y) { y(m) +=! A(m, k) * exp(x(k)) }"
    >>> print(canonical(parse(text).defs[0]))
    def f0(float(N0, N1) T0, float(N1) T1) -> (T2) {
    T2(i0) +=! T0(i0, i1) * exp(T1(i1))
    }
    """
    return "\n".join(_Renamer(definition).lines())


class _Renamer:
    """The new names of one definition, given out as its text is walked."""

    def __init__(self, definition: n.Def) -> None:
        self.definition = definition
        self.letters = _declared(definition)
        callees = {str(p) for p in _pieces(definition) if isinstance(p, Callee)}
        self.kept = ({"inf", "nan"} | callees) - self.letters.keys()
        self.names: dict[str, str] = {}
        self.given: Counter[str] = Counter()

    def lines(self) -> Iterator[str]:
        yield f"{self._renamed(head_pieces(self.definition), {})} {{"
        yield from self._body(self.definition.body, {})
        yield "}"

    def _body(self, stmts: Sequence[n.Stmt], loops: dict[str, str]) -> Iterator[str]:
        for stmt in stmts:
            if isinstance(stmt, n.ForLoop):
                inner = loops | {stmt.var: self._fresh("t", self.given)}
                yield f"{self._renamed(loop_pieces(stmt), inner)} {{"
                yield from self._body(stmt.body, inner)
                yield "}"
            else:
                clauses = stmt.clauses if isinstance(stmt, n.Comprehension) else ()
                lets = {clause.name for clause in clauses if isinstance(clause, n.Let)}
                yield self._renamed(stmt_pieces(_bare(stmt)), loops, lets)

    def _renamed(
        self, pieces: Iterable[str], loops: dict[str, str], lets: Collection[str] = ()
    ) -> str:
        """Join the pieces of one statement or head, its names replaced."""
        local: dict[str, str] = {}
        given: Counter[str] = Counter()
        text = []
        for piece in pieces:
            name = str(piece)
            if isinstance(piece, Digits):
                text.append(repr(float(name)))
            elif isinstance(piece, Hex):
                text.append(str(int(name, 16)))
            elif not isinstance(piece, Ident):
                text.append(name)
            elif name in lets:
                text.append(local.get(name) or local.setdefault(name, self._fresh("v", given)))
            elif name in loops:
                text.append(loops[name])
            elif name in self.letters:
                if name not in self.names:
                    self.names[name] = self._fresh(self.letters[name], self.given)
                text.append(self.names[name])
            elif name in self.kept:
                text.append(name)
            else:
                text.append(local.get(name) or local.setdefault(name, self._fresh("i", given)))
        return "".join(text)

    def _fresh(self, letter: str, given: Counter[str]) -> str:
        """Return the next name of a letter that is not the name of something kept."""
        while True:
            name = f"{letter}{given[letter]}"
            given[letter] += 1
            if name not in self.kept:
                return name


def _declared(definition: n.Def) -> dict[str, str]:
    """Return the letter of each name that means the same in the whole definition."""
    letters = {definition.name: "f"}
    for stmt in _flat(definition.body):
        targets = stmt.targets if isinstance(stmt, n.MultiCall) else (stmt.target,)
        letters |= {target.name: "T" for target in targets}
    params = (*definition.params, *definition.returns)
    letters |= {param.name: "T" for param in params}
    for param in params:
        dims = param.type.dims if param.type is not None else None
        pieces = expr_pieces(*(dims or ()))
        letters |= {str(p): "N" for p in pieces if isinstance(p, Ident)}
    return letters | {generic.name: "G" for generic in definition.generics}


def _pieces(definition: n.Def) -> Iterator[str]:
    yield from head_pieces(definition)
    for stmt in _flat(definition.body):
        yield from stmt_pieces(_bare(stmt))


def _flat(stmts: Sequence[n.Stmt]) -> Iterator[n.Comprehension | n.MultiCall]:
    """Yield the statements of a body and of its loops."""
    for stmt in stmts:
        if isinstance(stmt, n.ForLoop):
            yield from _flat(stmt.body)
        else:
            yield stmt


def _bare(stmt: n.Comprehension | n.MultiCall) -> n.Comprehension | n.MultiCall:
    """Return a statement without its `<=>`, which has no meaning."""
    return replace(stmt, equivalent=None) if isinstance(stmt, n.Comprehension) else stmt
