"""Schedules that came after PyTorch 0.4 give PyTorch's rates and momenta, step by step."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

from tcdsl import library, optim

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.cc]

Made = Callable[[Any, Any], Any]  # of lr_scheduler and an optimizer
SCHEDULES: dict[str, Made] = {
    "multiplicative": lambda s, o: s.MultiplicativeLR(o, lambda epoch: 0.9 + 0.01 * epoch),
    "constant": lambda s, o: s.ConstantLR(o, 0.25, 4),
    "linear": lambda s, o: s.LinearLR(o, 0.1, 0.8, 7),
    "polynomial": lambda s, o: s.PolynomialLR(o, 9, 2.0),
    "restarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 3, 2, 0.001),
    "restarts alike": lambda s, o: s.CosineAnnealingWarmRestarts(o, 4),
    "one cycle": lambda s, o: s.OneCycleLR(o, 0.7, total_steps=20),
    "one cycle, linear": lambda s, o: s.OneCycleLR(o, [0.7, 0.3], epochs=4, steps_per_epoch=5,
                                                   anneal_strategy="linear", pct_start=0.4),
    "three phases": lambda s, o: s.OneCycleLR(o, 0.7, 20, three_phase=True, cycle_momentum=False),
    "cyclic": lambda s, o: s.CyclicLR(o, 0.01, 0.1, 3, 5),
    "halves": lambda s, o: s.CyclicLR(o, 0.01, 0.1, 3, mode="triangular2"),
    "powers": lambda s, o: s.CyclicLR(o, 0.01, 0.1, 3, mode="exp_range", gamma=0.9),
    "in turn": lambda s, o: s.SequentialLR(
        o, [s.LinearLR(o, 0.1, total_iters=4), s.CosineAnnealingLR(o, 10)], [4]),
    "three in turn": lambda s, o: s.SequentialLR(
        o, [s.ConstantLR(o, 0.1, 3), s.ExponentialLR(o, 0.9), s.StepLR(o, 2)], [3, 8]),
    "at once with others": lambda s, o: s.ChainedScheduler(
        [s.MultiplicativeLR(o, lambda epoch: 0.9), s.LinearLR(o, 0.5, total_iters=3)]),
    "along the wave": lambda s, o: s.CosineAnnealingLR(o, 5, 0.001),
    "milestones": lambda s, o: s.MultiStepLR(o, [2, 5, 5, 9]),
    "at once": lambda s, o: s.ChainedScheduler([s.ConstantLR(o, 0.1, 3), s.ExponentialLR(o, 0.9)]),
}  # fmt: skip


def rates(tensors: Any, optimizers: Any, make: Made, kind: str) -> list[Any]:
    groups = [{"params": [tensors.zeros(2, requires_grad=True)]},
              {"params": [tensors.zeros(2, requires_grad=True)], "lr": 0.3}]  # fmt: skip
    settings = {"momentum": 0.9} if kind == "SGD" else {}
    optimizer = getattr(optimizers, kind)(groups, lr=0.1, **settings)
    schedule = make(optimizers.lr_scheduler, optimizer)
    found = []
    for _ in range(19):
        optimizer.step()
        found += schedule.get_last_lr()
        found += [g["lr"] for g in optimizer.param_groups]
        found += [g["momentum"] if kind == "SGD" else g["betas"][0] for g in optimizer.param_groups]
        schedule.step()
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("kind", ["SGD", "Adam"])
def test_a_schedule_gives_pytorchs_rates(name: str, kind: str) -> None:
    made = rates(library, optim, SCHEDULES[name], kind)
    wanted = rates(torch, torch.optim, SCHEDULES[name], kind)
    assert made == pytest.approx(wanted, rel=1e-9, abs=1e-15)


@pytest.mark.filterwarnings("ignore")
def test_schedules_of_one_optimizer_and_the_program_change_what_the_others_left() -> None:
    found = []
    for tensors, optimizers in ((library, optim), (torch, torch.optim)):
        optimizer = optimizers.SGD([tensors.zeros(1, requires_grad=True)], lr=1.0)
        s = optimizers.lr_scheduler
        several = [s.ExponentialLR(optimizer, 0.9), s.StepLR(optimizer, 3),
                   s.CosineAnnealingLR(optimizer, 20, 0.01), s.PolynomialLR(optimizer, 30),
                   s.ConstantLR(optimizer, 0.5, 4)]  # fmt: skip
        rates_of_one = []
        for epoch in range(25):
            optimizer.step()
            for schedule in several:
                schedule.step()
            if epoch == 7:
                optimizer.param_groups[0]["lr"] *= 0.5
            rates_of_one.append(optimizer.param_groups[0]["lr"])
        found.append(rates_of_one)
    assert found[0] == pytest.approx(found[1], rel=1e-9)


def test_a_schedule_goes_on_from_its_state() -> None:
    for name, make in SCHEDULES.items():
        optimizers = [
            optim.SGD([{"params": [library.zeros(1, requires_grad=True)]} for _ in range(2)],
                      lr=0.1, momentum=0.9) for _ in range(2)
        ]  # fmt: skip
        first, second = (make(optim.lr_scheduler, o) for o in optimizers)
        for _ in range(5):
            first.step()
        second.load_state_dict(first.state_dict())
        optimizers[1].load_state_dict(optimizers[0].state_dict())
        for _ in range(4):
            first.step()
            second.step()
            assert first.get_last_lr() == second.get_last_lr(), name


SIMPLE = [n for n in SCHEDULES if " in turn" not in f" {n}" and "at once" not in n]


@pytest.mark.parametrize("name", [*SIMPLE, "to the average"])
def test_a_schedule_warns_who_asks_for_rates_outside_of_a_step(name: str) -> None:
    found = []
    for tensors, optimizers in ((library, optim), (torch, torch.optim)):
        groups = [{"params": [tensors.zeros(1, requires_grad=True)]} for _ in range(2)]
        optimizer = optimizers.SGD(groups, lr=0.1, momentum=0.9)
        make = SCHEDULES.get(name, lambda s, o, u=optimizers.swa_utils: u.SWALR(o, 0.05))
        schedule = make(optimizers.lr_scheduler, optimizer)
        optimizer.step()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            schedule.step()
        with pytest.warns(UserWarning, match="please use `get_last_lr") as caught:
            rates_to_come = schedule.get_lr()
        found.append(([str(w.message) for w in caught], rates_to_come))
    assert found[0][0] == found[1][0]
    assert found[0][1] == pytest.approx(found[1][1], rel=1e-9)
