"""The search space of a definition: configs of one meaning are one kernel."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Hashable

import numpy as np

from tcdsl.autotune.targets.space import space_of
from tcdsl.autotune.worker.emitted import Emitted
from tcdsl.codegen.choose import compiler
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.toolchain.host import detect
from tests.codegen.harness import spec_of
from tests.codegen.programs import PROGRAMS, Entry, problem_of
from tests.tiers import sampled

ROWS = PROGRAMS["softmax"].text
PAIRS = {
    "rows in registers": (ROWS, {"N": 60, "M": 30}),
    "product": (PROGRAMS["matmul"].text, {"M": 33, "N": 40, "K": 50}),
    "rows": (ROWS, {"N": 300, "M": 500}),
    "sums": (PROGRAMS["sum"].text, {"N": 300, "M": 500}),
    "columns": (PROGRAMS["column_sum"].text, {"N": 300, "M": 500}),
    "total": (PROGRAMS["total"].text, {"N": 300, "M": 500}),
    "copy": (PROGRAMS["copy"].text, {"N": 300, "M": 500}),
    "short lines": (PROGRAMS["row"].text, {"N": 300, "M": 20}),
    "one line": ("def f(float(N) A) -> (O) { O(i) = A(i) + 1 }", {"N": 9000}),
    "transpose": (PROGRAMS["transpose"].text, {"N": 200, "M": 130}),
    "chain": (PROGRAMS["layernorm"].text, {"N": 40, "M": 300}),
    "thin": (
        "def f(float(M,K) A, float(N,K) B) -> (O) { O(m,n) +=! A(m,k)*B(n,k) }",
        {"M": 2, "N": 60, "K": 300},
    ),
    "linear": (
        "def f(float(M,K) A, float(N,K) B, float(N) b) -> (O) { O(m,n) +=! A(m,k)*B(n,k)"
        " O(m,n) = fmax(O(m,n) + b(n), 0) }",
        {"M": 5, "N": 64, "K": 96},
    ),
    "stream": (PROGRAMS["matmul"].text, {"M": 3, "N": 200, "K": 100}),
    "depthwise": (
        "def f(float(N,C,H,W) X, float(C,3,3) F) -> (Y) "
        "{ Y(n, c, h, w) +=! X(n, c, h + i, w + j) * F(c, i, j) }",
        {"N": 1, "C": 4, "H": 20, "W": 40},
    ),
    "largest": ("def f(float(N,M) X) -> (O) { O(n) argmax=! X(n,m) }", {"N": 30, "M": 200}),
    "largest of columns": (
        "def f(float(N,M) X) -> (O) { O(m) argmax=! X(n,m) }", {"N": 30, "M": 200},
    ),
}  # fmt: skip
_DRAWN, _PAIRS = 300, 6


@sampled("name", PAIRS, keep=2)
def test_configs_of_one_meaning_are_one_kernel(name: str) -> None:
    text, sizes = PAIRS[name]
    p = problem_of(Entry(text, (sizes,)), sizes, np.random.default_rng(0))
    spec, machine = spec_of(p, exact=True), detect()
    space = space_of(p.program, spec, machine)

    def kernel(config: Config) -> str:
        unit = compiler.lower(p.program, spec, config, machine, p.sizes, "k")
        return Emitted("k", compiler.emit_c(unit)).fingerprint

    rng = random.Random(0)
    alike: dict[Hashable, list[Config]] = defaultdict(list)
    for config in (space.default, *space.neighbours(space.default), *space.spread(rng, _DRAWN)):
        alike[space.meaning(config)].append(config)
    assert len(alike) > 1
    pairs = [(one, other) for one, *others in alike.values() for other in others[-2:]]
    for one, other in rng.sample(pairs, min(len(pairs), _PAIRS)):
        assert kernel(one) == kernel(other), f"{one}\n{other}"


def test_configs_of_another_compiler_mean_themselves() -> None:
    """A search that starts from them, or finds them in a file, goes on: they are refused later."""
    text, sizes = PAIRS["product"]
    p = problem_of(Entry(text, (sizes,)), sizes, np.random.default_rng(0))
    space = space_of(p.program, spec_of(p, exact=True), detect())
    known = dict(space.default.items)
    for strange in (
        {"planted": "crash"},
        {"partition": "fused"},
        known | {"partition": "elsewhere"},
        known | {"g0.form": "weaving"},
        known | {"g0.tile": "wide"},
    ):
        config = Config.of(strange)
        assert space.meaning(config) == config
    assert space.meaning(space.default) != space.default
