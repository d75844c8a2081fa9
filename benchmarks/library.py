"""The tensor library beside PyTorch: what calls, views, ops and training steps cost.

`python benchmarks/library.py [--seconds 0.15] [--threads 2] [--only TEXT] [--json FILE]
[--dtype float32]` times each expression of `library_calls.py` in both libraries, with its way back
where it has one, then a graph of 100,000 nodes and the training steps of `library_steps.py`, whose
live memory is counted too; of another type than float32 only the expressions. Results are held
against torch's before their time counts. Calls of both take turns in one process; times are 20 %
quantiles. At the end stand those that miss their aims, worst first, as torch's time / ours.
"""

from __future__ import annotations

import os

# Two pools of threads on the same cores only measure each other: let idle ones sleep. Torch's own
# spin as they do by default, or its calls on few elements would pay for waking them.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
os.environ.setdefault("KINETO_LOG_LEVEL", "99")

import gc
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from beside_torch import in_turns, use_threads
from library_calls import Array, Call, calls
from library_steps import STEPS, Steps
from reports import Table, asking, facts, keep

import tcdsl
from tcdsl.calls.bindings import aside
from tcdsl.codegen import runtime

LIBRARIES = {"torch": torch, "ours": tcdsl}
NODES, TURNS = 100_000, 3
TURN_NS = 2_000_000  # of a library: 10 samples of a short call
LEAVES = ("x", "w", "g", "h")  # the operands by which gradients are taken
Row = dict[str, Any]


def tensors(module: Any, arrays: dict[str, Array], dtype: str, *, records: bool) -> dict[str, Any]:
    """Return operands as tensors of a library; `LEAVES` have gradients if it records."""
    made = {name: module.from_numpy(a.copy()) for name, a in arrays.items()}
    for name, t in made.items():
        if t.is_floating_point():
            made[name] = t = t.to(getattr(module, dtype))
        if records and name in LEAVES:
            t.requires_grad_()
    return made


def flat(found: Any) -> Array:
    """Return a result as one array."""
    listed = found if isinstance(found, tuple | list) else (found,)
    arrays = (
        x.detach().double().numpy() if hasattr(x, "detach") else x for x in listed if x is not None
    )
    parts = [np.asarray(a, np.float64).ravel() for a in arrays]
    return np.concatenate(parts) if parts else np.zeros(0)


def check(name: str, results: dict[str, Any], dtype: str = "float32") -> None:
    """Hold our result against torch's, of halves as exactly as those are."""
    theirs, ours = (flat(results[n]) for n in LIBRARIES)
    part = max(1e-3, 16 * torch.finfo(getattr(torch, dtype)).eps)
    limit = part * float(np.abs(theirs[np.isfinite(theirs)]).max(initial=1e-3))
    ok = theirs.shape == ours.shape and np.allclose(ours, theirs, part, limit, equal_nan=True)
    assert ok, f"{name}: the results differ"


def forward_and_back(module: Any, function: Callable[..., Any], given: dict[str, Any]) -> Any:
    """Return a call that gives the gradient by the first operand and by weights."""
    first = function(*given.values())
    assert first.requires_grad
    shape = tuple(first.shape)
    weights = np.random.default_rng(shape).standard_normal(shape).astype(np.float32)
    adjoint = module.from_numpy(np.asarray(weights)).to(first.dtype)
    leaves = [t for t in given.values() if t.requires_grad]

    def run() -> Any:
        y = function(*given.values())
        return module.autograd.grad(y, leaves, adjoint, allow_unused=True)

    return run


def rows_of(call: Call, dtype: str) -> Iterator[tuple[str, float, dict[str, Callable[[], Any]]]]:
    """Yield a call as both libraries do it, recorded where that has an aim, and its way back."""
    arrays = call.operands()
    plain: dict[str, Callable[[], Any]] = {}
    recorded: dict[str, Callable[[], Any]] = {}
    back: dict[str, Callable[[], Any]] = {}
    for name, module in LIBRARIES.items():
        function = call.function(module)
        given = tensors(module, arrays, dtype, records=False)
        plain[name] = partial(function, *given.values())
    yield call.name, call.aim, plain
    if not call.has_gradient:
        return
    for name, module in LIBRARIES.items():
        given = tensors(module, arrays, dtype, records=True)
        function = call.function(module)
        if not function(*given.values()).requires_grad:
            return
        recorded[name] = partial(function, *given.values())
        back[name] = forward_and_back(module, function, given)
    if call.aim > 1:
        yield f"{call.name}, recorded", call.aim, recorded
    yield f"{call.name}, and back", min(call.aim, 1), back


