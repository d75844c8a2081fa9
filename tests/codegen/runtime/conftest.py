"""The hand-written executables, and launchers over them as a caller would make them."""

from __future__ import annotations

import ctypes
import subprocess
import time
from collections import namedtuple
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tcdsl.codegen import runtime

HERE = Path(__file__).parent
Array = npt.NDArray[Any]
F4 = np.dtype(np.float32)


def form(x: Array) -> runtime.ArrayForm:
    """Return the operand form of an array: strides in elements."""
    return x.dtype, x.shape, tuple(s // x.itemsize for s in x.strides)


@dataclass
class Kernels:
    """The library and the launchers made from it."""

    library: ctypes.CDLL
    misses: list[str] = field(default_factory=list)

    def address(self, name: str) -> int:
        """Return the address of an executable."""
        return ctypes.addressof(ctypes.c_char.in_dll(self.library, f"tc_exe_{name}"))

    def launcher(
        self,
        name: str,
        n_params: int,
        returns: Callable[..., tuple[runtime.ArrayForm, ...]],
        sizes: Callable[..., tuple[int, ...]],
        *,
        n_returns: int = 1,
        inplace: tuple[tuple[int, int], ...] = (),
        scalars: dict[int, Any] | None = None,
        bounds: tuple[int, ...] = (),
    ) -> runtime.Launcher:
        """Return a launcher whose slow path installs an entry for any arrays.

        returns and sizes are functions of the arguments; scalars gives the dtype of parameters by
        value.
        """
        by_value = scalars or {}

        def slow(*args: Any, out: Any = None, outputs: Any = None) -> Any:
            self.misses.append(name)
            out = outputs if out is None else out
            outs = out if out is None or isinstance(out, tuple) else (out,)
            params = tuple(
                np.dtype(by_value[i]) if i in by_value else form(a) for i, a in enumerate(args)
            )
            forms = returns(*args) if outs is None else tuple(form(o) for o in outs)
            entry = runtime.Entry(
                self.address(name), sizes(*args), params, forms, inplace, self.library, bounds
            )
            k.install(entry, args, outs)
            return k.run(entry, args, outs)

        def on_error(tensor: int, dim: int, value: int, extent: int) -> None:
            raise IndexError(f"tensor {tensor}, dimension {dim}: {value} not in [0, {extent})")

        k = runtime.Launcher(
            name,
            tuple(f"p{i}" for i in range(n_params)),
            tuple(f"r{i}" for i in range(n_returns)),
            slow,
            on_error,
            namedtuple(f"{name}_result", [f"r{i}" for i in range(n_returns)]),
        )
        return k

    def add(self, inplace: tuple[tuple[int, int], ...] = ((0, 0), (0, 1))) -> runtime.Launcher:
        """Return C(m, n) = A(m, n) + B(m, n)."""
        return self.launcher(
            "add", 2, lambda a, b: ((F4, a.shape, None),), lambda a, b: a.shape, inplace=inplace
        )

    def add1(self) -> runtime.Launcher:
        """Return C(n) = A(n) + B(n)."""
        return self.launcher("add1", 2, lambda a, b: ((F4, a.shape, None),), lambda a, b: a.shape)

    def many(self, n_params: int, cost_ns: int = 0) -> runtime.Launcher:
        """Return O(n) = A0(n) + A(n) + 1000 for the first and the last parameter."""
        return self.launcher(
            "many",
            n_params,
            lambda *a: ((F4, a[0].shape, None),),
            lambda *a: (*a[0].shape, n_params, cost_ns),
        )

    def moments(self) -> runtime.Launcher:
        """Return the sum and the sum of squares of A(n)."""
        scalar = (np.dtype(np.float64), (), None)
        return self.launcher(
            "moments", 1, lambda a: (scalar, scalar), lambda a: a.shape, n_returns=2
        )

    def gather(self) -> runtime.Launcher:
        """Return O(i) = A(I(i))."""
        return self.launcher(
            "gather",
            2,
            lambda a, i: ((F4, i.shape, None),),
            lambda a, i: (i.shape[0], a.shape[0]),
        )

    def meet(self, tasks: int) -> runtime.Launcher:
        """Return O(t) = whether all tasks were under way at once; they count themselves in M."""
        return self.launcher(
            "meet", 1, lambda m: ((np.dtype(np.int64), (tasks,), None),), lambda m: (tasks,)
        )

    def gate(self, tasks: int) -> Gate:
        """Return a call that goes on for as long as a test wants."""
        flags = np.zeros(2, np.int64)
        kernel = self.launcher(
            "gate", 1, lambda g: ((np.dtype(np.int64), (tasks,), None),), lambda g: (tasks,)
        )
        return Gate(kernel, flags)


@dataclass
class Gate:
    """O(t) = t, by a call whose tasks wait until the gate is open."""

    kernel: runtime.Launcher
    flags: Array  # whether it is open; how many tasks have begun

    def __call__(self) -> Array:
        """Call the kernel; the tasks wait."""
        out: Array = self.kernel(self.flags)
        return out

    def open(self) -> None:
        """Let the tasks of this and of later calls end."""
        self.flags[0] = 1

    def close(self) -> None:
        """Let later calls wait again."""
        self.flags[:] = 0

    def await_tasks(self, count: int) -> None:
        """Wait until so many tasks are under way, in a call on another thread."""
        while self.flags[1] < count:
            time.sleep(0.001)


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """Return the compiled kernels."""
    made = tmp_path_factory.mktemp("kernels") / "kernels.so"
    flags = [
        "-O2",
        "-ftree-vectorize",
        "-fPIC",
        "-shared",
        f"-I{HERE.parents[2] / 'codegen/preludes'}",
    ]
    subprocess.run(["cc", *flags, HERE / "kernels.c", "-o", made], check=True)
    return ctypes.CDLL(str(made))


@pytest.fixture
def kernels(library: ctypes.CDLL) -> Kernels:
    """Return launchers over the kernels, with no misses yet."""
    return Kernels(library)


@pytest.fixture
def two_threads() -> Iterator[None]:
    """Let calls use two threads, whatever the machine has."""
    before = runtime.get_num_threads()
    runtime.set_num_threads(2)
    yield
    runtime.set_num_threads(before)
