"""Module: parameters, buffers and modules under names, and what is done to all of them at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

from tcdsl.core import Tensor
from tcdsl.core.dtypes import dtype_meant
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
from tcdsl.nn.modules.state import Stated
from tcdsl.nn.parameter import Buffer, Parameter
from tcdsl.tensors.types import destination

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


class Module(Hooked, Stated):
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
            self._tables(name)
            self._forget(name, state["_buffers"])
            self.register_buffer(name, value, value.persistent)
        elif isinstance(value, Parameter):
            self._tables(name)
            self._forget(name, state["_parameters"])
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            self._tables(name)
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

    def _tables(self, name: str) -> None:
        if "_modules" not in self.__dict__:
            raise AttributeError(
                f"cannot assign '{name}' before Module.__init__() call: "
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
            raise KeyError(f'{kind} name can\'t contain "."')
        if not name:
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if hasattr(self, name) and name not in table:
            raise KeyError(f"attribute '{name}' already exists")

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Count a tensor as state that is kept and moved, but not trained: a running mean, say.

        persistent: whether `state_dict` has it.
        """
        self._tables(name)
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
        self._tables(name)
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
        self._tables(name)
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{_named(module)} is not a Module subclass")
        self._check_name("module", name, self._modules)
        self._modules[name] = EVERY.changed("module", self, name, module)

    register_module = add_module

    # -- going through a model ----------------------------------------------------------------

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """Yield this module and all below it with their paths, each once.

        remove_duplicate: False yields one as often as it has paths.
        """
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, child in self._modules.items():
            if child is not None:
                path = f"{prefix}.{name}" if prefix else name
                yield from child.named_modules(memo, path, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """Yield this module and all below it, each once, or as often as it has paths."""
        return (module for _, module in self.named_modules(remove_duplicate=remove_duplicate))

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yield the modules just below with their names, each once."""
        seen: set[Module] = set()
        for name, child in self._modules.items():
            if child is not None and child not in seen:
                seen.add(child)
                yield name, child

    def children(self) -> Iterator[Module]:
        """Yield the modules just below, each once."""
        return (child for _, child in self.named_children())

    def _named_members(
        self, table: str, prefix: str, recurse: bool, once: bool
    ) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        below = self.named_modules(prefix=prefix, remove_duplicate=once)
        for path, module in below if recurse else [(prefix, self)]:
            for name, value in getattr(module, table).items():
                if value is not None and id(value) not in seen:
                    if once:
                        seen.add(id(value))
                    yield f"{path}.{name}" if path else name, value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Yield the parameters with their paths, each once; recurse: those of children too.

        remove_duplicate: False yields one as often as it has paths.
        """
        return self._named_members("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Yield the parameters, each once; recurse: those of children too."""
        return (value for _, value in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Yield the buffers with their paths; parameters as of `named_parameters`."""
        return self._named_members("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Yield the buffers, each once; recurse: those of children too."""
        return (value for _, value in self.named_buffers(recurse=recurse))

    def apply(self, fn: Callable[[Module], object]) -> Self:
        """Call a function on all modules below and then on this one; return self."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def get_submodule(self, target: str) -> Module:
        """Return the module at a path, itself for ""."""
        found: Any = self
        for name in target.split(".") if target else ():
            found = _member(found, name)
            if not isinstance(found, Module):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return found

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put a module at a path; strict: only where one is already.

        Raises
        ------
        ValueError
            If the path is empty, or module is no module.
        AttributeError
            If the path leads over something that is no module or, while strict, to nothing.
        """
        if not target:
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{type(parent).__name__} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Module):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def compile(self, *settings: Any, **named: Any) -> None:
        """Change nothing: operations are compiled kernels already. See `tcdsl.jit`."""

    def get_parameter(self, target: str) -> Parameter:
        """Return the parameter at a path."""
        path, _, name = target.rpartition(".")
        found = _member(self.get_submodule(path), name)
        if not isinstance(found, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return found

    def get_buffer(self, target: str) -> Tensor:
        """Return the buffer at a path."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        found: Tensor = _member(module, name)
        if name not in module._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return found

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Say whether the parameters are trained; return self."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    # -- types and places ---------------------------------------------------------------------

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Put what a function makes of them in place of all parameters, gradients and buffers."""
        for child in self.children() if recurse else ():
            child._apply(fn)
        for parameter in self._parameters.values():
            if parameter is None:
                continue
            parameter.data = fn(parameter.data)  # stays the object that optimizers hold
            if parameter.grad is not None:
                parameter.grad.data = fn(parameter.grad.data)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move parameters and buffers to a device, a floating type, or where another tensor is.

        `to(device)`, `to(dtype)`, `to(device, dtype)`, `to(tensor)`; integers keep their type.
        With `memory_format` parameters and buffers of 4 or 5 dimensions lie in that order.
        """
        memory_format = kwargs.pop("memory_format", None)
        device, dtype = destination(args, kwargs)
        dtype = None if dtype is None else dtype_meant(dtype)
        if dtype is not None and not dtype.is_floating_point:
            raise TypeError(f"nn.Module.to only accepts floating point dtypes, but got {dtype}")

        def move(t: Tensor) -> Tensor:
            kind = dtype if dtype is not None and t.is_floating_point() else None
            laid = memory_format if t.ndim in (4, 5) else None
            moved: Tensor = t.to(device or t.device, kind or t.dtype, memory_format=laid)
            return moved

        return self._apply(move)

    def type(self, dst_type: Any) -> Self:
        """Give all parameters and buffers a type."""
        return self._apply(lambda t: t.type(dst_type))

    def float(self) -> Self:
        """Make floating parameters and buffers float32."""
        return self._apply(lambda t: t.float() if t.is_floating_point() else t)

    def double(self) -> Self:
        """Make floating parameters and buffers float64."""
        return self._apply(lambda t: t.double() if t.is_floating_point() else t)

    def half(self) -> Self:
        """Make floating parameters and buffers float16."""
        return self._apply(lambda t: t.half() if t.is_floating_point() else t)

    def bfloat16(self) -> Self:
        """Make floating parameters and buffers bfloat16."""
        return self._apply(lambda t: t.bfloat16() if t.is_floating_point() else t)

    def cpu(self) -> Self:
        """Move parameters and buffers to the host's memory."""
        return self._apply(lambda t: t.cpu())

    def cuda(self, device: Any = None) -> Self:
        """Move parameters and buffers to a GPU's memory."""
        return self._apply(lambda t: t.cuda(device))

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Move parameters and buffers without their contents, which are undefined then."""
        return self._apply(lambda t: as_blank(t, device), recurse)

    def share_memory(self) -> Self:
        """Let parameters and buffers lie where processes that are started later can share them."""
        return self._apply(lambda t: t.share_memory_())

    # -- training -----------------------------------------------------------------------------

    def train(self, mode: bool = True) -> Self:
        """Say whether this module and all below it train; return self."""
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


def _member(module: Module, name: str) -> Any:
    if not hasattr(module, name):
        raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
    return getattr(module, name)


def _indented(text: str) -> str:
    return text.replace("\n", "\n  ")


def as_blank(value: Tensor, device: Any) -> Tensor:
    """Return a tensor of undefined contents in the shape and type of another."""
    from tcdsl import library  # late: modules are made, and go through, without the library

    made: Tensor = library.empty_like(value, device=device)
    return made
