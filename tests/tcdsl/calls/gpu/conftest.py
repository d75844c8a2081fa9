"""A simulated device in place of GPU 0."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tcdsl.calls.gpu import copies as device_copies
from tcdsl.codegen.device import devices
from tcdsl.derived import own, with_gradient
from tests.tcdsl.calls.gpu.sim import SimDevice


@pytest.fixture
def device() -> Iterator[SimDevice]:
    """Return a device that stands in for GPU 0; what it found at the end is a failure."""
    simulated = SimDevice(0)
    devices.register(simulated)
    for made in (device_copies._copier, with_gradient._zeros, own._copy):
        made.cache_clear()  # kernels bound to the device before
    try:
        yield simulated
    finally:
        devices.unregister(0)
    simulated.assert_clean()
