"""What PyTorch's counters are told of the operators: the arithmetic of a call, as its text has it.

`torch.utils.flop_counter.FlopCounterMode` counts products of matrices two a multiplication; so does
a kernel's `flops`, which counts all else too.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.flop_counter import register_flop_formula

from tcdsl.codegen.program.work import flops_of
from tcdsl.torch.library import Given, given, given_out
from tcdsl.torch.transformed import bound


def _flops(call: Given) -> int:
    callee, tensors, integers, floats = call
    variant, sizes = bound(callee, callee.values(tensors, integers, floats))
    return flops_of(variant.program, sizes)


def _of_call(*args: Any, out_val: object, **named: Any) -> int:
    return _flops(given(*args, **named))


def _of_call_out(*args: Any, out_val: object, **named: Any) -> int:
    call, _outputs = given_out(*args, **named)
    return _flops(call)


_register: Any = register_flop_formula
_register(torch.ops.tcdsl.call, get_raw=True)(_of_call)
_register(torch.ops.tcdsl.call_out, get_raw=True)(_of_call_out)
