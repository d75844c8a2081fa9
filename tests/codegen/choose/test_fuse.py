"""Partitions: what is fused, what must not be, and that any legal one gives the same results."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from tcdsl.codegen.choose import fuse, specialise
from tcdsl.codegen.choose.fuse import can_join, fused_group, gather, partitions, separate, uses
from tcdsl.codegen.program.group import Group, Partition
from tcdsl.codegen.program.inline import inline
from tcdsl.codegen.program.padding import unpadded
from tcdsl.codegen.program.program import Program
from tcdsl.codegen.program.ssa import program_of
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.parser import parse
from tests.codegen.harness import Case, assert_same, expected, run_cases
from tests.codegen.programs import PROGRAMS, problem_of
from tests.codegen.random_programs import random_program


def program(body: str, params: str = "float(N,M) A", returns: str = "O") -> Program:
    return program_of(check(parse(f"def f({params}) -> ({returns}) {{ {body} }}")))


def fused(p: Program) -> list[tuple[int, ...]]:
    return [g.members for g in partitions(p)[0].groups]


def test_pointwise_chain_becomes_one_statement() -> None:
    p = program_of(PROGRAMS["chain"].checked())
    (group,) = partitions(p)[0].groups
    assert group.members == (0, 1, 2)
    assert [s.target for s in group.statements] == ["O"]


def test_softmax_is_one_row_group_with_local_temporaries() -> None:
    p = program_of(PROGRAMS["softmax"].checked())
    (group,) = partitions(p)[0].groups
    assert group.members == (0, 1, 2, 3)
    assert set(group.local) == {"mx", "O", "s"}


def test_epilogue_joins_its_contraction() -> None:
    p = program_of(PROGRAMS["fcrelu"].checked())
    (group,) = partitions(p)[0].groups
    assert [s.target for s in group.statements] == ["O", "O.2"]
    assert group.origins == ((0,), (1, 2))
    assert group.local == ("O",)


def test_layers_of_contractions_stay_apart() -> None:
    assert fused(program_of(PROGRAMS["mlp"].checked())) == [(0, 1), (2, 3)]


def test_results_from_one_input_share_a_pass() -> None:
    p = program("O(n) +=! A(n,m)  P(n) +=! A(n,m) * A(n,m)", returns="O, P")
    assert fused(p) == [(0, 1)]
    assert partitions(p)[0].groups[0].local == ()


def test_totals_of_the_same_elements_share_a_pass() -> None:
    p = program("low min=! A(n,m)  high max=! A(n,m)  d = high - low", returns="low, high, d")
    assert fused(p) == [(0, 1, 2)]
    others = "O +=! A(n,m)  P +=! A(n,m) * O", "O +=! A(n,m)  P +=! A(n,m) where n in 1:N"
    for body in (*others, "O +=! A(n,m)  P +=! A(n,0)"):
        assert fused(program(body, returns="O, P")) == [(0,), (1,)]


def test_sums_along_different_dimensions_stay_apart() -> None:
    assert fused(program_of(PROGRAMS["largest"].checked())) == [(0,), (1,)]


def test_what_shares_rows_passes_what_does_not() -> None:
    p = program(
        "r(n) = rsqrt(A(n,0))  B(m) +=! A(n,m) * r(n)  s(n) +=! A(n,m) * r(n)"
        "  D(m) +=! A(n,m) - r(n)  O(n,m) = A(n,m) * s(n)",
        returns="O, B, D",
    )
    assert fused(p) == [(0, 2, 4), (1, 3)]
    assert partitions(p)[0].groups[0].local == ("s",)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("s(n) +=! A(n,m)  B(m) +=! A(n,m) * s(n)  O(n,m) = A(n,m) * s(n) * B(m)", "it reads B"),
        ("O(n,m) = -A(n,m)  s(n) +=! O(n,m)  B(m) +=! O(n,m) * s(n)  O(n,m) = O(n,m) * s(n)",
         "B reads what it overwrites"),
    ],
)  # fmt: skip
def test_nothing_passes_what_it_has_to_do_with(body: str, why: str) -> None:
    p = program(body, returns="O, B")
    last = len(p.statements) - 1
    assert not any({0, last} <= {*members} for members in fused(p)), why


def test_nothing_is_taken_from_a_group_behind() -> None:
    rows = "s(n) +=! A(n,m)  B(m) +=! A(n,m) * s(n)"
    later = "  t(m) +=! A(n,m) * B(m)  O(n,m) = A(n,m) * t(m) + s(n)"
    assert fused(program(rows + later, returns="O, B")) == [(0,), (1, 2, 3)]


def test_an_input_in_common_tells_all_that_read_it() -> None:
    # A tells B, which comes before the statement that is known to have the rows
    body = "r(n) = C(n)  B(n) +=! A(n,m)  s(n) +=! A(n,m) * r(n)"
    p = program(body, "float(N,M) A, float(N) C", "B, r, s")
    assert fused(p) == [(0, 1, 2)]


def test_points_without_a_fold_stay_tasks() -> None:
    p = program("B(n) = A(n,0)  O(n,m) = A(n,m) * 2", returns="B, O")
    assert fused(p) == [(0,), (1,)]


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_groups_keep_the_order_of_what_depends(name: str) -> None:
    p = program_of(PROGRAMS[name].checked())
    for partition in partitions(p):
        place = {m: k for k, g in enumerate(partition.groups) for m in g.members}
        for j, s in enumerate(p.statements):
            for i, t in enumerate(p.statements[:j]):
                touched = {p.buffer(r.tensor).home for r in (*s.reads(), *t.reads())}
                homes = {p.buffer(s.target).home, p.buffer(t.target).home}
                if len(homes) == 1 or homes & touched:
                    assert place[i] <= place[j] or i not in place


def test_intermediate_that_is_an_output_is_stored() -> None:
    p = program_of(PROGRAMS["two_outputs"].checked())
    (group,) = partitions(p)[0].groups
    assert group.local == ()


def test_dead_temporary_has_no_memory() -> None:
    p = program_of(PROGRAMS["chain"].checked())
    assert {s.target for g in partitions(p)[0].groups for s in g.statements} == {"O"}


@pytest.mark.parametrize(
    ("body", "params", "why"),
    [
        ("t(i) = exp(A(i)) / (A(i) + 2)  O(i) +=! t(i + k) * B(k)", "float(N) A, float(K) B",
         "an element would be computed K times"),
        ("O(n,m) = A(n,m) * 2  t(n,m) = O(n,m) + O(M-1-n,m)  O(n,m) = t(n,m)",
         "float(M,M) A", "the reader overwrites what the producer reads elsewhere"),
    ],
)  # fmt: skip
def test_producer_is_not_inlined(body: str, params: str, why: str) -> None:
    p = program(body, params)
    assert len(inline(p, separate(p))) > 1, why


def test_inlining_respects_a_write_in_between(rng: np.random.Generator) -> None:
    p = program_of(PROGRAMS["overwrite"].checked())
    left = inline(p, separate(p))
    assert [s.target for g in left for s in g.statements] == ["O"]  # t and its version apart
    again = program("t(n,m) = A(n,m)  u(n,m) = t(n,m) * 3  t(n,m) +=! A(n,k) where m in 0:M"
                    "  O(n,m) = u(n,m) + t(n,m)")  # fmt: skip
    assert len(inline(again, separate(again))) == 2


def test_row_group_reads_only_its_own_row() -> None:
    p = program("s(n) +=! A(n,m)  O(n,m) = A(n,m) - s(N-1-n)")
    assert fused(p) == [(0,), (1,)]


def test_partitions_are_different() -> None:
    for entry in PROGRAMS.values():
        found = [q.groups for q in partitions(program_of(entry.checked()))]
        assert len(set(found)) == len(found)


def test_the_default_is_made_without_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    for entry in PROGRAMS.values():
        p = program_of(entry.checked())
        for chains in (None, *(tuple(sizes.items()) for sizes in entry.sizes)):
            assert fuse.default_partition(p, chains=chains) == partitions(p, chains=chains)[0]
    asked: list[bool] = []

    def noted(p: Program, groups: Sequence[Group], *, rows: bool) -> list[Group]:
        asked.append(rows)
        return gather(p, groups, rows=rows)

    monkeypatch.setattr(fuse, "gather", noted)
    fuse.default_partition(program("s(n) +=! A(n,m)  O(n,m) = A(n,m) * s(n)"))
    assert asked == [True]


def test_part_of_a_group_keeps_what_the_rest_reads() -> None:
    p = program_of(PROGRAMS["softmax"].checked())
    (group,) = partitions(p)[0].groups
    head, tail = group.part(0, 3), group.part(3, 4)
    assert head.local == ("mx",)
    assert tail.local == ()
    assert (head.members, tail.members) == ((0, 1, 2), (3,))


# ---- random legal partitions equal the reference


def random_partition(p: Program, rng: np.random.Generator) -> Partition:
    """Return a legal partition: some producers inlined, some neighbours joined."""
    allow: Callable[[Group], bool] = lambda _: bool(rng.random() < 0.7)  # noqa: E731
    rest = inline(p, separate(p), allow)
    out: list[Group] = []
    while rest:
        legal = [n for n in range(1, len(rest) + 1) if n == 1 or can_join(p, rest[:n])]
        count = int(rng.choice(legal))
        out.append(fused_group(p, rest[:count], uses(p, rest[count:])))
        rest = rest[count:]
    return Partition("random", tuple(out))


@pytest.mark.cc
@pytest.mark.wide
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(n, marks=pytest.mark.deep) for n in range(1, 20))]
)
def test_random_partitions_of_random_programs(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    chosen: dict[Program, Partition] = {}
    monkeypatch.setattr(specialise, "default_partition", lambda p, chains: chosen[p])
    cases = []
    for _ in range(6):
        entry = random_program(rng)
        for k, sizes in enumerate(entry.sizes):
            problem = problem_of(entry, sizes, rng)
            chosen.setdefault(problem.program, random_partition(problem.program, rng))
            cases += [Case(problem, exact) for exact in (False, True)[: 1 + (k == 0)]]
    wanted = [expected(c.problem) for c in cases]
    for case, got, want in zip(cases, run_cases(cases, seed=seed), wanted, strict=True):
        text = case.problem.program.text
        groups = [g.members for g in chosen[case.problem.program].groups]
        try:
            assert_same(got, want, terms=400)
        except AssertionError as e:
            raise AssertionError(f"{text}\n{groups} exact={case.exact}\n{e}") from e


def test_gather_without_rows_keeps_epilogues() -> None:
    p = program_of(PROGRAMS["fcrelu"].checked())
    assert [g.members for g in gather(p, inline(p, separate(p)), rows=False)] == [(0, 1, 2)]


PADDED = """def layer(float(N,C,H) I, float(F,C,K) W, float(F) b) -> (O) {
    O(n, f, h) +=! pad(I(n, c, 2 * h + k - 1), 0) * W(f, c, k) where h in 0:H / 2
    O(n, f, h) = max(O(n, f, h) + b(f), 0)
}"""


def test_a_padding_joins_the_contraction_that_reads_it() -> None:
    p = program_of(check(parse(PADDED)))
    found = {x.name: x.groups for x in partitions(p)}
    (group,) = found["fused"]
    assert group.members == (0, 1, 2)
    assert group.local == ("O.factor", "O")
    assert [g.members for g in found["copies"]] == [(0,), (1, 2)]


def test_a_group_without_its_padding_reads_the_tensor_itself() -> None:
    (group,) = partitions(program_of(check(parse(PADDED))))[0].groups
    bare = unpadded(group)
    assert bare is not None
    assert bare.buffer == "I"
    assert bare.group.members == (0, 1, 2)
    assert bare.group.origins == ((0, 1), (2,))
    assert [s.target for s in bare.group.statements] == ["O", "O.1"]
    (guard,) = bare.guards
    assert dict(guard.at.terms) == {"h": 2, "k": 1}
    assert (str(guard.at.const), str(guard.low), str(guard.high)) == ("-1", "0", "H")


def test_a_padding_that_others_read_keeps_its_memory() -> None:
    p = program_of(check(parse(PADDED)))
    (group,) = partitions(p)[0].groups
    assert unpadded(Group(group.members, group.statements, ("O",), group.origins)) is None


PIECES = """def spread(float(F,W) G, float(F,C,3) K) -> (float(C,2*W) D) {
    D(c, 2 * x) +=! G(f, x) * K(f, c, 1)
    D(c, 2 * x + 1) +=! pad(G(f, x - j + 1), 0) * K(f, c, 2 * j) where x in 0:W, j in 0:2
}"""


def test_contractions_that_write_the_pieces_of_a_tensor_are_one_group() -> None:
    p = program_of(check(parse(PIECES)))
    found = {x.name: [g.members for g in x.groups] for x in partitions(p)}
    assert found["fused"] == [(0, 1, 2)]
    assert found["copies"] == [(0,), (1,), (2,)]
    apart = program_of(check(parse(PIECES.replace("2 * x + 1)", "2 * x)"))))
    assert fused(apart) == [(0,), (1,), (2, 3)]  # the odd columns are filled before
