"""What torch.compile and torch.export trace in place of a call of a kernel.

A kernel is an object of a type in C, which Dynamo cannot look into. It traces `_call` instead, in
which a kernel is strings, so that kernels of one text share a graph, and the call is the operator.
A kernel that another text replaces is noticed. A `define` in traced code runs once, while it is
traced. Dynamo takes a second to import, so a finder waits until somebody else imports it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace
from typing import Any

import torch

from tcdsl.codegen.runtime import Launcher
from tcdsl.torch import autocast
from tcdsl.torch.define import define
from tcdsl.torch.kernel import Kernel

_DYNAMO = "torch._dynamo"


def _call(self: Any, /, *args: Any, **keywords: Any) -> Any:
    """Call a kernel, in words that Dynamo knows."""
    if not isinstance(self, Kernel):
        torch._dynamo.graph_break("a kernel of tcdsl.define: tcdsl.torch.define makes one to trace")
    spelling, params, returns, known, unsigned, defaults, declared, policy = self.spelled
    values = dict(zip(params, args))  # noqa: B905 - of more arguments than parameters below
    generics, outputs = "", None
    types: dict[str, str] = {}
    for key, value in keywords.items():
        if key in ("out", "outputs") and (key in values or key not in params + known):
            outputs = value
        elif key in known:
            types[key] = _spelt(value)
            generics += f" {key}={types[key]}"
        else:
            values[key] = value
    for param, number in defaults:
        values.setdefault(param, number)
    if len(args) > len(params) or len(values) != len(params):
        got = len(args) + len(keywords)
        raise TypeError(f"{spelling[1]}({', '.join(params)}) does not take these {got} arguments")
    given: Sequence[Any] = [values[param] for param in params]
    places = [v.device.type for v in given if isinstance(v, torch.Tensor)]
    if policy is not None and places and autocast.is_active(places[0]):
        given = autocast.cast_to(declared, types, given, policy, places[0])
    tensors, kinds, integers, floats = [], "", [], []
    for param, value in zip(params, given, strict=True):
        if isinstance(value, torch.Tensor):
            tensors.append(value)
            kinds += "t"
        elif isinstance(value, float):
            floats.append(value)
            kinds += "f"
        elif param in unsigned and value >= 2**63:
            integers.append(value - 2**64)
            kinds += "u"
        else:
            integers.append(value)
            kinds += "i"
    numbers = (kinds, integers or None, floats or None) if len(tensors) < len(params) else ()
    head = (*spelling, generics, tensors)
    if outputs is None:
        found = torch.ops.tcdsl.call.default(*head, *numbers)
        return found[0] if len(returns) == 1 else self.result(tuple(found))
    listed = [outputs] if isinstance(outputs, torch.Tensor) else [*outputs]
    torch.ops.tcdsl.call_out.default(*head, listed, *numbers)
    return listed[0] if len(returns) == 1 else self.result(tuple(listed))


def _spelt(value: Any) -> str:
    """Return the value of a generic: an integer, or a type by its name."""
    return value.__name__ if isinstance(value, type) else str(value).removeprefix("torch.")


_MOST_MADE = 1024
_made = SimpleNamespace()  # what traced code has defined, under names by which it is found again


def _define(*args: Any, **keywords: Any) -> Any:
    """Define while tracing: once, before the traced code runs, whose arguments are constants."""
    return getattr(_made, _defined(*args, **keywords))


def _defined(*args: Any, **keywords: Any) -> str:
    spelt = repr((args, sorted(keywords.items())))
    name = "k" + spelt.encode("utf-8", "surrogatepass").hex()  # Dynamo takes no "." in a name
    if not hasattr(_made, name):
        known = vars(_made)
        if len(known) >= _MOST_MADE:  # the oldest: guards of what is traced now ask for the newest
            for old in [*known][: _MOST_MADE // 2]:
                del known[old]  # a guard that misses it brings another trace
        setattr(_made, name, define(*args, **keywords))
    return name


def _teach() -> None:
    """Tell Dynamo what to trace, once it is there."""
    pairs: tuple[tuple[Any, Any], ...] = (
        (Launcher.__call__, _call),
        (define, _define),
    )
    for original, traced in pairs:
        torch.compiler.substitute_in_graph(original, skip_signature_check=True)(traced)
    torch.compiler.assume_constant_result(_defined)  # type: ignore[no-untyped-call]


class _Watch(MetaPathFinder):
    """Waits for the import of Dynamo, which takes a second that most programs do without."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _DYNAMO:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is None or spec.loader is None:
            return spec
        loader = spec.loader
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            del loader.exec_module
            execute(module)
            _teach()

        loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def watch() -> None:
    """Let Dynamo know kernels, now or when it is imported."""
    if _DYNAMO in sys.modules:
        _teach()
    else:
        sys.meta_path.insert(0, _Watch())
