"""Random programs of what rewrites look for: quotients by sums, extremes, products of three.

Each statement is one that a rewrite takes, or nearly one: a sum over other rows, an input in place
of a temporary, a tensor that is written over, a sum that is read once more.
"""

from __future__ import annotations

import numpy as np

from tests.codegen.gradient.writer import Writer

PARAMS = "(N,M) A, (N,M) B, (M) c, (N) d, (M,M) U, (M,M) V, k"
_ROWS, _COLUMNS = ("0:N", "0:N", "0:N", "0:2"), ("0:M", "0:M", "0:M-1", "1:M")  # of what is reduced


class _Writer(Writer):
    late, again = (3, 0.7), 0.15

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__(rng)
        self.parts: dict[str, str] = {}  # the range of what is written in part

    def at(self, name: str, but: str = "") -> str:
        """Return a read; now and then of another element."""
        subs = {
            "nm": ("n, m",) * 12 + ("n, M - 1 - m", "N - 1 - n, m", "0, m", "n, 0"),
            "n": ("n",) * 8 + ("0", "N - 1 - n"),
            "m": ("m",) * 8 + ("0", "M - 1 - m"),
            "": ("",),
        }[self.shapes[name]]
        where = self.pick(subs)
        return f"{name}({where})" if where else name

    def atom(self, shape: str = "nm", but: str = "") -> str:
        options = ["nm", "nm", "n", "m", ""] if shape == "nm" else [shape, shape, ""]
        return self.at(self.of(self.pick(options), but), but)

    def add(self, name: str, shape: str, op: str, value: str, *, part: bool = False) -> None:
        """Add a statement, over a part of what is reduced now and then."""
        left = f"{name}({', '.join(shape)})" if shape else name
        rows = "0:N" if "n" in shape or not part else self.pick(_ROWS)
        columns = "0:M" if "m" in shape or not part else self.pick(_COLUMNS)
        where = f" where n in {rows}, m in {columns}"
        if op == "=" and shape != "nm":
            where = {"n": " where n in 0:N", "m": " where m in 0:M", "": ""}[shape]
        self.lines.append(f"{left} {op} {value}{where}")
        self.shapes.pop(name, None)
        self.shapes[name] = shape

    def positive(self, e: str) -> str:
        return self.pick(
            ("exp({})", "({0} * {0} + 0.5)", "softplus({})", "(abs({}) + 0.25)")
        ).format(e)

    # ---- statements

    def softmax(self) -> None:
        """Add what a softmax does: some of it, or all, by some rows."""
        x = self.of("nm")
        row = self.pick(("n", "n", "n", "m", ""))
        shift = "0.0"
        if self.chance(0.7):
            shift = self.new(row)
            self.add(shift, row, self.pick(("max=!", "max=!", "min=!")), f"{x}(n, m)", part=True)
            shift = f"{shift}({row})" if row else shift
        scale = self.pick(("", "", "0.5 * ", "-1.0 * ", "k * "))
        e = f"exp({scale}({x}(n, m) - {shift}))"
        e = self.pick((e, e, e, f"m <= n ? {e} : 0.0", f"{e} * 2.0", f"{e} + 1", f"{e} * B(n, m)"))
        above = self.new("nm")
        self.add(above, "nm", "=", e)
        by = self.pick((row, row, row, "n", "m", ""))
        s = self.new(by)
        term = self.pick(
            (
                f"{above}(n, m)",
                f"{above}(n, m)",
                f"{above}(n, m) * {above}(n, m)",
                f"abs({above}(n, m)) + 1",
            )
        )
        self.add(s, by, "+=!", term, part=True)
        at = f"{s}({by})" if by else s
        kind = self.pick(("quotient", "quotient", "quotient", "log", "twice", "other"))
        target = self.new("nm")
        if target in (above, x):
            kind = "other"
        if kind == "log":
            self.add(target, "nm", "=", f"{x}(n, m) - {shift} - log(abs({at}) + 0.125)")
        elif kind == "twice":
            self.add(target, "nm", "=", f"{above}(n, m) / {at}")
            self.add(
                self.new(by), by, "=", f"{at} * {self.pick((at, 'k', '2.0'))}" if by != "nm" else at
            )
        elif kind == "other":
            self.add(target, "nm", "=", f"{self.atom()} / {at}")
        else:
            self.add(target, "nm", "=", f"{above}(n, m) / {at}")
        if self.chance(0.3):
            self.add(target, "nm", "=", f"{target}(n, m) * {self.atom('nm', target)}")

    def pointwise(self) -> None:
        shape = self.pick(("nm", "nm", "nm", "n", "m", ""))
        name = self.new(shape)
        a, b = self.atom(shape, name), self.atom(shape, name)
        value = self.pick((
            "{0} * {0}", "{0} * {1}", "{0} / " + self.positive("{1}"), "{0} + {1}", "{0} - {1}",
            "max({0}, {1})", "fmax({0}, 0.0)", "tanh({0})", "{0} * sigmoid({0})", "{0}", "-{0}",
            "{0} / 4.0 + {1} * 0.5", "{0} > {1} ? {0} * {1} : 0.25", "rsqrt({0} * {0} + 1.0)",
        )).format(a, b)  # fmt: skip
        self.add(name, shape, "=", value)

    def reduction(self) -> None:
        shape = self.pick(("n", "n", "m", ""))
        name = self.new(shape)
        a, b = self.at(self.of("nm", name)), self.atom("nm", name)
        anchor = self.pick(("A(n, m)", "B(n, m)"))
        value = self.pick((
            "{0} * {1}", "{0}", "{0} - {1}", "({0} - {1}) * ({0} - {1})", "-({0} * {1})",
            "{0} / " + self.positive("{1}"), "m <= n ? {0} * {1} : 0.0", "{0} * {1} * {2}",
            "{0} / float(M)", "n > 0 ? {0} : {1}",
        )).format(a, b, anchor)  # fmt: skip
        op = self.pick(("+=!", "+=!", "+=!", "max=!", "min=!"))
        self.add(name, shape, op, value, part=True)

    def product(self) -> None:
        """Add a product with a matrix: of two or three, scaled, masked, triangular."""
        name = self.new("nm")
        a = self.of("nm", name)
        scale = self.pick(("", "", "-", "0.5 * ", "d(n) * ", "k * ", f"{self.of('n', name)}(n) * "))
        kind = self.pick(("two", "three", "guard", "ragged", "shift", "over"))
        where = ""
        if kind == "two":
            value = f"{scale}{a}(n, j) * U(j, m)"
        elif kind == "three":
            value = f"{scale}{a}(n, j) * U(j, i) * V(i, m)"
        elif kind == "guard":
            value = f"m <= n ? {scale}{a}(n, j) * U(j, m) : 0.0"
        elif kind == "ragged":
            value, where = f"{scale}{a}(n, j)", " where n in 0:N, m in 0:M, j in 0:m+1"
        elif kind == "shift":
            value, where = (
                f"{scale}pad({a}(n, m + j - 1), 0) * U(j, 0)",
                " where n in 0:N, m in 0:M, j in 0:3",
            )
        else:
            value = f"{scale}{a}(n, j) * U(j, m) / {self.positive(self.at('d'))}"
            value = value.replace("d(0)", "d(n)").replace("d(N - 1 - n)", "d(n)")
        self.shapes.pop(name, None)
        self.lines.append(f"{name}(n, m) +=! {value}{where}")
        self.shapes[name] = "nm"
        if kind in ("two", "three") and self.chance(0.3):
            other = self.new("nm")
            part = " where n in 0:N, m in 0:M, j in 0:M-1"
            value = value if self.chance(0.5) else value.replace("V(", "U(")
            if kind == "three":
                part += ", i in 0:M"
            if other not in value:
                self.lines.append(f"{other}(n, m) +=! {value}{part}")
                self.shapes.pop(other, None)
                self.shapes[other] = "nm"


def random_rows(rng: np.random.Generator, dtype: str = "float") -> str:
    """Return the text of a program of 2 to 6 steps, of `PARAMS`."""
    w = _Writer(rng)
    steps = (w.softmax, w.softmax, w.pointwise, w.pointwise, w.reduction, w.product)
    for _ in range(int(rng.integers(1, 5))):
        steps[int(rng.integers(len(steps)))]()
    made = [t for t in w.shapes if t.startswith("t")]
    total = [f"{t}({', '.join(w.shapes[t])})" if w.shapes[t] else t for t in made]
    w.lines.append(f"R(n, m) = {' + '.join(total)} where n in 0:N, m in 0:M")
    returns = [t for t in made if w.chance(0.25)]
    body = "\n  ".join(w.lines)
    params = ", ".join(
        f"{dtype}{p}" if p.startswith("(") else f"{dtype} {p}" for p in PARAMS.split(", ")
    )
    text = f"def f({params}) -> ({', '.join([*returns, 'R'])}) {{\n  {body}\n}}"
    return text.replace("float(M)", f"{dtype}(M)")
