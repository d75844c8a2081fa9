"""Forward-mode derivatives: texts, values, errors; with the gradient, of any order."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tcdsl.codegen.gradient.jvp import tangents
from tcdsl.codegen.gradient.text import with_bare_results
from tcdsl.codegen.gradient.whole import whole
from tcdsl.codegen.program.dtypes import numpy_dtype
from tcdsl.codegen.reference.evaluator import evaluate
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.errors import TCError, TCTypeError
from tcdsl.grammar.text.parser import parse
from tcdsl.grammar.types.typed import CheckedDef
from tests.codegen.gradient.differences import differentiated_def, drawn, floats, seeds_of
from tests.codegen.gradient.forwards import (
    assert_tangents,
    by_transposition,
    directions,
    forwards,
)
from tests.codegen.gradient.layers import CORNERS, LAYERS
from tests.codegen.gradient.random_loops import SIZES, random_loops
from tests.codegen.gradient.test_catalog import POSITIVE
from tests.codegen.gradient.test_layers import made
from tests.codegen.gradient.test_texts import TEXTS
from tests.codegen.gradient.test_torch import TWINS
from tests.codegen.harness import Case, Problem, differential
from tests.codegen.random_programs import random_program
from tests.tcdsl.programs.catalog import DIFFERENTIABLE, arguments, checked_of, small_sizes
from tests.test_examples import ALL, WITHOUT_GRADIENT
from tests.texts import Example
from tests.texts import arguments as example_arguments
from tests.tiers import sampled

EVERY = {**LAYERS, **CORNERS}


def checked(text: str, **generics: Any) -> CheckedDef:
    return check(parse(text), generics=generics)


ALWAYS = {"bag", "in place", "product onto the output", "reshape", "half"}
OFTEN = {"softmax_tmp", "updates of a part", "product with zeros", *[*EVERY][::3]}
OFTEN -= {"lstm", "lstm of 64 turns"}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            n, marks=() if n in ALWAYS else pytest.mark.wide if n in OFTEN else pytest.mark.deep
        )
        for n in EVERY
    ],
)
def test_tangents_of_a_layer(name: str, rng: np.random.Generator) -> None:
    f = made(EVERY[name]).checked
    assert_tangents(f, drawn(f, EVERY[name].sizes, rng), rng)


def thinned(cases: Sequence[Any], step: int, name: Callable[[Any], str]) -> list[Any]:
    """Return cases of which all but each step-th are deep."""
    return [
        pytest.param(c, marks=pytest.mark.deep if at % step else (), id=name(c))
        for at, c in enumerate(cases)
    ]


@sampled("entry", thinned(DIFFERENTIABLE, 5, lambda e: e["name"]), keep=1)
def test_tangents_of_a_catalog_program(entry: dict[str, Any]) -> None:
    rng = np.random.default_rng(zlib.crc32(entry["name"].encode()))
    f = checked_of(entry)
    args = arguments(f, small_sizes(f, entry, rng), rng)
    args = [abs(a) if t.name in POSITIVE else a for t, a in zip(f.params, args, strict=True)]
    assert_tangents(f, args, rng)


@sampled("example", thinned(ALL, 4, lambda e: e.name), keep=1)
def test_tangents_of_an_example(example: Example, rng: np.random.Generator) -> None:
    f = example.kernel().variant().checked
    if example.name in WITHOUT_GRADIENT:
        with pytest.raises(TCError, match="TC140"):
            tangents(f)
        return
    args = example_arguments(f, example.sizes, rng)
    for i in floats(f):
        args[i] = args[i].astype(np.float64)
    assert_tangents(f, args, rng)


def _seeds(fast: int, wide: int, deep: int) -> list[object]:
    return [
        *range(1, fast),
        *(pytest.param(s, marks=pytest.mark.wide) for s in range(max(fast, 1), wide)),
        *(pytest.param(s, marks=pytest.mark.deep) for s in range(wide, deep)),
    ]


@pytest.mark.parametrize("seed", _seeds(0, 4, 32))
def test_tangents_of_a_random_program(seed: int) -> None:
    rng = np.random.default_rng(seed)
    f = checked(random_program(rng).text)
    assert_tangents(f, drawn(f, {"N": 3, "M": 4}, rng), rng, step=1e-7, tolerance=1e-4)


@pytest.mark.parametrize("seed", _seeds(0, 3, 60))
def test_tangents_of_a_random_loop_program(seed: int) -> None:
    rng = np.random.default_rng(seed)
    f = checked(random_loops(rng, ("float", "float16")[seed % 4 == 3]))
    assert_tangents(f, drawn(f, SIZES, rng), rng, step=1e-7, tolerance=1e-4)


# ---- with the gradient

COMPOSED = ["in place", "softmax", "cum_prod", "bag", "ternary guards a read"]
REST = sorted({*EVERY} - {*COMPOSED, "lstm of 64 turns", "long sum"})


@sampled("name", [*COMPOSED, *(pytest.param(n, marks=pytest.mark.deep) for n in REST)], keep=1)
def test_tangents_are_those_of_the_transposed_gradient(name: str, rng: np.random.Generator) -> None:
    f = made(EVERY[name]).checked
    args = drawn(f, EVERY[name].sizes, rng)
    along = directions(f, args, rng)
    pairs = zip(forwards(f).push(args, along), by_transposition(f, args, along), strict=True)
    for got, want in pairs:
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)


@sampled("name", [*COMPOSED, *(pytest.param(n, marks=pytest.mark.deep) for n in REST)], keep=1)
def test_forwards_over_back_is_back_over_forwards(name: str, rng: np.random.Generator) -> None:
    """A Hessian times a vector: the tangent of the gradient, the gradient of the tangent."""
    first = made(EVERY[name])
    args = drawn(first.checked, EVERY[name].sizes, rng)
    seeds, along = seeds_of(first.checked, args, rng), directions(first.checked, args, rng)
    params = [first.checked.params[i].name for i in floats(first.checked)]
    back = check(whole(first.gradient), first.gradient.name)
    forwards_over_back = forwards(back, *params).push([*args, *seeds], along)
    forward = forwards(first.checked)
    of_tangents = differentiated_def(forward.both)
    zeros = [np.zeros(s.shape) for s in seeds]
    found = of_tangents.pull([*args, *along], [*zeros, *seeds])
    for got, want in zip(found[: len(params)], forwards_over_back, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)


@pytest.mark.torch
@sampled("name", [n for n in TWINS if n not in ("layer_norm", "lstm")], keep=0, wide=8)
def test_tangents_are_torchs(name: str, rng: np.random.Generator) -> None:
    torch = pytest.importorskip("torch")
    f = made(LAYERS[name]).checked
    args = drawn(f, LAYERS[name].sizes, rng)
    along = directions(f, args, rng)
    tensors = [torch.tensor(a) for a in args]
    at = floats(f)

    def twin(*moved: Any) -> Any:
        given = [*tensors]
        for i, x in zip(at, moved, strict=True):
            given[i] = x
        return TWINS[name](torch, *given)

    primals = tuple(tensors[i] for i in at)
    _, want = torch.func.jvp(twin, primals, tuple(map(torch.tensor, along)))
    got = forwards(f).push(args, along)[0]
    np.testing.assert_allclose(got, want.numpy(), rtol=1e-9, atol=1e-9)


@sampled("dtype", ["float16", "bfloat16", "float32", "float64"], keep=1)
def test_tangents_have_the_types_of_what_they_are_tangents_of(dtype: str) -> None:
    f = checked(f"""def f({dtype}(N) A, {dtype} c) -> (O, s) {{
      t(i) = A(i) * c
      O(i) = A(i) * A(i)
      s +=! t(i)
    }}""")
    both = forwards(f).both
    types = {t.name: t.dtype for t in (*both.params, *both.returns)}
    assert all(types[f"t_{n}"] == types[n] for n in ("A", "c", "O", "s"))


# ---- some parameters only


def test_parameters_without_a_tangent_are_constants(rng: np.random.Generator) -> None:
    f = checked("""def f(float(N) A, float(N) B, float(N) C) -> (O) {
      s +=! A(i) * B(i)
      O(i) = tanh(s) * C(i)
    }""")
    args = drawn(f, {"N": 3}, rng)
    along = directions(f, args, rng)
    by_c = forwards(f, "C")
    assert by_c.tangents.given == ("t_C",)
    assert "t_s" not in by_c.tangents.text
    zero = np.zeros(3)
    (want,) = forwards(f).push(args, [zero, zero, along[2]])
    np.testing.assert_allclose(by_c.push(args, along[2:])[0], want, rtol=1e-12)
    (both,) = forwards(f, "C", "A").push(args, [along[2], along[0]])
    (want,) = forwards(f).push(args, [along[0], zero, along[2]])
    np.testing.assert_allclose(both, want, rtol=1e-12)


def test_a_result_that_depends_on_none_has_no_slope() -> None:
    f = checked("def f(float(N) A, float(N) B) -> (O, P) { O(i) = A(i) P(i) = sin(B(i)) }")
    text = forwards(f, "A").tangents.text
    assert "t_P(i0) = 0.0" in text
    assert forwards(f, "A").push([np.ones(2)] * 2, [np.ones(2)])[1].tolist() == [0, 0]


# ---- corners that only forward mode has


@sampled(
    "body",
    [
        "O(i) = A(i) for t in 1:N { O(t) max= O(t - 1) * B(t) }",
        "O(i) = A(i) for t in 0:3 { O(i) max= B(i) * A(i) }",
        "O(i) = A(i) O(i) *= B(i) * O(i)",
        "O(i) = A(i) O(i) max= 2 * O(i) * B(i)",
        "O(i) = A(i) O(i) += O(i) * B(i) + O(i)",
        "O(0) = A(0) O(i) *= A(i) * B(j) where i in 0:N",
        "for t in 0:N { O(i) *= A(i) * B(t) + 1 }",
        "for t in 0:N { O(i) += A(i) * B(t) }",
        "O(i) max=! A(i) O(i) min= B(j) + A(i)",
        "Z(i) = B(i) Z(i) = 2.0 where i in 0:2 O(i) = Z(i) * A(i)",
        "O(i) = A(i) O(i) = 3.0 where i in 1:2 O(i) = O(i) * B(i)",
        "O(i) = relu(A(i)) * relu(A(i)) + B(i)",
    ],
    keep=2,
)
def test_what_a_statement_overwrites(body: str, rng: np.random.Generator) -> None:
    f = checked(f"def f(float(N) A, float(N) B) -> (float(N) O) {{ {body} }}")
    assert_tangents(f, drawn(f, {"N": 4}, rng), rng)


@pytest.mark.parametrize("dtype", ["float16", pytest.param("double", marks=pytest.mark.wide)])
@sampled(
    "body",
    [
        "y(m) = w(m) y(at(n)) *= x(n)",
        "y(at(n)) *= x(n) * w(n)",
        "for s in 0:2 { y(at(n)) *=! x(n) * w(s) }",
        "y(m) = w(m) for s in 0:2 { y(at(n)) *= x(n) * w(s) }",
        "y(m) = w(m) for s in 0:2 { y(s) max= y(s + 1 + n) * x(n) where n in 0:2 }",
        "y(m) = w(m) for s in 0:2 { y(s) min= y(s + 1 + n) * x(n) where n in 0:2 }",
    ],
    keep=1,
)
def test_scatters_of_halves_and_extremes_of_later_elements(
    body: str, dtype: str, rng: np.random.Generator
) -> None:
    head = f"{dtype}(N) x, int32(N) at, {dtype}(M) w) -> ({dtype}(M) y)"
    f = checked(f"def f({head} {{ {body} }}")
    args = drawn(f, {"N": 4, "M": 5}, rng)
    assert_tangents(f, args, rng)
    if "at(n)" in body:
        args[1][0] = 7
        with pytest.raises(IndexError):  # the sums of halves are clamped, not the scatter
            evaluate(forwards(f).both, [*args, *directions(f, args, rng)])


CALLED = """def scatter(int32(B) I, float(B,D) g, float(N) like) -> (float(N,D) O) {
  O(I(b), d) +=! g(b, d)
}
def part(float(N) g) -> (float(2*N) O) { O(i) = g(i) * g(i) where i in 0:N }
"""


def test_what_a_callee_scatters_into_is_returned_last(rng: np.random.Generator) -> None:
    text = """def f(int32(B) I, float(B,D) g, float(N) like) -> (Y) {
      S = scatter(I, g, like)
      Y(n, d) = sin(S(n, d))
    }"""
    f = check(parse(CALLED + text), "f")
    assert tangents(f).extra == ("S", "t_S")
    assert_tangents(f, drawn(f, {"B": 4, "D": 2, "N": 3}, rng), rng)
    with pytest.raises(IndexError):  # nothing is clamped
        evaluate(forwards(f).both, [[7], np.ones((1, 1)), np.ones(3), np.ones((1, 1)), np.ones(3)])


@sampled("loop", ["{}", "for t in 0:2 {{ {} }}"], keep=1)
def test_a_callees_return_is_as_large_as_it_says(loop: str, rng: np.random.Generator) -> None:
    inner = "S = part(g) Y(n) = sin(S(n + 1)) where n in 0:2*N-1"
    f = check(parse(CALLED + f"def f(float(N) g) -> (Y) {{ {loop.format(inner)} }}"), "f")
    assert_tangents(f, drawn(f, {"N": 3}, rng), rng)


def test_names_are_fresh(rng: np.random.Generator) -> None:
    text = """def f(float(N) x, float(N) t_x, float(t_y) t_x_2) -> (y) {
      j_f(sign) = x(sign) * t_x(sign)
      y(abs) = fabs(j_f(abs))
    }"""
    f = checked(text)
    assert tangents(f).given == ("t_x_3", "t_t_x", "t_t_x_2")
    assert_tangents(f, drawn(f, {"N": 3, "t_y": 2}, rng), rng)


@pytest.mark.wide
def test_a_long_product_is_flat(rng: np.random.Generator) -> None:
    f = checked(
        "def f(float(N) A) -> (O) { O(i) = "
        + " * ".join(["A(i)"] * 20)
        + " + "
        + " - ".join(["A(i)"] * 100)
        + " }"
    )
    assert_tangents(f, [np.array([0.5, 1.1])], rng)


# ---- texts and errors


@sampled("name", ["fcrelu", "matmul", "conv", "softmax", "lstm", "max_pool"], keep=1)
def test_tangents_read_well(name: str, golden: Callable[[str, str], None]) -> None:
    golden(with_bare_results(tangents(TEXTS[name]()).text), f"jvp/{name}.tc")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "def f(int32(N) A) -> (O) { O(i) = A(i) * 0.5 }",
            "error[TC140]: 'f' has no float parameter, so it has no gradient",
        ),
        (
            "def f(float(N) A) -> (O) { O(i) = A(i) > 0 ? 1 : 2 }",
            "error[TC140]: 'f' has no float return, so it has no gradient",
        ),
        (
            "def f(float(N) A) -> (O) { O(i) = 2 * nextafter(A(i), 1.0) }",
            "f.tc:1:39: error[TC141]: the gradient goes through 'nextafter'",
        ),
    ],
)
def test_what_has_no_tangent_says_so(text: str, message: str) -> None:
    with pytest.raises(TCTypeError) as caught:
        tangents(check(parse(text, "f.tc")))
    assert str(caught.value).startswith(message)
    tangents(
        checked("def f(float(N) A, float(N) B) -> (O) { O(i) = A(i) * nextafter(B(i), 1.0) }"), "A"
    )


# ---- compiled

GROUPS = [[*EVERY][k : k + 8] for k in range(0, len(EVERY), 8)]


@pytest.mark.cc
@pytest.mark.parametrize(
    "names",
    [
        pytest.param(["softmax_tmp", "max_pool", "scatter twice"], marks=pytest.mark.wide),
        *(pytest.param(n, marks=pytest.mark.deep) for n in GROUPS),
    ],
    ids=lambda names: names[0],
)
def test_kernels_of_tangents(names: list[str], rng: np.random.Generator) -> None:
    cases = []
    for name in names:
        if name in ("lstm of 64 turns", "long sum"):
            continue
        f = made(EVERY[name]).checked
        both = forwards(f).both
        args = drawn(f, EVERY[name].sizes, rng)
        given = [*args, *directions(f, args, rng)]
        typed = zip(given, both.params, strict=True)
        problem = Problem(both, tuple(np.asarray(a, numpy_dtype(t.dtype)) for a, t in typed))
        cases += [Case(problem, exact) for exact in (True, False)]
    differential(cases, terms=300)
