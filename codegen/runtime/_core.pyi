"""The C core as Python sees it; `__init__.py` documents it."""

from collections.abc import Callable
from typing import Any

import numpy as np

Shape = tuple[int, ...]
ArrayForm = tuple[np.dtype[Any], Shape, Shape | None]

MAX_THREADS: int

class Entry:
    operands: tuple[tuple[np.dtype[Any], Shape | None], ...]
    keep: Any
    def __new__(
        cls,
        executable: int,
        sizes: tuple[int, ...],
        params: tuple[ArrayForm | np.dtype[Any], ...],
        returns: tuple[ArrayForm, ...],
        inplace: tuple[tuple[int, int], ...] = (),
        keep: object = None,
        bounds: tuple[int, ...] = (),
        max_threads: int = 0,
        strides: tuple[int, ...] | None = None,
    ) -> Entry: ...

class Launcher:
    name: str
    params: tuple[str, ...]
    returns: tuple[str, ...]
    calls: int
    unusual: Callable[[], object] | None
    recorded: Callable[..., Any] | None
    max_threads: Callable[[], int] | None
    def __init__(
        self,
        name: str,
        params: tuple[str, ...],
        returns: tuple[str, ...],
        slow: Callable[..., Any],
        on_error: Callable[[int, int, int, int], None],
        result_type: type[tuple[Any, ...]] | None = None,
        generics: tuple[str, ...] = (),
        defaults: tuple[float | None, ...] | None = None,
    ) -> None: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def install(
        self,
        entry: Entry,
        args: tuple[Any, ...],
        outs: tuple[Any, ...] | None = None,
        generics: tuple[Any, ...] | None = None,
        rule: tuple[int, ...] | None = None,
    ) -> None: ...
    def run(
        self,
        entry: Entry,
        args: tuple[Any, ...],
        outs: tuple[Any, ...] | None = None,
        example: object = None,
    ) -> Any: ...
    def clear(self) -> None: ...

def setup(
    array_api: object,
    bfloat16: int,
    scalar_types: tuple[type, ...],
    internal_error: type[BaseException],
) -> None: ...
def lend(
    kind: type,
    functions: object,
    plain: tuple[Callable[[Any], object], ...],
    tracked: str | None,
    tracks: Callable[[], object] | None,
    unusual: tuple[Callable[[], object], ...],
    written: Callable[[tuple[Any]], object] | None,
    model: Callable[[np.dtype[Any], Shape], Any] | None = None,
    make: Callable[[Any], Any] | None = None,
    writable: bool = False,
    /,
) -> int: ...
def bridge(kind: type, capsule: object, /) -> int: ...
def tensors(functions: object, dtypes: tuple[np.dtype[Any], ...], /) -> object: ...
def bridged() -> int: ...
def trace(on: bool, /) -> None: ...
def traced() -> tuple[tuple[tuple[Launcher, Entry, int, int, int], ...], int]: ...
def empty_cache() -> int: ...
def memory() -> tuple[int, int, int]: ...
def set_cache_limit(n: int) -> None: ...
def set_num_threads(n: int) -> None: ...
def get_num_threads() -> int: ...
