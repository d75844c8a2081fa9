"""The structures of `tc_abi.h`, for those who call emitted code without the launcher."""

from __future__ import annotations

import ctypes

VERSION, MAX_PHASES, MAX_PARAMS, MAX_LOOPS = 4, 512, 1024, 32


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
        ("tasks", ctypes.c_int64 * MAX_PHASES),
        ("cost_ns", ctypes.c_double * MAX_PHASES),
        ("thread_bytes", ctypes.c_int64),
        ("shared_bytes", ctypes.c_int64),
        ("param", ctypes.c_int64 * MAX_PARAMS),
    )


class TcError(ctypes.Structure):
    """`tc_error`."""

    _fields_ = tuple(
        (name, ctypes.c_int64) for name in ("code", "tensor", "dim", "value", "extent")
    )


class TcArgs(ctypes.Structure):
    """`tc_args`."""

    _fields_ = (
        ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("sizes", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("scalars", ctypes.POINTER(TcScalar)),
        ("plan", ctypes.POINTER(TcPlan)),
        ("shared", ctypes.c_void_p),
        ("error", ctypes.POINTER(TcError)),
        ("threads", ctypes.c_int64),
        ("turn", ctypes.POINTER(ctypes.c_int64)),
    )


class TcRange(ctypes.Structure):
    """`tc_range`."""

    _fields_ = (("low", ctypes.c_int64), ("high", ctypes.c_int64))


_PLANNER = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(TcArgs), ctypes.POINTER(TcPlan))
_PHASE = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(TcArgs), ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
)


class TcLoop(ctypes.Structure):
    """`tc_loop`."""

    _fields_ = (
        ("first", ctypes.c_int64),
        ("last", ctypes.c_int64),
        ("range", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(TcArgs), ctypes.POINTER(TcRange))),
    )


class TcExecutable(ctypes.Structure):
    """`tc_executable`."""

    _fields_ = (
        ("abi", ctypes.c_int64),
        ("phases", ctypes.c_int64),
        ("plan", _PLANNER),
        ("phase", _PHASE * MAX_PHASES),
        ("loops", ctypes.c_int64),
        ("loop", TcLoop * MAX_LOOPS),
    )
