"""Lark's tree to our nodes, and the rules of the syntax that the grammar does not say.

Lark's inline transformer would need the source in a global, and its recursive one dies at a sum of
a thousand terms: a loop of our own turns the tree into nodes. `-` before digits belongs to the
integer, so that the least of int64 can be written (`-(1)` is an operation, and so is `-` before a
float). A float literal below the smallest number is 0, as in C.

Parentheses of all kinds, unary operators, `?:` and `for` may nest 200 deep, so that passes may use
recursion. Chains of binary operators are not counted: a sum of ten thousand terms is legal, and is
walked by `nodes.spine`, never by recursion into `lhs`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tcdsl.grammar.text import nodes as n
from tcdsl.grammar.text.defaults import FLOAT_NAMES, fault_of_default
from tcdsl.grammar.text.errors import Diagnostic, Note
from tcdsl.grammar.text.source import Source, Span

if TYPE_CHECKING:
    from lark import Token, Tree

MAX_NESTING = 200
_NESTING = {"group", "cast", "minmax", "args", "subs", "dims", "unary", "ternary", "loop"}
_INT64_MAX = 2**63 - 1


def build(
    tree: Tree[Token], source: Source, *, keeps_groups: bool = False
) -> tuple[n.Program | None, list[Diagnostic]]:
    """Return the program of a parse tree and what is wrong with it.

    Parameters
    ----------
    tree : Tree
        What Lark makes of a text by tc.lark.
    source : Source
        The text, for the places of the nodes.
    keeps_groups : bool, default False
        Whether nodes know that they stand in parentheses.

    Returns
    -------
    Program or None
        None where something is wrong.
    list of Diagnostic
    """
    if fault := _too_deep(tree, source):
        return None, [fault]
    builder = _Builder(source, keeps_groups)
    program = builder.run(tree)
    return (None if builder.faults else program), builder.faults


def _too_deep(root: Tree[Token], source: Source) -> Diagnostic | None:
    """Return the fault of a tree that passes over it by recursion could not survive."""
    todo = [(root, 0)]
    while todo:
        tree, depth = todo.pop()
        depth += tree.data in _NESTING
        if depth > MAX_NESTING:
            at = Span(tree.meta.start_pos, tree.meta.start_pos + 1, source)
            note = Note("split the expression by a 'where' name or a temporary")
            label = f"this is level {depth}"
            message = f"brackets, operators or loops nested deeper than {MAX_NESTING}"
            return Diagnostic("TC012", message, at, label, (note,))
        todo += [(child, depth) for child in tree.children if not isinstance(child, str)]
    return None


class _Builder:
    """`on_rule` is called for each tree of that rule: it takes the tree and its built children.

    The walk keeps its own stack: a sum of ten thousand terms is a tree ten thousand deep.
    """

    def __init__(self, source: Source, keeps_groups: bool) -> None:
        self.source = source
        self.keeps_groups = keeps_groups
        self.faults: list[Diagnostic] = []
        # From the id of an `int` tree to the `unary` tree whose minus sign belongs to it.
        self._signed: dict[int, Tree[Token]] = {}

    def run(self, root: Tree[Token]) -> n.Program:
        parents_first: list[Any] = []
        todo: list[Any] = [root]
        while todo:
            item = todo.pop()
            parents_first.append(item)
            if isinstance(item, str):
                continue
            if item.data == "unary" and item.children[0] == "-":
                operand = item.children[1]
                if operand.data == "int":
                    self._signed[id(operand)] = item
            todo += item.children
        built: list[Any] = []
        for item in reversed(parents_first):
            if isinstance(item, str):
                built.append(item)
                continue
            first = len(built) - len(item.children)
            node = getattr(self, f"on_{item.data}")(item, *built[first:])
            del built[first:]
            built.append(node)
        program: n.Program = built.pop()
        return program

    def _at(self, tree: Tree[Token]) -> Span:
        return Span(tree.meta.start_pos, tree.meta.end_pos, self.source)

    def _at_token(self, token: Token) -> Span:
        assert token.start_pos is not None
        assert token.end_pos is not None
        return Span(token.start_pos, token.end_pos, self.source)

    # ---- definitions

    def on_start(self, tree: Tree[Token], *defs: n.Def) -> n.Program:
        return n.Program(defs, span=self._at(tree))

    def on_definition(
        self,
        tree: Tree[Token],
        name: Token,
        generics: tuple[n.Generic, ...],
        params: tuple[n.Param, ...],
        returns: tuple[n.Param, ...],
        *body: n.Stmt,
    ) -> n.Def:
        at, name_at = self._at(tree), self._at_token(name)
        return n.Def(str(name), generics, params, returns, body, span=at, name_span=name_at)

    def on_generics(self, tree: Tree[Token], *generics: n.Generic) -> tuple[n.Generic, ...]:
        return generics

    def on_generic(self, tree: Tree[Token], name: Token, *default: Token) -> n.Generic:
        value = self._integer(default[1:], self._at(tree)) if default else None
        return n.Generic(str(name), value, span=self._at(tree))

    def on_params(self, tree: Tree[Token], *params: n.Param) -> tuple[n.Param, ...]:
        for param in params:
            if param.type is None:
                self._untyped(param)
            elif param.type.dims is not None:
                for dim in param.type.dims:
                    self._check_parameter_dim(dim, param.name)
            self._faulty(fault_of_default(param))
        return params

    def on_returns(self, tree: Tree[Token], *returns: n.Param) -> tuple[n.Param, ...]:
        for result in returns:
            self._faulty(fault_of_default(result, is_return=True))
        return returns

    def on_param(self, tree: Tree[Token], *parts: Any) -> n.Param:
        last = parts[-1]
        default = last if isinstance(last, n.IntLit | n.FloatLit) else None
        *type_, name = parts if default is None else parts[:-1]
        at, name_at = self._at(tree), self._at_token(name)
        return n.Param(str(name), type_[0] if type_ else None, default, span=at, name_span=name_at)

    def on_default(self, tree: Tree[Token], *parts: Token) -> n.IntLit | n.FloatLit:
        _, *sign, number = parts
        first, at = parts[1], self._at_token(number)
        if sign:
            at = Span(self._at_token(first).start, at.end, self.source)
        match number.type:
            case "INT":
                typed = "".join(parts[1:])
                text = typed if number[1:2] in ("x", "X") else ""
                return n.IntLit(self._integer(parts[1:], at), text=text, span=at)
            case "NUMBER":
                value = self._number(number, at)
                text = f"-{number}" if sign else str(number)
                return n.FloatLit(-value if sign else value, text=text, span=at)
        if number not in FLOAT_NAMES:
            note = Note("a default is a number: it is the same at every call")
            message = f"'{_short(number)}' is no number"
            self._faulty(Diagnostic("TC021", message, at, "expected a number, inf or nan", (note,)))
            return n.IntLit(0, span=at)
        value = FLOAT_NAMES[number]
        return n.FloatLit(-value if sign and value == value else value, span=at)

    def _faulty(self, fault: Diagnostic | None) -> None:
        if fault is not None:
            self.faults.append(fault)

    def on_type(
        self, tree: Tree[Token], name: Token, dims: tuple[n.Expr | n.Dots, ...] | None = None
    ) -> n.TypeRef:
        return n.TypeRef(str(name), dims, span=self._at(tree))

    def on_dims(self, tree: Tree[Token], *dims: n.Expr | n.Dots) -> tuple[n.Expr | n.Dots, ...]:
        return dims

    def _untyped(self, param: n.Param) -> None:
        self.faults.append(
            Diagnostic(
                "TC014",
                f"parameter '{param.name}' has no type",
                param.span,
                f"expected a type, such as float(N) {param.name}",
                (Note("only the type of a return may be left out"),),
            )
        )

    def _check_parameter_dim(self, dim: n.Expr | n.Dots, name: str) -> None:
        if isinstance(dim, n.Name | n.Dots) or (isinstance(dim, n.IntLit) and dim.value >= 0):
            return
        self.faults.append(
            Diagnostic(
                "TC015",
                f"a dimension of parameter '{name}' is an expression",
                dim.span,
                "expected a size, an integer or '...'",
                (Note("give the dimension a name of its own; a return may have an expression"),),
            )
        )

    # ---- statements

    def on_comprehension(
        self, tree: Tree[Token], target: n.Target, assign: Token, value: n.Expr, *rest: Any
    ) -> n.Comprehension:
        equivalent = next((part for part in rest if isinstance(part, n.Equivalent)), None)
        clauses = next((part for part in rest if isinstance(part, tuple)), ())
        return n.Comprehension(
            target,
            str(assign),  # type: ignore[arg-type]  # the grammar admits the words of AssignOp only
            value,
            equivalent,
            clauses,
            span=self._at(tree),
            op_span=self._at_token(assign),
        )

    def on_assign(self, tree: Tree[Token], op: Token) -> Token:
        return op

    def on_equivalent(
        self, tree: Tree[Token], name: Token, args: tuple[n.Arg, ...]
    ) -> n.Equivalent:
        return n.Equivalent(str(name), args, span=self._at(tree))

    def on_where(self, tree: Tree[Token], *clauses: n.Clause) -> tuple[n.Clause, ...]:
        return clauses

    def on_multi_call(self, tree: Tree[Token], *parts: Any) -> n.MultiCall:
        *targets, callee, args = parts
        return n.MultiCall(tuple(targets), str(callee), args, span=self._at(tree))

    def on_result(self, tree: Tree[Token], name: Token) -> n.Target:
        return n.Target(str(name), None, span=self._at(tree), name_span=self._at_token(name))

    def on_loop(
        self, tree: Tree[Token], var: Token, low: n.Expr, high: n.Expr, *body: n.Stmt
    ) -> n.ForLoop:
        return n.ForLoop(str(var), low, high, body, span=self._at(tree))

    def on_target(
        self, tree: Tree[Token], name: Token, subs: tuple[n.Sub, ...] | None = None
    ) -> n.Target:
        return n.Target(str(name), subs, span=self._at(tree), name_span=self._at_token(name))

    def on_subs(self, tree: Tree[Token], *subs: n.Sub) -> tuple[n.Sub, ...]:
        return subs

    def on_args(self, tree: Tree[Token], *args: n.Arg) -> tuple[n.Arg, ...]:
        keyword: n.Keyword | None = None
        for arg in args:
            if isinstance(arg, n.Keyword):
                keyword = arg
            elif keyword is not None:
                note = Note("arguments by name come last", keyword.span)
                message = f"an argument without a name after '{keyword.name}='"
                self.faults.append(Diagnostic("TC019", message, arg.span, "", (note,)))
        return args

    def on_keyword(self, tree: Tree[Token], name: Token, value: n.Expr) -> n.Keyword:
        return n.Keyword(str(name), value, span=self._at(tree))

    def on_keyword_type(self, tree: Tree[Token], name: Token, dtype: Token) -> n.Keyword:
        value = n.Name(str(dtype), span=self._at_token(dtype))
        return n.Keyword(str(name), value, span=self._at(tree))

    def on_range(self, tree: Tree[Token], name: Token, low: n.Expr, high: n.Expr) -> n.RangeClause:
        return n.RangeClause(str(name), low, high, span=self._at(tree))

    def on_let(self, tree: Tree[Token], name: Token, value: n.Expr) -> n.Let:
        return n.Let(str(name), value, span=self._at(tree))

    def on_exists(self, tree: Tree[Token], value: n.Expr) -> n.Exists:
        return n.Exists(value, span=self._at(tree))

    # ---- expressions

    def on_ternary(self, tree: Tree[Token], cond: n.Expr, then: n.Expr, other: n.Expr) -> n.Ternary:
        return n.Ternary(cond, then, other, span=self._at(tree))

    def _binary(self, tree: Tree[Token], lhs: n.Expr, op: Any, rhs: n.Expr) -> n.Binary:
        return n.Binary(str(op), lhs, rhs, span=self._at(tree), op_span=self._at_token(op))  # type: ignore[arg-type]

    on_disjunction = on_conjunction = on_comparison = on_sum = on_product = _binary
    on_either = on_differing = on_common = on_shift = _binary

    def on_unary(self, tree: Tree[Token], op: Any, operand: n.Expr) -> n.Expr:
        if id(tree.children[1]) in self._signed:
            return operand
        return n.Unary(str(op), operand, span=self._at(tree))  # type: ignore[arg-type]

    def on_float(self, tree: Tree[Token], token: Token) -> n.FloatLit:
        at = self._at(tree)
        return n.FloatLit(self._number(token, at), text=str(token), span=at)

    def _number(self, token: Token, at: Span) -> float:
        """Return the value of `NUMBER`; a fault if float64 does not hold it."""
        value = float(token)
        if math.isinf(value):
            message = f"the number {_short(token)} is outside the range of float64"
            note = Note("write inf for infinity")
            self.faults.append(Diagnostic("TC017", message, at, "", (note,)))
        return value

    def on_int(self, tree: Tree[Token], token: Token) -> n.IntLit:
        signed = self._signed.get(id(tree))
        at = self._at(signed or tree)
        sign = () if signed is None else ("-",)
        text = "".join((*sign, token)) if token[1:2] in ("x", "X") else ""
        return n.IntLit(self._integer((*sign, token), at), text=text, span=at)

    def on_group(self, tree: Tree[Token], inner: n.Expr) -> n.Expr:
        return replace(inner, is_grouped=True) if self.keeps_groups else inner

    def on_cast(self, tree: Tree[Token], dtype: Token, operand: n.Expr) -> n.Cast:
        return n.Cast(str(dtype), operand, span=self._at(tree))

    def on_minmax(self, tree: Tree[Token], op: Any, lhs: n.Expr, rhs: n.Expr) -> n.MinMax:
        return n.MinMax(str(op), lhs, rhs, span=self._at(tree))  # type: ignore[arg-type]

    def on_apply(self, tree: Tree[Token], name: Token, args: tuple[n.Arg, ...]) -> n.Apply:
        return n.Apply(str(name), args, span=self._at(tree), name_span=self._at_token(name))

    def on_extent(self, tree: Tree[Token], name: Token, _point: Token, *dim: Token) -> n.Extent:
        return n.Extent(str(name), self._integer(dim, self._at(tree)), span=self._at(tree))

    def on_name(self, tree: Tree[Token], name: Token) -> n.Name:
        return n.Name(str(name), span=self._at(tree))

    def on_dots(self, tree: Tree[Token]) -> n.Dots:
        return n.Dots(span=self._at(tree))

    def _integer(self, tokens: tuple[str, ...], at: Span) -> int:
        """Return the value of `INT` or `- INT`; a fault if int64 does not hold it."""
        hexadecimal = tokens[-1][:2] in ("0x", "0X")
        digits = (tokens[-1][2:] if hexadecimal else tokens[-1]).lstrip("0")
        # int() refuses more than 4300 digits; thirty are outside int64 and quick to convert.
        value = int(digits[:30] or "0", 16 if hexadecimal else 10)
        if tokens[0] == "-":
            value = -value
        if not -_INT64_MAX - 1 <= value <= _INT64_MAX:
            message = f"the integer {_short(''.join(tokens))} is outside int64"
            note = Note("int64 holds -9223372036854775808 to 9223372036854775807")
            self.faults.append(Diagnostic("TC013", message, at, "", (note,)))
        return value


def _short(text: str) -> str:
    """Return a number for a message, which shows no thousand digits."""
    return text if len(text) <= 40 else f"{text[:20]}... ({len(text)} characters)"
