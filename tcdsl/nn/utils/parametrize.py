"""Tensors of modules that are computed from others, whenever they are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from tcdsl.autograd.modes import no_grad
from tcdsl.core import Tensor
from tcdsl.nn.modules.container import ModuleDict, ModuleList
from tcdsl.nn.modules.module import Module
from tcdsl.nn.parameter import Parameter

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "type_before_parametrizations",
]
_kept: dict[tuple[int, str], Tensor] = {}  # within `cached`
_depth = 0


@contextmanager
def cached() -> Iterator[None]:
    """Compute each parametrized tensor once within the block, at its first use."""
    global _depth
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
        if not _depth:
            _kept.clear()


class ParametrizationList(ModuleList):
    """The parametrizations of a tensor, one after the other, and what the first is computed of.

    Parameters
    ----------
    modules : sequence of Module
    original : Tensor
        What the tensor was; `right_inverse` of the modules says what it is computed of then.
    unsafe : bool
        Whether types and shapes may change.

    Attributes
    ----------
    original : Parameter or Tensor
        Where the first module takes several: `original0`, `original1` and so on.
    """

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if not modules:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        start: Any = original
        with no_grad():
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    with suppress(NotImplementedError):
                        start = module.right_inverse(start)
        self.is_tensor = isinstance(start, Tensor)
        if not self.is_tensor and not (
            isinstance(start, Sequence) and all(isinstance(t, Tensor) for t in start)
        ):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                f"Got {type(start).__name__}"
            )
        self.ntensors = 1 if self.is_tensor else len(start)
        if self.is_tensor:
            if start.dtype is not original.dtype and not unsafe:
                raise ValueError(
                    "When `right_inverse` outputs one tensor, it may not change the dtype."
                )
            if isinstance(original, Parameter):  # the object that an optimizer holds stays
                if start is not original:
                    original.data = start.detach().clone()
                self.register_parameter("original", original)
            else:
                self.register_buffer("original", start)
        else:
            trains = isinstance(original, Parameter)
            for i, tensor in enumerate(start):
                if trains:
                    needs = original.requires_grad and tensor.dtype.is_floating_point
                    fresh = Parameter(tensor.detach().clone(), requires_grad=needs)
                    self.register_parameter(f"original{i}", fresh)
                else:
                    self.register_buffer(f"original{i}", tensor)
        if not unsafe:
            with no_grad():
                self._check(self.forward(), original.dtype, tuple(original.shape))

    @staticmethod
    def _check(made: Any, dtype: Any, shape: tuple[int, ...]) -> None:
        if not isinstance(made, Tensor):
            raise ValueError(f"A parametrization must return a tensor. Got {type(made).__name__}.")
        for what, old, new in (("dtype", dtype, made.dtype), ("shape", shape, tuple(made.shape))):
            if old != new:
                raise ValueError(
                    f"Registering a parametrization may not change the {what} of the tensor, "
                    f"unless `unsafe` flag is enabled.\noriginal.{what}: {old}\n"
                    f"parametrized.{what}: {new}"
                )

    def _originals(self) -> list[Tensor]:
        if self.is_tensor:
            return [self.original]
        return [getattr(self, f"original{i}") for i in range(self.ntensors)]

    def right_inverse(self, value: Tensor) -> None:
        """Let the tensor be this value: put into the originals what the modules make it of."""
        with no_grad():
            found: Any = value
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"parametrization {type(module).__name__} does not implement right_inverse."
                    )
                found = module.right_inverse(found)
            listed = [found] if self.is_tensor else list(found)
            for original, new in zip(self._originals(), listed, strict=True):
                original.data = new.detach().clone() if new is value else new.detach()

    def forward(self) -> Tensor:
        """Return the tensor."""
        first, *rest = list(self)
        made: Tensor = first(*self._originals())
        for module in rest:
            made = module(made)
        return made


def _parametrized_class(module: Module) -> None:
    """Give a module a class of its own, on which properties stand for tensors."""
    plain = type(module)
    made = type(f"Parametrized{plain.__name__}", (plain,), {"_plain": plain})
    made.__module__ = plain.__module__
    module.__class__ = made


def _property(name: str) -> property:
    def get(self: Any) -> Tensor:
        if not _depth:
            return self.parametrizations[name]()
        key = (id(self), name)
        if key not in _kept:
            _kept[key] = self.parametrizations[name]()
        return _kept[key]

    def set_value(self: Any, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    return property(get, set_value)


def register_parametrization(
    module: Any, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Any:
    """Let a tensor of a module be computed by another module, whenever it is read.

    Parameters
    ----------
    module : Module
    tensor_name : str
        Of a parameter or buffer, which is `module.parametrizations.NAME.original` from now on. A
        name that is parametrized gets one more step.
    parametrization : Module
        Its `forward` takes the original and gives the tensor; `right_inverse`, where it has one,
        takes a tensor and gives the original, or several.
    unsafe : bool
        Whether type and shape may change, unchecked.

    Returns
    -------
    module

    Raises
    ------
    ValueError
        If there is no such tensor, or type or shape change.
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        steps = module.parametrizations[tensor_name]
        if not unsafe:
            with no_grad():
                now = getattr(module, tensor_name)
                steps._check(parametrization(now), now.dtype, tuple(now.shape))
        steps.append(parametrization)
        steps.unsafe |= unsafe
        return module
    table = next((t for t in (module._parameters, module._buffers) if tensor_name in t), None)
    if table is None:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element "
            f"with name '{tensor_name}'"
        )
    steps = ParametrizationList([parametrization], table[tensor_name], unsafe)
    steps.train(module.training)
    del table[tensor_name]
    if not is_parametrized(module):
        _parametrized_class(module)
        module.parametrizations = ModuleDict()
    setattr(type(module), tensor_name, _property(tensor_name))
    module.parametrizations[tensor_name] = steps
    return module


def is_parametrized(module: Any, tensor_name: str | None = None) -> bool:
    """Whether a module has parametrizations; with a name, of that tensor."""
    found = module.__dict__.get("_modules", {}).get("parametrizations")
    if not isinstance(found, ModuleDict):
        return False
    return len(found) > 0 if tensor_name is None else tensor_name in found


def remove_parametrizations(module: Any, tensor_name: str, leave_parametrized: bool = True) -> Any:
    """Make a tensor a parameter or buffer of its own again.

    Parameters
    ----------
    module : Module
    tensor_name : str
    leave_parametrized : bool
        Whether it keeps the value that was computed, not the original's.

    Raises
    ------
    ValueError
        If it is not parametrized, or its original is several tensors and is to come back.
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    steps = module.parametrizations[tensor_name]
    if leave_parametrized:
        with no_grad():
            value = getattr(module, tensor_name)
        original = steps._originals()[0]
        if steps.is_tensor and isinstance(original, Parameter):
            original.data = value.detach().clone()
        else:
            trains = isinstance(original, Parameter)
            original = Parameter(value.detach().clone()) if trains else value.detach()
    elif steps.is_tensor:
        original = steps.original
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is "
            "parametrized in terms of a sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    if isinstance(original, Parameter):
        module.register_parameter(tensor_name, original)
    else:
        module.register_buffer(tensor_name, original)
    if not is_parametrized(module):
        del module._modules["parametrizations"]
        module.__class__ = type(module)._plain
    return module


def type_before_parametrizations(module: Any) -> type:
    """Return the class that a module was made of."""
    found: type = type(module)._plain if is_parametrized(module) else type(module)
    return found
