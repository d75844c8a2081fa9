"""A peer is a process of its own that makes the calls of a workload and times them when asked.

Between its turns it waits on a pipe, so that peers never run at the same time.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from suite_parts.workload import Array, Workload

Calls = dict[str, Callable[[], Any]]
"""What a peer does for a workload, by variant; each call returns the result."""

_SAMPLE_NS = 200_000  # at least, so that the clock costs nothing
_QUANTILE = 0.2
_FEWEST = 5  # samples, however long a call is

# Idle threads sleep: two pools that spin on the same cores measure each other. Memory that has been
# used is kept, or big outputs pay for fresh pages in every call.
_SETTINGS = {
    "OPENBLAS_THREAD_TIMEOUT": "4",
    "GOMP_SPINCOUNT": "1000",
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(1 << 36),
    "MALLOC_TOP_PAD_": str(1 << 28),
}


def known() -> list[str]:
    """Return the peers that can run here, ours first."""
    found = ["tcdsl", "numpy"]
    if importlib.util.find_spec("torch") is not None:
        found += ["torch", "torch-avx512", "torch.compile"]
    return found


@dataclass(frozen=True)
class Options:
    """What every peer is told: threads of a call, seconds of tuning (0: none), size-generic too.

    by_cpu: calls are timed by what processors spend, not by a clock, which goes on while others
    work.
    """

    threads: int
    tune: float
    generic: bool
    by_cpu: bool = False


class Process:
    """A peer in its own process; `stop` ends it.

    Raises
    ------
    RuntimeError
        By a question to one that has died.
    """

    def __init__(self, name: str, options: Options) -> None:
        self.name = name
        context = get_context("spawn")
        self._pipe, theirs = context.Pipe()
        with _environment(_settings_of(name, options.threads)):
            self._process = context.Process(
                target=_serve, args=(name, theirs, options), daemon=True
            )
            self._process.start()
        theirs.close()

    def make(self, workload: str, result: Path) -> dict[str, Any]:
        """Have it make the calls and keep the result of each variant as `result/VARIANT.npy`.

        Returns
        -------
        dict
            `variants`, a list, and more that the peer knows; or `error`, a line.
        """
        answer: dict[str, Any] = self._ask("make", workload, str(result))
        return answer

    def time(self, variant: str, seconds: float) -> list[float]:
        """Return times of a call, in ns."""
        answer: list[float] = self._ask("time", variant, seconds)
        return answer

    def beside(self, variants: Sequence[str], seconds: float) -> dict[str, list[float]]:
        """Time variants in turns; return ns of a call, and of the processors in it, of each."""
        answer: dict[str, list[float]] = self._ask("beside", variants, seconds)
        return answer

    def stop(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.join()

    def _ask(self, *question: Any) -> Any:
        try:
            self._pipe.send(question)
            return self._pipe.recv()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            self._process.join()
            code = self._process.exitcode
            raise RuntimeError(f"the process of {self.name} ended with {code}") from None


@contextmanager
def _environment(settings: dict[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(settings)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _settings_of(name: str, threads: int) -> dict[str, str]:
    count = str(threads)
    settings = {
        **_SETTINGS,
        **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), count),
        "TCDSL_THREADS": count,
    }
    if name == "torch-avx512":
        settings["LD_PRELOAD"] = str(_unlocked())
    return settings


def _unlocked() -> Path:
    """Return a library that has MKL take AVX-512 on processors that are not of its vendor."""
    folder = Path(tempfile.gettempdir()) / f"tcdsl-suite-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    library, text = folder / "unlock.so", folder / "unlock.c"
    if folder.stat().st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to somebody else: remove it")
    text.write_text("int mkl_serv_intel_cpu_true(void) { return 1; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(text)], check=True)
    return library


def _serve(name: str, pipe: Any, options: Options) -> None:
    from suite_parts.kinds import find

    make = _MAKERS[name.partition("-")[0]]
    calls: Calls = {}
    while True:
        try:
            kind, *rest = pipe.recv()
        except EOFError:
            return
        if kind == "time":
            variant, seconds = rest
            pipe.send(_samples(calls[variant], seconds, by_cpu=options.by_cpu))
            continue
        if kind == "beside":
            variants, seconds = rest
            pipe.send(_beside({v: calls[v] for v in variants}, seconds))
            continue
        calls.clear()
        gc.collect()
        begin = time.perf_counter()
        try:
            workload = find(rest[0])
            made, facts = make(workload, options)
            for variant, call in made.items():
                result = call()
                if name == "tcdsl" and workload.compared is not None:
                    result = result[: workload.compared]
                np.save(Path(rest[1]) / f"{variant}.npy", _flat(result))
        except Exception as e:  # a peer that cannot do one workload does the others
            pipe.send({"error": f"{type(e).__name__}: {str(e).splitlines()[:1]}"})
        else:
            calls.update(made)
            pipe.send({**facts, "variants": list(made), "make_s": time.perf_counter() - begin})


def _samples(call: Callable[[], Any], seconds: float, *, by_cpu: bool = False) -> list[float]:
    now = time.process_time_ns if by_cpu else time.perf_counter_ns
    end = time.perf_counter() + seconds
    for _ in range(2):  # threads awake, caches warm
        begin = now()
        call()
        once = now() - begin
    count = max(1, _SAMPLE_NS // max(1, once))
    samples: list[float] = []
    while time.perf_counter() < end or not samples:
        begin = now()
        for _ in range(count):
            call()
        samples.append((now() - begin) / count)
    return samples


def _beside(calls: Calls, seconds: float) -> dict[str, list[float]]:
    """Return low quantiles of the ns of each call: by the clock, of all processors together."""
    clocks = time.perf_counter_ns, time.process_time_ns
    for call in calls.values():
        call()
    counts = {v: max(1, int(_SAMPLE_NS / _samples(call, 0)[0])) for v, call in calls.items()}
    samples: dict[str, list[list[float]]] = {v: [] for v in calls}
    end = clocks[0]() + int(seconds * 1e9)
    while clocks[0]() < end or len(samples[next(iter(calls))]) < _FEWEST:
        for variant, call in calls.items():
            call()  # what the one before has displaced from the caches
            begin = [clock() for clock in clocks]
            for _ in range(counts[variant]):
                call()
            ends = [clock() for clock in clocks]
            spent = [(e - b) / counts[variant] for b, e in zip(begin, ends, strict=True)]
            samples[variant].append(spent)
    return {v: np.quantile(found, _QUANTILE, axis=0).tolist() for v, found in samples.items()}


def _flat(result: Any) -> Array:
    """Return a result as float64, several one behind the other, those that are None left out."""
    if isinstance(result, (tuple, list)):
        return np.concatenate([_flat(x) for x in result if x is not None])
    if hasattr(result, "detach"):
        result = result.detach()
        if result.is_floating_point():
            result = result.double()
        result = result.numpy()
    return np.asarray(result).astype(np.float64).reshape(-1)


def _ours(workload: Workload, options: Options) -> tuple[Calls, dict[str, Any]]:
    from operands import kernel, serve_any_size

    import tcdsl as tc
    from tcdsl.codegen.program.work import bytes_of, flops_of
    from tcdsl.kernel import Kernel

    k, args = kernel(workload.text), _arrays(workload)
    any_size = kernel(workload.text)
    if workload.gradient:
        k, args = _way_back(k, args)
        any_size = any_size.with_grad().of(any_size.variant()).backward
    out = k(*args)

    def call() -> Any:
        return k(*args, out=out)

    calls: Calls = {"untuned": call}
    if options.generic:
        serve_any_size(any_size, args)
        calls["generic"] = lambda: any_size(*args, out=out)
    if options.tune and not workload.gradient:
        tuned, into = tc.define(workload.text, threads=options.threads), k(*args)
        assert isinstance(tuned, Kernel)
        tuned.autotune(*args, seconds=options.tune, quiet=True)
        calls["tuned"] = lambda: tuned(*args, out=into)
    sizes = k.session.bind(k.definition, list(args), {})[1]
    program = k.variant().program
    return calls, {"flops": flops_of(program, sizes), "bytes": bytes_of(program, sizes)}


def _way_back(k: Any, args: list[Any]) -> tuple[Any, list[Any]]:
    """Return the gradient of a kernel, and the operands of a call of it."""
    made = k.with_grad().of(k.variant())
    results = _listed(made.forward(*args))
    found = dict(zip(made.forward.returns, results, strict=True))
    seed = _seed(found[k.returns[0]])
    rest = [np.zeros_like(found[name]) for name in k.returns[1:]]
    return made.backward, [*args, *(found[name] for name in made.gradient.kept), seed, *rest]


def _listed(results: Any) -> list[Any]:
    return list(results) if isinstance(results, tuple) else [results]


def _seed(like: Any) -> Array:
    numbers: Array = np.random.default_rng(7).standard_normal(like.shape, dtype=np.float32)
    return numbers


def _arrays(workload: Workload) -> list[Any]:
    arrays = []
    for x, numbers in zip(workload.inputs, workload.operands(), strict=True):
        if x.dtype == "bfloat16":
            import ml_dtypes

            arrays.append(numbers.astype(ml_dtypes.bfloat16))
        else:
            arrays.append(numbers)
    return arrays


def _numpy(workload: Workload, options: Options) -> tuple[Calls, dict[str, Any]]:
    del options
    if workload.numpy is None or workload.gradient:
        return {}, {}
    args, by_numpy = _arrays(workload), workload.numpy
    return {"": lambda: by_numpy(*args)}, {}


def _tensors(workload: Workload) -> list[Any]:
    import torch

    found = []
    for x, numbers in zip(workload.inputs, workload.operands(), strict=True):
        tensor = torch.from_numpy(numbers)
        if x.dtype == "bfloat16":
            tensor = tensor.bfloat16()
        found.append(
            tensor.requires_grad_() if workload.gradient and tensor.is_floating_point() else tensor
        )
    return found


def _torch_call(workload: Workload, tensors: list[Any], peer: Any = None) -> Callable[[], Any]:
    import torch

    run = peer or workload.torch
    if not workload.gradient:
        return lambda: run(torch, *tensors)
    wanted = [x for x in tensors if x.requires_grad]
    result = run(torch, *tensors)
    seed = torch.from_numpy(_seed(result))
    return lambda: torch.autograd.grad(result, wanted, seed, retain_graph=True, allow_unused=True)


def _torch(workload: Workload, options: Options) -> tuple[Calls, dict[str, Any]]:
    import torch

    torch.set_num_threads(options.threads)
    torch.set_grad_enabled(workload.gradient)
    tensors = _tensors(workload)
    calls: Calls = {"": _torch_call(workload, tensors)}
    if workload.channels_last:
        last = [
            x.detach().contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x.detach()
            for x in tensors
        ]
        last = [x.requires_grad_(y.requires_grad) for x, y in zip(last, tensors, strict=True)]
        calls["channels last"] = _torch_call(workload, last)
    return calls, {}


def _compiled(workload: Workload, options: Options) -> tuple[Calls, dict[str, Any]]:
    import torch

    torch.set_num_threads(options.threads)
    torch.set_grad_enabled(workload.gradient)
    torch._dynamo.reset()
    compiled = torch.compile(lambda *xs: workload.torch(torch, *xs), dynamic=False)
    return {"": _torch_call(workload, _tensors(workload), lambda _, *xs: compiled(*xs))}, {}


_MAKERS: dict[str, Callable[[Workload, Options], tuple[Calls, dict[str, Any]]]] = {
    "tcdsl": _ours,
    "numpy": _numpy,
    "torch": _torch,
    "torch.compile": _compiled,
}