def timed(
    name: str,
    aim: float,
    both: dict[str, Callable[[], Any]],
    seconds: float,
    dtype: str = "float32",
) -> Row:
    """Return the microseconds of both libraries."""
    check(name, {library: seeded(library, call) for library, call in both.items()}, dtype)
    us = side_by_side(both, seconds)
    return {"name": name, "aim": aim, **us, "ratio": us["torch"] / us["ours"]}


def seeded(library: str, call: Callable[[], Any]) -> Any:
    """Return the result of a call whose numbers of chance are those of one seed."""
    LIBRARIES[library].manual_seed(1)
    return call()


def side_by_side(both: dict[str, Callable[[], Any]], seconds: float) -> dict[str, float]:
    """Return the microseconds of both libraries, when nothing is compiled any more."""
    for call in both.values():
        call()
    aside.settle()
    return in_turns({"torch": both["torch"]}, {"ours": both["ours"]}, seconds, TURN_NS)


def call_rows(only: str, seconds: float, dtype: str) -> Iterator[Row]:
    """Time the calls whose name contains a text; one that fails is a row that says so."""
    for call in calls():
        if not any(only in f"{call.name}{way}" for way in ("", ", recorded", ", and back")):
            continue
        try:
            for name, aim, both in rows_of(call, dtype):
                if only in name:
                    yield timed(name, aim, both, seconds, dtype)
        except Exception as error:  # of one call, which is no reason to lose the others
            yield failed(call.name, call.aim, error)
        gc.collect()


def failed(name: str, aim: float, error: Exception) -> Row:
    """Return the row of what could not be timed."""
    return {"name": name, "aim": aim, "ratio": 0.0, "error": repr(error)[:300]}


def squares(module: Any) -> Callable[[], Any]:
    """Return the call that every text about overhead times."""
    x = module.ones(16, requires_grad=True)

    def run() -> Any:
        (x * x).sum().backward()
        found, x.grad = x.grad, None
        return found

    return run


def deep(module: Any) -> float:
    """Return the seconds that a graph of many nodes takes to be built, run back and freed."""
    x = module.ones(16, requires_grad=True)
    factor = module.ones(16)
    start = time.perf_counter()
    y = x
    for _ in range(NODES):
        y = y * factor
    y.sum().backward()
    del y
    return time.perf_counter() - start


def deep_row() -> Row:
    """Time the graph in turns; the fastest counts."""
    times: dict[str, list[float]] = {name: [] for name in LIBRARIES}
    for _ in range(TURNS):
        for name, module in LIBRARIES.items():
            gc.collect()
            times[name].append(deep(module) * 1e6)
    best = {name: min(t) for name, t in times.items()}
    name = f"graph of {NODES:,} nodes"
    return {"name": name, "aim": 4, **best, "ratio": best["torch"] / best["ours"]}


def hold_a_step(name: str, models: dict[str, Any], runs: dict[str, Callable[[], Any]]) -> None:
    """Hold the loss of a step and its gradients against torch's, and go on from torch's state.

    The gradients are held as one vector: where an activation is within rounding of 0, a unit has
    a gradient in one library and none in the other. So states may part, and the next step begins
    from one.
    """
    check(name, {library: run() for library, run in runs.items()})
    theirs, ours = (flat([p.grad for p in models[n].parameters()]) for n in LIBRARIES)
    off = np.linalg.norm(ours - theirs) / np.linalg.norm(theirs)
    assert off <= 1e-2, f"{name}: the gradients differ by {off:.1%}"
    state = models["torch"].state_dict()
    models["ours"].load_state_dict(
        {k: LIBRARIES["ours"].from_numpy(v.numpy().copy()) for k, v in state.items()}
    )


