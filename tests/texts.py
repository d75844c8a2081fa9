"""The definitions of examples/*.tc, with the sizes that stand above each; those of benchmarks."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np

import tcdsl as tc
from tcdsl.grammar.types.typed import CheckedDef
from tcdsl.kernel import Kernel
from tests.tcdsl.differential import Array, dtype_of, shape_of

EXAMPLES = Path(__file__).parent.parent / "examples"
BENCHMARKS = EXAMPLES.parent / "benchmarks"


class Example(NamedTuple):
    """A definition of a file; sizes are of its symbols."""

    path: Path
    name: str
    sizes: dict[str, int]

    def kernel(self) -> Kernel:
        """Return its kernel, at the rank that the sizes tell."""
        source = f"examples/{self.path.name}"
        made = tc.define(self.path.read_text(), self.name, tune="off", source=source)
        assert isinstance(made, Kernel)
        return made.with_rank(sum(bool(re.fullmatch(r"D\d", s)) for s in self.sizes))


def examples() -> list[Example]:
    """Return all of them."""
    found = []
    for path in sorted(EXAMPLES.glob("*.tc")):
        text = path.read_text()
        marked = re.findall(r"^# sizes: (.*)\ndef (\w+)", text, re.MULTILINE)
        assert [name for _, name in marked] == re.findall(r"^def (\w+)", text, re.MULTILINE)
        for sizes, name in marked:
            pairs = (item.split("=") for item in sizes.split())
            found.append(Example(path, name, {k: int(v) for k, v in pairs}))
    return found


def commands() -> list[tuple[str, str]]:
    """Return the command lines in the comments of the files, each with its file."""
    return [
        (path.name, line)
        for path in sorted(EXAMPLES.glob("*.tc"))
        for line in re.findall(r"^#   (tcdsl .*)$", path.read_text(), re.MULTILINE)
    ]


def arguments(checked: CheckedDef, sizes: dict[str, int], rng: np.random.Generator) -> list[Array]:
    """Return random arguments: normal floats, integers that are subscripts of the smallest size."""
    least = min(sizes.values())
    return [
        np.asarray(rng.normal(size=shape_of(t, sizes)), dtype_of(t))
        if t.dtype.is_float
        else np.asarray(rng.integers(0, least, shape_of(t, sizes)), dtype_of(t))
        for t in checked.params
    ]


def of_benchmark(name: str) -> dict[str, str]:
    """Return the texts that benchmarks/NAME.py has names for; read, since it may import torch."""
    found = {}
    for node in ast.parse((BENCHMARKS / f"{name}.py").read_text(encoding="utf-8")).body:
        match node:
            case ast.Assign(targets=[ast.Name(n)], value=ast.Constant(str(text))):
                found[n] = text
            case ast.ImportFrom(module="layers", names=names):
                shared = of_benchmark("layers")
                found |= {n.name: shared[n.name] for n in names if n.name in shared}
    return found
