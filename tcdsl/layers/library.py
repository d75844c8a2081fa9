"""What a layer asks of the library whose tensors and modules it has."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any

from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types.dtypes import DType
from tcdsl.kernel import Kernel


@dataclass(frozen=True)
class Library:
    """A library of tensors and modules: PyTorch, or our own under its names.

    Attributes
    ----------
    tensor, parameter, module : type
    init : module
        Functions that fill a tensor in place.
    empty : callable (shape, *, device, dtype)
    default_dtype : callable
    dtype : callable
        The library's type of one of the language.
    no_grad, enable_grad, fork_rng, eager : callable
        Contexts: in which nothing is recorded, or is; that leave random generators as they were;
        in which compiled code runs as it was written.
    grad : callable (outputs, inputs, grad_outputs, *, allow_unused)
    randn_like : callable
    passes : int
        How many calls it takes until recorded calls go on as they are.
    leaves : callable
        The values in nested containers.
    from_bytes, to_bytes : callable
        A tensor of bytes, and the bytes of one that anybody gave (or a ValueError).
    init_name, kernels_name : str
        What messages call `init`, and the kernels that autograd of the library sees.
    """

    tensor: type[Any]
    parameter: type[Any]
    module: type[Any]
    init: ModuleType
    empty: Callable[..., Any]
    default_dtype: Callable[[], Any]
    dtype: Callable[[DType], Any]
    no_grad: Callable[[], AbstractContextManager[Any]]
    enable_grad: Callable[[], AbstractContextManager[Any]]
    fork_rng: Callable[[], AbstractContextManager[Any]]
    eager: Callable[[], AbstractContextManager[Any]]
    grad: Callable[..., Any]
    randn_like: Callable[[Any], Any]
    passes: int
    leaves: Callable[[Any], Iterable[Any]]
    from_bytes: Callable[[bytes], Any]
    to_bytes: Callable[[Any], bytes]
    init_name: str
    kernels_name: str


@dataclass(frozen=True)
class Texts:
    """How texts become kernels that autograd of a library sees.

    Attributes
    ----------
    define : callable
    sees : callable
        Whether it sees calls of a kernel.
    name : str
        What messages call `define`.
    """

    define: Callable[..., Any]
    sees: Callable[[Kernel], bool]
    name: str
