"""The definitions of examples/*.tc, called on a simulated GPU."""

from __future__ import annotations

import numpy as np
import pytest

from tests.tcdsl.calls.gpu.sim import SimDevice
from tests.tcdsl.differential import assert_close, reference
from tests.texts import Example, arguments, examples
from tests.tiers import sampled

pytestmark = pytest.mark.cusim


@sampled("example", examples(), ids=lambda e: e.name, keep=5, wide=17)
def test_a_text_computes_what_the_reference_computes(
    device: SimDevice, example: Example, rng: np.random.Generator
) -> None:
    kernel = example.kernel()
    checked = kernel.variant().checked
    args = arguments(checked, example.sizes, rng)
    got = kernel(*(device.array(a) if a.ndim else a[()] for a in args))
    for g, want in zip(
        got if isinstance(got, tuple) else (got,), reference(checked, args, float64=True),
        strict=True,
    ):  # fmt: skip
        assert_close(g.get(), want, 200)
