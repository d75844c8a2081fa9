"""Calls under torch.compile, torch.export and dispatch modes."""

from __future__ import annotations

from typing import Any

from tcdsl import kernel
from tcdsl.call import Arguments
from tcdsl.grammar.errors import TCTypeError


def call(of: kernel.Kernel, given: Arguments) -> Any:
    """Call a kernel such that torch.compile, torch.export and dispatch modes see it."""
    raise TCTypeError(
        f"{of.name}: calls under torch.compile, torch.export and dispatch modes are not there yet"
    )
