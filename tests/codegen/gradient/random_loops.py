"""Random loop programs: rows written before, in and after loops, and read from anywhere."""

from __future__ import annotations

import numpy as np

SIZES = {"R": 6, "N": 3}

_UNARY = ("sin({})", "tanh({})", "({} * 0.5)", "({} + 0.25)", "cos({})")
_BINARY = ("({} + {})", "({} - {})", "sin({} * {})", "cos({} * {})", "max({}, {})")


class _Writer:
    """A program in the making.

    `h(R, N)` has a row for each turn and two more, `a(N)` is one row that turns overwrite;
    `X(R, N)`, `w(N)` and `U(N, N)` are parameters.
    """

    def __init__(self, rng: np.random.Generator, dtype: str) -> None:
        self.rng = rng
        self.dtype = dtype
        self.lines: list[str] = []
        self.made = 0
        self.depth = 1

    def pick(self, *options: str) -> str:
        return options[int(self.rng.integers(len(options)))]

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def add(self, line: str) -> None:
        self.lines.append("  " * self.depth + line)

    # ---- values

    def row(self, t: str, *, but: str = "") -> str:
        """Return a subscript of a row, apart from the one that is written."""
        options = ["0", "1", "R - 2", "R - 1"]
        if t:
            options += [t, f"{t} + 1", f"{t} + 2", f"{t} + 1", t]
        left = [o for o in options if not (but and _may_meet(o, but))]
        return self.pick(*left) if left else ""

    def atom(self, t: str, written: str) -> str:
        """Return something to read, apart from the elements that are written."""
        kind = self.pick("x", "x", "h", "h", "a", "w", "pad", "guard")
        if kind == "h":
            row = self.row(t, but=written)
            return f"h({row}, n)" if row else "w(n)"
        if kind == "a" and written != "a":
            return "a(n)"
        if kind == "pad":
            shift = self.pick("n - 1", "n + 1", "n - 2")
            return f"pad(X({self.row(t)}, {shift}), 0.5)"
        if kind == "guard" and t:
            return f"({t} > 1 ? X({t} - 2, n) : w(n))"
        return f"X({self.row(t)}, n)" if kind == "x" else "w(n)"

    def value(self, t: str, written: str, depth: int = 2) -> str:
        if depth == 0 or self.chance(0.2):
            return self.atom(t, written)
        if self.chance(0.4):
            return self.pick(*_UNARY).format(self.value(t, written, depth - 1))
        parts = [self.value(t, written, depth - 1) for _ in range(2)]
        return self.pick(*_BINARY).format(*parts)

    # ---- statements

    def statement(self, t: str) -> None:
        """Add one that writes a row of h, or a."""
        if self.chance(0.3):
            target, written, own = "a(n)", "a", "a(n)"
        else:
            written = (
                self.pick("0", "1", "R - 2") if not t else self.pick(t, f"{t} + 1", f"{t} + 2")
            )
            target = own = f"h({written}, n)"
        kind = self.pick("=", "own", "+=", "*=", "max=", "min=", "sum", "most")
        if kind in ("sum", "most"):
            self.reduction(t, target, written, "+=!" if kind == "sum" else "max=!")
            return
        value = self.value(t, written)
        if kind == "*=":  # what grows from turn to turn has no differences to compare with
            value = f"tanh({value})"
        if kind == "own":
            self.add(f"{target} = tanh({own} * {value} + 0.125) where n in 0:N")
            return
        self.add(f"{target} {kind} {value} where n in 0:N")

    def reduction(self, t: str, target: str, written: str, op: str) -> None:
        row = self.row(t, but=written)
        read = f"h({row}, m)" if row else "w(m)"
        self.add(f"{target} {op} {read} * U(m, n) * 0.3 where n in 0:N, m in 0:N")
        if self.chance(0.6):
            self.add(f"{target} += {self.value(t, written, 1)} where n in 0:N")

    def temporary(self, t: str) -> None:
        """Add a value of the turn, and a row that reads it."""
        name = f"c{self.made}"
        self.made += 1
        op = self.pick("=", "+=!")
        if op == "=":
            self.add(f"{name}(n) = {self.value(t, '')} where n in 0:N")
        else:
            self.add(f"{name}(n) +=! h({self.row(t)}, m) * U(m, n) * 0.3 where n in 0:N, m in 0:N")
        written = self.pick(t, f"{t} + 1")
        self.add(f"h({written}, n) = sin({name}(n)) + {self.atom(t, written)} where n in 0:N")

    def block(self, t: str, count: int) -> None:
        for _ in range(count):
            if t and self.chance(0.25):
                self.temporary(t)
            else:
                self.statement(t)

    def loop(self, var: str) -> None:
        low, high = self.pick("0", "1", "0"), "R - 2"
        self.add(f"for {var} in {low} : {high} {{")
        self.depth += 1
        self.block(var, int(self.rng.integers(1, 4)))
        if var == "t" and self.chance(0.35):
            bounds = self.pick("0:2", "0:t", "t : R - 2", "0 : R - 2")
            self.add(f"for s in {bounds} {{")
            self.depth += 1
            self.block(self.pick("s", "t"), int(self.rng.integers(1, 3)))
            self.depth -= 1
            self.add("}")
        self.depth -= 1
        self.add("}")


def _may_meet(row: str, written: str) -> bool:
    """Whether two rows may be one: a number of rows and a turn always may."""
    a, b = (next((v for v in "tsR" if r == v or r.startswith(f"{v} ")), "") for r in (row, written))
    return row == written or a != b


def random_loops(rng: np.random.Generator, dtype: str = "float") -> str:
    """Return the text of a program of float(R,N) X, float(N) w, float(N,N) U."""
    w = _Writer(rng, dtype)
    w.add("h(i, n) = 0.5 * X(i, n)")
    w.add("a(n) = w(n)")
    if w.chance(0.5):
        w.lines[0] = f"  h(i, n) = {dtype}(0.25) where i in 0:R, n in 0:N"
        w.add("h(0, n) = X(1, n)")
    w.block("", int(w.rng.integers(0, 3)))
    w.loop("t")
    w.block("", int(w.rng.integers(0, 3)))
    if w.chance(0.3):
        w.loop("t")
    w.add("y(n) = a(n)")
    w.add("y(n) += h(i, n)")
    returns = w.pick("y", "h, y", "a, y", "h, a")
    if "y" not in returns:
        w.lines = w.lines[:-2]
    body = "\n".join(w.lines)
    d = dtype
    return f"def f({d}(R,N) X, {d}(N) w, {d}(N,N) U) -> ({returns}) {{\n{body}\n}}"
