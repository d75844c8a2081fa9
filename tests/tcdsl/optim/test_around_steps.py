"""What stands around steps, as PyTorch has it: hooks, words of constructors, means."""

from __future__ import annotations

import copy
import importlib
import pickle
from typing import Any

import numpy as np
import pytest

from tcdsl import library as tc
from tcdsl import nn, optim
from tests.tiers import sampled

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.cc]
LIBRARIES = ((tc, nn, optim), (torch, torch.nn, torch.optim))
ALL = [
    "SGD", "Adam", "AdamW", "Adamax", "Adagrad", "Adadelta", "RMSprop", "Rprop", "ASGD", "NAdam",
    "RAdam",
]  # fmt: skip


@pytest.mark.parametrize("name", ALL)
def test_groups_have_the_settings_of_torch(name: str) -> None:
    groups = []
    for u, _, o in LIBRARIES:
        made = getattr(o, name)([u.zeros(1, requires_grad=True)], lr=0.1)
        groups.append({k: v for k, v in made.param_groups[0].items() if k != "params"})
    assert groups[0] == groups[1]
    with pytest.raises(NotImplementedError, match="not recorded"):
        getattr(optim, name)([tc.zeros(1)], lr=0.1, differentiable=True)
    with pytest.raises(TypeError):
        getattr(optim, name)([tc.zeros(1)], lr=0.1, sideways=True)


def test_words_that_contradict_each_other() -> None:
    for u, _, o in LIBRARIES:
        with pytest.raises(RuntimeError, match="cannot be `True` together"):
            o.SGD([u.zeros(1, requires_grad=True)], lr=0.1, fused=True, foreach=True)


def _hooks(u: Any, o: Any) -> Any:
    all_of_them = importlib.import_module(f"{o.__name__}.optimizer")
    said: list[Any] = []
    p = u.tensor([1.0, 2.0], requires_grad=True)
    p.grad = u.ones(2)
    made = o.SGD([p], lr=0.1)
    made.register_step_pre_hook(lambda s, a, k: said.append(["pre", len(a), sorted(k)]))
    made.register_step_pre_hook(lambda s, a, k: (a, {"closure": lambda: 7.0}))
    handle = made.register_step_post_hook(lambda s, a, k: said.append(["post", sorted(k)]))
    every = all_of_them.register_optimizer_step_pre_hook(lambda s, a, k: said.append("all before"))
    after = all_of_them.register_optimizer_step_post_hook(lambda s, a, k: said.append("all behind"))
    said.append(made.step())
    for one in (handle, every, after):
        one.remove()
    said.append(made.step())
    made.register_state_dict_pre_hook(lambda s: said.append("first"), prepend=True)
    made.register_state_dict_post_hook(lambda s, d: {**d, "more": 1})
    made.register_state_dict_post_hook(lambda s, d: said.append(sorted(d)))
    made.register_load_state_dict_pre_hook(lambda s, d: {k: d[k] for k in d if k != "more"})
    made.register_load_state_dict_post_hook(lambda s: said.append("loaded"))
    made.load_state_dict(made.state_dict())
    return [said, np.round(p.tolist(), 5).tolist()]


def test_hooks_are_called_as_by_torch() -> None:
    assert _hooks(tc, optim) == _hooks(torch, torch.optim)


def test_copies_of_optimizers_have_hooks_of_their_own() -> None:
    made = optim.SGD([tc.ones(1, requires_grad=True)], lr=0.1)
    made.register_step_pre_hook(print)
    for other in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert not other._hooks["step_pre"]
        other.step()


def _averaged(u: Any, m: Any, o: Any, how: str) -> Any:
    swa = o.swa_utils
    model = m.Sequential(m.Linear(2, 1), m.BatchNorm1d(1))
    named: dict[str, Any] = {
        "swa": {},
        "ema": {"multi_avg_fn": swa.get_ema_multi_avg_fn(0.75), "use_buffers": True},
        "one": {"avg_fn": swa.get_ema_avg_fn(0.75)},
        "mean": {"avg_fn": swa.get_swa_avg_fn()},
    }[how]
    mean = swa.AveragedModel(model, **named)
    for turn in range(3):
        with u.no_grad():
            for p in model.parameters():
                p.fill_(turn + 0.5)
            model[1].running_mean.fill_(turn)
            model[1].num_batches_tracked.fill_(turn * 4)
        mean.update_parameters(model)
    x = u.tensor([[1.0, 2.0], [3.0, -1.0], [0.0, 1.0]])
    if how == "swa":
        swa.update_bn([(x, 0), (x * 2, 1)], mean)
    mean.eval()
    state = {k: v.tolist() for k, v in mean.state_dict().items()}
    return {k: np.round(v, 5).tolist() for k, v in {**state, "y": mean(x).tolist()}.items()}


