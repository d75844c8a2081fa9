"""The memory of tensors as PyTorch shows it: a row of elements that views share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tcdsl.core import Tensor, dtypes
from tcdsl.core.dtypes import DType
from tcdsl.ops.table import publish
from tcdsl.tensors.indexing import add_at
from tcdsl.tensors.types import TYPE_NAMES

__all__ = ["Storage", "UntypedStorage", "is_storage"]


class Storage:
    """All elements that lie in the memory of a tensor, whatever of it the tensor shows.

    Parameters
    ----------
    of : Tensor
    row : bool
        Whether it is what the tensor shows, a row, and nothing else.

    """

    dtype: DType

    def __init__(self, of: Tensor, *, row: bool = False) -> None:
        count = (of._storage.nbytes - of._storage.spare) // of.dtype.itemsize
        if of.numel():  # it may have been resized into what nobody asked for
            steps = zip(of.shape, of.stride(), strict=True)
            count = max(count, of.storage_offset() + sum((n - 1) * s for n, s in steps) + 1)
        self._row = of.detach() if row else of.detach().as_strided((count,), (1,), 0)

    def size(self) -> int:
        """Return the number of elements."""
        return int(self._row.shape[0])

    __len__ = size

    def __getitem__(self, key: Any) -> Any:
        found = self._row[key]
        return type(self)(found, row=True) if isinstance(key, slice) else found.item()

    def __setitem__(self, key: Any, value: Any) -> None:
        self._row[key] = value

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __repr__(self) -> str:
        lines = "".join(f" {x}\n" for x in self.tolist())
        return f"{lines}[torch.storage.{type(self).__name__} of size {len(self)}]"

    @staticmethod
    def of(tensor: Tensor) -> Storage:
        """Return the storage of a tensor, in the class of its type."""
        return _KINDS[tensor.dtype](tensor)

    def tolist(self) -> list[Any]:
        """Return the elements as Python's numbers."""
        found: list[Any] = self._row.tolist()
        return found

    def data_ptr(self) -> int:
        """Return the address of the first element."""
        return int(self._row.data_ptr())

    def element_size(self) -> int:
        """Return the bytes of an element."""
        return self.dtype.itemsize

    def nbytes(self) -> int:
        """Return the bytes of all elements."""
        return len(self) * self.dtype.itemsize

    def fill_(self, value: Any) -> Storage:
        """Write one number everywhere; return self."""
        self._row.fill_(value)
        return self

    def copy_(self, source: Storage) -> Storage:
        """Write the elements of another one; return self."""
        self._row.copy_(source._row)
        return self

    def clone(self) -> Storage:
        """Return a copy."""
        return type(self)(self._row.clone(), row=True)

    def type(self) -> str:
        """Return the name of the class, as 'torch.FloatStorage'."""
        return f"torch.{type(self).__name__}"

    def untyped(self) -> UntypedStorage:
        """Return the same memory as bytes."""
        return UntypedStorage(self._row)


class UntypedStorage(Storage):
    """All bytes that lie in the memory of a tensor; see `Storage`."""

    dtype = dtypes.uint8

    def __init__(self, of: Tensor, *, row: bool = False) -> None:
        super().__init__(of, row=row)
        self._row = self._row.view(dtypes.uint8)

    @property
    def device(self) -> Any:
        """Where the bytes lie."""
        return self._row.device

    def cpu(self) -> UntypedStorage:
        """Return these bytes in the host's memory."""
        return self if not self._row._device else UntypedStorage(self._row.cpu(), row=True)


_KINDS: dict[DType, type[Storage]] = {
    dtype: type(
        name.replace("Tensor", "Storage"), (Storage,), {"dtype": dtype, "__module__": "tcdsl"}
    )
    for name, dtype in TYPE_NAMES.items()
}


def storage(self: Tensor) -> Storage:
    """Return the memory of this tensor."""
    return Storage.of(self)


def untyped_storage(self: Tensor) -> UntypedStorage:
    """Return the memory of this tensor, as bytes."""
    return UntypedStorage(self)


def storage_type(self: Tensor) -> type[Storage]:
    """Return the class of this tensor's storage."""
    return _KINDS[self.dtype]


def is_storage(obj: object) -> bool:
    """Return whether an object is the memory of a tensor."""
    return isinstance(obj, Storage)


def set_(
    self: Tensor,
    source: Any = None,
    storage_offset: int = 0,
    size: Any = None,
    stride: Any = None,
) -> Tensor:
    """Let this tensor be a view of another's memory; return self.

    Parameters
    ----------
    source : Tensor or Storage, optional
        Of this tensor's type; nothing at all makes it empty.
    storage_offset : int
    size, stride : sequence of int, optional
        By default a tensor's own, or all of a storage in a row.
    """
    if source is None:
        self.data = self.detach().new_empty(0)
        return self
    if isinstance(source, UntypedStorage):
        source = source._row.view(self.dtype)
    if source.dtype is not self.dtype:
        raise RuntimeError(
            f"Could not set tensor of type {source.dtype} to a tensor of type {self.dtype}"
        )
    view = source._row if isinstance(source, Storage) else source.detach()
    if size is not None:
        sizes = tuple(size)
        if stride is None:
            steps = [1]
            for n in reversed(sizes[1:]):
                steps.insert(0, steps[0] * max(n, 1))
            stride = steps[: len(sizes)]
        view = view.as_strided(sizes, tuple(stride), storage_offset)
    elif storage_offset:
        view = view.as_strided((view.numel() - storage_offset,), (1,), storage_offset)
    self.data = view
    return self


def index(self: Tensor, indices: Any) -> Tensor:
    """Return ``self[indices]``."""
    found: Tensor = self[indices]
    return found


def index_put_(self: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    """Write values where tensors of subscripts say, one a dimension; return self.

    Parameters
    ----------
    indices : tuple of Tensor
        Of int64, shapes that broadcast.
    values : Tensor
    accumulate : bool
        Add to what is there; places that are named twice get both.
    """
    if accumulate:
        add_at(self, tuple(indices), values)
        return self
    self[indices[0] if len(indices) == 1 else tuple(indices)] = values
    return self


def index_put(input: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    """Return a copy with values where tensors of subscripts say; see `index_put_`."""
    return index_put_(input.clone(), indices, values, accumulate)


for _method in (storage, untyped_storage, storage_type, set_, index, index_put_):
    publish(_method, (_method.__name__,), on=("Tensor",))
publish(index_put, ("index_put",))
publish(index_put_, ("index_put_",), on=("torch",))
publish(is_storage, ("is_storage",), on=("torch",))
