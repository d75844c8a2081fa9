"""Optimizer: groups of parameters with their settings, and a state for each parameter."""

from __future__ import annotations

import collections
import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from tcdsl import library
from tcdsl.core import Tensor
from tcdsl.optim.hooks import (
    Hooked,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

__all__ = [
    "Closure",
    "Optimizer",
    "register_optimizer_step_post_hook",
    "register_optimizer_step_pre_hook",
    "required",
]

Closure = Callable[[], Any]


class _Required:
    """Stands for a setting that has no default."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()


class Optimizer(Hooked):
    """Parameters in groups of common settings, each with a state of its own.

    Parameters
    ----------
    params : iterable of Tensor, of pairs of a name and a Tensor, or of mappings
        A mapping is a group: 'params' and the settings that differ from the defaults.
    defaults : mapping
        The settings of groups that do not say otherwise.

    Most take more words, of PyTorch's: ``maximize=True`` goes up, not down; `foreach`, `fused` and
    `capturable` say how PyTorch computes a step, which is one kernel a parameter here, and
    `differentiable` is refused unless False.

    Attributes
    ----------
    param_groups : list of dict
        The groups; a setting that is changed counts from the next step on.
    state : mapping of Tensor to dict
        What steps keep of a parameter.

    Raises
    ------
    TypeError
        If params is no such iterable.
    ValueError
        If it is empty, or a parameter is no leaf, stands in two groups or has no settings.
    """

    last: ClassVar[tuple[str, ...]] = ()  # settings behind all others, as in PyTorch's groups

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, "
                f"but got {params.type()}"
            )
        self._no_hooks()
        defaults |= self.__dict__.pop("_words", {})
        for name in self.last:
            defaults[name] = defaults.pop(name)
        self.defaults = defaults
        self.state: Any = collections.defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], Mapping):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(dict(group))

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Take in one more group: a layer that is trained from now on, say.

        Parameters
        ----------
        param_group : dict
            'params', a tensor or an iterable of them, or of names and tensors, and settings.
        """
        if not isinstance(param_group, dict):
            raise TypeError("param group must be a dict")
        given = param_group["params"]
        if isinstance(given, set):
            raise TypeError("expected parameters in an order, which a set has not: pass a list")
        tensors: list[Any] = [given] if isinstance(given, Tensor) else list(given)
        names = [t[0] for t in tensors if isinstance(t, tuple)]
        if names and len(names) < len(tensors):
            raise ValueError(
                "all optimizer params should be with/without names. Some param names are missing"
            )
        has_names = ["param_names" in group for group in self.param_groups]
        if any(has != bool(names) for has in has_names):
            raise ValueError(
                "all optimizer param groups should be with/without names. cannot add param group "
                f"{'with' if names else 'without'} names to the optimizer"
            )
        if names:
            param_group["param_names"] = names
            tensors = [t for _, t in tensors]
        for tensor in tensors:
            if not isinstance(tensor, Tensor):
                kind = library.typename(tensor)
                raise TypeError(
                    f"optimizer can only optimize Tensors, but one of the params is {kind}"
                )
            if not tensor.is_leaf:
                raise ValueError("can't optimize a non-leaf Tensor")
        for name, value in self.defaults.items():
            if value is required and name not in param_group:
                raise ValueError(
                    "parameter group didn't specify a value of required optimization "
                    f"parameter {name}"
                )
            param_group.setdefault(name, value)
        there = {id(p) for group in self.param_groups for p in group["params"]}
        numbers = [id(t) for t in tensors]
        if len(set(numbers)) < len(numbers) or not there.isdisjoint(numbers):
            raise ValueError("some parameters appear in more than one parameter group")
        param_group["params"] = tensors
        self.param_groups.append(param_group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Take the gradients of all parameters away, or fill them with zeros.

        Parameters
        ----------
        set_to_none : bool
            Take them away: the next backward pass writes where it would add.
        """
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                if set_to_none:
                    p.grad = None
                else:
                    p.grad.detach().zero_()

    def step(self, closure: Closure | None = None) -> Any:
        """Change the parameters once by their gradients; every optimizer defines its own.

        Parameters
        ----------
        closure : callable, optional
            Computes the loss anew with its gradients, and returns it.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define step()")

    def state_dict(self) -> dict[str, Any]:
        """Return settings and states; parameters stand for themselves by their numbers.

        Returns
        -------
        dict
            'state', states by the number of the parameter, and 'param_groups'.
        """
        for hook in tuple(self._hooks["state_pre"].values()):
            hook(self)
        numbers: dict[int, int] = {}
        groups = []
        for group in self.param_groups:
            for p in group["params"]:
                numbers.setdefault(id(p), len(numbers))
            settings = {name: value for name, value in group.items() if name != "params"}
            groups.append({**settings, "params": [numbers[id(p)] for p in group["params"]]})
        state = {
            numbers[id(key)] if isinstance(key, Tensor) else key: value
            for key, value in self.state.items()
        }
        made = {"state": state, "param_groups": groups}
        for hook in tuple(self._hooks["state_post"].values()):
            changed = hook(self, made)
            made = made if changed is None else changed
        return made

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` has returned; it is copied.

        Raises
        ------
        ValueError
            If its groups are not as many, with as many parameters each.
        """
        for hook in tuple(self._hooks["load_pre"].values()):
            changed = hook(self, dict(state_dict))
            state_dict = state_dict if changed is None else changed
        saved = state_dict["param_groups"]
        if len(saved) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        pairs = list(zip(self.param_groups, saved, strict=True))
        if any(len(own["params"]) != len(theirs["params"]) for own, theirs in pairs):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of "
                "optimizer's group"
            )
        by_number = {
            number: p
            for own, theirs in pairs
            for number, p in zip(theirs["params"], own["params"], strict=True)
        }
        state: Any = collections.defaultdict(dict)
        for key, value in state_dict["state"].items():
            p = by_number.get(key)
            state[key if p is None else p] = copy.deepcopy(value) if p is None else _like(p, value)
        groups = [
            {
                **{k: v for k, v in own.items() if k == "param_names"},
                **copy.deepcopy({k: v for k, v in theirs.items() if k != "params"}),
                "params": own["params"],
            }
            for own, theirs in pairs
        ]
        self.__setstate__({"state": state, "param_groups": groups})
        for hook in tuple(self._hooks["load_post"].values()):
            hook(self)

    def __getstate__(self) -> dict[str, Any]:
        return {
            "defaults": self.defaults,
            "state": self.state,
            "param_groups": self.param_groups,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "_hooks" not in self.__dict__:
            self._no_hooks()
        self.__dict__.update(state)

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines += [""] * (i > 0)
            lines.append(f"Parameter Group {i}")
            lines += [f"    {name}: {group[name]}" for name in sorted(group) if name != "params"]
        return "\n".join([*lines, ")"])


def _like(p: Tensor, value: Any) -> Any:
    """Copy a state of a parameter: floating tensors get its type, all its device.

    But not the count of steps, which a narrow type would round.
    """
    match value:
        case Tensor():
            if p.is_floating_point() and value.is_floating_point():
                return value.detach().to(p.device, p.dtype).clone()
            return value.detach().to(p.device).clone()
        case dict():
            return {
                key: copy.deepcopy(member) if key == "step" else _like(p, member)
                for key, member in value.items()
            }
        case list() | tuple():
            return type(value)(_like(p, member) for member in value)
    return copy.deepcopy(value)


def gradients(group: Mapping[str, Any]) -> Iterable[tuple[Tensor, Tensor, Tensor]]:
    """Yield the parameters of a group that have a gradient, the elements of both, unrecorded.

    Where the group says `maximize` gradients are turned round.
    """
    for p in group["params"]:
        if p.grad is not None:
            g = p.grad.detach()
            yield p, p.detach(), -g if group.get("maximize") else g


def number(value: float = 0.0) -> Tensor:
    """Return a number of a state: a tensor of rank 0, as in PyTorch's states."""
    is_double = library.get_default_dtype() is library.float64
    made: Tensor = library.tensor(value, dtype=library.float64 if is_double else library.float32)
    return made


def held(state: dict[str, Any], name: str) -> Tensor:
    """Return a number of a state, as a tensor too where it was saved when these were Python's."""
    if not isinstance(state[name], Tensor):
        state[name] = number(state[name])
    found: Tensor = state[name]
    return found


def counted(state: dict[str, Any]) -> int:
    """Count a step of a parameter; return its number."""
    return int(held(state, "step").add_(1))


def loss_of(closure: Closure | None) -> Any:
    """Return the loss that a closure computes with its gradients; None without one."""
    if closure is None:
        return None
    with library.enable_grad():
        return closure()


def not_negative(name: str, value: float) -> None:
    """Refuse a negative setting."""
    if value < 0:
        raise ValueError(f"Invalid {name}: {value}")


def below_one(name: str, value: float) -> None:
    """Refuse a share that is not from 0 to below 1."""
    if not 0 <= value < 1:
        raise ValueError(f"Invalid {name}: {value}")
