"""A short tuning of three problems, with a candidate that crashes and one that never ends."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from layers import FCRELU, MATMUL, SOFTMAX

from gpu_parts.setting import Setting
from tcdsl.autotune.report import reporter
from tcdsl.autotune.search.space import Branch, SearchSpace
from tcdsl.autotune.store.store import TuningStore
from tcdsl.autotune.targets.cuda.problem import CudaProblem
from tcdsl.autotune.tuner import tune
from tcdsl.autotune.worker.emitted import Emitted
from tcdsl.calls.operands.arguments import contiguous
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.machine.spec import Spec
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.parser import parse

SCALE = "def scale(float(N) x) -> (y) { y(n) = 2 * x(n) }"
ENDLESS = "def scale(float(N) x) -> (y) { y(n) +=! x(n) * x(n) where k in 0:1099511627776 }"
_PLANTED = ("crash", "hang")
_FAR = 1 << 31  # elements: 8 GB behind the operands nothing of this process lies
_FAR_SIMULATED = 4096


@dataclass(frozen=True)
class Planted(CudaProblem):
    """`y(n) = 2 x(n)`, and in its space a kernel that leaves its operands and one without end."""

    far: int = _FAR

    @property
    def space(self) -> SearchSpace:
        found = super().space
        planted = tuple(Branch((("planted", kind),), ()) for kind in _PLANTED)
        return replace(
            found,
            branches=(*found.branches, *planted),
            cost_ns=lambda c: 1.0 if "planted" in dict(c.items) else found.cost_ns(c),
            is_legal=lambda c: "planted" in dict(c.items) or found.is_legal(c),
        )

    def emit(self, config: Config) -> Emitted:
        kind = config.get("planted")
        if kind is None:
            return super().emit(config)
        text = ENDLESS if kind == "hang" else SCALE
        size = self.sizes["N"] + (self.far if kind == "crash" else 0)
        other = problem(text, {"N": size}, self)
        return other.emit(Config())


def problem(text: str, sizes: Mapping[str, int], where: Setting | CudaProblem) -> CudaProblem:
    """Return a definition with operands in C order as a problem."""
    checked = check(parse(text))
    layouts = tuple(contiguous(len(t.shape)) for t in (*checked.params, *checked.returns))
    spec = Spec(tuple((n, sizes[n]) for n in checked.sizes), layouts, 0)
    return CudaProblem(checked, spec, device=where.device)


def short_tuning(setting: Setting, seconds: float) -> dict[str, Any]:
    """Return what the tuner found for three problems, and what became of the planted faults."""
    simulated = setting.is_simulated
    side = 8 if simulated else 2048
    wanted: list[CudaProblem] = [
        problem(MATMUL, {"M": side, "K": side, "N": side}, setting),
        problem(SOFTMAX, {"B": side // 2, "N": side}, setting),
        problem(FCRELU, {"M": 4, "K": side, "N": side // 2}, setting),
    ]
    plain = problem(SCALE, {"N": 300 if simulated else 1 << 20}, setting)
    far = _FAR_SIMULATED if simulated else _FAR
    faulty = Planted(plain.checked, plain.spec, device=setting.device, far=far)
    rows = []
    share = seconds / (len(wanted) + 1)
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder) / "gpu.db"
        limit = {"trials": 2} if simulated else {"seconds": share}
        for one in wanted:
            begun = time.perf_counter()
            (found,) = tune([one], cache=cache, report=reporter(), **limit)
            spent = time.perf_counter() - begun
            rows.append(
                {
                    "name": one.name,
                    "config": str(found.config),
                    "time_us": found.verdict.time_ns / 1e3,
                    "default_us": found.verdict.default_ns / 1e3,
                    "share": one.roofline.share(found.verdict.time_ns),
                    "trials": found.trials,
                    "trials_per_s": found.trials / spent,
                    "failures": _failures(cache, one),
                }
            )
        start = [faulty.space.default, *(Config.of({"planted": kind}) for kind in _PLANTED)]
        begun = time.perf_counter()
        (found,) = tune([faulty], cache=cache, start=start, trials=5, report=reporter())
        spent = time.perf_counter() - begun
        with TuningStore(cache) as store:
            ends = {
                str(r.config.get("planted")): f"{r.reason}: {r.detail}"
                for r in store.trials(faulty.key)
                if "planted" in dict(r.config.items)
            }
    for kind, end in ends.items():
        print(f"  planted {kind}: {end.splitlines()[0]}")
    reasons = {kind: ends.get(kind, "").partition(":")[0] for kind in _PLANTED}
    result = {"rows": rows, "planted": ends, "planted_s": spent}
    if reasons != {"crash": "crash", "hang": "slow"}:
        result["error"] = f"planted faults ended as {reasons}"
    return result


def _failures(cache: Path, one: CudaProblem) -> dict[str, int]:
    counts: dict[str, int] = {}
    with TuningStore(cache) as store:
        for trial in store.ended(one.key):
            if trial.reason:
                counts[trial.reason] = counts.get(trial.reason, 0) + 1
    return counts
