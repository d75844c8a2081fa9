"""Products with rows between them run a block of rows at a time, and what is empty is skipped."""

from __future__ import annotations

from itertools import product as pairs_of

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.choose.fuse import partitions
from tcdsl.codegen.forms.chain.find import Chain, chain_of
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.program.proved import proved
from tcdsl.codegen.program.triangles import masked
from tcdsl.codegen.toolchain.host import detect
from tcdsl.grammar.proofs.sizes import Size
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
    sizes = tuple(p.sizes.items())
    program = masked(proved(p.program, sizes), sizes)
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
        ("0:i", (40, 40), 0),  # the first row is empty, none has the last column
        ("0:i + 1", (40, 50), 1),  # nobody needs the last columns
        ("0:i + 3", (40, 42), 3),
        ("i:L", (40, 40), None),  # rows that end where all do
        ("0:L", (40, 50), None),
    ],
)
def test_where_rows_stop(within: str, shape: tuple[int, int], limit: int | None) -> None:
    text = attention(within=f" where j in {within}")
    chain = found(problem(text, *qkv(2, *shape, 8, 8)))
    assert chain is not None
    assert chain.limit == (None if limit is None else Size.const(limit))


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
    assert chain.limit == (None if limit is None else Size.const(limit))


@pytest.mark.parametrize(
    ("width", "limit"),
    [(40, 1), (50, 1), (39, None), (60, None)],  # rows that end between the last of use and last
)
def test_where_rows_of_somebody_else_end(width: int, limit: int | None) -> None:
    chain = found(beside(width))
    assert (chain is None) is (limit is None)
    if chain is not None:
        assert chain.limit == (None if limit is None else Size.const(limit))
        _, along, _ = chain.parts()
        assert {r.high.evaluate({"L": 50}) for s in along.statements for r in s.reductions} == {50}


def beside(width: int) -> Problem:
    """Return rows of 50 scores, of which 40 are of use, beside rows of another width."""
    params = "float(P,N,D) Q, float(P,L,D) K, float(P,L,E) V, float(P,N,W) B"
    text = attention(within=" where j in 0:i + 1", params=params)
    text = text.replace("- M(p, i)", "- M(p, i) * R(p, i)").replace(
        "M(p, i) max=!", "R(p, i) +=! (j < i + 1 ? B(p, i, j) : 0.0)\n M(p, i) max=!"
    )
    return problem(text, *qkv(2, 40, 50, 8, 8), floats(2, 40, width))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("exp(0.125 * S(p, i, j)", "exp(0.125 * S(p, j, i)"),  # another row
        ("+=! X(p, i, j)\n", "+=! X(p, i, j) where j in 0:N - 1\n"),  # a part of each row
        ("- M(p, i))", "- M(p, j))"),
        ("+=! X(p, i, j) * V", "+=! X(p, j, i) * V"),
    ],
)
def test_what_is_no_chain(old: str, new: str) -> None:
    text = attention().replace("L", "N").replace(old, new)
    p = problem(text, *qkv(2, 40, 40, 8, 8))
    assert found(p) is None
    assert "chain" not in forms_of(p)


COLUMN_SUMS = "  C(p, j) +=! X(p, i, j)\n    }"


@pytest.mark.parametrize(
    ("returns", "kept", "limit"),
    [
        ("O, Z", "Z", 1),
        ("O, S", "S", 1),  # is computed wholly, the rest up to the diagonal
        ("S, M, O, Z", "SMZ", 1),
        ("X, O", "X", None),  # all of it is asked for
        ("O, C", "X", None),
    ],
)
def test_what_others_read_too_lies_in_memory(returns: str, kept: str, limit: int | None) -> None:
    p = problem(keeping(CAUSAL, returns), *qkv(2, 40, 40, 8, 8))
    chain = found(p)
    assert chain is not None
    assert chain.kept == {*kept}
    assert chain.limit == (None if limit is None else Size.const(limit))
    assert "chain" in forms_of(p)


def keeping(text: str, returns: str) -> str:
    text = text.replace("-> (O)", f"-> ({returns})")
    return text[:-1].rstrip() + "\n" + COLUMN_SUMS if "C" in returns else text


