"""A condition proves a read only where its own arithmetic does not wrap: reference, C and CUDA."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.gradient.vjp import gradient
from tcdsl.codegen.library.load import load
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.reference.evaluator import evaluate
from tcdsl.codegen.toolchain.host import detect
from tcdsl.codegen.toolchain.objects import compile_source
from tcdsl.codegen.toolchain.source import Source
from tcdsl.grammar.text.errors import BoundsError, TCError
from tests.codegen.harness import Array, Problem, assert_same, call, problem, spec_of
from tests.codegen.pages import between_pages
from tests.cusim.harness import differential

A = "float(N) A"
N39 = np.arange(1, 40, dtype=np.float32)
WILD: dict[str, tuple[str, tuple[Any, ...]]] = {
    "a factor": (f"def f({A}) -> (O) {{ O(i) = i*3000000 < N ? A(i*3000000) : -1.0 RANGE }}", ()),
    "a scalar": (
        f"def f({A}, int32 s) -> (O) {{ O(i) = i*s < N && i*s > -9 ? A(i*s) : -1.0 RANGE }}",
        (np.int32(2**30),),
    ),
    "a square": (f"def f({A}) -> (O) {{ O(i) = i*i < N ? A(i*i) : -1.0 where i in 0:50000 }}", ()),
    "an offset": (
        f"def f({A}) -> (O) {{ O(i) = i+2147483000 < N ? A(i+2147483000) : -1.0 RANGE }}",
        (),
    ),
    "a let": (
        f"def f({A}) -> (O) {{ O(i) = c ? A(j) : -1.0 RANGE, j = i*3000000, c = j < N }}",
        (),
    ),
    "a generic": (
        f"def f<S=3000000>({A}) -> (O) {{ O(i) = i*S < N ? A(i*S) : -1.0 RANGE }}",
        (),
    ),
    "a loop": (
        f"def f({A}) -> (O) {{ for t in 0:999 {{ O(t) = t*3000000 < N ? A(t*3000000) : -1.0 }} }}",
        (),
    ),
    "a negation": (
        f"def f({A}) -> (O) {{ O(i) = !(i*3000000 >= N) ? A(i*3000000) : -1.0 RANGE }}",
        (),
    ),
    "the other branch": (
        f"def f({A}) -> (O) {{ O(i) = i*3000000 >= N ? -1.0 : A(i*3000000) RANGE }}",
        (),
    ),
    "and": (
        f"def f({A}) -> (O) {{ O(i) = i*3000000 < N && A(i*3000000) > 0 ? 1 : 0 RANGE }}",
        (),
    ),
    "or": (
        f"def f({A}) -> (O) {{ O(i) = i*3000000 >= N || A(i*3000000) > 0 ? 1 : 0 RANGE }}",
        (),
    ),
    "a quotient": (
        f"def f({A}) -> (O) {{ O(i) = i*3000000/2 < N ? A(i*1500000) : -1.0 RANGE }}",
        (),
    ),
    "int64": (
        f"""def f({A}) -> (O) {{ O(i) = int64(i)*2147483648*i < N ? A(int64(i)*2147483648*i) : -1.0
            where i in 65530:65540 }}""",
        (),
    ),
    "int64 data": (
        f"def f({A}, int64(M) L) -> (O) {{ O(i) = L(i)*2 < N && L(i) >= 0 ? A(L(i)) : -1.0 }}",
        (np.array([1, 2**62, 3]),),
    ),
    "int32 data": (
        f"def f({A}, int32(M) L) -> (O) {{ O(i) = L(i)*2 < N && L(i) >= 0 ? A(L(i)) : -1.0 }}",
        (np.array([1, 2**30, 3], np.int32),),
    ),
    "negated data": (
        f"def f({A}, int64(M) L) -> (O) {{ O(i) = -L(i) < N && L(i) <= 0 ? A(-L(i)) : -1.0 }}",
        (np.array([-1, -(2**63), -3]),),
    ),
    "uint32": (
        f"def f({A}, uint32(M) L) -> (O) {{ O(i) = L(i)+u < N ? A(L(i)) : -1.0, "
        "u = uint32(4294967295) }",
        (np.array([1, 3, 39], np.uint32),),
    ),
    "a cast of a subscript": (
        f"def f({A}) -> (O) {{ O(i) = i*3000000 < N ? A(int32(i*3000000)) : -1.0 RANGE }}",
        (),
    ),
}  # fmt: skip
WILD["uint32"] = (WILD["uint32"][0].replace(", u =", " where u ="), WILD["uint32"][1])
# conditions that wrap beside others that prove the read, so that all of it has an answer
TAME = {
    "a border": f"def f({A}) -> (O) {{ O(i) = pad(A(i*2147483648), 0) "
    "where i in 4294967295:4294967300 }",
    "beside a proof": f"""def f({A}) -> (O) {{
        O(i) = i + 2147483640 < N + 2147483000 && i < N ? A(i) : 0 where i in 0:50 }}""",
    "a clamp": f"""def f({A}) -> (O) {{
        O(i) = i*3000000 < N ? A(clamp(i*3000000, 0, N-1)) : 0 RANGE }}""",
    "a padded sum": f"""def f({A}, float(K) W) -> (O) {{
        O(i) +=! (i + k + 2147483640 < N + 2147483640 && i + k < N ? A(i + k) : 0) * W(k)
            where i in 0:N }}""",
    "a choice": f"""def f({A}) -> (O) {{
        O(i) = max(i*3000000, 0) < N && i < N ? A(i) : 0 RANGE }}""",
    "a remainder": f"def f({A}) -> (O) {{ O(i) = i*3000000 % N < N ? A(i*3000000 % N) : 0 RANGE }}",
}

# reads that are the same along a loop, behind conditions that do not hold
STILL = {
    "a size": f"def f({A}) -> (O) {{ O(i) = i > 3 && N > 500 ? A(500) : 0.5 RANGE }}",
    "a part": f"def f({A}) -> (O) {{ O(i) = i > 3 || (N > 500 && A(500) > 0) ? 0.5 : 1.5 RANGE }}",
    "a row": f"""def f({A}) -> (O) {{
        m max=! A(i)  O(i) = i > 3 && N > 500 ? A(500) - m : A(i) - m }}""",
    "a sum": f"def f({A}) -> (O) {{ O +=! i > 3 && N > 500 ? A(500) : A(i) }}",
    "columns": f"""def f({A}) -> (O) {{
        B(i, j) = A(j) where i in 0:9  O(j) +=! i > 3 && N > 500 ? A(500) : B(i, j) }}""",
    "behind a product": f"""def f({A}) -> (O) {{
        B(i, j) = A(i) where j in 0:16  C(i, k) +=! B(i, j) * B(k, j)
        O(i, k) = N > 500 ? C(i, k) + A(500) : C(i, k) }}""",
    "behind a product, along it": f"""def f({A}) -> (O) {{
        B(i, j) = A(i) where j in 0:16  C(i, k) +=! B(i, j) * B(k, j)
        O(i, k) = N > 500 && i < 0 ? C(i, k) + A(k + 500) : C(i, k) where k in 0:20 }}""",
    "a factor of a product": f"""def f({A}) -> (O) {{
        B(i, j) = A(i) where j in 0:16
        C(i, k) +=! B(i, j) * (N > 500 ? A(k + 500) : 0) where k in 0:20 O(i, k) = C(i, k)}}""",
}


def case(text: str, *args: Any) -> Problem:
    more = (np.arange(1, 4, dtype=np.float32),) if "float(K) W" in text else ()
    return problem(text.replace("RANGE", "where i in 0:999"), N39, *more, *args)


def wanted(p: Problem) -> tuple[Array, ...] | None:
    """Return what the reference gives; None where a subscript is outside its tensor."""
    try:
        return evaluate(p.checked, p.args)
    except BoundsError:
        return None


def hold_in_c(problems: Sequence[Problem]) -> None:
    """Hold compiled C against the reference: the same answer, or a fault where it has one."""
    texts, names = [], []
    for i, p in enumerate(problems):
        for exact in (True, False):
            name = f"k{i}_{exact:d}"
            unit = compiler.lower(
                p.program, spec_of(p, exact=exact), Config(), detect(), p.sizes, name
            )
            texts.append(compiler.emit_c(unit))
            names.append((name, p))
    path = compile_source(Source("wrapping", "\n".join(texts)), None)
    rng = np.random.default_rng(0)
    for name, p in names:
        want = wanted(p)
        for place in ("after", "before"):
            with between_pages(p, place) as q:
                try:
                    got = call(load(path, name).address, q, 1, rng)
                except BoundsError:
                    assert want is None, p.checked.text
                else:
                    assert want is not None, f"read outside:\n{p.checked.text}"
                    assert_same(got, want)


WITNESSES = ("a factor", "int64 data", "a padded sum", "a size", "behind a product")


@pytest.mark.cc
@pytest.mark.parametrize("names", [WITNESSES, pytest.param(None, marks=pytest.mark.wide)])
def test_what_wraps_proves_nothing_in_c(names: tuple[str, ...] | None) -> None:
    wild = [case(text, *args) for k, (text, args) in WILD.items() if names is None or k in names]
    assert all(wanted(p) is None for p in wild)
    tame = [case(text) for k, text in (TAME | STILL).items() if names is None or k in names]
    assert all(wanted(p) is not None for p in tame)
    hold_in_c([*wild, *tame])


@pytest.mark.cusim
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name == "a factor" else pytest.mark.wide)
        for name in (*WILD, *TAME, *STILL)
    ],
)
def test_what_wraps_proves_nothing_in_cuda(name: str) -> None:
    text, args = WILD[name] if name in WILD else ((TAME | STILL)[name], ())
    differential(case(text, *args), orders=("forward",), exact=(False,))


def test_a_condition_that_wraps_is_no_border_of_a_gradient() -> None:
    f = case(TAME["beside a proof"].replace("where i in 0:50", "where i in 0:39")).checked
    made = gradient(f)
    back = problem(made.text, N39, np.ones(39, np.float32))
    (got,) = evaluate(back.checked, back.args[: len(back.checked.params)])
    assert_same([got], [(np.arange(39) >= 8).astype(np.float32)])


class Guarded:
    """Random reads behind random conditions, of numbers near the ends of their types."""

    NUMBERS = (
        "0", "1", "2", "3", "7", "-1", "38", "46341", "65536", "3000000", "1073741824",
        "2147483000", "2147483647", "-2147483648", "4294967296", "4611686018427387904",
    )  # fmt: skip

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def pick(self, *choices: str) -> str:
        return str(self.rng.choice(choices))

    def number(self, depth: int) -> str:
        """Return an integer expression of i, data, a scalar and constants."""
        if depth == 0 or self.rng.random() < 0.15:
            leaf = self.pick("i", "i", "i", "i", "N", "s", "L(i % 3)", "W(i % 3)", "U(i % 3)", "c")
            return self.pick(*self.NUMBERS) if leaf == "c" else leaf
        if self.rng.random() < 0.5:  # most likely to be taken for less than it is
            large = self.pick("3000000", "1073741824", "2147483000", "2147483648", "i", "s")
            return f"(i {self.pick('*', '*', '+')} {large})"
        a, b = self.number(depth - 1), self.number(depth - 1)
        match self.pick("+", "+", "-", "*", "*", "/", "%", "min", "max", "neg", "cast", "choice"):
            case "min" | "max" as name:
                return f"{name}({a}, {b})"
            case "neg":
                return f"-({a})"
            case "cast":
                return f"{self.pick('int64', 'int32', 'uint8', 'uint32')}({a})"
            case "choice":
                return f"(i < 5 ? {a} : {b})"
            case op:
                return f"({a} {op} {self.pick(b, self.pick(*self.NUMBERS))})"

    def condition(self, read: str) -> str:
        sides = [f"{read} < N", f"N > {read}", f"{read} <= N - 1", f"!({read} >= N)"]
        lows = [f"{read} >= 0", f"{read} > -1", f"0 <= {read}", f"!({read} < 0)"]
        parts = [self.pick(*sides)]
        if self.rng.random() < 0.4:
            parts.append(self.pick(*lows))
        if self.rng.random() < 0.4:
            op = self.pick("<", ">=", "==")
            parts.append(f"{self.number(2)} {op} {self.number(1)}")
        return self.pick(" && ", " && ", " && ", " || ").join(parts)

    def text(self) -> str:
        e = self.number(int(self.rng.integers(1, 4)))
        read = f"A({self.pick(e, e, 'e', f'int64({e})', f'{e} + 1')})"
        cond = self.condition(self.pick(e, "e", f"{e} + {self.pick(*self.NUMBERS)}"))
        if self.rng.random() < 0.2:
            read = f"pad({read}, 0)"
        low, high = self.pick("0:40", "-7:40", "700:760", "2147483:2147500", "46330:46350").split(
            ":"
        )
        body = self.pick(f"{cond} ? {read} : 0.5", f"!({cond}) ? 0.5 : {read}")
        if self.rng.random() < 0.2:
            body = f"{cond} && {read} > 0 ? 1.5 : 0.5"
        where = f"where i in {low}:{high}, e = {e}"
        return (
            f"def f(float(N) A, int64(M) L, int32(M) W, uint8(M) U, int32 s) -> (O) "
            f"{{ O(i) = {body} {where} }}"
        )

    def problems(self, number: int) -> list[Problem]:
        """Return so many that are legal texts and legal calls."""
        found: list[Problem] = []
        while len(found) < number:
            data = (
                self.rng.choice([0, 1, 38, 39, -1, 2**62, -(2**63), 2**31], 3),
                self.rng.choice([0, 1, 38, 39, -1, 2**30, -(2**31), 2**31 - 1], 3).astype(np.int32),
                self.rng.choice([0, 1, 38, 39, 255], 3).astype(np.uint8),
                np.int32(self.rng.choice([0, 1, 2, -3, 2**30, 2**31 - 1, -(2**31)])),
            )
            try:
                p = problem(self.text(), N39, *data)
                p.sizes  # noqa: B018  # a call that is refused reads nothing
            except TCError:
                continue
            found.append(p)
        return found


@pytest.mark.cc
@pytest.mark.wide
@pytest.mark.parametrize("seed", [1, 2])
def test_random_guards_never_let_a_read_out_in_c(seed: int) -> None:
    problems = Guarded(np.random.default_rng(seed)).problems(40)
    assert {wanted(p) is None for p in problems} == {True, False}
    hold_in_c(problems)


@pytest.mark.cusim
@pytest.mark.wide
def test_random_guards_never_let_a_read_out_in_cuda() -> None:
    for p in Guarded(np.random.default_rng(3)).problems(6):
        differential(p, orders=("forward",), exact=(False,))
