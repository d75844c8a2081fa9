"""Nodes to text: the one pretty way to write a program, with the fewest parentheses.

``parse(format_program(p)) == p`` for every program the parser can give. Nodes have no comments:
`layout` formats a text with those it has, and with parentheses that only help a reader.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar, assert_never

from tcdsl.grammar.text import nodes as n
from tcdsl.grammar.text.lines import CHOICE, ITEMS, OPERATORS, PARTS, Break, Line, rows
from tcdsl.grammar.text.stack import on_own_stack

_T = TypeVar("_T")
Operand = n.Expr | n.Dots | n.Keyword
Todo = str | tuple[Operand, int]  # a piece, or a node and the level its place asks for

# Levels of precedence, of the operators with two sides in LEVELS; a node of a lower level than its
# place asks for is put in parentheses.
_TERNARY, _UNARY = 0, 10
_COMPARISONS = "<", "<=", ">", ">=", "==", "!="
LEVELS = {"||": 1, "&&": 2} | dict.fromkeys(_COMPARISONS, 3)
LEVELS |= {"|": 4, "^": 5, "&": 6, "<<": 7, ">>": 7}
LEVELS |= dict.fromkeys("+-", 8) | dict.fromkeys("*/%", 9)
_OTHER, _THEN = CHOICE
_BREAKS = {op: OPERATORS + LEVELS[op] for op in LEVELS if op not in ("<<", ">>")}


@on_own_stack
def format_program(program: n.Program) -> str:
    """Return the text of a program, with an empty line between definitions.

    Examples
    --------
    >>> from tcdsl.grammar.text.parser import parse
    >>> print(format_program(parse("def f(float(N)A)->(B){B(i)=(2*(A(i)))where i in 0:N}")), end="")
    def f(float(N) A) -> (B) {
      B(i) = 2 * A(i) where i in 0:N
    }
    """
    return "\n".join(f"{format_def(definition)}\n" for definition in program.defs)


@on_own_stack
def format_def(definition: n.Def) -> str:
    """Return the text of a definition, without a newline at its end."""
    return "\n".join(row for line in def_lines(definition) for row in rows(line))


def expr_pieces(*todo: Todo | Operand) -> Iterator[str]:
    """Yield the text of expressions piece by piece.

    The walk keeps its own stack: a sum of ten thousand terms is a tree ten thousand deep.
    """
    stack: list[Todo | Operand] = [*reversed(todo)]
    while stack:
        item = stack.pop()
        match item:
            case str():
                yield item
            case (node, level):
                stack += reversed(_expand(node, level))
            case _:
                stack += reversed(_expand(item, _TERNARY))


def head_pieces(definition: n.Def) -> Iterator[str]:
    """Yield the text of a definition up to its body."""
    yield "def "
    yield definition.name
    if definition.generics:
        yield "<"
        for generic in _joined(definition.generics, ", "):
            if isinstance(generic, str):
                yield generic
                continue
            yield generic.name
            if generic.default is not None:
                yield f"={generic.default}"
        yield ">"
    yield "("
    yield from _params(definition.params)
    yield ")"
    yield Break(" ", PARTS)
    yield "-> ("
    yield from _params(definition.returns)
    yield ")"


def stmt_pieces(stmt: n.Comprehension | n.MultiCall) -> Iterator[str]:
    """Yield the text of a statement that is no loop."""
    match stmt:
        case n.Comprehension(target, op, value, equivalent, clauses):
            yield from _target(target)
            yield f" {op} "
            yield from expr_pieces(value)
            if equivalent is not None:
                yield " <=> "
                yield from expr_pieces(n.Apply(equivalent.name, equivalent.args))
            if clauses:
                yield Break(" ", PARTS)
                yield "where "
                for clause in _joined(clauses, Break(", ", ITEMS)):
                    yield from (clause,) if isinstance(clause, str) else _clause(clause)
        case n.MultiCall(targets, callee, args):
            for result in _joined(targets, ", "):
                yield from (result,) if isinstance(result, str) else _target(result)
            yield " = "
            yield from expr_pieces(n.Apply(callee, args))
        case _:
            assert_never(stmt)


def loop_pieces(loop: n.ForLoop) -> Iterator[str]:
    """Yield the text of a loop up to its body."""
    yield "for "
    yield loop.var
    yield " in "
    yield from _range(loop.low, loop.high)


def def_lines(definition: n.Def, *, may_be_empty: bool = True) -> Iterator[Line]:
    """Yield the lines of a definition; without statements it is one, if it may be."""
    if may_be_empty and not definition.body:
        yield Line(0, head_pieces(definition), " {}")
        return
    yield Line(0, head_pieces(definition), " {")
    yield from _body(definition.body, 1)
    yield Line(0, ("}",))


def _body(stmts: Sequence[n.Stmt], depth: int) -> Iterator[Line]:
    for stmt in stmts:
        if isinstance(stmt, n.ForLoop):
            yield Line(depth, loop_pieces(stmt), " {")
            yield from _body(stmt.body, depth + 1)
            yield Line(depth, ("}",))
        else:
            yield Line(depth, stmt_pieces(stmt))


def _params(params: tuple[n.Param, ...]) -> Iterator[str]:
    for param in _joined(params, Break(", ", ITEMS)):
        if isinstance(param, str):
            yield param
            continue
        if param.type is not None:
            yield param.type.name
            if param.type.dims is not None:
                yield from expr_pieces("(", *_joined(param.type.dims, ", "), ")")
            yield " "
        yield param.name
        if param.default is not None:
            yield " = "
            yield from expr_pieces(param.default)


def _target(target: n.Target) -> Iterator[str]:
    yield target.name
    if target.subs is not None:
        yield from expr_pieces("(", *_joined(target.subs, ", "), ")")


def _clause(clause: n.Clause) -> Iterator[str]:
    match clause:
        case n.RangeClause(name, low, high):
            yield name
            yield " in "
            yield from _range(low, high)
        case n.Let(name, value):
            yield name
            yield " = "
            yield from expr_pieces(value)
        case n.Exists(value):
            yield "exists "
            yield from expr_pieces(value)
        case _:
            assert_never(clause)


def _range(low: n.Expr, high: n.Expr) -> Iterator[str]:
    """Yield `0:N`, but `i + 1 : N` where an end is more than one word."""
    simple = all(isinstance(end, n.IntLit | n.Name | n.Extent | n.Apply) for end in (low, high))
    yield from expr_pieces(low, ":" if simple else " : ", high)


def _expand(node: Operand, level: int) -> list[Todo]:
    """Return the pieces and the operands of a node, in the order of the text."""
    match node:
        case n.IntLit(value):
            typed = node.text and int(node.text, 16) == value
            return [node.text if typed else str(value)]
        case n.FloatLit():
            return [_float(node)]
        case n.Name(name):
            return [name]
        case n.Dots():
            return ["..."]
        case n.Keyword(name, value):
            return [f"{name}=", (value, _TERNARY)]
        case n.Apply(name, args):
            return [name, "(", *_arguments(args), ")"]
        case n.Extent(name, dim):
            return [name, f".{dim}"]
        case n.Cast(dtype, operand):
            return [dtype, "(", (operand, _TERNARY), ")"]
        case n.MinMax(op, lhs, rhs):
            return [op, "(", *_arguments((lhs, rhs)), ")"]
        case n.Unary(op, operand):
            if op == "-" and isinstance(operand, n.IntLit) and operand.value >= 0:
                # A minus right before digits would belong to the literal.
                return ["-(", (operand, _TERNARY), ")"]
            return _bracketed([op, (operand, _UNARY)], _UNARY, node, level)
        case n.Binary(op, lhs, rhs):
            own = LEVELS[op]
            blank = Break(" ", _BREAKS[op]) if op in _BREAKS else " "
            return _bracketed([(lhs, own), blank, f"{op} ", (rhs, own + 1)], own, node, level)
        case n.Ternary(cond, then, other):
            is_kept = isinstance(then, n.Ternary) and then.is_grouped
            parts: list[Todo] = [(cond, _TERNARY + 1), Break(" ", _THEN), "? "]
            parts += [(then, _TERNARY + is_kept), Break(" ", _OTHER), ": ", (other, _TERNARY)]
            return _bracketed(parts, _TERNARY, node, level)
        case _:
            assert_never(node)


def _arguments(args: Iterable[Operand]) -> list[Todo]:
    todo: list[Todo] = []
    for arg in args:
        todo += [Break(", ", ITEMS), (arg, _TERNARY)] if todo else [(arg, _TERNARY)]
    return todo


def _bracketed(todo: list[Todo], own: int, node: n.Expr, level: int) -> list[Todo]:
    """Return pieces in parentheses where they need them, or had some to be kept as an operand."""
    is_kept = node.is_grouped and level > _TERNARY
    return ["(", *todo, ")"] if own < level or is_kept else todo


def _float(literal: n.FloatLit) -> str:
    """Return the digits as typed, or the fewest that give the value again."""
    if literal.text and float(literal.text) == literal.value:
        return literal.text
    return repr(literal.value)  # of inf and nan too: they are names of literals in the language


def _joined(items: Sequence[_T], separator: str) -> Iterator[_T | str]:
    for i, item in enumerate(items):
        if i:
            yield separator
        yield item
