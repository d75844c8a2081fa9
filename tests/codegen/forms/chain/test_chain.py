"""Products with rows between them run a block of rows at a time, and what is empty is skipped."""

from __future__ import annotations

from itertools import product as pairs_of

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.choose.fuse import partitions
from tcdsl.codegen.forms.chain.find import Chain, chain_of
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.program.triangles import masked
from tcdsl.codegen.toolchain.host import detect
from tests.codegen.harness import Array, Case, Problem, differential, problem, spec_of
from tests.codegen.under_configs import narrower

RNG = np.random.default_rng(3)


def attention(
    scores: str = "0.125 * S(p, i, j)",
    within: str = "",
    params: str = "float(P,N,D) Q, float(P,L,D) K, float(P,L,E) V",
) -> str:
    return f"""def f({params}) -> (O) {{
      S(p, i, j) +=! Q(p, i, d) * K(p, j, d)
      M(p, i) max=! {scores}{within}
      X(p, i, j) = exp({scores} - M(p, i))
      Z(p, i) +=! X(p, i, j){within}
      O(p, i, e) +=! X(p, i, j) * V(p, j, e){within}
      O(p, i, e) = O(p, i, e) / Z(p, i)
    }}"""


CAUSAL = attention(within=" where j in 0:i + 1").replace("L", "N")
HEADS_INSIDE = """def f(float(B,N,H,D) Q, float(B,N,H,D) K, float(B,N,H,D) V) -> (O) {
  S(b, h, i, j) +=! Q(b, i, h, d) * K(b, j, h, d)
  M(b, h, i) max=! S(b, h, i, j)
  X(b, h, i, j) = exp(S(b, h, i, j) - M(b, h, i))
  Z(b, h, i) +=! X(b, h, i, j)
  O(b, i, h, e) +=! X(b, h, i, j) * V(b, j, h, e)
  O(b, i, h, e) = O(b, i, h, e) / Z(b, h, i)
}"""
ONE_MATRIX = """def f(float(N,D) Q, float(L,D) K, float(L,E) V, float(N,L) B) -> (O) {
  S(i, j) +=! Q(i, d) * K(j, d)
  R(i) +=! (S(i, j) + B(i, j)) * (S(i, j) + B(i, j))
  W(i, j) = (S(i, j) + B(i, j)) / sqrt(R(i))
  O(i, e) +=! W(i, j) * V(j, e)
}"""


def floats(*shape: int, dtype: str = "float32") -> Array:
    return RNG.normal(size=shape).astype(dtype)


def qkv(p: int, n: int, m: int, d: int, e: int, dtype: str = "float32") -> tuple[Array, ...]:
    return tuple(floats(*s, dtype=dtype) for s in ((p, n, d), (p, m, d), (p, m, e)))


def found(p: Problem) -> Chain | None:
    """Return the chain that the first partition has."""
    program = masked(p.program, tuple(p.sizes.items()))
    sizes = tuple(p.sizes.items())
    groups = partitions(program, chains=sizes)[0].groups
    return next((c for g in groups if (c := chain_of(program, g, sizes)) is not None), None)


def forms_of(p: Problem) -> set[str]:
    config = compiler.default_config(p.program, spec_of(p, exact=True), detect(), p.sizes)
    return {str(v) for k, v in config.items if k.endswith(".form")}


def test_attention_is_one_phase() -> None:
    for text in (CAUSAL, attention()):
        p = problem(text, *qkv(2, 64, 64, 8, 8))
        assert forms_of(p) == {"chain"}


@pytest.mark.parametrize(
    ("within", "shape", "limit"),
    [
        ("0:i + L - N + 1", (40, 40), 1),
        ("0:i + L - N + 1", (40, 50), 11),  # the queries are the last ones
        ("i:L", (40, 40), None),  # rows that end where all do
        ("0:L", (40, 50), None),
    ],
)
def test_where_rows_stop(within: str, shape: tuple[int, int], limit: int | None) -> None:
    text = attention(within=f" where j in {within}")
    chain = found(problem(text, *qkv(2, *shape, 8, 8)))
    assert chain is not None
    assert chain.limit == limit


def test_rows_stop_where_every_reader_does() -> None:
    dense = CAUSAL.replace("V(p, j, e) where j in 0:i + 1", "V(p, j, e)")
    chain = found(problem(dense, *qkv(2, 40, 40, 8, 8)))
    assert chain is not None
    assert chain.limit is None


BESIDE = CAUSAL.replace("float(P,N,E) V", "float(P,N,E) V, float(P,N,N) B").replace(
    "- M(p, i)", "- M(p, i) * R(p, i)"
)


