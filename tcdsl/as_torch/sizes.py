"""What scripts take of PyTorch's files about sizes: numbers for each dimension, types."""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping
from typing import Any

from tcdsl.core import Tensor

__all__ = ["consume_prefix_in_state_dict_if_present"]


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple[Any, ...]]:
    """Return a function that repeats a number n times, and makes a tuple of all else."""

    def parse(x: Any) -> tuple[Any, ...]:
        return tuple(x) if isinstance(x, Iterable) else (x,) * n

    parse.__name__ = name
    return parse


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")


def _reverse_repeat_tuple(t: tuple[Any, ...], n: int) -> tuple[Any, ...]:
    """Return the members from the last to the first, each n times."""
    return tuple(x for x in reversed(t) for _ in range(n))


def consume_prefix_in_state_dict_if_present(
    state_dict: MutableMapping[str, Any], prefix: str
) -> None:
    """Take a prefix off the names of a state_dict in place, as `DataParallel` puts one on.

    Parameters
    ----------
    state_dict : mapping of str
        Its `_metadata`, if it has one, is renamed too.
    prefix : str
        With its dot: 'module.'.
    """
    for name in list(state_dict):
        if name.startswith(prefix):
            state_dict[name[len(prefix) :]] = state_dict.pop(name)
    metadata = getattr(state_dict, "_metadata", {})
    for name in list(metadata):
        if name == prefix.removesuffix(".") or name.startswith(prefix):
            metadata[name[len(prefix) :]] = metadata.pop(name)


# Types of arguments, which scripts write beside them.
_scalar_or_tuple_any_t = _size_any_t = int | tuple[int, ...]
_scalar_or_tuple_1_t = _size_1_t = int | tuple[int]
_scalar_or_tuple_2_t = _size_2_t = int | tuple[int, int]
_scalar_or_tuple_3_t = _size_3_t = int | tuple[int, int, int]
_size_4_t = int | tuple[int, int, int, int]
_size_6_t = int | tuple[int, int, int, int, int, int]
_ratio_2_t = float | tuple[float, float]
_ratio_3_t = float | tuple[float, float, float]
_ratio_any_t = float | tuple[float, ...]
_tensor_list_t = Tensor | list[Tensor]
