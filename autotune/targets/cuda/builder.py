"""Candidates for a GPU: each compiled alone by NVRTC, in threads, and judged by ptxas's report.

The worker gets the loop IR of the kernels, not a cubin and a list of launches: it goes through
`codegen/device/launch.py` as a call does and finds the cubin in the cache. (A second way to start
kernels was refused: the check would be about that one.)
"""

from __future__ import annotations

import base64
import hashlib
import pickle
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, as_completed

from tcdsl.autotune.store.trial import Failure
from tcdsl.autotune.worker.builder import Built
from tcdsl.autotune.worker.emitted import Emitted
from tcdsl.codegen.device.hostplan import plan
from tcdsl.codegen.loops.loopir import Unit
from tcdsl.codegen.machine.gpu import Gpu
from tcdsl.codegen.toolchain.nvrtc import Cubin, default_jobs
from tcdsl.codegen.toolchain.resources import active_blocks_per_sm
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import CompileError

Compile = Callable[[Emitted], Cubin]


@dataclass(frozen=True, slots=True)
class Cubins:
    """Builds candidates for a GPU. Nothing of it needs one.

    All sources have one name: then equal kernels are equal machine code.

    Parameters
    ----------
    compile : callable
        Compiles one source, or raises `CompileError`; it lets other threads run meanwhile.
    gpu : Gpu
        Whose limits count.
    sizes : mapping of str to int
        Of the problem: grids and shared memory follow from them.
    """

    compile: Compile
    gpu: Gpu
    sizes: Mapping[str, int]

    @property
    def jobs(self) -> int:
        """How many compilers run at a time."""
        return default_jobs()

    def build(
        self,
        sources: Iterable[Emitted],
        count: int,
        is_unwanted: Callable[[], bool] = lambda: False,
        meanwhile: Callable[[], bool] = lambda: False,
    ) -> Iterator[tuple[int, Built | Failure]]:
        """Yield what became of each source, in the order in which compilers end."""
        pool = ThreadPoolExecutor(min(self.jobs, max(count, 1)))
        try:
            running: dict[Future[Built | Failure], int] = {}
            for number, source in enumerate(sources):  # emits one while others compile
                running[pool.submit(self._built, source)] = number
            while running and meanwhile():
                pass
            for future in as_completed(running):
                if is_unwanted():
                    return
                yield running[future], future.result()
        finally:
            pool.shutdown(cancel_futures=True)

    def _built(self, source: Emitted) -> Built | Failure:
        assert source.unit is not None, "a source for a GPU has its unit"
        try:
            cubin = self.compile(source)
        except CompileError as error:
            return Failure("compile", str(error))
        if (refusal := self._refusal(source.unit, cubin)) is not None:
            return Failure("resources", refusal)
        digest = hashlib.sha256(cubin.data + source.launches.encode()).hexdigest()
        return Built({"unit": pack(source.unit)}, digest, cubin.report.objection)

    def _refusal(self, unit: Unit, cubin: Cubin) -> str | None:
        """Return why a kernel cannot start on this GPU, or None."""
        for start in plan(unit, self.sizes).starts:
            resources = cubin.report.kernel(start.function)
            if not active_blocks_per_sm(self.gpu, resources, start.threads, start.shared_bytes):
                shared = resources.shared + start.shared_bytes
                return (
                    f"{start.function}: no block of {start.threads} threads with "
                    f"{resources.registers} registers each and {shared} bytes of shared memory "
                    f"fits on a multiprocessor of {self.gpu.name or self.gpu.arch}"
                )
        return None


def pack(value: object) -> str:
    """Return an object of ours as text for the worker process."""
    return base64.b64encode(zlib.compress(pickle.dumps(value), 1)).decode()


def unpack(text: str) -> object:
    """Return what `pack` was given; the text has to be our own."""
    return pickle.loads(zlib.decompress(base64.b64decode(text)))
