"""save: a zip of a pickle that names PyTorch's functions, and of the storages that it refers to."""

from __future__ import annotations

import collections
import contextlib
import io
import os
import pickle
import secrets
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np

from tcdsl.core import Size, Tensor
from tcdsl.core.dtypes import DType
from tcdsl.serialization.names import TORCH_TYPES
from tcdsl.tensors.devices import Device

__all__ = ["save"]


class _Name:
    """A name that a file says, whether or not there is such a module here."""

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.name = name

    def __call__(self, *args: object) -> None:
        """Stand for a function; it is called by who reads the file."""


_REBUILD = _Name("torch._utils", "_rebuild_tensor_v2")
_PARAMETER = _Name("torch._utils", "_rebuild_parameter")
_SIZE = _Name("torch", "Size")
_DEVICE = _Name("torch", "device")
_STORAGE = {kind: _Name("torch", name) for kind, name in TORCH_TYPES.items()}


class _Storage:
    """Memory that tensors of one type share: where it begins, and how far they reach."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.elements = 0
        self.tensors: list[Tensor] = []  # each keeps the memory alive

    def take(self, tensor: Tensor) -> None:
        self.tensors.append(tensor)
        if tensor.numel():
            pairs = zip(tensor.shape, tensor.stride(), strict=True)
            last = tensor.storage_offset() + sum((n - 1) * s for n, s in pairs)
            self.elements = max(self.elements, last + 1)

    def array(self) -> np.ndarray[Any, Any]:
        """Return the elements, from the first of the memory to the last that a tensor has."""
        flat: Tensor = self.tensors[0].detach().as_strided((self.elements,), (1,), 0)
        array: np.ndarray[Any, Any] = flat.cpu().numpy()
        return array


class _Count:
    """Stands for the number of elements that a file has of a storage."""

    def __init__(self, storage: _Storage) -> None:
        self.storage = storage


_Open: Any = getattr(pickle, "_Pickler")  # noqa: B009  # Python's own, whose save is open


class _Pickler(_Open):  # type: ignore[misc]  # its stub has none of what is used here
    """Writes tensors as PyTorch does, by names of its module, which need not be there."""

    dispatch: ClassVar[dict[Any, Any]] = _Open.dispatch.copy()

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, 2)
        self._text = file
        self._storages: dict[tuple[int, int, DType], _Storage] = {}
        self._counts: list[tuple[int, _Storage]] = []  # where each stands

    def dump(self, obj: Any) -> None:
        """Write an object; how far storages reach is known once all tensors were met."""
        super().dump(obj)
        for place, storage in self._counts:
            self._text.seek(place)
            self._text.write(storage.elements.to_bytes(8, "little"))

    @property
    def storages(self) -> tuple[_Storage, ...]:
        """The storages that the text refers to."""
        return tuple(self._storages.values())

    def save_count(self, count: _Count) -> None:
        self._counts.append((self._text.tell() + 2, count.storage))
        self.write(pickle.LONG1 + bytes([8, *bytes(8)]))

    dispatch[_Count] = save_count

    def save_name(self, name: _Name) -> None:
        self.write(pickle.GLOBAL + f"{name.module}\n{name.name}\n".encode())
        self.memoize(name)

    dispatch[_Name] = save_name

    def save_dtype(self, kind: DType) -> None:
        self.save_name(_Name("torch", kind.name))

    dispatch[DType] = save_dtype

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return _reduced(value)
        if isinstance(value, Size):
            return _SIZE, (tuple(value),)
        if isinstance(value, Device):
            return _DEVICE, (value.type,) if value.index is None else (value.type, value.index)
        return NotImplemented

    def persistent_id(self, value: Any) -> Any:
        if not isinstance(value, _Part):
            return None
        tensor = value.tensor
        begin = tensor.data_ptr() - tensor.storage_offset() * tensor.element_size()
        number = (begin if tensor.numel() else 0, tensor._device, tensor.dtype)
        storage = self._storages.get(number)
        if storage is None:
            storage = _Storage(str(len(self._storages)))
            self._storages[number] = storage
        storage.take(tensor)
        kind = _STORAGE[tensor.dtype]
        return ("storage", kind, storage.key, str(tensor.device), _Count(storage))


class _Part:
    """Stands for the memory of a tensor in a pickle."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


def _reduced(tensor: Tensor) -> Any:
    from tcdsl.tensors.parameter import Parameter  # late: most files hold plain tensors

    hooks: collections.OrderedDict[str, Any] = collections.OrderedDict()
    if isinstance(tensor, Parameter):
        return _PARAMETER, (tensor.detach(), tensor.requires_grad, hooks)
    size, stride = tuple(tensor.shape), tuple(tensor.stride())
    offset = tensor.storage_offset() if tensor.numel() else 0
    args = (_Part(tensor), offset, size, stride, tensor.requires_grad, hooks)
    return _REBUILD, args


def save(
    obj: Any,
    f: Any,
    pickle_module: Any = None,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
) -> None:
    """Write an object that holds tensors to a file.

    Parameters
    ----------
    obj : object
        A tensor, a state dict, or anything else that can be pickled.
    f : str, path or file open for writing bytes
    pickle_module, pickle_protocol, _use_new_zipfile_serialization : ignored
        The format has one way.

    Notes
    -----
    The format is PyTorch's, whose `torch.load` reads the file. Tensors that share memory share it
    again when they are read. Under a path the file is there whole or not at all.
    """
    text = io.BytesIO()
    pickler = _Pickler(text)
    pickler.dump(obj)
    with _target(f) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("archive/data.pkl", text.getvalue())
        archive.writestr("archive/byteorder", sys.byteorder)
        for storage in pickler.storages:
            archive.writestr(f"archive/data/{storage.key}", storage.array().tobytes())
        archive.writestr("archive/version", "3\n")


@contextlib.contextmanager
def _target(f: Any) -> Iterator[IO[bytes]]:
    """Open what is written; a path gets its file when that is whole."""
    if hasattr(f, "write"):
        yield f
        return
    path = Path(os.path.realpath(f))  # a link stays one
    if path.exists() and not path.is_file():  # a device or a pipe
        with path.open("wb") as file:
            yield file
        return
    mode = path.stat().st_mode & 0o777 if path.exists() else None
    name, number = _beside(path, 0o666 if mode is None else mode & 0o600)
    try:
        with os.fdopen(number, "wb") as file:
            yield file
            if mode is not None:
                os.fchmod(number, mode)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def _beside(path: Path, mode: int) -> tuple[Path, int]:
    """Make a file in the folder of another, of a name that is free; return that, and it open."""
    while True:
        name = path.with_name(f".saving-{secrets.token_hex(8)}")
        try:
            return name, os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        except FileExistsError:
            continue
        except PermissionError as error:
            raise PermissionError(
                error.errno,
                "its folder may not be written, where the file is made that takes its place; "
                "save(obj, open(path, 'wb')) writes over a file as it is",
                str(path),
            ) from None
        except OSError as error:
            error.filename = str(path)
            raise
