"""The C core as Python sees it; `__init__.py` documents it."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from tcdsl.codegen.runtime import Entry, Launcher
from tcdsl.core import Size
from tcdsl.core.dtypes import DType

functions: object

class Tensor:
    shape: Size
    dtype: DType
    ndim: int
    requires_grad: bool
    is_leaf: bool
    grad: Any
    grad_fn: Node | None
    output_nr: int
    data: Tensor
    _version: int
    _base: Tensor | None
    _storage: Any
    _backward_hooks: Any
    def __new__(cls, of: Tensor, /) -> Self: ...
    retains_grad: Any
    def __getattr__(self, name: str) -> Any: ...
    def __bool__(self) -> bool: ...
    def size(self, dim: int | None = None, /) -> Any: ...
    def stride(self, dim: int | None = None, /) -> Any: ...
    def numel(self) -> int: ...
    def storage_offset(self) -> int: ...
    def data_ptr(self) -> int: ...
    def is_contiguous(self) -> bool: ...
    def item(self) -> Any: ...
    def detach(self) -> Tensor: ...
    def backward(self, *args: Any, **kwargs: Any) -> None: ...
    def _array(self) -> np.ndarray[Any, np.dtype[Any]]: ...

class Node:
    next_functions: tuple[tuple[Any, int], ...]
    _hooks: Any
    _kept: tuple[Any, ...]
    def name(self) -> str: ...

class Recipe:
    def __new__(
        cls,
        vjp: Callable[..., Any] | None,
        taken: tuple[int, ...],
        to: tuple[int, ...],
        passed: tuple[int, ...] = (),
        narrow: Callable[[int], Recipe] | None = None,
    ) -> Recipe: ...

class Op:
    name: str
    launcher: Launcher
    slow: Callable[..., Any]
    def __new__(
        cls,
        name: str,
        launcher: Launcher,
        slow: Callable[..., Any],
        plan: Callable[[Entry, int, tuple[Any, ...]], Recipe] | None,
        n_in: int,
        n_out: int,
        writes: int = 0,
    ) -> Op: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def __get__(self, instance: object, owner: type | None = None) -> Any: ...
    def run(
        self, entry: Entry, inputs: tuple[Any, ...], outputs: tuple[Any, ...] | None = None, /
    ) -> Any: ...

def empty(shape: tuple[int, ...], number: int, /) -> Tensor: ...
def lent(
    owner: object,
    address: int,
    nbytes: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    number: int,
    device: int,
    read_only: int,
    /,
) -> Tensor: ...
def view(
    of: Tensor,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    offset: int,
    recipe: Recipe,
    vjp: Callable[..., Any] | None,
    name: str,
    /,
) -> Tensor: ...
def record(
    name: str,
    recipe: Recipe,
    vjp: Callable[..., Any] | None,
    inputs: tuple[Any, ...],
    outputs: tuple[Tensor, ...],
    needs: int,
    /,
) -> None: ...
def set_fn(tensor: Tensor, fn: Node | None, output: int, /) -> None: ...
def set_base(tensor: Tensor, base: Tensor | None, /) -> None: ...
def written(tensor: Tensor, /) -> None: ...
def backward(
    roots: tuple[Tensor, ...],
    gradients: tuple[Tensor | None, ...],
    inputs: tuple[Tensor, ...] | None,
    keeps: int,
    creates: int,
    /,
) -> tuple[Tensor | None, ...] | None: ...
def is_grad_enabled() -> bool: ...
def set_grad_enabled(on: bool, /) -> bool: ...
def operator(slot: int, op: object, /) -> None: ...
def setup(name: str, value: object, /) -> None: ...
def take_runtime(capsule: object, floats: tuple[int, ...], /) -> None: ...
