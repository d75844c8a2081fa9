"""What a GPU fails with, in our words: memory that is not there, and failures that end its use.

After an access outside memory, a trap or a time limit CUDA refuses everything else in the process.
What it refuses then has nothing to do with the cause, so the first such failure is kept and named
by all later ones.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from tcdsl.grammar.text.errors import DeviceError, DeviceMemoryError

# Numbers that cudaError and CUresult share. CUDA says of each that the process has to be ended.
_FATAL = frozenset(
    (
        214,  # an error in memory that could not be corrected
        700,  # an illegal address
        702,  # the time limit of a launch
        709,  # the context is destroyed
        710,  # an assertion of the device
        *range(714, 720),  # the stack, an instruction, alignment, address space, counter; any other
        721,  # memory of the tensor cores was not given back
    )
)
_NO_MEMORY = 2


class Failures:
    """The failures of one GPU in this process.

    Parameters
    ----------
    number : int
        Of the GPU.
    cupy : module
        Its classes of errors are what CUDA's failures come as.

    Attributes
    ----------
    kinds : tuple of exception classes
        What CuPy raises where CUDA fails: of the runtime, of the driver, of its pool of memory.
    """

    def __init__(self, number: int, cupy: Any) -> None:
        self._number = number
        self._first: str | None = None
        self.kinds: tuple[type[Exception], ...] = (
            cupy.cuda.runtime.CUDARuntimeError,
            cupy.cuda.driver.CUDADriverError,
            cupy.cuda.memory.OutOfMemoryError,
        )

    @contextlib.contextmanager
    def of(self, what: str) -> Iterator[None]:
        """Return a context whose failures are raised as ours: "GPU 0 " and what."""
        try:
            yield
        except self.kinds as error:
            raise self.error(what, error) from error

    def error(self, what: str, error: Exception) -> DeviceError:
        """Return a failure as an error of ours."""
        if self._first is not None:
            return DeviceError(
                f"GPU {self._number} {what}: it failed before, by {self._first}\n{_OVER}"
            )
        if getattr(error, "status", None) in _FATAL:
            self._first = str(error)
            return DeviceError(f"GPU {self._number} {what}: {error}\n{_OVER}")
        return DeviceError(f"GPU {self._number} {what}: {error}")

    def no_memory(self, size_bytes: int, error: Exception, kind: str = "") -> DeviceError:
        """Return the failure of an allocation as an error of ours."""
        status = getattr(error, "status", _NO_MEMORY)  # the pool's error has none
        if self._first is not None or status != _NO_MEMORY:
            return self.error(f"gives no {kind}memory ({size_bytes:,} bytes)", error)
        return DeviceMemoryError(
            f"GPU {self._number} has no {size_bytes:,} bytes of {kind}memory left: {error}\n"
            "  let go of arrays, or give back what CuPy keeps: "
            "cupy.get_default_memory_pool().free_all_blocks()"
        )


_OVER = (
    "  this process cannot use the GPU any more; start a new one "
    "(compute-sanitizer names the kernel)"
)
