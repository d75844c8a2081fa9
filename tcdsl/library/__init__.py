"""The tensor library as one: all ops, what makes tensors, types and modes, under PyTorch's names.

Importing this module loads every family of ops; none is compiled before its first call.
`tcdsl.NAME` is the same as `tcdsl.library.NAME`.
"""

from __future__ import annotations

from typing import Any

from tcdsl import autograd
from tcdsl import serialization as _serialization
from tcdsl.autograd import modes
from tcdsl.autograd import vmapped as _vmapped
from tcdsl.calls.process.places import found_in
from tcdsl.chance import generator as _generator
from tcdsl.core import Size, Tensor, dtypes
from tcdsl.core.dtypes import DType
from tcdsl.library import autocast_mode as _autocast
from tcdsl.library import settings as _settings
from tcdsl.ops import families as _families
from tcdsl.ops import formats as _formats
from tcdsl.ops.table import PUBLIC
from tcdsl.tensors import creation as _creation
from tcdsl.tensors import data as _data
from tcdsl.tensors import draws as _draws
from tcdsl.tensors import indexing as _indexing
from tcdsl.tensors import legacy as _legacy
from tcdsl.tensors import limits as _limits
from tcdsl.tensors import methods as _methods
from tcdsl.tensors import parts as _parts
from tcdsl.tensors import protocols as _protocols
from tcdsl.tensors import ranges as _ranges
from tcdsl.tensors import storages as _storages
from tcdsl.tensors import types as _types
from tcdsl.tensors.devices import Device

_OWN: dict[str, Any] = {
    **_formats.FORMATS,
    "memory_format": _formats.MemoryFormat,
    **{name: getattr(_settings, name) for name in _settings.__all__},
    **{name: getattr(_autocast, name) for name in _autocast.__all__},
    "Generator": _generator.Generator,
    "Size": Size,
    "Tensor": Tensor,
    "bfloat16": dtypes.bfloat16,
    "bool": dtypes.bool_,
    "default_generator": _generator.default_generator,
    "device": Device,
    "double": dtypes.float64,
    "dtype": DType,
    "e": 2.718281828459045,
    "enable_grad": modes.enable_grad,
    "float": dtypes.float32,
    "float16": dtypes.float16,
    "float32": dtypes.float32,
    "float64": dtypes.float64,
    "fork_rng": _generator.fork_rng,
    "get_rng_state": _generator.get_rng_state,
    "half": dtypes.float16,
    "inf": float("inf"),
    "inference_mode": modes.inference_mode,
    "initial_seed": _generator.initial_seed,
    "int": dtypes.int32,
    "int16": dtypes.int16,
    "int32": dtypes.int32,
    "int64": dtypes.int64,
    "int8": dtypes.int8,
    "is_grad_enabled": modes.is_grad_enabled,
    "is_inference": Tensor.is_inference,
    "is_inference_mode_enabled": modes.is_inference_mode_enabled,
    "load": _serialization.load,
    "long": dtypes.int64,
    "manual_seed": _generator.manual_seed,
    "nan": float("nan"),
    "no_grad": modes.no_grad,
    "pi": 3.141592653589793,
    "save": _serialization.save,
    "seed": _generator.seed,
    "set_grad_enabled": modes.set_grad_enabled,
    "set_rng_state": _generator.set_rng_state,
    "short": dtypes.int16,
    "strided": "torch.strided",
    "uint8": dtypes.uint8,
    "vmap": _vmapped.vmap,
}
_ = (
    autograd,
    _families,
    _creation,
    _data,
    _draws,
    _indexing,
    _legacy,
    _limits,
    _methods,
    _parts,
    _protocols,
    _ranges,
    _storages,
    _types,
)  # what they publish is below
found_in("tcdsl", {**PUBLIC, **_OWN})


def names() -> list[str]:
    """Return the library's public names, sorted."""
    return sorted({*_OWN, *PUBLIC})


def __getattr__(name: str) -> Any:
    found = _OWN.get(name, PUBLIC.get(name))
    if found is None:
        raise AttributeError(f"module 'tcdsl' has no attribute '{name}'")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return names()
