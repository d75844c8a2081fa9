"""The text of a checked definition in which names do not matter: what a tuned config is for.

Calls are inlined and generics bound in it, so it says all that decides the emitted code, but for
dtypes, layouts and sizes, which the key has besides.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass

from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import DType

_NAMES = ("tensor", "target", "var", "name")  # fields that hold a name the definition chose


def structural_text(checked: typed.CheckedDef) -> str:
    """Return a text that two definitions share exactly if they differ in names only."""
    numbers: dict[str, str] = {}
    for name in checked.sizes:
        numbers.setdefault(name, f"N{len(numbers)}")
    for tensor in (*checked.params, *checked.returns, *checked.temps):
        numbers.setdefault(tensor.name, f"T{len(numbers)}")
    whole = (
        checked.sizes,
        checked.scalars,
        checked.params,
        checked.returns,
        checked.temps,
        checked.body,
    )
    return _text(whole, numbers, is_name=False)


def _text(value: object, numbers: dict[str, str], *, is_name: bool) -> str:
    match value:
        case str():
            if value in numbers or is_name:
                return numbers.setdefault(value, f"i{len(numbers)}")
            return repr(value)
        case tuple():
            return f"({','.join(_text(v, numbers, is_name=False) for v in value)})"
        case DType():
            return value.name
        case Size():  # its terms are sorted by name, so they are sorted anew
            terms = (
                "*".join([str(count), *sorted(_text(a, numbers, is_name=False) for a in atoms)])
                for atoms, count in value.terms
            )
            return "+".join(sorted(terms))
        case _ if is_dataclass(value):
            own = not isinstance(value, typed.Builtin)
            parts = [
                _text(getattr(value, f.name), numbers, is_name=own and f.name in _NAMES)
                for f in fields(value)
                if f.compare
            ]
            return f"{type(value).__name__}({','.join(parts)})"
        case _:
            return repr(value)
