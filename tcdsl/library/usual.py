"""What programs of tensors ask for whatever they compute, compiled once on a machine.

Executables that fill and copy, draw numbers and do arithmetic on elements: each would be waited for
in the first step of whoever has not got it. The builder makes them by calling them, one after the
other, where nothing else is to be built (`calls/bindings/beginning.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from operator import add, mul, sub, truediv

from tcdsl import library
from tcdsl.calls.bindings.aside import USUAL, Aside
from tcdsl.calls.bindings.beginning import keep_usual
from tcdsl.core import Tensor
from tcdsl.ops import internal


def _tensor(*shape: int) -> Tensor:
    made: Tensor = library.empty(*shape)
    return made


def _number() -> Tensor:
    return _tensor()


def _few() -> Tensor:
    return _tensor(4, 8)


_CALLS: tuple[Callable[[], object], ...] = (
    lambda: internal.ones(_number()),  # what backward begins with
    lambda: internal.zeros(_few()),
    lambda: internal.plus(_few(), _few()),
    lambda: _few().zero_(),
    lambda: _number().zero_(),
    lambda: _few().fill_(2.0),
    lambda: _number().fill_(2.0),
    lambda: _few().uniform_(-1, 1),
    lambda: _few().clone(),
    lambda: _number().clone(),
    lambda: _few().copy_(_few()),
    lambda: internal.ones(_few()),
    *(lambda op=op: op(_few(), 2.0) for op in (add, sub, mul, truediv)),
    *(lambda op=op: op(_few(), _few()) for op in (add, sub, mul, truediv)),
    lambda: _few().t().clone(),  # of any strides, as operands that broadcast are
    *(lambda op=op: op(_few(), _tensor(4, 1)) for op in (add, mul)),
)


def build(task: bytes) -> None:
    """Make the call of a number, and have the next one made: in between comes what is sooner."""
    number = int(task)
    _CALLS[number]()
    if number + 1 < len(_CALLS):
        Aside(str(number + 1).encode(), "the library", USUAL)
    else:
        keep_usual()
