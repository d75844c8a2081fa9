"""A module called with other parameters and buffers than its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tcdsl.core import Tensor
from tcdsl.nn.modules.module import Module
from tcdsl.ops.joins import stack

__all__ = ["functional_call", "stack_module_state"]


def _places(module: Module) -> dict[str, tuple[dict[str, Any], str]]:
    """Return where each parameter and buffer lies, by its path: a table and a name in it."""
    found = {}
    for prefix, owner in module.named_modules(remove_duplicate=False):
        for table in (owner._parameters, owner._buffers):
            for name in table:
                found[f"{prefix}.{name}" if prefix else name] = (table, name)
    return found


@contextmanager
def _replaced(
    module: Module, given: Mapping[str, Tensor], tie_weights: bool, strict: bool
) -> Iterator[None]:
    places = _places(module)
    values = {path: table[name] for path, (table, name) in places.items()}
    chosen = {path: value for path, value in given.items() if path in places}
    unexpected = [path for path in given if path not in places]
    if tie_weights:
        first: dict[int, str] = {}
        for path, value in given.items():
            own = values.get(path)
            if own is None:
                continue
            if (other := first.setdefault(id(own), path)) != path and given[other] is not value:
                raise ValueError(
                    f"functional_call got multiple values for keys {sorted((other, path))}, which "
                    "are tied. Consider using tie_weights=False"
                )
        for path, own in values.items():
            if own is not None and id(own) in first:
                chosen.setdefault(path, given[first[id(own)]])
    missing = [path for path, own in values.items() if own is not None and path not in chosen]
    if strict and (unexpected or missing):
        told = [
            f"{kind} key(s): {', '.join(map(repr, sorted(paths)))}."
            for kind, paths in (("Unexpected", unexpected), ("Missing", missing))
            if paths
        ]
        raise RuntimeError(
            f"Error(s) in reparametrizing for {type(module).__name__}:\n\t" + "\n\t".join(told)
        )
    others = [(path, *_attribute(module, path)) for path in unexpected]
    try:
        for path, value in chosen.items():
            table, name = places[path]
            table[name] = value
        for path, owner, name, _ in others:
            setattr(owner, name, given[path])
        yield
    finally:
        for path in chosen:
            table, name = places[path]
            table[name] = values[path]
        for _, owner, name, before in others:
            if before is not None:
                setattr(owner, name, before)
            elif hasattr(owner, name):
                delattr(owner, name)


def _attribute(module: Module, path: str) -> tuple[Module, str, Tensor | None]:
    """Return where an attribute lies that is no parameter and no buffer, and what it is."""
    prefix, _, name = path.rpartition(".")
    owner = module.get_submodule(prefix)
    before = getattr(owner, name, None)
    if before is not None and not isinstance(before, Tensor):
        raise TypeError(f"{before} is not an instance of torch.Tensor")
    return owner, name, before


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: Any,
    args: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with other tensors in the place of its parameters and buffers.

    Parameters
    ----------
    module : Module
        As before when the call is done, also where it raises; what it writes into buffers that
        were given is in those.
    parameter_and_buffer_dicts : dict of str to Tensor, or a sequence of them
        By their paths in the module; what is not named is the module's own, and a name that is
        neither is an attribute within the call.
    args : Tensor or tuple, optional
        One argument, or all.
    kwargs : dict, optional
    tie_weights : bool
        Whether a tensor that the module has under several paths is replaced under all of them.
    strict : bool
        Whether every parameter and buffer has to be given, and nothing else.

    Returns
    -------
    What the module's `forward` gives.
    """
    given = parameter_and_buffer_dicts
    if isinstance(given, Sequence):
        joined: dict[str, Tensor] = {}
        for part in given:
            if twice := joined.keys() & part.keys():
                raise ValueError(
                    f"{sorted(twice)} appeared in multiple dictionaries; behavior of functional "
                    "call is ambiguous"
                )
            joined.update(part)
        given = joined
    if not isinstance(given, Mapping):
        raise ValueError(
            "Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got "
            f"{type(given)}"
        )
    listed = () if args is None else args if isinstance(args, tuple) else (args,)
    with _replaced(module, given, tie_weights, strict):
        return module(*listed, **(kwargs or {}))


def stack_module_state(
    models: Sequence[Module],
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return the parameters and the buffers of modules of one kind, each stacked, shape (N, ...).

    Raises
    ------
    RuntimeError
        If there is none, or they are of several classes or modes.
    """
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if any(m.training != models[0].training for m in models):
        raise RuntimeError(
            "stack_module_state: Expected all models to have the same training/eval mode."
        )
    if any(type(m) is not type(models[0]) for m in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")

    def stacked(tables: list[dict[str, Any]], is_trained: bool) -> dict[str, Tensor]:
        made = {}
        for name, one in tables[0].items():
            rows = stack([t[name].detach() for t in tables], 0)
            made[name] = rows.requires_grad_() if is_trained and one.requires_grad else rows
        return made

    return (
        stacked([dict(m.named_parameters()) for m in models], True),
        stacked([dict(m.named_buffers()) for m in models], False),
    )
