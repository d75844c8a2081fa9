"""One call of a kernel on given or random inputs, held against the reference: `tcdsl run`."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tcdsl.autotune.targets import tolerance
from tcdsl.autotune.targets.inputs import random_inputs
from tcdsl.calls.bindings.sizes import check_sizes
from tcdsl.calls.gpu.copies import to_device, to_host
from tcdsl.calls.gpu.faults import synchronize
from tcdsl.calls.operands.arguments import Array
from tcdsl.codegen.device import devices
from tcdsl.codegen.device.device import Device
from tcdsl.codegen.program.dtypes import numpy_dtype
from tcdsl.codegen.reference.evaluator import evaluate
from tcdsl.grammar.text.errors import ShapeError, TCTypeError
from tcdsl.kernel import Kernel


def run_once(
    kernel: Kernel,
    sizes: Mapping[str, int],
    given: Mapping[str, Array],
    seed: int,
    is_checked: bool,
    generics: Mapping[str, Any] | None = None,
    device: Device | None = None,
) -> tuple[dict[str, Any], dict[str, Array]]:
    """Call a kernel once.

    Parameters
    ----------
    sizes : mapping of str to int
        Sizes of the random inputs; those that given arrays bring may be left out.
    given : mapping of str to ndarray
        Arguments by name; the others are random.
    seed : int
        Of the random arguments.
    is_checked : bool
        Whether the answer is held against the reference evaluator.
    generics : mapping, optional
        Integers and types by name.
    device : Device, optional
        A GPU that the inputs are moved to, and the results from; by default the host runs it.

    Returns
    -------
    report : dict
        Name, sizes, time of the first call (compiling included, copies not), and per result its
        type, shape and, if checked, its largest error with what is allowed for its number of
        roundings.
    results : dict of str to ndarray
    """
    generics = generics or {}
    variant = kernel.variant(**generics)
    checked = variant.checked
    brought = dict(sizes)
    for param in checked.params:
        if param.name in given:
            extents = np.shape(given[param.name])
            for size, extent in zip(param.shape, extents, strict=False):
                for symbol in size.symbols()[:1]:
                    if sizes.get(symbol, extent) != extent:
                        raise ShapeError(
                            f"{checked.name}: {symbol} = {sizes[symbol]} is asked for, but "
                            f"{symbol} = {extent} comes from {param.name}, shape {extents}"
                        )
                    brought[symbol] = extent
    values = check_sizes(checked, brought)
    left_out = {p.name: p for p in checked.params if p.default is not None and p.name not in given}
    given = dict(given) | {
        n: np.asarray(values.get(n, p.default), numpy_dtype(p.dtype)) for n, p in left_out.items()
    }
    args = [
        given.get(p.name, drawn)
        for p, drawn in zip(
            checked.params, random_inputs(checked, values, seed, given), strict=True
        )
    ]
    outputs, seconds = _called(kernel, args, generics, device)
    results: list[dict[str, Any]] = [
        {"name": t.name, "type": str(o.dtype), "shape": list(o.shape)}
        for t, o in zip(checked.returns, outputs, strict=True)
    ]
    right: bool | None = None
    if is_checked:
        wanted = evaluate(checked, args, float64=True)
        errors = tolerance.relative_errors(variant.program, values)
        right = True
        for result, got, want, relative in zip(results, outputs, wanted, errors, strict=True):
            allowed = tolerance.absolute(relative, want) + relative * np.abs(want)
            off = np.abs(got.astype(np.float64) - want)
            same = (got == want) | (np.isnan(got) & np.isnan(want)) | (off <= allowed)
            finite = off[np.isfinite(off)]
            result["error"] = float(finite.max()) if finite.size else 0.0
            result["allowed"] = float(np.max(allowed, initial=0))
            result["right"] = bool(same.all())
            right = right and bool(result["right"])
    report = {
        "name": kernel.name,
        "sizes": values,
        "first_call_ms": seconds * 1e3,
        "right": right,
        "results": results,
    }
    return report, dict(zip(kernel.returns, outputs, strict=True))


def load_array(path: Path, name: str) -> Array:
    """Return the array of a `.npy` file.

    Raises
    ------
    TCTypeError
        If the file is missing or holds no array of numbers.
    """
    about = f"argument '{name}': '{path}'"
    try:
        with path.open("rb") as file:
            if file.read(6) != b"\x93NUMPY":
                raise TCTypeError(f"{about} is no .npy file; numpy.save writes them")
            file.seek(0)
            array = np.load(file, allow_pickle=False)
    except OSError as error:
        raise TCTypeError(f"{about} cannot be read: {error.strerror or error}") from None
    except (TCTypeError, MemoryError):  # which have said what is wrong
        raise
    except Exception as error:  # a header may say anything, and NumPy raise whatever comes of it
        reason = str(error).partition("\n")[0]
        raise TCTypeError(f"{about} holds no array of numbers: {reason:.200}") from None
    if array.dtype.kind not in "biufV":
        raise TCTypeError(f"{about} holds {array.dtype}, expected numbers")
    return np.asarray(array)


def device_named(target: str) -> Device | None:
    """Return the GPU of "cuda" (the first) or "cuda:1"; None for "cpu".

    Raises
    ------
    TCTypeError
        If it is neither.
    DeviceError
        If the GPU cannot be used, with the cure.
    """
    if target == "cpu":
        return None
    kind, colon, number = target.partition(":")
    if kind != "cuda" or not (number or "0").isdecimal() or (colon and not number):
        raise TCTypeError(f"target is '{target}'; expected 'cpu', 'cuda' or 'cuda:1'")
    return devices.device(int(number or 0))


def _called(
    kernel: Kernel, args: Sequence[Any], generics: Mapping[str, Any], device: Device | None
) -> tuple[list[Array], float]:
    """Return the results of a call, on the host, and its seconds."""
    if device is not None:
        args = [to_device(device, a) if np.ndim(a) else a for a in args]
    start = time.perf_counter()
    returned = kernel(*args, **generics)
    synchronize()
    seconds = time.perf_counter() - start
    outputs = [returned] if len(kernel.returns) == 1 else list(returned)
    return outputs if device is None else [to_host(device, o) for o in outputs], seconds
