"""Layers in what PyTorch builds around training: wrappers, optimizers, processes, files."""

from __future__ import annotations

import copy
import io
import os
from pathlib import Path
from typing import Any

import pytest

from tests.tiers import sampled

torch = pytest.importorskip("torch")
tct: Any = pytest.importorskip("tcdsl.torch")

pytestmark = [pytest.mark.torch, pytest.mark.cc, pytest.mark.usefixtures("way")]

FCRELU = """
def fcrelu(float(B,M) I, float(N,M) W, float(N) b) -> (O) {
  O(b_, n) +=! I(b_, m) * W(n, m)
  O(b_, n)  = fmax(O(b_, n) + b(n), 0)
}"""
same = torch.testing.assert_close


def model(seed: int = 0) -> Any:
    torch.manual_seed(seed)
    layer = tct.nn.TC(FCRELU, parameters={"W": (6, 4), "b": (6,)})
    return torch.nn.Sequential(torch.nn.Linear(3, 4), layer, torch.nn.Linear(6, 2))


class Reference:
    """The same of torch's own operators, with the same parameters."""

    def __init__(self, of: Any) -> None:
        self.of = of

    def __call__(self, x: Any) -> Any:
        first, layer, last = self.of
        return last(torch.relu(first(x) @ layer.W.T + layer.b))


def data(rows: int = 8) -> tuple[Any, Any]:
    made = torch.Generator().manual_seed(5)
    return torch.randn(rows, 3, generator=made), torch.randn(rows, 2, generator=made)


def gradients(of: Any, run: Any = None) -> dict[str, Any]:
    of.zero_grad()
    x, target = data()
    torch.nn.functional.mse_loss((run or of)(x), target).backward()
    return {n: p.grad.clone() for n, p in of.named_parameters()}


@sampled("use_reentrant", [True, False], keep=1, wide=0)
def test_checkpointed_layers_have_the_gradients_of_others(use_reentrant: bool) -> None:
    from torch.utils.checkpoint import checkpoint

    m = model()
    calls = []
    m[1].register_forward_hook(lambda *_: calls.append(1))

    def run(x: Any) -> Any:
        return checkpoint(m, x.requires_grad_(), use_reentrant=use_reentrant)

    found = gradients(m, run)
    assert len(calls) == 2  # run again on the way back
    same(found, gradients(m))


def test_gradients_accumulate_and_are_clipped() -> None:
    m = model()
    x, target = data()
    loss = torch.nn.functional.mse_loss
    whole = gradients(m)
    m.zero_grad()
    for part in range(0, 8, 2):
        (loss(m(x[part : part + 2]), target[part : part + 2]) / 4).backward()
    same({n: p.grad for n, p in m.named_parameters()}, whole)
    norm = torch.nn.utils.clip_grad_norm_(m.parameters(), 0.01)
    same(norm, torch.stack([g.square().sum() for g in whole.values()]).sum().sqrt())
    assert sum(p.grad.square().sum() for p in m.parameters()) <= 0.01**2 * 1.001


@pytest.mark.parametrize("name", ["LBFGS", "AdamW"])
def test_optimizers_take_the_steps_that_they_take_with_torchs_layers(name: str) -> None:
    x, target = data()
    ends = []
    for wrap in (lambda m: m, Reference):
        m = model()
        run = wrap(m)
        optimizer = getattr(torch.optim, name)(m.parameters(), lr=0.1)

        def closure(m: Any = m, run: Any = run) -> Any:
            m.zero_grad()
            loss = torch.nn.functional.mse_loss(run(x), target)
            loss.backward()
            return loss

        for _ in range(3):
            optimizer.step(closure)
        ends.append([p.detach() for p in m.parameters()])
    same(ends[0], ends[1], rtol=1e-3, atol=1e-4)


def test_hooks_and_anomaly_mode_see_the_layer() -> None:
    m = model()
    seen = []
    m[1].register_full_backward_hook(lambda _m, inputs, outputs: seen.append((inputs, outputs)))
    m[1].W.register_hook(lambda g: seen.append(g))
    plain = gradients(model())
    with torch.autograd.detect_anomaly(check_nan=True):
        same(gradients(m), plain)
    assert len(seen) == 2
    x = torch.full((2, 3), float("inf"))
    with (
        torch.autograd.detect_anomaly(check_nan=True),
        pytest.raises(RuntimeError, match="returned nan values"),
        pytest.warns(UserWarning, match="Error detected in"),
    ):
        m(x).sum().backward()


def test_a_parametrized_weight_learns() -> None:
    from torch.nn.utils import parametrizations

    m = model()
    parametrizations.weight_norm(m[1], "W", dim=0)
    assert torch.nn.utils.parametrize.is_parametrized(m[1], "W")
    found = gradients(m)
    same(found, gradients(m, Reference(m)))
    assert {n for n in found if n.startswith("1.parametrizations")}


def test_a_copied_model_is_another_and_averages_follow() -> None:
    m = model()
    other = copy.deepcopy(m)
    assert other[1].W is not m[1].W
    average = torch.optim.swa_utils.AveragedModel(
        m, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.5)
    )
    average.update_parameters(m)
    with torch.no_grad():
        m[1].W.add_(1)
    average.update_parameters(m)
    same(average.module[1].W, other[1].W + 0.5)
    x, _ = data()
    same(average(x), Reference(average.module)(x))
    same(other(x), Reference(other)(x))


def test_models_and_states_are_saved_and_loaded() -> None:
    m, other = model(), model(1)
    x, _ = data()
    file = io.BytesIO()
    torch.save(m, file)
    file.seek(0)
    same(torch.load(file, weights_only=False)(x), m(x))
    file = io.BytesIO()
    torch.save(m.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    same(other(x), m(x))


class Squares:
    """Data that a kernel computes in the loader's workers."""

    def __init__(self) -> None:
        self.kernel = tct.define("def square(float(N) x) -> (y) { y(i) = x(i) * x(i) }")

    def __len__(self) -> int:
        return 4

    def __getitem__(self, i: int) -> Any:
        return self.kernel(torch.full((3,), float(i)))


@pytest.mark.parametrize("context", ["fork", pytest.param("spawn", marks=pytest.mark.wide)])
def test_workers_of_a_loader_call_kernels(context: str) -> None:
    squares = Squares()
    expected = torch.stack([squares[i] for i in range(4)])  # also in the parent, before
    loader = torch.utils.data.DataLoader(
        squares, batch_size=2, num_workers=2, multiprocessing_context=context
    )
    same(torch.cat([*loader]), expected)


def _learn(rank: int, file: str, out: str, m: Any) -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{file}", rank=rank, world_size=2
    )
    try:
        parallel = torch.nn.parallel.DistributedDataParallel(m)
        x, target = (t[4 * rank : 4 * rank + 4] for t in data())
        torch.nn.functional.mse_loss(parallel(x), target).backward()
        found = {n: p.grad for n, p in m.named_parameters()}
        torch.save(found, f"{out}.{rank}")
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.wide
@pytest.mark.skipif(not torch.distributed.is_available(), reason="no torch.distributed")
def test_two_processes_have_the_gradients_of_one(tmp_path: Path) -> None:
    m = model()
    expected = gradients(m)
    m.zero_grad(set_to_none=True)
    out = str(tmp_path / "gradients")
    torch.multiprocessing.spawn(_learn, (str(tmp_path / "meeting"), out, m), nprocs=2)
    for rank in range(2):
        same(torch.load(f"{out}.{rank}", weights_only=True), expected)
