"""Types of arguments, which scripts take of `torch.types` and write beside them."""

from __future__ import annotations

import builtins
import os
from collections.abc import Sequence
from typing import IO, Any

from tcdsl.core import Size, Tensor
from tcdsl.core.dtypes import DType
from tcdsl.tensors.devices import Device as _DeviceOf

__all__ = ["Device", "FileLike", "Number", "Tensor"]

Number = builtins.int | builtins.float | builtins.bool
_int = builtins.int
_float = builtins.float
_bool = builtins.bool
_dtype = DType
_device = _DeviceOf
_size = Size | list[builtins.int] | tuple[builtins.int, ...]
Device = _DeviceOf | str | builtins.int | None
IntLikeType = builtins.int
FloatLikeType = builtins.float
BoolLikeType = builtins.bool
FileLike = str | os.PathLike[str] | IO[bytes]
_TensorOrTensors = Tensor | Sequence[Tensor]
_TensorOrOptionalTensors = Tensor | None | Sequence[Tensor | None]
_symint = builtins.int
py_sym_types: tuple[Any, ...] = ()
