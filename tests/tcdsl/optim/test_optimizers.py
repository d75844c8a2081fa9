"""Optimizers step where PyTorch's do, and their states go from one to the other."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
import pytest

from tcdsl import library as tc
from tcdsl import optim
from tests.tiers import sampled

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.cc]

STEPS: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ("Adam", {"lr": 0.1, "weight_decay": 0.1}),
    ("Adam", {"lr": 0.1, "amsgrad": True}),
    ("AdamW", {"lr": 0.1}),
    ("Adamax", {"lr": 0.1}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1}),
    ("Adadelta", {"lr": 1.0}),
    ("RMSprop", {"lr": 0.1}),
    ("RMSprop", {"lr": 0.1, "momentum": 0.5, "centered": True}),
    ("RMSprop", {"lr": 0.1, "momentum": 0.5}),
    ("RMSprop", {"lr": 0.1, "centered": True, "weight_decay": 0.1}),
    ("Adafactor", {"lr": 0.1}),
    ("Adafactor", {"lr": 0.3, "weight_decay": 0.1, "d": 1.5, "eps": (1e-3, 0.5)}),
    ("Rprop", {"lr": 0.1}),
    ("ASGD", {"lr": 0.1, "t0": 2, "weight_decay": 0.1}),
    ("LBFGS", {"lr": 0.5}),
    ("LBFGS", {"lr": 1.0, "line_search_fn": "strong_wolfe", "max_iter": 6, "max_eval": 40}),
    ("LBFGS", {"lr": 30.0, "line_search_fn": "strong_wolfe", "max_iter": 3}),
    ("NAdam", {"lr": 0.1, "weight_decay": 0.1}),
    ("NAdam", {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {"lr": 0.1, "weight_decay": 0.1}),
    ("RAdam", {"lr": 0.1, "betas": (0.5, 0.9), "decoupled_weight_decay": True}),
    ("Adam", {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    *(
        (name, {"lr": 0.01, "maximize": True, "foreach": False})
        for name in (
            "SGD",
            "Adam",
            "AdamW",
            "Adamax",
            "Adagrad",
            "Adadelta",
            "RMSprop",
            "Rprop",
            "ASGD",
            "NAdam",
            "RAdam",
        )
    ),
]
CASES = [pytest.param(*case, id=f"{case[0]}-{number}") for number, case in enumerate(STEPS)]


def bowl(p: Any, q: Any) -> Any:
    """Return a loss of two parameters."""
    return ((p - 1) ** 2).sum() + 0.1 * ((p * q) ** 2).sum() + (q**4).sum()


@sampled("name, settings", CASES, keep=2, wide=10)
def test_steps(name: str, settings: dict[str, Any]) -> None:
    begin = np.array([[0.5, -1.0, 2.0], [0.1, 0.2, -0.3]])
    mine = [tc.tensor(begin, requires_grad=True), tc.tensor(begin[0], requires_grad=True)]
    yours = [torch.tensor(begin, requires_grad=True), torch.tensor(begin[0], requires_grad=True)]
    ours = getattr(optim, name)(mine, **settings)
    theirs = getattr(torch.optim, name)(yours, **settings)
    for turn in range(5):
        for optimizer, parameters in ((ours, mine), (theirs, yours)):

            def closure(optimizer: Any = optimizer, parameters: Any = parameters) -> Any:
                optimizer.zero_grad()
                loss = bowl(*parameters)
                loss.backward()
                return loss

            optimizer.step(closure)
        for a, b in zip(mine, yours, strict=True):
            rtol = 1e-5 if name == "ASGD" else 1e-7  # PyTorch keeps its learning rate in float32
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol, 1e-9)
        if turn == 2 and name != "LBFGS":
            state = copy.deepcopy(ours.state_dict())
            ours = getattr(optim, name)(mine, **settings)
            ours.load_state_dict(state)


@sampled("is_high, settings", [
    (True, {}), (False, {}), (True, {"nesterov": False, "adjust_lr_fn": "match_rms_adamw"}),
    (False, {"nesterov": False, "adjust_lr_fn": "match_rms_adamw"}),
],
    keep=1, wide=2,
)  # fmt: skip
def test_muon_steps_matrices(is_high: bool, settings: dict[str, Any]) -> None:
    begin = np.array([[0.5, -1.0, 2.0], [0.1, 0.2, -0.3]], np.float32)
    begin = begin.T.copy() if is_high else begin
    found = []
    for tensors, optimizers in ((tc, optim), (torch, torch.optim)):
        p = tensors.tensor(begin, requires_grad=True)
        optimizer = optimizers.Muon([p], lr=0.1, **settings)
        for _ in range(2):
            optimizer.zero_grad()
            ((p**4).sum() + p.sum()).backward()
            optimizer.step()
        found.append(p.tolist())
    np.testing.assert_allclose(found[0], found[1], atol=4e-3)  # steps in bfloat16


def test_muon_takes_matrices_only() -> None:
    with pytest.raises(ValueError, match="only supports 2D parameters"):
        optim.Muon([tc.ones(2, requires_grad=True)])


@sampled("name, settings", [
    ("RMSprop", {}), ("RMSprop", {"momentum": 0.5}), ("RMSprop", {"centered": True}),
    ("RMSprop", {"momentum": 0.5, "centered": True}), ("LBFGS", {"max_iter": 4}), ("Adafactor", {}),
],
    keep=3,
)  # fmt: skip
def test_states_have_pytorchs_keys(name: str, settings: dict[str, Any]) -> None:
    found = []
    for tensors, optimizers in ((tc, optim), (torch, torch.optim)):
        p = tensors.ones(2, 3, requires_grad=True)
        optimizer = getattr(optimizers, name)([p], **settings)

        def closure(p: Any = p, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            loss = (p**4).sum()
            loss.backward()
            return loss

        optimizer.step(closure)
        found.append([key for key in optimizer.state_dict()["state"][0] if key != "al"])
    assert found[0] == found[1]


@pytest.mark.parametrize("steps_first", [True, False])
def test_a_schedule_before_its_optimizer_warns(steps_first: bool) -> None:
    found = []
    for tensors, optimizers in ((tc, optim), (torch, torch.optim)):
        optimizer = optimizers.SGD([tensors.ones(2, requires_grad=True)], lr=0.1)
        schedule = optimizers.lr_scheduler.StepLR(optimizer, 2)
        if steps_first:
            optimizer.step()
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            schedule.step()
            schedule.step()
        found.append([(str(w.message), w.filename) for w in said])
    assert found[0] == found[1]
    assert len(found[0]) == (0 if steps_first else 1)


def test_groups() -> None:
    p, q = (tc.ones(2, requires_grad=True) for _ in range(2))
    optimizer = optim.SGD([{"params": [p]}, {"params": [q], "lr": 1.0}], lr=0.1)
    bowl(p, q).backward()
    optimizer.step()
    assert p.tolist() != q.tolist()
    with pytest.raises(ValueError, match="more than one parameter group"):
        optimizer.add_param_group({"params": [p]})
    with pytest.raises(ValueError, match="can't optimize a non-leaf Tensor"):
        optimizer.add_param_group({"params": [p * 2]})
    with pytest.raises(ValueError, match="optimizer got an empty parameter list"):
        optim.SGD([], lr=0.1)
    with pytest.raises(ValueError, match="Invalid learning rate: -1"):
        optim.SGD([p], lr=-1)
    optimizer.zero_grad()
    assert p.grad is None
    assert "lr: 0.1" in repr(optimizer)
    both = optim.SGD([{"params": [p]}, {"params": [tc.ones(1, requires_grad=True)]}], lr=0.1)
    assert "weight_decay: 0\n\nParameter Group 1\n    dampening: 0\n" in repr(both)


SCHEDULES: list[tuple[str, tuple[Any, ...]]] = [
    ("LambdaLR", (lambda epoch: 0.9**epoch,)),
    ("StepLR", (3,)),
    ("MultiStepLR", ([2, 5],)),
    ("ExponentialLR", (0.8,)),
    ("CosineAnnealingLR", (6,)),
]


@pytest.mark.parametrize(("name", "args"), SCHEDULES)
def test_schedules(name: str, args: tuple[Any, ...]) -> None:
    mine = optim.SGD([tc.ones(1, requires_grad=True)], lr=1.0)
    yours = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=1.0)
    ours = getattr(optim.lr_scheduler, name)(mine, *args)
    theirs = getattr(torch.optim.lr_scheduler, name)(yours, *args)
    for _ in range(7):
        assert mine.param_groups[0]["lr"] == pytest.approx(yours.param_groups[0]["lr"])
        assert ours.get_last_lr() == pytest.approx(theirs.get_last_lr())
        ours.step()
        yours.step()
        theirs.step()


def test_a_plateau() -> None:
    mine = optim.SGD([tc.ones(1, requires_grad=True)], lr=1.0)
    yours = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=1.0)
    ours = optim.lr_scheduler.ReduceLROnPlateau(mine, patience=1, cooldown=1)
    theirs = torch.optim.lr_scheduler.ReduceLROnPlateau(yours, patience=1, cooldown=1)
    for loss in (3.0, 2.0, 2.0, 2.0, 2.0, 2.0, 1.0, 1.0, 1.0, 1.0):
        ours.step(loss)
        theirs.step(loss)
        assert mine.param_groups[0]["lr"] == yours.param_groups[0]["lr"]


def test_parameters_of_rank_0_are_stepped_as_others() -> None:
    alone, row = (tc.tensor(v, dtype=tc.float32).requires_grad_() for v in (2.0, [2.0]))
    for p in (alone, row):
        optimizer = optim.Adam([p], lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            (p * p).sum().backward()
            optimizer.step()
    assert alone.item() == row.item() != 2


@pytest.mark.parametrize("kind", ["Adam", "NAdam"])
def test_a_state_with_numbers_of_python_is_gone_on_from(kind: str) -> None:
    """States were saved so before their numbers were tensors."""
    found = []
    for is_old in (False, True):
        x = tc.tensor([1.0, -2.0], requires_grad=True)
        x.grad = tc.ones(2)
        first = getattr(optim, kind)([x], lr=0.1)
        first.step()
        saved = first.state_dict()
        if is_old:
            numbers = {n: v.item() for n, v in saved["state"][0].items() if not v.ndim}
            saved["state"][0].update(numbers)
        again = getattr(optim, kind)([x], lr=0.1)
        again.load_state_dict(saved)
        again.step()
        found.append(x.tolist())
    assert found[0] == found[1]


@pytest.mark.wide
def test_gradients_that_are_no_numbers_move_nothing_by_their_signs() -> None:
    found = []
    for t, optimizer in ((tc, optim.Rprop), (torch, torch.optim.Rprop)):
        p = t.ones(3, requires_grad=True)
        by = optimizer([p], lr=0.1)
        for g in ([1.0, float("nan"), -2.0], [1.0, 1.0, float("nan")], [1.0, -1.0, 1.0]):
            p.grad = t.tensor(g)
            by.step()
        found.append(p.tolist())
    assert found[0] == pytest.approx(found[1])
