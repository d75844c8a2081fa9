"""Where the elements of a tensor lie."""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Callable
from typing import Any

from tcdsl.chance.generator import Generator
from tcdsl.core import setup
from tcdsl.ops.on_device import META

__all__ = [
    "CPU",
    "Device",
    "current_gpu",
    "default_device",
    "device_of",
    "place_of",
    "set_current_gpu",
    "set_default",
]


class Device:
    """The host's memory, ``device('cpu')``, a GPU's, ``device('cuda:0')``, or none, 'meta'.

    Parameters
    ----------
    type : str, int or Device
        A name; the number of a GPU.
    index : int, optional
        Which GPU.

    Attributes
    ----------
    type : str
        'cpu', 'cuda' or 'meta'.
    index : int or None

    Raises
    ------
    RuntimeError
        If there is no such kind of device.
    """

    __slots__ = ("index", "type")  # a `with` block makes it the default: see `default_device`
    type: str
    index: int | None

    def __init__(self, type: Any, index: int | None = None) -> None:
        kind, number = _parsed(type)
        if number is not None and index is not None:
            raise RuntimeError(
                "type (string) must not include an index because index was passed explicitly: "
                f"{type}"
            )
        object.__setattr__(self, "type", kind)
        object.__setattr__(self, "index", index if number is None else number)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"attribute '{name}' of a device is not writable")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Device):
            return NotImplemented
        return (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __reduce__(self) -> Any:
        return Device, (self.type, self.index)

    def __enter__(self) -> Device:
        """Let new tensors of this thread lie here, unless they are told otherwise."""
        _before().append(default_device())
        set_default(self)
        return self

    def __exit__(self, *exception: object) -> None:
        set_default(_before().pop())

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function whose new tensors lie here."""

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return wrapped

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        number = "" if self.index is None else f", index={self.index}"
        return f"device(type='{self.type}'{number})"


def _parsed(name: Any) -> tuple[str, int | None]:
    if isinstance(name, Device):
        return name.type, name.index
    if isinstance(name, int) and not isinstance(name, bool):
        return "cuda", name
    match = re.fullmatch(r"(cpu|cuda|meta)(?::(\d+))?", str(name))
    if match is None:
        raise RuntimeError(
            "Expected one of cpu, cuda, ipu, xpu, mkldnn, opengl, opencl, ideep, hip, ve, fpga, "
            "maia, xla, lazy, vulkan, mps, meta, hpu, mtia, privateuseone device type at start of "
            f"device string: {name}"
        )
    kind, number = match.groups()
    return kind, None if number is None else int(number)


CPU, NONE = Device("cpu"), Device("meta")
Generator.device = CPU


class _OfThread(threading.local):
    """What a thread has chosen; what it has not costs no search of an attribute that fails."""

    gpu = 0
    default = CPU


_of_thread = _OfThread()


def current_gpu() -> int:
    """Return the number of the GPU that 'cuda' without one means in this thread."""
    return _of_thread.gpu


def set_current_gpu(number: int) -> None:
    """Let 'cuda' without a number mean this GPU in this thread."""
    _of_thread.gpu = number


def default_device() -> Device:
    """Return where new tensors of this thread lie that are told nothing."""
    return _of_thread.default


def set_default(device: Device | None) -> None:
    """Let new tensors of this thread lie there, None being the host."""
    _of_thread.default = CPU if device is None else device_of(device)


def _before() -> list[Device]:
    """Return the defaults that the `with` blocks of this thread go back to."""
    if not hasattr(_of_thread, "before"):
        _of_thread.before = []
    found: list[Device] = _of_thread.before
    return found


def device_of(wanted: Any) -> Device:
    """Return the device that a caller names, None being the default; 'cuda' is the thread's GPU.

    Raises
    ------
    RuntimeError
        If there is no such kind of device.
    """
    if wanted is None:
        return default_device()
    found = wanted if isinstance(wanted, Device) else Device(wanted)
    if found.type != "cuda":
        return CPU if found.type == "cpu" else NONE
    return found if found.index is not None else Device("cuda", current_gpu())


def place_of(wanted: Any) -> int:
    """Return where a device is, as the core counts: 0 is the host, n + 1 GPU n, META none."""
    if wanted is None:
        wanted = _of_thread.default
    if wanted is CPU or (type(wanted) is str and wanted == "cpu"):
        return 0
    found = device_of(wanted)
    if found is NONE:
        return META
    return 0 if found.index is None else found.index + 1


def _shown(number: int) -> Device:
    return NONE if number + 1 == META else Device("cuda", number)


setup("host", CPU)
setup("gpu", _shown)
