"""Where the elements of a tensor lie."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["CPU", "Device", "device_of"]


class Device:
    """The host's memory, ``device('cpu')``, or a GPU's, ``device('cuda:0')``.

    Parameters
    ----------
    type : str, int or Device
        A name; the number of a GPU.
    index : int, optional
        Which GPU.

    Attributes
    ----------
    type : str
        'cpu' or 'cuda'.
    index : int or None

    Raises
    ------
    RuntimeError
        If there is no such kind of device.
    """

    __slots__ = ("index", "type")
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
    match = re.fullmatch(r"(cpu|cuda)(?::(\d+))?", str(name))
    if match is None:
        raise RuntimeError(
            f"Expected one of cpu, cuda device type at start of device string: {name}"
        )
    kind, number = match.groups()
    return kind, None if number is None else int(number)


CPU = Device("cpu")


def device_of(wanted: Any) -> Device:
    """Return the device that a caller names, None being the host.

    Raises
    ------
    RuntimeError
        If tensors cannot lie there.
    """
    if wanted is None or wanted is CPU:
        return CPU
    found = Device(wanted)
    if found.type != "cpu":
        raise RuntimeError(
            f"tensors on '{found}' are not supported yet: leave device= out, or say 'cpu'"
        )
    return CPU
