"""Random programs of signs and copies: differences, negatives, squares, results of results.

What `signs.py` turns and `results.py` renames, and what only looks like it: sums of negative terms
that are read twice, under guards and in triangles, in other places; results that are copies of
inputs, of each other and of what is written over.
"""

from __future__ import annotations

import re

import numpy as np

from tests.codegen.gradient.writer import Writer

PARAMS = "float(N,M) A, float(N,M) B, float(M) c, float(N) d, float(M,M) U, float k"
_SUBS = {"nm": "(n, m)", "n": "(n)", "m": "(m)", "": ""}
_BOXES = {"nm": "n in 0:N, m in 0:M", "n": "n in 0:N", "m": "m in 0:M", "": ""}


class _Writer(Writer):
    late, again = (2, 0.6), 0.2

    def atom(self, shape: str, but: str = "") -> str:
        """Return a read that broadcasts to a shape."""
        its = self.pick({"nm": ("nm", "nm", "nm", "n", "m", "")}.get(shape, (shape, shape, "")))
        name = self.of(its, but)
        if its == "nm" and self.chance(0.1):
            return name + self.pick(("(n, M - 1 - m)", "(N - 1 - n, m)", "(n, 0)"))
        if its == "n" and self.chance(0.1):
            return f"{name}(N - 1 - n)"
        return name + _SUBS[its]

    def term(self, shape: str, but: str = "") -> str:
        """Return what has a sign or a difference in it."""
        a, b, x = (self.atom(shape, but) for _ in range(3))
        return self.pick((
            "-{0}", "{0} - {1}", "{0} - {1}", "({0} - {1}) * ({0} - {1})", "-({0} * {1})",
            "({0} - {1}) * {2}", "{2} * ({0} - {1})", "-{0} * ({1} - {2})", "{0} * {0}",
            "{0} * {1} - {2} * {1}", "-(-{0} - {1})", "({0} - {1}) / ({2} * {2} + 0.5)",
            "-{0} / (abs({1}) + 0.25)", "{0} + -{1}", "{0}", "sin({0} - {1})", "exp(-{0} * {0})",
            "0.5 - {0}", "({0} - {1}) * ({1} - {2})", "abs({0} - {1})", "max({0}, -{1})",
            "{0} - sin({0})", "2.0 * {0} - {0} * {1}", "-cos({0}) * {0}",
        )).format(a, b, x)  # fmt: skip

    def where(self, shape: str, more: str = "") -> str:
        parts = [x for x in (_BOXES[shape], more) if x]
        return f" where {', '.join(parts)}" if parts else ""

    def add(self, name: str, shape: str, op: str, value: str, where: str | None = None) -> None:
        tail = self.where(shape) if where is None else where
        self.lines.append(f"{name}{_SUBS[shape]} {op} {value}{tail}")
        self.shapes.pop(name, None)
        self.shapes[name] = shape

    # ---- statements

    def pointwise(self) -> None:
        shape = self.pick(("nm", "nm", "n", "m", ""))
        name = self.new(shape)
        value = self.term(shape, name)
        guard = {"nm": ("m <= n", "n > 0", "m == 0 || n > 1"), "n": ("n > 0",), "m": ("m < M - 1",)}
        if shape and self.chance(0.25):
            other = self.pick(("0.0", self.atom(shape, name), f"-{self.atom(shape, name)}"))
            value = f"{self.pick(guard[shape])} ? {value} : {other}"
        is_old = name in self.shapes
        if is_old and self.chance(0.6):
            own = name + _SUBS[shape]
            kind = self.pick(("+=", "own", "less", "part"))
            if kind == "+=":
                return self.add(name, shape, "+=", value)
            if kind == "part" and shape == "nm":
                return self.add(name, shape, "+=", value, " where n in 0:N, m in 0:M/2")
            value = f"{own} * ({value})" if kind == "own" else f"({value}) - {own}"
        self.add(name, shape, "=", value)
        return None

    def copy(self) -> None:
        shape = self.pick(("nm", "nm", "n", "m", ""))
        source = self.of(shape)
        name = self.another()
        self.add(name, shape, "=", self.pick(("", "", "-")) + source + _SUBS[shape])

    def sum(self) -> None:
        shape = self.pick(("n", "n", "m", ""))
        name = self.new(shape)
        op = "+=" if name in self.shapes and self.chance(0.4) else "+=!"
        value = self.term("nm", name)
        if self.chance(0.2):
            value = f"{self.pick(('m <= n', 'm > 0'))} ? {value} : 0.0"
        rest = {"n": "m in 0:M", "m": "n in 0:N", "": "n in 0:N, m in 0:M"}[shape]
        if self.chance(0.15):
            rest = rest.replace("m in 0:M", "m in 1:M").replace("n in 0:N", "n in 0:(N + 1)/2")
        self.add(name, shape, op, value, self.where(shape, rest))

    def product(self) -> None:
        name = self.new("nm")
        a, b = self.of("nm", name), self.of("nm", name)
        kind = self.pick(("matrix", "distance", "triangle", "twice", "halo"))
        x, tail = f"{a}(n, j)", "j in 0:M"
        if kind == "matrix":
            value = self.pick((f"-{x} * U(j, m)", f"({x} - {b}(n, m)) * U(j, m)"))
        elif kind == "distance":
            value = f"({x} - U(m, j)) * ({x} - U(m, j))"
        elif kind == "triangle":
            value, tail = self.pick((f"-{x}", f"{x} - {b}(n, m)")), "j in 0:m + 1"
        elif kind == "twice":
            value = f"{x} * {x} * U(m, j) - {x}"
        else:
            value, tail = f"U(0, 0) * -pad({a}(n, m + j - 1), 0) - U(0, 0) * d(n)", "j in 0:2"
        self.add(name, "nm", "+=!", value, self.where("nm", tail))

    def extreme(self) -> None:
        name = self.new("n")
        self.add(name, "n", self.pick(("max=!", "min=!")), self.term("nm", name),
                 self.where("n", "m in 0:M"))  # fmt: skip


def random_signs(rng: np.random.Generator) -> str:
    """Return the text of a program of 2 to 7 steps, of `PARAMS`."""
    w = _Writer(rng)
    steps = (w.pointwise, w.pointwise, w.pointwise, w.copy, w.sum, w.sum, w.product)
    for _ in range(int(rng.integers(2, 7))):
        (w.extreme if w.chance(0.05) else steps[int(rng.integers(len(steps)))])()
    made = [t for t in w.shapes if t.startswith("t")]
    returns = [t for t in made if w.chance(0.3)]
    if w.chance(0.6) or not returns:
        total = [f"{w.pick(('', '-'))}{t}{_SUBS[w.shapes[t]]}" for t in made if w.chance(0.8)]
        w.add("R", "nm", "=", " + ".join(total or ["k"]))
        returns.append("R")
    if w.chance(0.2):
        w.add("S", "", "+=!", w.term("nm"), " where n in 0:N, m in 0:M")
        returns.append("S")
    w.rng.shuffle(returns)
    for t in made:  # what nothing else reads is returned too
        others = [x for x in w.lines if not re.match(rf"{t}\b", x)]
        if t not in returns and not any(re.search(rf"\b{t}\b", x) for x in others):
            returns.append(t)
    names = {"nm": "(N,M)", "n": "(N)", "m": "(M)", "": ""}
    heads = [f"float{names[w.shapes[t]]} {t}" for t in returns]
    lines = "\n  ".join(w.lines)
    return f"def f({PARAMS}) -> ({', '.join(heads)}) {{\n  {lines}\n}}"
