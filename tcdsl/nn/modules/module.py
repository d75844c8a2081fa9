"""Module: parameters, buffers and modules under names, a forward, and how it all looks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from tcdsl.core import Tensor
from tcdsl.nn.modules.hooks import (
    EVERY,
    Hooked,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from tcdsl.nn.modules.moved import Moved
from tcdsl.nn.modules.state import Stated
from tcdsl.nn.parameter import Buffer, Parameter

__all__ = [
    "Module",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]


class Module(Hooked, Stated, Moved):
    """A part of a model: assign parameters and modules to attributes, and define `forward`.

    Attributes that are a `Parameter` or a `Module` are found by `parameters`, `modules`,
    `state_dict` and all that goes through a model; tensors that are state but not trained are
    named by `register_buffer`.

    Attributes
    ----------
    training : bool
        Whether the module trains, as `train` and `eval` say.

    Examples
    --------
    >>> class Scale(Module):
    ...     def __init__(self, size):
    ...         super().__init__()
    ...         self.weight = Parameter(library.ones(size))
    ...     def forward(self, x):
    ...         return x * self.weight

    References
    ----------
    PyTorch 0.4 ``torch.nn.Module``.
    """

    training: bool
    dump_patches = False
    _version = 1

    def __init__(self) -> None:
        state = self.__dict__
        state["training"] = True
        state["_parameters"] = {}
        state["_buffers"] = {}
        state["_unsaved_buffers"] = set()
        state["_modules"] = {}
        state.update(self._no_hooks())

    def forward(self, *input: Any, **kwargs: Any) -> Any:
        """Compute the result; every module defines its own."""
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function'
        )

    # -- attributes ---------------------------------------------------------------------------

    def __setattr__(self, name: str, value: Any) -> None:
        state = self.__dict__
        if isinstance(value, Buffer):
            self._tables("buffers")
            self._forget(name, state["_buffers"])
            self.register_buffer(name, value, value.persistent)
        elif isinstance(value, Parameter):
            self._tables("parameters")
            self._forget(name, state["_parameters"])
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            self._tables("module")
            self._forget(name, state["_modules"])
            state["_modules"][name] = EVERY.changed("module", self, name, value)
        elif name in state.get("_parameters", ()):
            if value is not None:
                raise TypeError(
                    f"cannot assign '{_named(value)}' as parameter '{name}' "
                    "(torch.nn.Parameter or None expected)"
                )
            state["_parameters"][name] = None
        elif name in state.get("_modules", ()):
            if value is not None:
                raise TypeError(
                    f"cannot assign '{_named(value)}' as child module '{name}' "
                    "(torch.nn.Module or None expected)"
                )
            state["_modules"][name] = None
        elif name in state.get("_buffers", ()):
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(
                    f"cannot assign '{_named(value)}' as buffer '{name}' "
                    "(torch.Tensor or None expected)"
                )
            state["_buffers"][name] = value
        else:
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        """Find parameters, buffers and modules; all else is found before this is asked."""
        state = self.__dict__
        for table in ("_parameters", "_buffers", "_modules"):
            there = state.get(table)
            if there is not None and name in there:
                return there[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __delattr__(self, name: str) -> None:
        for table in (self._parameters, self._buffers, self._modules):
            if name in table:
                del table[name]
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        names = {*super().__dir__(), *self._parameters, *self._buffers, *self._modules}
        return sorted(name for name in names if not name[0].isdigit())

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({"_unsaved_buffers": set(), **self._no_hooks()} | state)

    def _tables(self, what: str) -> None:
        if "_modules" not in self.__dict__:
            raise AttributeError(
                f"cannot assign {what} before Module.__init__() call: "
                f"begin {type(self).__name__}.__init__ with super().__init__()"
            )

    def _forget(self, name: str, but: object) -> None:
        """Take a name out of wherever else it stands."""
        state = self.__dict__
        for table in (state, state["_parameters"], state["_buffers"], state["_modules"]):
            if table is not but:
                table.pop(name, None)

    def _check_name(self, kind: str, name: str, table: Mapping[str, object]) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {type(name).__name__}")
        if "." in name:
            raise KeyError(
                f'{kind} name can\'t contain "."' + f", got: {name}" * (kind == "module")
            )
        if not name:
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if hasattr(self, name) and name not in table:
            raise KeyError(f"attribute '{name}' already exists")

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Count a tensor as state that is kept and moved, but not trained: a running mean, say.

        persistent: whether `state_dict` has it.
        """
        self._tables("buffer")
        self._check_name("buffer", name, self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{_named(tensor)}' object to buffer '{name}' "
                "(torch Tensor or None required)"
            )
        self._buffers[name] = EVERY.changed("buffer", self, name, tensor)
        if persistent:
            self._unsaved_buffers.discard(name)
        else:
            self._unsaved_buffers.add(name)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Count a tensor among the parameters, as an assignment does; None holds the name."""
        self._tables("parameter")
        self._check_name("parameter", name, self._parameters)
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{_named(param)}' object to parameter '{name}' "
                "(torch.nn.Parameter or None required)"
            )
        if param is not None and param.grad_fn is not None:
            raise ValueError(
                f"cannot assign non-leaf Tensor to parameter '{name}': model parameters are "
                "created explicitly; to express it as a function of another, compute it in forward"
            )
        self._parameters[name] = EVERY.changed("parameter", self, name, param)

    def add_module(self, name: str, module: Module | None) -> None:
        """Count a module among the children, as an assignment does; None holds the name."""
        self._tables("module")
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{_named(module)} is not a Module subclass")
        self._check_name("module", name, self._modules)
        self._modules[name] = EVERY.changed("module", self, name, module)

    register_module = add_module

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Say whether the parameters are trained; return self."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def compile(self, *settings: Any, **named: Any) -> None:
        """Change nothing: operations are compiled kernels already. See `tcdsl.jit`."""

    # -- training -----------------------------------------------------------------------------

    def train(self, mode: bool = True) -> Self:
        """Say whether this module and all below it train; return self."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for child in self.children():
            child.train(mode)
        return self

    def eval(self) -> Self:
        """Say that this module and all below it do not train; return self."""
        return self.train(False)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Take the gradients of all parameters away, or fill them with zeros."""
        for parameter in self.parameters():
            if set_to_none:
                parameter.grad = None
            elif parameter.grad is not None:
                parameter.grad.detach().zero_()

    # -- looks --------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """Return what a module says of itself in its repr, beside its children."""
        return ""

    def _get_name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        own = self.extra_repr()
        lines = own.split("\n") if own else []
        children = [f"({name}): {_indented(repr(m))}" for name, m in self._modules.items()]
        if len(lines) == 1 and not children:
            return f"{self._get_name()}({own})"
        if not lines and not children:
            return f"{self._get_name()}()"
        return "\n  ".join([f"{self._get_name()}(", *lines, *children]) + "\n)"


def _named(value: object) -> str:
    return str(value.type()) if isinstance(value, Tensor) else type(value).__name__


def _indented(text: str) -> str:
    return text.replace("\n", "\n  ")
