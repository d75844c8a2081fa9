"""Sizes that a person names, instead of arrays that bring them."""

from __future__ import annotations

from collections.abc import Mapping

from tcdsl.grammar.check.bind import Head, bind
from tcdsl.grammar.text.errors import ShapeError, TCTypeError


class MissingSizesError(ShapeError):
    """Sizes that nobody named; hint: how all of them are written."""

    def __init__(self, text: str, hint: str) -> None:
        super().__init__(text)
        self.hint = hint

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.hint)


def check_sizes(checked: Head, sizes: Mapping[str, int]) -> dict[str, int]:
    """Return the sizes in the order of the definition, after what a call would check.

    Integral scalars that bounds depend on are named like sizes, and have their defaults else.

    Raises
    ------
    ShapeError
        If one is missing, unknown or negative, or a condition of the definition does not hold.
    TCTypeError
        If one is no integer.
    """
    listed = ", ".join(checked.sizes) or "none"
    unknown = [s for s in sizes if s not in checked.sizes]
    if unknown:  # said before what is missing: a slip of the pen is both
        raise ShapeError(f"{checked.name} has no size '{unknown[0]}'; its sizes are {listed}")
    by_default = {t.name: t.default for t in checked.params if t.name in checked.scalars}
    sizes = {n: int(v) for n, v in by_default.items() if v is not None} | dict(sizes)
    missing = [s for s in checked.sizes if s not in sizes]
    if missing:
        hint = ",".join(f"{s}=..." for s in checked.sizes)
        verb = "are" if missing[1:] else "is"
        raise MissingSizesError(
            f"{checked.name} needs the sizes {listed}; {', '.join(missing)} {verb} missing: {hint}",
            hint,
        )
    for name, size in sizes.items():
        if not hasattr(size, "__index__"):
            raise TCTypeError(
                f"{checked.name}: expected an integer for the size {name}, got {size!r}"
            )
    negative = [s for s in sizes if sizes[s] < 0 and s not in checked.scalars]
    if negative:
        raise ShapeError(f"{checked.name}: {negative[0]} = {sizes[negative[0]]} is negative")
    shapes = [tuple(s.evaluate(sizes) for s in t.shape) for t in checked.params]
    return bind(checked, shapes, None, {s: sizes[s] for s in checked.scalars})