def test_memory_of_scores_that_takes_the_sums_is_no_tile() -> None:
    text = CAUSAL.replace("-> (O)", "-> (S)").replace("O(p", "S(p").replace("E", "N")
    assert found(problem(text, *qkv(2, 40, 40, 8, 40))) is None


def test_a_matrix_that_is_another_ones_row_is_none() -> None:
    text = attention(params="float(N,N,D) Q, float(N,N,D) K, float(N,N,E) V")
    text = text.replace("exp(0.125 * S(p, i, j) - M(p, i))", "exp(0.125 * S(p, i, j) - M(i, p))")
    assert found(problem(text, *qkv(40, 40, 40, 8, 8))) is None


def configs(p: Problem, most: int) -> list[Config]:
    """Return configs of a chain: its own choice, the ends of its knobs, some in between."""
    spec = spec_of(p, exact=True)
    groups = compiler.choices(p.program, spec, detect(), p.sizes)["chained"]
    ((g, choice),) = ((g, x) for g, (x, *_) in enumerate(groups) if x.name == "chain")
    ends = [(k.values[0], k.values[-1]) for k in choice.knobs]
    out = [dict(zip([k.name for k in choice.knobs], v, strict=True)) for v in pairs_of(*ends)]
    out += [{k.name: k.values[int(RNG.integers(len(k.values)))] for k in choice.knobs}
            for _ in range(most)]  # fmt: skip
    picked = [{}, *(out[i] for i in RNG.permutation(len(out))[:most])]
    return [Config.of({"partition": "chained"} | {f"g{g}.{k}": v for k, v in c.items()})
            for c in picked]  # fmt: skip


def under(p: Problem, most: int = 3) -> list[Case]:
    return [Case(p, True, c) for c in configs(p, most)]


@pytest.mark.cc
def test_causal_attention_is_the_references() -> None:
    differential(under(problem(CAUSAL, *qkv(2, 37, 37, 8, 20)), 1), terms=256)


@pytest.mark.wide
@pytest.mark.cc
def test_strictly_causal_attention_is_the_references() -> None:
    strict = attention(within=" where j in 0:i")
    differential(under(problem(strict, *qkv(2, 37, 40, 8, 5)), 2), terms=256)


ANY = ((2, 37, 37, 8, 20), (1, 24, 24, 1, 1), (3, 97, 97, 64, 64), (1, 211, 211, 5, 17))
EDGES = ((2, 1, 1, 8, 8), (2, 0, 0, 8, 8), (0, 40, 40, 8, 8), (2, 40, 40, 0, 8), (2, 40, 40, 8, 0))


def generic_forms(p: Problem) -> set[str]:
    config, _ = compiler.generic_choice(p.program, spec_of(p, exact=False), detect(), p.sizes)
    return {str(v) for k, v in config.items if k.endswith(".form")}


LATEST = attention(within=" where j in 0:i + L - N + 1")  # the queries are the last ones


def test_which_sizes_share_a_chain() -> None:
    assert generic_forms(problem(LATEST, *qkv(2, 37, 50, 8, 8))) == {"chain"}
    for shape in ANY:
        assert generic_forms(problem(CAUSAL, *qkv(*shape))) == {"chain"}
    for shape in (*EDGES, (2, 23, 23, 8, 8), (2, 40, 40, 513, 8)):
        assert "chain" not in generic_forms(problem(CAUSAL, *qkv(*shape)))


@pytest.mark.cc
def test_chains_of_any_sizes_are_the_references() -> None:
    differential([Case(problem(CAUSAL, *qkv(*s)), exact=False) for s in ANY[:2]], terms=256)


@pytest.mark.cc
@pytest.mark.wide
def test_one_executable_serves_all_sizes() -> None:
    cases = [Case(problem(CAUSAL, *qkv(*s)), exact=False) for s in (*ANY, *EDGES)]
    shapes = ((2, 37, 37, 8, 20), (2, 37, 90, 8, 20), (1, 30, 41, 3, 5), (1, 40, 25, 3, 5))
    cases += [Case(problem(LATEST, *qkv(*s)), exact=False) for s in shapes]
    differential(cases, terms=512)


