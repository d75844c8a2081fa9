"""Gradients of a window's weights over halves: as those over float32 copies of their operands."""

from __future__ import annotations

from collections.abc import Iterator

import ml_dtypes
import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.program.ssa import program_of
from tcdsl.codegen.program.widened import widened
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.parser import parse
from tests.codegen.forms.contraction.test_convolution_weights import ZEN4
from tests.codegen.harness import Array, Case, Problem, differential, problem, spec_of

HALVES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
WINDOW = "pad(I(n,c,y+i-1,x+j-1), 0) * G(n,f,y,x) where i in 0:3, j in 0:3"
OF = "T(N,C,H,W) I, T(N,F,H,W) G"
IN_FLOAT32 = f"def g({OF}) -> (float(F,C,3,3) D) {{ D(f,c,i,j) +=! {WINDOW} }}"
IN_HALVES = f"def g({OF}) -> (T(F,C,3,3) D) {{ D(f,c,i,j) +=! {WINDOW} }}"
SIZES = {"N": 2, "C": 16, "H": 20, "W": 20, "F": 16}


def made(text: str, dtype: str = "float16", **sizes: int) -> list[str]:
    """Return the text of all statements, without ranges."""
    program = program_of(check(parse(text.replace("T(", f"{dtype}("))))
    found = widened(program, SIZES | sizes).statements
    return [s.text.partition(" where")[0] for s in found]


def test_operands_are_copied_once_and_sums_rounded_behind() -> None:
    copies = "I.wide(i0, i1, i2, i3)", "G.wide(i0, i1, i2, i3)", "D.wide(f, c, i, j)"
    for dtype in HALVES:
        names = [x.partition(" =")[0].partition(" +=")[0] for x in made(IN_HALVES, dtype)]
        assert names == [
            copies[0], "D.factor(n, c, y_ - (-1), y__ - (-1))", *copies[1:], "D(f, c, i, j)",
        ]  # fmt: skip
    assert len(made(IN_FLOAT32)) == 4


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        (IN_HALVES.replace("T(", "float("), {}),
        (IN_FLOAT32, {"H": 2, "W": 2}),  # taps are more than pixels
        (IN_FLOAT32, {"C": 1, "F": 1, "H": 4, "W": 4, "N": 1000}),
        (
            "def g(T(N,C,H,W) I, T(F,C,3,3) K) -> (float(N,F,H,W) O) "
            "{ O(n,f,y,x) +=! pad(I(n,c,y+i-1,x+j-1), 0) * K(f,c,i,j) }",
            {},
        ),
        ("def g(T(M,K) A, T(K,N) B) -> (float(M,N) O) { O(m,n) +=! A(m,k) * B(k,n) }", {}),
        (IN_FLOAT32.replace("+=!", "+="), {}),
    ],
)
def test_nothing_else_is_copied(text: str, sizes: dict[str, int]) -> None:
    """Not float32, other products, the window itself, what goes on, elements used a few times."""
    text = text.replace("in 0:3", "in 0:2") if sizes.get("C") == 1 else text
    assert not any(
        ".wide" in x for x in made(text, "float16", **(SIZES | {"M": 64, "K": 64} | sizes))
    )


def operand(dtype: str, *shape: int) -> Array:
    return np.random.default_rng(shape).standard_normal(shape).astype(HALVES[dtype])


def problems(dtype: str) -> Iterator[Problem]:
    """Yield padded, plain, strided, dilated windows, of one side, in groups, twice in a text."""
    image, slope = operand(dtype, 3, 9, 11, 10), operand(dtype, 3, 17, 11, 10)
    for text in (IN_FLOAT32, IN_HALVES):
        yield problem(text.replace("T(", f"{dtype}("), image, slope)
    plain = "I(n,c,2*y+i,x+2*j) * G(n,f,y,x) where i in 0:3, j in 0:3"
    text = f"def g({OF.replace('N,F,H,W', 'N,F,Y,X')}) -> (float(F,C,3,3) D) "
    text += f"{{ D(f,c,i,j) +=! {plain} }}"
    yield problem(text.replace("T(", f"{dtype}("), image, slope[:, :, :5, :6])
    one = "def g(T(N,C,W) I, T(N,F,W) G) -> (T(F,C,5) D) "
    one += "{ D(f,c,i) +=! pad(I(n,c,x+i-2), 0) * G(n,f,x) where i in 0:5 }"
    yield problem(one.replace("T(", f"{dtype}("), image[:, :, 0], slope[:, :, 0])
    groups = "def g(T(N,B,C,H,W) I, T(N,B,F,H,W) G) -> (T(B,F,C,3,3) D) { D(b,f,c,i,j) +=! "
    groups += "pad(I(n,b,c,y+i-1,x+j-1), 0) * G(n,b,f,y,x) where i in 0:3, j in 0:3 }"
    shapes = image.reshape(3, 3, 3, 11, 10), operand(dtype, 3, 3, 4, 11, 10)
    yield problem(groups.replace("T(", f"{dtype}("), *shapes)
    both = f"def g({OF}, T(F,C,3,3) K) -> (float(F,C,3,3) D, T(N,C,H,W) E) {{ D(f,c,i,j) +=! "
    both += WINDOW + " E(n,c,y,x) +=! pad(G(n,f,y-i+1,x-j+1), 0) * K(f,c,i,j) }"
    yield problem(both.replace("T(", f"{dtype}("), image, slope, operand(dtype, 17, 9, 3, 3))
    yield problem(IN_HALVES.replace("T(", f"{dtype}("), image[:, :, :, ::-1], slope[:, ::2])
    yield problem(IN_HALVES.replace("T(", f"{dtype}("), image[:0], slope[:0])


@pytest.mark.cc
@pytest.mark.parametrize("dtype", [*HALVES])
def test_the_values_are_those_of_the_reference(dtype: str) -> None:
    cases = [Case(p, exact=e) for p in problems(dtype) for e in (True, False)]
    differential(cases, terms=400)


def test_they_take_the_forms_of_gradients_of_weights() -> None:
    p = next(problems("float16"))
    for exact, form in ((True, "convolution_weights"), (False, "sliding_weights")):
        config = compiler.default_config(p.program, spec_of(p, exact=exact), ZEN4, p.sizes)
        assert form in [value for name, value in config.items if name.endswith(".form")]