@sampled("how", ["swa", "ema", "one", "mean"], keep=2)
def test_means_of_parameters(how: str) -> None:
    assert _averaged(*LIBRARIES[0], how) == _averaged(*LIBRARIES[1], how)


def test_statistics_are_computed_anew_for_batch_norms_only() -> None:
    found = []
    for u, m, o in LIBRARIES:
        net = m.Sequential(m.BatchNorm1d(2), m.InstanceNorm1d(2, track_running_stats=True))
        batch = u.arange(12.0).reshape(1, 2, 6)
        o.swa_utils.update_bn([batch, batch * 2], net)
        found.append([np.round(v.tolist(), 4).tolist() for v in net.state_dict().values()])
    assert found[0] == found[1]


def test_a_narrow_type_does_not_round_the_count_of_steps() -> None:
    found = []
    for u, _, o in LIBRARIES:
        p = u.ones(1, dtype=u.float16, requires_grad=True)
        steps = o.Adam([p])
        p.grad = u.ones_like(p)
        steps.step()
        state = steps.state_dict()
        state["state"][0]["step"] = u.tensor(4097.0)
        steps.load_state_dict(state)
        steps.step()
        found.append(float(steps.state_dict()["state"][0]["step"]))
    assert found == [4098, 4098]


@pytest.mark.wide
def test_groups_and_states_are_laid_out_as_pytorchs() -> None:
    names = "SGD Adam AdamW Adamax NAdam RAdam Adagrad Adadelta RMSprop ASGD Rprop Adafactor"
    found: list[Any] = [[], []]
    for told, (u, _, o) in zip(found, LIBRARIES, strict=True):
        for name in names.split():
            p = u.ones(2, 2, requires_grad=True)
            steps = getattr(o, name)([p])
            p.grad = u.ones_like(p)
            steps.step()
            state = steps.state_dict()["state"].get(0, {})
            shapes = {k: v if v is None else tuple(v.shape) for k, v in state.items()}
            told.append((name, list(steps.param_groups[0]), list(shapes.items())))
    assert found[0] == found[1]


def test_functions_with_a_state_of_their_own_are_kept_with_a_schedule() -> None:
    class Power:
        def __init__(self) -> None:
            self.of = 0.5

        def __call__(self, epoch: int) -> float:
            return float(self.of**epoch)

    found = []
    for u, _, o in LIBRARIES:
        groups = [{"params": [u.ones(1, requires_grad=True)]} for _ in range(2)]
        steps = o.SGD(groups, lr=1.0)
        made = o.lr_scheduler.LambdaLR(steps, [Power(), lambda epoch: 0.9**epoch])
        state = made.state_dict()
        found.append([copy.deepcopy(state["lr_lambdas"])])
        state["lr_lambdas"][0]["of"] = 0.25
        made.load_state_dict(state)
        steps.step()
        made.step()
        found[-1].append([g["lr"] for g in steps.param_groups])
    assert found[0] == found[1] == [[{"of": 0.5}, None], [0.25, 0.9]]


@pytest.mark.parametrize("strategy", ["cos", "linear"])
@pytest.mark.parametrize("epochs", [0, 3])
def test_the_learning_rate_for_means(strategy: str, epochs: int) -> None:
    found = []
    for u, _, o in LIBRARIES:
        steps = o.SGD([{"params": [u.ones(1, requires_grad=True)]},
                       {"params": [u.ones(1, requires_grad=True)], "lr": 2.0}], lr=1.0)  # fmt: skip
        other = o.lr_scheduler.ExponentialLR(steps, 0.9)
        made = o.swa_utils.SWALR(steps, [0.05, 0.5], epochs, strategy)
        rates = []
        for turn in range(6):
            steps.step()
            (other if turn < 2 else made).step()
            rates.append([g["lr"] for g in steps.param_groups])
        found.append(rates)
        with pytest.raises(ValueError, match="anneal_strategy"):
            o.swa_utils.SWALR(steps, 0.1, 1, "up")
    np.testing.assert_allclose(found[0], found[1], rtol=1e-12)
