"""Nothing outside a tensor is touched: unchecked subscripts of random programs are inside."""

from __future__ import annotations

from itertools import product

from hypothesis import HealthCheck, assume, event
from hypothesis import strategies as st

from tcdsl.grammar.check.definition import check
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.errors import TCError
from tcdsl.grammar.text.parser import parse
from tcdsl.grammar.types import typed as t
from tcdsl.grammar.types.dtypes import FLOAT32, INT64
from tests.tiers import drawn

HEAD = "def f(float(N) A, float(M, N) B, int32(M) I, uint8(N) U, int32 a) -> (O)"
RANKS = {"A": 1, "B": 2, "U": 1, "I": 1}
EXTENTS = {"A": ("N",), "B": ("M", "N"), "U": ("N",), "I": ("M",), "a": ()}


class Machine:
    """Runs the integer part of a checked definition, element by element."""

    def __init__(self, sizes: dict[str, int], data: dict[str, list[int]]) -> None:
        self.sizes = sizes
        self.data = data
        self.point: dict[str, int] = {}
        self.reads = 0

    def run(self, statement: t.Statement) -> None:
        spans = [
            range(r.low.evaluate(self.sizes), r.high.evaluate(self.sizes)) for r in statement.ranges
        ]
        for values in product(*spans):
            self.point = {r.name: v for r, v in zip(statement.ranges, values, strict=True)}
            try:
                self.value(statement.value)
            except IndexError:  # a subscript that the kernel checks
                continue

    def value(self, e: t.Expr) -> int:
        match e:
            case t.Lit(value):
                return int(value)
            case t.IndexValue(name):
                return self.point[name]
            case t.SizeValue(size):
                return size.evaluate(self.sizes)
            case t.Read():
                return self.read(e)
            case t.Cast(operand):
                return self.value(operand)
            case t.Unary(op, operand):
                return -self.value(operand) if op == "-" else not self.value(operand)
            case t.Select(cond, then, other):
                return self.value(then if self.value(cond) else other)
            case t.Builtin("min" | "max" as name, args):
                return (min if name == "min" else max)(map(self.value, args))
            case t.Binary("&&", lhs, rhs):
                return self.value(lhs) and self.value(rhs)
            case t.Binary("||", lhs, rhs):
                return self.value(lhs) or self.value(rhs)
            case t.Binary(op, lhs, rhs):
                return self.operate(op, self.value(lhs), self.value(rhs))
            case _:
                raise AssertionError(e)

    def operate(self, op: str, a: int, b: int) -> int:
        match op:
            case "/":
                return a // b if b else 0
            case "%":
                return a % b if b else 0
            case "+":
                return a + b
            case "-":
                return a - b
            case "*":
                return a * b
            case _:
                table = {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b, "==": a == b}
                return table.get(op, a != b)

    def read(self, e: t.Read) -> int:
        self.reads += 1
        extents = [self.sizes[s] for s in EXTENTS[e.tensor]]
        subs = [self.value(s) for s in e.subs]
        for sub, extent, checked in zip(subs, extents, e.checked, strict=True):
            if not 0 <= sub < extent:
                if checked:
                    raise IndexError
                raise AssertionError(f"{e.tensor} at {subs} of {extents}, sizes {self.sizes}")
        if e.tensor == "a":
            return self.sizes["a"]
        return self.data[e.tensor][sum(subs) % 4] if e.tensor in self.data else 1


def _subscript(draw: st.DrawFn, depth: int = 0) -> str:
    leaf = st.sampled_from(["i", "j", "i", "j", "1", "2", "3", "N", "M", "a"])
    kind = draw(st.integers(0, 9 if depth < 3 else 3))
    if kind <= 3:
        return draw(leaf)
    if kind <= 6:
        op = draw(st.sampled_from("+-*"))
        return f"({_subscript(draw, depth + 1)} {op} {_subscript(draw, depth + 1)})"
    if kind == 7:
        return f"{draw(leaf)} {draw(st.sampled_from('/%'))} {draw(st.sampled_from('23NM'))}"
    if kind == 8:
        name = draw(st.sampled_from(["min", "max"]))
        return f"{name}({_subscript(draw, depth + 1)}, {_subscript(draw, depth + 1)})"
    return f"{draw(st.sampled_from('IU'))}({_subscript(draw, depth + 1)})"


def _read(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from("ABU"))
    return f"{name}({', '.join(_subscript(draw) for _ in range(RANKS[name]))})"


def _condition(draw: st.DrawFn) -> str:
    op = draw(st.sampled_from(["<", "<=", ">", ">=", "==", "!="]))
    one = f"{_subscript(draw)} {op} {_subscript(draw)}"
    if draw(st.booleans()):
        return one
    return f"({one}) {draw(st.sampled_from(['&&', '||']))} !({_condition(draw)})"


def _body(draw: st.DrawFn) -> str:
    value = _read(draw)
    for _ in range(draw(st.integers(0, 2))):
        if draw(st.booleans()):
            value = f"({_condition(draw)} ? {_read(draw)} : {value})"
        else:
            value = f"{value} + {_read(draw)}"
    clauses = [
        f"{i} in {draw(st.sampled_from(['0', '1', 'a', '-1']))}:{draw(st.sampled_from(ENDS))}"
        for i in "ij"
        if draw(st.booleans())
    ]
    return f"O(i) +=! {value} + j - j" + (" where " + ", ".join(clauses) if clauses else "")


ENDS = ["N", "M", "N*M", "N+1", "4", "a", "min(N, M)"]
bodies = st.composite(_body)()
data = st.lists(st.integers(-3, 6), min_size=4, max_size=4)


@drawn(
    10,
    200,
    bodies,
    data,
    data.map(lambda x: [abs(v) for v in x]),
    suppress=[HealthCheck.filter_too_much],
)
def test_unchecked_subscripts_are_inside(body: str, ints: list[int], bytes_: list[int]) -> None:
    try:
        definition = check(parse(f"{HEAD} {{ {body} }}"))
    except TCError:
        assume(False)
        raise
    (statement,) = definition.body
    assert isinstance(statement, t.Statement)
    reads = 0
    for n, m, a in product((0, 1, 2, 4), (0, 1, 3), (-2, 0, 2)):
        sizes = {"N": n, "M": m, "a": a}
        if all(_holds(c, sizes) for c in definition.constraints):
            machine = Machine(sizes, {"I": ints, "U": bytes_})
            machine.run(statement)
            reads += machine.reads
    event("read something" if reads else "read nothing")


def _holds(constraint: t.Constraint, sizes: dict[str, int]) -> bool:
    value = constraint.size.evaluate(sizes)
    return value >= 0 if constraint.relation == ">=0" else value == 0


def test_the_machine_of_these_tests_finds_a_read_outside() -> None:
    read = t.Read("A", (t.SizeValue(Size.symbol("N"), INT64),), FLOAT32, (False,))
    statement = t.Statement("O", (), "=", read, ())
    try:
        Machine({"N": 3}, {}).run(statement)
    except AssertionError:
        return
    raise RuntimeError("it does not")