def step_row(steps: Steps, seconds: float) -> Row:
    """Time a training step from the same parameters, and count the memory that is alive."""
    runs: dict[str, Callable[[], Any]] = {}
    forwards: dict[str, Callable[[], Any]] = {}
    models: dict[str, Any] = {}
    state: dict[str, Array] = {}
    for name, module in LIBRARIES.items():
        model, loss_of, optimizer_of = steps.make(module)
        models[name] = model
        if name == "torch":
            state = {k: v.numpy().copy() for k, v in model.state_dict().items()}
        model.load_state_dict({k: module.from_numpy(v.copy()) for k, v in state.items()})
        batch = [module.from_numpy(a.copy()) for a in steps.batch]
        optimizer = optimizer_of(model.parameters())

        def forward(model: Any = model, loss_of: Any = loss_of, batch: Any = batch) -> Any:
            return loss_of(model, *batch)

        def run(forward: Any = forward, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            loss = forward()
            loss.backward()
            optimizer.step()
            return loss

        runs[name], forwards[name] = run, forward
    for _ in range(3):
        hold_a_step(steps.name, models, runs)
    alive = {"torch": alive_in_torch(forwards["torch"]), "ours": alive_in_ours(forwards["ours"])}
    us = side_by_side(runs, max(seconds, 1.0))
    return {
        "name": steps.name,
        "aim": steps.aim,
        **us,
        "ratio": us["torch"] / us["ours"],
        "alive_bytes": alive,
        "bytes_ratio": alive["ours"] / alive["torch"],
    }


def alive_in_torch(forward: Callable[[], Any]) -> int:
    """Return the bytes that a forward pass asks for and keeps for its way back."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        loss = forward()
    events = profile.profiler.kineto_results.events()
    found = sum(int(e.nbytes()) for e in events if e.name() == "[memory]")
    del loss
    return found


def alive_in_ours(forward: Callable[[], Any]) -> int:
    """Return the same of our library."""
    gc.collect()
    before = runtime.memory()[0]
    loss = forward()
    found = runtime.memory()[0] - before
    del loss
    return found


def all_rows(only: str, seconds: float, dtype: str) -> Iterator[Row]:
    """Yield every row whose name contains a text."""
    if dtype != "float32":
        yield from call_rows(only, seconds, dtype)
        return
    name = "(x * x).sum().backward() of 16"
    if only in name:
        yield timed(name, 12, {n: squares(m) for n, m in LIBRARIES.items()}, seconds)
    if only in f"graph of {NODES:,} nodes":
        yield deep_row()
    for steps in STEPS:
        if only in steps.name:
            try:
                yield step_row(steps, seconds)
            except Exception as error:  # as of a call
                yield failed(steps.name, steps.aim, error)
    yield from call_rows(only, seconds, dtype)


HEADS = {"torch us": "12.2f", "ours us": "12.2f", "ratio": "8.2f", "aim": "6.1f", "bytes": "7.2f"}


def main() -> None:
    parser = asking(__doc__, 0.15, "per row")
    parser.add_argument("--dtype", default="float32", help="of floats: float16, bfloat16, float64")
    options = parser.parse_args()
    threads = use_threads(options.threads)
    print(f"{threads} threads, {options.dtype}, torch {torch.__version__}, times in us")
    table = Table("", 64, HEADS)
    found: list[Row] = []

    def show(row: Row) -> None:
        figures = (row.get(key) for key in ("torch", "ours", "ratio", "aim", "bytes_ratio"))
        table.row(row["name"], *figures, note=f"  {row['error']}" if "error" in row else "")

    for row in all_rows(options.only, options.seconds, options.dtype):
        found.append(row)
        show(row)
        told = {"torch": torch.__version__, "dtype": options.dtype, "rows": found}
        keep({**facts(), **told}, options.json)
    missed = sorted(
        (r for r in found if r["ratio"] < r["aim"]), key=lambda r: r["ratio"] / r["aim"]
    )
    print(f"\n{len(missed)} of {len(found)} rows miss their aim, worst first:")
    for row in missed:
        show(row)


if __name__ == "__main__":
    main()
