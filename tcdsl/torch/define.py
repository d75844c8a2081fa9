"""`define` for PyTorch: text in, kernels on tensors out."""

from __future__ import annotations

from os import PathLike
from typing import Unpack, cast

from tcdsl.definitions import Constants, Definitions, Options, all_of, chosen, read
from tcdsl.torch.kernel import Kernel


def define(
    text: str | PathLike[str],
    name: str | None = None,
    constants: Constants | None = None,
    **options: Unpack[Options],
) -> Kernel:
    """Parse a text and return its kernel on tensors; see `tcdsl.define`."""
    return cast(Kernel, chosen(Kernel, read(text, constants, options), name))


def define_all(
    text: str | PathLike[str], constants: Constants | None = None, **options: Unpack[Options]
) -> Definitions[Kernel]:
    """Parse a text and return all its kernels on tensors by name; see `tcdsl.define_all`."""
    return all_of(Kernel, read(text, constants, options))
