"""The structures of `tc_abi.h`, for those who call emitted code without the launcher.

Pointers are addresses: whoever fills them keeps what they point at.
"""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

_HEADER = (Path(__file__).parent / "tc_abi.h").read_text(encoding="utf-8")
VERSION, MAX_PHASES, MAX_PARAMS, MAX_LOOPS = (
    int(re.findall(rf"\bTC_{what} = (\d+)", _HEADER)[0])
    for what in ("ABI", "MAX_PHASES", "MAX_PARAMS", "MAX_LOOPS")
)
_VOID, _I64 = ctypes.c_void_p, ctypes.c_int64


class TcScalar(ctypes.Union):
    """`tc_scalar`."""

    _fields_ = (
        ("i", ctypes.c_int64),
        ("u", ctypes.c_uint64),
        ("d", ctypes.c_double),
        ("f", ctypes.c_float),
    )


class TcPlan(ctypes.Structure):
    """`tc_plan`."""

    _fields_ = (
        ("tasks", _I64 * MAX_PHASES),
        ("cost_ns", ctypes.c_double * MAX_PHASES),
        ("thread_bytes", _I64),
        ("shared_bytes", _I64),
        ("param", _I64 * MAX_PARAMS),
    )


class TcError(ctypes.Structure):
    """`tc_error`."""

    _fields_ = tuple((name, _I64) for name in ("code", "tensor", "dim", "value", "extent"))


class TcArgs(ctypes.Structure):
    """`tc_args`."""

    _fields_ = (
        *((name, _VOID) for name in ("data", "sizes", "strides", "scalars")),
        *((name, _VOID) for name in ("plan", "shared", "error")),
        ("threads", _I64),
        ("turn", _VOID),
    )


class TcRange(ctypes.Structure):
    """`tc_range`."""

    _fields_ = (("low", _I64), ("high", _I64))


class TcLoop(ctypes.Structure):
    """`tc_loop`."""

    _fields_ = (
        ("first", _I64),
        ("last", _I64),
        ("range", ctypes.CFUNCTYPE(ctypes.c_int, _VOID, _VOID)),
    )


class TcImport(ctypes.Structure):
    """`tc_import`."""

    _fields_ = (("name", ctypes.c_char_p), ("slot", _VOID))


class TcExecutable(ctypes.Structure):
    """`tc_executable`."""

    _fields_ = (
        ("abi", _I64),
        ("phases", _I64),
        ("plan", ctypes.CFUNCTYPE(ctypes.c_int, _VOID, _VOID)),
        ("phase", ctypes.CFUNCTYPE(ctypes.c_int, _VOID, _VOID, _I64, _I64) * MAX_PHASES),
        ("loops", _I64),
        ("loop", TcLoop * MAX_LOOPS),
        ("imports", _I64),
        ("import_", ctypes.POINTER(TcImport)),
    )