@pytest.mark.parametrize(
    ("within", "limit"),
    [("B(p, i, j)", None), ("(j < i + 5 ? B(p, i, j) : 0.0)", None), ("B(p, i, c)", None),
     ("B(p, i, j) where j in 0:i + 1", 1)],
)  # fmt: skip
def test_a_sum_of_a_row_of_somebody_else_is_whole(within: str, limit: int | None) -> None:
    text = BESIDE.replace("M(p, i) max=!", f"R(p, i) +=! {within}\n M(p, i) max=!")
    chain = found(problem(text, *qkv(2, 40, 40, 8, 8), floats(2, 40, 40)))
    assert chain is not None
    assert chain.limit == limit


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("-> (O)", "-> (O, S)"),  # somebody else reads what lies in the tile
        ("-> (O)", "-> (O, X)"),
        ("exp(0.125 * S(p, i, j)", "exp(0.125 * S(p, j, i)"),  # another row
        ("- M(p, i))", "- M(p, j))"),
        ("+=! X(p, i, j) * V", "+=! X(p, j, i) * V"),
    ],
)
def test_what_is_no_chain(old: str, new: str) -> None:
    text = attention().replace("L", "N").replace(old, new)
    p = problem(text, *qkv(2, 40, 40, 8, 8))
    assert found(p) is None
    assert "chain" not in forms_of(p)


def test_a_matrix_that_is_another_ones_row_is_none() -> None:
    text = attention(params="float(N,N,D) Q, float(N,N,D) K, float(N,N,E) V")
    text = text.replace("exp(0.125 * S(p, i, j) - M(p, i))", "exp(0.125 * S(p, i, j) - M(i, p))")
    assert found(problem(text, *qkv(40, 40, 40, 8, 8))) is None


def configs(p: Problem, most: int) -> list[Config]:
    """Return configs of a chain: its own choice, the ends of its knobs, some in between."""
    spec = spec_of(p, exact=True)
    ((choice, *_),) = compiler.choices(p.program, spec, detect(), p.sizes)["chained"]
    assert choice.name == "chain"
    ends = [(k.values[0], k.values[-1]) for k in choice.knobs]
    out = [dict(zip([k.name for k in choice.knobs], v, strict=True)) for v in pairs_of(*ends)]
    out += [{k.name: k.values[int(RNG.integers(len(k.values)))] for k in choice.knobs}
            for _ in range(most)]  # fmt: skip
    picked = [{}, *(out[i] for i in RNG.permutation(len(out))[:most])]
    return [Config.of({"partition": "chained"} | {f"g0.{k}": v for k, v in c.items()})
            for c in picked]  # fmt: skip


def under(p: Problem, most: int = 3) -> list[Case]:
    return [Case(p, True, c) for c in configs(p, most)]


@pytest.mark.cc
def test_causal_attention_is_the_references() -> None:
    differential(under(problem(CAUSAL, *qkv(2, 37, 37, 8, 20)), 2), terms=256)


@pytest.mark.cc
@pytest.mark.wide
def test_chains_are_the_references() -> None:
    cases: list[Case] = []
    for within in ("0:i + L - N + 1", "i:L", "0:L"):
        text = attention(within=f" where j in {within}")
        more = 21 if "N" in within else 0
        for p, n, d, e in ((1, 97, 5, 7), (3, 40, 8, 33)):
            cases += under(problem(text, *qkv(p, n, n + more, d, e)), 2)
    for p, n, m, d, e in ((2, 33, 70, 16, 16), (1, 131, 17, 3, 5), (5, 24, 200, 64, 64)):
        cases += under(problem(attention(), *qkv(p, n, m, d, e)))
    masked_text = attention("(j < i + 2 ? S(p, i, j) : -inf)")  # rows are whole here
    cases += under(problem(masked_text, *qkv(2, 50, 50, 8, 8)))
    cases += under(problem(HEADS_INSIDE, *(floats(2, 45, 3, 16) for _ in range(3))))
    cases += under(
        problem(ONE_MATRIX, floats(67, 9), floats(81, 9), floats(81, 12), floats(67, 81))
    )
    double = CAUSAL.replace("float(", "double(")
    cases += under(problem(double, *qkv(2, 45, 45, 8, 9, "float64")))
    differential(cases, terms=512)


@pytest.mark.cc
@pytest.mark.wide
def test_what_is_not_asked_for_is_not_seen() -> None:
    """Of a row, columns behind its limit may hold anything."""
    cases = []
    for n in (40, 61):
        q, k, v = qkv(2, n, n, 8, 16)
        k[:, n - 3] = np.nan
        v[:, n - 2] = np.inf
        q[:, 5] = np.inf
        cases += under(problem(CAUSAL, q, k, v))
    differential(cases, terms=256)


@pytest.mark.cc
@pytest.mark.wide
def test_operands_of_any_strides() -> None:
    q, k, v = (
        floats(2, 8, 45).swapaxes(1, 2),
        floats(2, 90, 8)[:, ::2],
        floats(2, 45, 32)[..., ::2],
    )
    cases = [Case(problem(CAUSAL, q, k, v), True), Case(problem(CAUSAL, q, k[:, ::-1], v), True)]
    differential(cases, terms=256)


@pytest.mark.cc
@pytest.mark.wide
def test_on_narrow_vectors() -> None:
    cc, machine = narrower(32)
    cases = [Case(problem(t, *qkv(2, 45, 45, 8, 20)), True) for t in (CAUSAL, attention())]
    differential(cases, terms=256, cc=cc, machine=machine)


def test_without_points_there_is_no_chain() -> None:
    for shapes in ((0, 40, 40, 8, 8), (2, 0, 0, 8, 8), (2, 40, 40, 0, 8), (2, 40, 40, 8, 0)):
        assert "chain" not in forms_of(problem(attention(), *qkv(*shapes)))
