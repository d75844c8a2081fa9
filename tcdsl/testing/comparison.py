"""`assert_close`: what was computed held against what is expected, with words for what differs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tcdsl import library
from tcdsl.core import Size, Tensor

__all__ = ["assert_close"]
_TOLERANCES = {  # relative and absolute
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
}
Words = str | Callable[[str], str] | None


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: Words = None,
) -> None:
    """Raise unless ``|actual - expected| <= atol + rtol * |expected|`` everywhere.

    Parameters
    ----------
    actual, expected : Tensor, number, array, or containers of them
    allow_subclasses : bool
        Whether types of the two may differ where one is the other's subclass.
    rtol, atol : float, optional
        Both or none; by default by the type: 1.3e-6 and 1e-5 of float32, 0 of integers.
    equal_nan : bool
        Whether NaN is close to NaN.
    check_device, check_dtype, check_layout, check_stride : bool
        What else has to be the same.
    msg : str or callable (str) -> str, optional
        The words of the error, or what makes them of ours.

    Raises
    ------
    AssertionError
        If they are not close.
    ValueError
        If one tolerance is given without the other.
    """
    if (rtol is None) != (atol is None):
        missing = "rtol" if rtol is None else "atol"
        raise ValueError(
            f"rtol and atol must both be specified or both be unspecified, but got no {missing}"
        )
    rules = (rtol, atol, equal_nan, check_device, check_dtype, check_stride, allow_subclasses)
    problem = _difference(actual, expected, "", rules)
    if problem is not None:
        raise AssertionError(msg(problem) if callable(msg) else problem if msg is None else msg)


def _difference(actual: Any, expected: Any, at: str, rules: tuple[Any, ...]) -> str | None:
    """Return what differs, or None."""
    where = f"\n\nThe failure occurred for item {at}" if at else ""
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        if actual.keys() != expected.keys():
            return (
                "The keys of the mappings do not match:\nMissing keys in the actual mapping: "
                f"{sorted(expected.keys() - actual.keys())}\n"
                "Additional keys in the actual mapping: "
                f"{sorted(actual.keys() - expected.keys())}{where}"
            )
        pairs = [(f"{at}[{k!r}]", actual[k], expected[k]) for k in expected]
        return next((d for n, a, e in pairs if (d := _difference(a, e, n, rules))), None)
    if _is_row(actual) and _is_row(expected):
        if len(actual) != len(expected):
            return f"The length of the sequences mismatch: {len(actual)} != {len(expected)}{where}"
        rows = [(f"{at}[{i}]", a, e) for i, (a, e) in enumerate(zip(actual, expected, strict=True))]
        return next((d for n, a, e in rows if (d := _difference(a, e, n, rules))), None)
    if actual is None or expected is None:
        return None if actual is expected else f"None mismatch: {actual} is not {expected}{where}"
    if not rules[6] and type(actual) is not type(expected):
        return (
            f"No comparison pair was able to handle inputs of type {type(actual)} and "
            f"{type(expected)}.{where}"
        )
    found = _of_tensors(actual, expected, rules)
    return None if found is None else found + where


def _is_row(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _of_tensors(actual: Any, expected: Any, rules: tuple[Any, ...]) -> str | None:
    rtol, atol, equal_nan, check_device, check_dtype, check_stride, _ = rules
    is_number = all(isinstance(v, bool | int | float) for v in (actual, expected))
    if is_number:
        a, e = (library.tensor(float(v), dtype=library.float64) for v in (actual, expected))
        if rtol is None:
            floats = isinstance(actual, float) or isinstance(expected, float)
            rtol, atol = (1e-7, 1e-7) if floats else (0.0, 0.0)
    else:
        a, e = (v if isinstance(v, Tensor) else library.as_tensor(v) for v in (actual, expected))
    checks = (
        ("shape", True, tuple(a.shape), tuple(e.shape)),
        ("device", check_device, a.device, e.device),
        ("dtype", check_dtype, a.dtype, e.dtype),
        ("stride", check_stride, a.stride(), e.stride()),
    )
    for name, is_checked, x, y in checks:
        if is_checked and x != y:
            x, y = (Size(s) if name == "shape" else s for s in (x, y))
            return f"The values for attribute '{name}' do not match: {x} != {y}."
    if rtol is None:
        both = [_TOLERANCES.get(t.dtype.name, (0.0, 0.0)) for t in (a, e)]
        rtol, atol = max(b[0] for b in both), max(b[1] for b in both)
    dtype = library.promote_types(a.dtype, e.dtype)
    if not dtype.is_floating_point:
        dtype = library.int64
    a, e = a.detach().to("cpu").to(dtype), e.detach().to("cpu").to(dtype)
    close = library.isclose(a, e, rtol=rtol, atol=atol, equal_nan=equal_nan)
    if bool(close.all()):
        return None
    word = "equal" if rtol == atol == 0 else "close"
    gap = (a - e).abs()
    share = gap / e.abs()
    if not a.ndim and not e.ndim:
        return (
            f"Scalars are not {word}!\n\nExpected {e.item()} but got {a.item()}.\n"
            f"Absolute difference: {gap.item()}{_allowed(atol, word)}\n"
            f"Relative difference: {share.item()}{_allowed(rtol, word)}"
        )
    bad = int(library.logical_not(close).sum())
    lines = [
        f"Tensor-likes are not {word}!\n",
        f"Mismatched elements: {bad} / {a.numel()} ({bad / a.numel():.1%})",
    ]
    for name, values, most in (("absolute", gap, atol), ("relative", share, rtol)):
        spots = library.where(close, values.new_zeros(()), values).reshape(-1)
        at = int(spots.argmax())
        place = tuple(int(n) for n in library.unravel_index(library.tensor(at), tuple(a.shape)))
        lines.append(
            f"Greatest {name} difference: {spots[at].item()} at index {place}{_allowed(most, word)}"
        )
    return "\n".join(lines)


def _allowed(most: float, word: str) -> str:
    return f" (up to {most} allowed)" if word == "close" else ""