@pytest.mark.cc
@pytest.mark.deep
def test_so_it_is_for_all_masks_types_and_layouts() -> None:
    texts = (CAUSAL, attention().replace("L", "N"))
    cases = [Case(problem(texts[1], *qkv(*s)), exact=False) for s in (*ANY, *EDGES)]
    for within in ("0:i + 1", "i:N"):
        text = attention(within=f" where j in {within}").replace("L", "N")
        for n in (40, 61):
            q, k, v = qkv(2, n, n, 8, 16)
            k[:, n - 3], v[:, n - 2], q[:, 5] = np.nan, np.inf, np.inf
            cases.append(Case(problem(text, q, k, v), exact=False))
    cases += [
        Case(problem(attention(), *qkv(*s)), exact=False)
        for s in ((2, 33, 70, 16, 16), (1, 131, 17, 3, 5), (5, 24, 200, 64, 64), (1, 30, 0, 4, 4))
    ]
    heads = problem(HEADS_INSIDE, *(floats(2, 45, 3, 16) for _ in range(3)))
    alone = problem(ONE_MATRIX, floats(67, 9), floats(81, 9), floats(81, 12), floats(67, 81))
    double = problem(CAUSAL.replace("float(", "double("), *qkv(2, 45, 45, 8, 9, "float64"))
    half = problem(CAUSAL.replace("float(", "float16("), *qkv(2, 45, 45, 8, 9, "float16"))
    cases += [Case(p, exact=False) for p in (heads, alone, double)]
    q, k, v = qkv(2, 45, 45, 8, 16)
    far = (np.asfortranarray(q), k[:, ::-1], floats(2, 45, 32)[..., ::2])
    cases += [Case(problem(t, *far), exact=False) for t in texts]
    differential(cases, terms=512)
    differential([Case(half, exact=False)], terms=512)


@pytest.mark.cc
@pytest.mark.wide
def test_chains_are_the_references() -> None:
    cases: list[Case] = []
    for within in ("0:i + L - N + 1", "0:i + 1", "0:i", "i:L", "0:L"):
        text = attention(within=f" where j in {within}")
        more = 21 if "i + " in within else 0
        for p, n, d, e in ((1, 97, 5, 7), (3, 40, 8, 33)):
            cases += under(problem(text, *qkv(p, n, n + more, d, e)), 2)
    for p, n, m, d, e in ((2, 33, 70, 16, 16), (1, 131, 17, 3, 5), (5, 24, 200, 64, 64)):
        cases += under(problem(attention(), *qkv(p, n, m, d, e)))
    for width in (40, 50, 60):
        cases += [Case(beside(width), True)]
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
@pytest.mark.deep
def test_what_is_kept_is_the_references() -> None:
    cases: list[Case] = []
    for text in (CAUSAL, attention().replace("L", "N")):
        for returns in ("O, Z", "O, S", "S, M, O, Z", "X, O", "O, C", "O, S, X, M, Z"):
            p = problem(keeping(text, returns), *qkv(2, 67, 67, 8, 20))
            cases += [*under(p, 1), Case(p, exact=False)]
    differential(cases, terms=256)


@pytest.mark.cc
@pytest.mark.deep
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
@pytest.mark.deep
def test_operands_of_any_strides() -> None:
    q, k, v = (
        floats(2, 8, 45).swapaxes(1, 2),
        floats(2, 90, 8)[:, ::2],
        floats(2, 45, 32)[..., ::2],
    )
    cases = [Case(problem(CAUSAL, q, k, v), True), Case(problem(CAUSAL, q, k[:, ::-1], v), True)]
    differential(cases, terms=256)


@pytest.mark.cc
@pytest.mark.deep
def test_on_narrow_vectors() -> None:
    cc, machine = narrower(32)
    cases = [Case(problem(t, *qkv(2, 45, 45, 8, 20)), True) for t in (CAUSAL, attention())]
    differential(cases, terms=256, cc=cc, machine=machine)


def test_without_points_there_is_no_chain() -> None:
    for shapes in ((0, 40, 40, 8, 8), (2, 0, 0, 8, 8), (2, 40, 40, 0, 8), (2, 40, 40, 8, 0)):
        assert "chain" not in forms_of(problem(attention(), *qkv(*shapes)))
