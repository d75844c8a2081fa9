"""The builtin functions: how many arguments they take and of what type their result is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Function:
    """A builtin.

    result: "float", the float type of the arguments (float32 for integers); "same", their common
    type, integers too; "bool". A reserved name cannot be used for anything else.
    """

    name: str
    arity: int
    result: Literal["float", "same", "bool"]
    reserved: bool


_RESERVED = {
    1: "acos acosh asin asinh atan atanh cbrt ceil cos cosh cospi cyl_bessel_i0 cyl_bessel_i1 erf "
    "erfc erfcinv erfcx erfinv exp exp10 exp2 expm1 fabs floor j0 j1 lgamma log log10 log1p log2 "
    "logb normcdf normcdfinv rcbrt round rsqrt sin sinh sinpi sqrt tan tanh tgamma trunc y0 y1",
    2: "atan2 copysign fdim fdivide fmax fmin fmod hypot nextafter pow remainder rhypot",
    3: "fma norm3d rnorm3d",
    4: "norm4d rnorm4d",
}

BUILTINS: dict[str, Function] = {
    name: Function(name, arity, "float", reserved=True)
    for arity, names in _RESERVED.items()
    for name in names.split()
} | {
    f.name: f
    for f in (
        Function("abs", 1, "same", reserved=False),
        Function("sign", 1, "same", reserved=False),
        Function("relu", 1, "same", reserved=False),
        Function("clamp", 3, "same", reserved=False),
        Function("sigmoid", 1, "float", reserved=False),
        Function("softplus", 1, "float", reserved=False),
        Function("gelu", 1, "float", reserved=False),
        Function("isnan", 1, "bool", reserved=False),
        Function("isinf", 1, "bool", reserved=False),
        Function("isfinite", 1, "bool", reserved=False),
    )
}

# Constant between jumps.
STEPS = frozenset({"ceil", "floor", "logb", "round", "sign", "trunc"})

# New names like those above, but not functions of values.
PAD = "pad"  # takes an access
RAND = "rand"  # its type is what it meets, like that of a float literal

FLOAT_NAMES = {"inf": float("inf"), "nan": float("nan")}


def is_reserved(name: str) -> bool:
    """Whether a name is a builtin that nothing else may be called."""
    return name in BUILTINS and BUILTINS[name].reserved
