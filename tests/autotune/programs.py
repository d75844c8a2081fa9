"""Definitions for the tests of the tuner."""

from __future__ import annotations

from collections.abc import Mapping

from tcdsl.autotune.targets.cpu.problem import CpuProblem
from tcdsl.codegen.machine.spec import Layout, Spec
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.parser import parse
from tcdsl.grammar.types.typed import CheckedDef

FCRELU = """
def fcrelu(float(B,M) I, float(N,M) W1, float(N) B1) -> (O1) {
  O1(b, n) +=! I(b, m) * W1(n, m)
  O1(b, n) = O1(b, n) + B1(n)
  O1(b, n) = fmax(O1(b, n), 0)
}"""
SOFTMAX = """
def softmax(float(N,D) X) -> (Y, mx, s) {
  mx(n) max=! X(n, d)
  Y(n, d) = exp(X(n, d) - mx(n))
  s(n) +=! Y(n, d)
  Y(n, d) = Y(n, d) / s(n)
}"""
GATHER = "def gather(float(V,D) T, int32(N) I) -> (O) { O(n, d) = T(I(n), d) }"


def checked(text: str) -> CheckedDef:
    return check(parse(text))


def problem(text: str, sizes: Mapping[str, int], threads: int = 1) -> CpuProblem:
    """Return a definition with operands in C order as a problem for the CPU."""
    definition = checked(text)
    return CpuProblem(definition, spec_of(definition, sizes, threads))


def spec_of(definition: CheckedDef, sizes: Mapping[str, int], threads: int) -> Spec:
    """Return the specialisation to exact sizes, operands in C order."""
    layouts = tuple(
        Layout(len(t.shape), True, len(t.shape) - 1 if t.shape else None)
        for t in (*definition.params, *definition.returns)
    )
    exact = tuple((name, sizes[name]) for name in definition.sizes)
    return Spec(exact, layouts, threads)
