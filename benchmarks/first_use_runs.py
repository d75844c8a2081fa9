"""What the processes of `first_use.py` do: first imports, calls, sizes, steps, each timed.

`python benchmarks/first_use_runs.py RUN PROGRAM [filling]` prints a line of JSON for each step of a
run; one that is filling a cache for another leaves out what no process before that one is to meet.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from layers import ADD, LAYERNORM, LINEAR, LSTM, MATMUL, SOFTMAX

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
Clocked = dict[str, Any]
Emit = Callable[..., None]

CONV = """
def conv(float(N,C,H,W) I, float(F,C,3,3) K) -> (O) {{
  O(n, f, y, x) +=! pad(I(n, c, {s} * y + i - 1, {s} * x + j - 1), 0) * K(f, c, i, j)
      where y in 0:(H - 1) / {s} + 1, x in 0:(W - 1) / {s} + 1
}}"""
ATTENTION = """
def attention(float(B,T,E) Q, float(B,T,E) K, float(B,T,E) V) -> (O) {
  Z(b, i, j) +=! Q(b, i, e) * K(b, j, e)
  A(b, i, j) = j > i ? -inf : Z(b, i, j) * rsqrt(float(E))
  M(b, i) max=! A(b, i, j)
  W(b, i, j) = exp(A(b, i, j) - M(b, i))
  S(b, i) +=! W(b, i, j)
  P(b, i, j) = W(b, i, j) / S(b, i)
  O(b, i, e) +=! P(b, i, j) * V(b, j, e)
}"""
LIKE_LINEAR = "def like(float(A,B) X, float(C,B) W) -> (Y) { Y(a, c) +=! X(a, b) * W(c, b) }"
OTHER = "def other(double(N) A) -> (O) { O(i) = 2 * A(i) }"

Shapes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Program:
    """A text and the shapes of its inputs: those of the i-th set of sizes, all sizes differ."""

    text: str
    shapes: Callable[[int], Shapes]


PROGRAMS: Mapping[str, Program] = {
    "add": Program(ADD, lambda i: ((1000 + i,),) * 2),
    "softmax": Program(SOFTMAX, lambda i: ((30 + i, 70 + i),)),
    "layernorm": Program(LAYERNORM, lambda i: ((30 + i, 70 + i), (70 + i,), (70 + i,))),
    "matmul": Program(MATMUL, lambda i: ((40 + i, 50 + i), (50 + i, 60 + i))),
    "linear": Program(LINEAR, lambda i: ((40 + i, 50 + i), (60 + i, 50 + i))),
    "conv": Program(CONV.format(s=1), lambda i: ((2, 16, 15 + i, 17 + i), (32, 16, 3, 3))),
    "conv stride 2": Program(CONV.format(s=2), lambda i: ((2, 16, 15 + i, 17 + i), (32, 16, 3, 3))),
    "attention": Program(ATTENTION, lambda i: ((4, 30 + i, 32),) * 3),
    "LSTM": Program(LSTM, lambda i: ((5 + i, 8, 32), (8, 32), (8, 32), (4, 32, 32), (4, 32, 32))),
}
MODELS = {
    "ResNet-18": ("resnet", 4, 3, 8_000),
    "GPT": ("gpt", 4, 3, 4_000),
    "LSTM language model": ("language_model", 8, 3, 3_000),
}
# What is called for batch after batch, by programs with one outermost size.
BATCHED: Mapping[str, Callable[[int], Shapes]] = {
    "softmax": lambda n: ((n, 70),),
    "layernorm": lambda n: ((n, 70), (70,), (70,)),
    "linear": lambda n: ((n, 50), (60, 50)),
    "conv": lambda n: ((n, 16, 15, 17), (32, 16, 3, 3)),
}
NEW_SIZES = 5  # that are timed, after three that are not
FILLING = "filling"


@contextlib.contextmanager
def clocked(emit: Emit, step: str, each: int = 1) -> Iterator[None]:
    """Time what is done, as one of so many alike, and say what it made."""
    import resource

    def spent() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    made, loaded, compiled = _objects(), _loaded(), spent()
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    emit(
        step=step,
        wall_ms=wall * 1e3 / each,
        cpu_ms=cpu * 1e3 / each,
        compiler_s=spent() - compiled,
        made=len(_objects() - made),
        loaded=len(_loaded() - loaded),
    )


def _objects() -> set[str]:
    """Return the shared objects in the cache folder."""
    return {p.name for p in Path(os.environ["TCDSL_CACHE"], "objects").glob("**/*.so")}


def _loaded() -> set[str]:
    """Return those that this process has loaded; none where the system does not tell."""
    folder = str(Path(os.environ["TCDSL_CACHE"], "objects").resolve())
    with contextlib.suppress(OSError), open("/proc/self/maps", encoding="utf-8") as f:
        return {line.split(maxsplit=5)[-1].strip() for line in f if folder in line}
    return set()


def _meet(program: Program, i: int = 0) -> tuple[Any, tuple[Any, ...]]:
    """Return a kernel that has not been called, and operands."""
    from operands import kernel

    return kernel(program.text), _operands(program, i)


def _operands(program: Program, i: int) -> tuple[Any, ...]:
    from operands import rand

    return tuple(rand(*shape) for shape in program.shapes(i))


def _forward_and_back(k: Any) -> Callable[..., object]:
    """Return a call of a kernel and of its way back, with an adjoint of ones."""
    import numpy as np

    pulled = k.with_grad(copy=False)

    def run(*operands: Any) -> object:
        results, pull = pulled(*operands)
        if isinstance(results, tuple):
            return pull(tuple(np.ones_like(x) for x in results))
        return pull(np.ones_like(results))

    return run


def run_imports(emit: Emit, _: str) -> None:
    """The import, and the first text."""
    with clocked(emit, "and first define"):
        import tcdsl

        tcdsl.define(ADD)


def run_ready(emit: Emit, _: str) -> None:
    """All that a program needs before its first kernel: an empty cache folder is filled."""
    import numpy as np

    import tcdsl

    with clocked(emit, "first call on a machine"):
        tcdsl.define(OTHER, tune="off")(np.ones(3))


def run_define(emit: Emit, name: str) -> None:
    """A text and its first call, its object in the cache, after another kernel was called."""
    run_ready(lambda **_: None, "")
    _prepare()
    with clocked(emit, "define and first call"):
        k, operands = _meet(PROGRAMS[name])
        k(*operands)


def run_first(emit: Emit, name: str) -> None:
    """The same for the first kernel of a process."""
    _prepare()
    with clocked(emit, "define and first call"):
        k, operands = _meet(PROGRAMS[name])
        k(*operands)


def _prepare() -> None:
    """Import what the benchmark itself needs."""
    import operands

    operands.rand(1)


def run_new_size(emit: Emit, name: str) -> None:
    """A size like others before."""
    k, operands = _meet(PROGRAMS[name])
    _new_sizes(emit, k, PROGRAMS[name], operands)


def run_new_size_of_gradient(emit: Emit, name: str) -> None:
    k, operands = _meet(PROGRAMS[name])
    _new_sizes(emit, _forward_and_back(k), PROGRAMS[name], operands)


def _new_sizes(emit: Emit, call: Callable[..., object], program: Program, first: Any) -> None:
    call(*first)
    for i in (1, 2):
        call(*_operands(program, i))
    steps = [("new size", "the same again"), ("size that no process had", "that size again")]
    for k, (new, again) in enumerate(steps[: 1 if FILLING in sys.argv else 2]):
        at = range(3 + k * NEW_SIZES, 3 + (k + 1) * NEW_SIZES)
        given = [_operands(program, i) for i in at]
        for step in (new, again):  # the second is the work itself
            with clocked(emit, step, each=NEW_SIZES):
                for operands in given:
                    call(*operands)


def run_cold(emit: Emit, name: str) -> None:
    """The first sizes, which get an executable of their own, then others."""
    run_ready(lambda **_: None, "")
    k, operands = _meet(PROGRAMS[name])
    others = _operands(PROGRAMS[name], 1)
    with clocked(emit, "exact"):
        k(*operands)
    with clocked(emit, "generic"):
        k(*others)


def run_cold_beside_library(emit: Emit, name: str) -> None:
    """The same where a product of these types was compiled for all sizes before."""
    from operands import kernel

    import tcdsl

    run_ready(lambda **_: None, "")
    tcdsl.warm(kernel(LIKE_LINEAR), quiet=True)  # by another process
    run_cold(emit, name)


def run_cold_batches(emit: Emit, name: str) -> None:
    """The first sizes, another batch of them, and other sizes: each waits for what it needs."""
    from operands import rand

    run_ready(lambda **_: None, "")
    k, operands = _meet(PROGRAMS[name], 1)
    batches = [tuple(rand(*shape) for shape in BATCHED[name](n)) for n in (30, 37)]
    for step, given in zip(
        ("first", "another batch", "other sizes"), (*batches, operands), strict=True
    ):
        with clocked(emit, step):
            k(*given)


def run_cold_gradient(emit: Emit, name: str) -> None:
    run_ready(lambda **_: None, "")
    k, operands = _meet(PROGRAMS[name])
    call, others = _forward_and_back(k), _operands(PROGRAMS[name], 1)
    with clocked(emit, "exact"):
        call(*operands)
    with clocked(emit, "generic"):
        call(*others)


def run_forms(emit: Emit, name: str) -> None:
    """So many forms of operands in turn, each of which was met before."""
    from operands import rand

    count = int(name)
    k, _ = _meet(PROGRAMS["add"])
    given = [(rand(i), rand(i)) for i in range(1, count + 1)]
    rounds = max(1, 2000 // count)
    for _ in range(2):
        for a, b in given:
            k(a, b)
    with clocked(emit, "a call", each=rounds * count):
        for _ in range(rounds):
            for a, b in given:
                k(a, b)


def run_model(emit: Emit, name: str) -> None:
    """The first step, one like it, and what a step takes longer where its batch size is new."""
    import models

    run_ready(lambda **_: None, "")
    make, size, other, _ = MODELS[name]
    model = getattr(models, make)()
    for step in ("first step", "the same again"):
        with clocked(emit, step):
            model.step(size)
    for step, batch in (("another batch size", other), ("a further batch size", other + 2)):
        _beyond(emit, step, partial(model.step, batch))


def _beyond(emit: Emit, step: str, call: Callable[[], object], again: int = 3) -> None:
    """Time a call less the quickest of those like it that follow: what its being new costs."""
    found: list[Clocked] = []
    for _ in range(1 + again):
        with clocked(lambda **one: found.append(one), step):
            call()
    new, *known = found
    emit(**new | {k: new[k] - min(x[k] for x in known) for k in ("wall_ms", "cpu_ms")})


def run_script(emit: Emit, name: str) -> None:
    """The import of the library and the first step of an example for PyTorch."""
    import runpy

    import sklearn.datasets  # noqa: F401 - whose time is not ours

    import tcdsl.as_torch

    with clocked(emit, "import and first step"):
        tcdsl.as_torch.install()
        from tcdsl import optim

        for kind in vars(optim).values():
            if isinstance(kind, type) and hasattr(kind, "step"):
                _stopping(kind)  # also where a base of it steps
        sys.path.insert(0, str(EXAMPLES))  # where the scripts find what they share
        sys.argv = [name]  # without options: those of this process are not theirs
        with contextlib.suppress(_Stepped), contextlib.redirect_stdout(sys.stderr):
            runpy.run_path(str(EXAMPLES / name), run_name="__main__")


class _Stepped(BaseException):
    """Ends a script, whatever it catches."""


def _stopping(kind: Any) -> None:
    """Let an optimizer end the script after a step."""
    step = kind.step

    def stepped(self: Any, *args: Any, **kwargs: Any) -> None:
        step(self, *args, **kwargs)
        raise _Stepped

    kind.step = stepped


if __name__ == "__main__":
    named, of = sys.argv[1:3]
    globals()[named](lambda **step: print(json.dumps(step), flush=True), of)
    from tcdsl.calls.bindings import aside

    aside.settle()  # what is built aside is there for the next row
