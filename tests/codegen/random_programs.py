"""Random programs: chains of statements over a few tensors, with every kind of dependence."""

from __future__ import annotations

import numpy as np

from tests.codegen.programs import Entry

_SIZES = ({"N": 5, "M": 7}, {"N": 17, "M": 33}, {"N": 1, "M": 1})
_UNARY = ("exp(-abs({}))", "tanh({})", "({} * 0.5)", "sqrt(abs({}))", "({} + 1)", "fmax({}, 0.0)")
_BINARY = ("({} + {})", "({} - {})", "({} * {})", "max({}, {})", "({} > {} ? {} : 0.25)")
_WHERE = " where n in 0:N, m in 0:M"
_REDUCE = ("+=!", "max=!", "min=!")


class _Writer:
    """Statements in the making; tensors by shape: `nm`, `n`, `m` or none."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.shapes: dict[str, str] = {"A": "nm", "B": "nm", "c": "m", "d": "n"}
        self.stmts: list[str] = []

    def pick(self, options: tuple[str, ...] | list[str]) -> str:
        return options[int(self.rng.integers(len(options)))]

    def access(self, indices: str) -> str:
        """Return a read that needs no other indices than those given."""
        usable = [t for t, s in self.shapes.items() if set(s) <= set(indices)]
        name = self.pick(usable)
        subs = ",".join(self.shapes[name])
        return f"{name}({subs})" if subs else name

    def value(self, indices: str, depth: int = 2) -> str:
        if depth == 0 or self.rng.random() < 0.2:
            return self.access(indices)
        if self.rng.random() < 0.4:
            return self.pick(_UNARY).format(self.value(indices, depth - 1))
        shape = self.pick(_BINARY)
        parts = [self.value(indices, depth - 1) for _ in range(shape.count("{}"))]
        return shape.format(*parts)

    def statement(self, name: str) -> None:
        """Add a statement that writes a new tensor, or one that was written before."""
        rewrite = [t for t in self.shapes if t not in "ABcd"]
        if rewrite and self.rng.random() < 0.25:
            name = self.pick(rewrite)
            shape = self.shapes[name]
        else:
            shape = self.pick(("nm", "nm", "n", "m", ""))
        left = f"{name}({','.join(shape)})" if shape else name
        if shape == "nm":
            self.stmts.append(f"{left} = {self.value('nm')}{_WHERE}")
        else:
            # a reduction needs all its reduction indices on the right, and not its own target
            hidden = self.shapes.pop(name, None)
            anchor = self.pick(("A(n,m)", "B(n,m)"))
            op = self.pick(_REDUCE) if hidden is None or self.rng.random() < 0.5 else "+=!"
            self.stmts.append(f"{left} {op} ({anchor} + {self.value('nm', 1)}) * 0.25{_WHERE}")
        self.shapes[name] = shape

    def product(self, name: str) -> str:
        """Add a contraction and, mostly, a pointwise statement on its result."""
        left, right = (self.pick([t for t, s in self.shapes.items() if s == "nm"]) for _ in "ab")
        self.stmts.append(f"{name}(n,q) +=! {left}(n,m) * {right}(q,m)")
        if self.rng.random() < 0.8:
            last = self.pick(("d(n)", "d(q)", f"{name}(n,q)", "0.5"))
            self.stmts.append(f"{name}(n,q) = fmax({name}(n,q) * 0.5 + {last}, 0.0)")
        return name


def random_program(rng: np.random.Generator) -> Entry:
    """Return a program of 2 to 6 statements; every tensor it makes is an output or read."""
    w = _Writer(rng)
    count = int(rng.integers(2, 7))
    for k in range(count):
        w.statement(f"T{k}")
    products = [w.product(f"G{k}") for k in range(int(rng.integers(0, 2)))]
    made = [t for t in w.shapes if t.startswith("T")]
    total = " + ".join(f"{t}({','.join(w.shapes[t])})" if w.shapes[t] else t for t in made)
    w.stmts.append(f"R(n,m) = {total}{_WHERE}")
    keep = [t for t in made if rng.random() < 0.3]
    returns = ", ".join([*keep, *products, "R"])
    body = "\n  ".join(w.stmts)
    text = (
        f"def f(float(N,M) A, float(N,M) B, float(M) c, float(N) d) -> ({returns}) {{\n  {body}\n}}"
    )
    return Entry(text, _SIZES)
