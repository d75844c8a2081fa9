"""Kernels over a batch on a GPU: the CUDA text of a batched definition gives what loops give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from tests.tcdsl.batches import assert_same, batch_of
from tests.tcdsl.calls.gpu.sim import SimArray, SimDevice
from tests.tcdsl.derived.test_batched import CASES, SIZES, drawn
from tests.tcdsl.differential import Array
from tests.tiers import sampled

pytestmark = pytest.mark.cusim


@sampled("case", range(len(CASES)), keep=1, wide=6)
def test_one_call_gives_what_a_loop_gives(device: SimDevice, case: int) -> None:
    text, in_dims, *given = CASES[case]
    kernel, args = drawn.__wrapped__(text, *given)  # a kernel is bound to its first device

    def on_device(k: Any, args: Sequence[Any], generics: Mapping[str, Any]) -> tuple[Array, ...]:
        # copies: the memory of an array of a device ends with it
        moved = [device.array(a.copy(order="C")) if np.ndim(a) else a for a in args]
        got = k(*moved, **generics)
        several = got if isinstance(got, tuple) else (got,)
        return tuple(g.get() if isinstance(g, SimArray) else np.asarray(g) for g in several)

    batch = batch_of(args, kernel.params, in_dims, 3)
    assert_same(kernel, batch, in_dims, {name: SIZES[name] for name in given}, run=on_device)
