"""The builtin functions: how many arguments they take and of what type their result is."""

from __future__ import annotations

from typing import Literal

from tcdsl.grammar.text.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Function:
    """A builtin.

    result: "float", the float type of the arguments (float32 for integers); "same", their common
    type, integers too; "bool".
    """

    name: str
    arity: int
    result: Literal["float", "same", "bool"]


_OF_FLOATS = {
    1: "acos acosh asin asinh atan atanh cbrt ceil cos cosh cospi cyl_bessel_i0 cyl_bessel_i1 erf "
    "erfc erfcinv erfcx erfinv exp exp10 exp2 expm1 fabs floor j0 j1 lgamma log log10 log1p log2 "
    "logb normcdf normcdfinv rcbrt round rsqrt sin sinh sinpi sqrt tan tanh tgamma trunc y0 y1",
    2: "atan2 copysign fdim fdivide fmax fmin fmod hypot nextafter pow remainder rhypot",
    3: "fma norm3d rnorm3d",
    4: "norm4d rnorm4d",
}

BUILTINS: dict[str, Function] = {
    name: Function(name, arity, "float")
    for arity, names in _OF_FLOATS.items()
    for name in names.split()
} | {
    f.name: f
    for f in (
        Function("abs", 1, "same"),
        Function("sign", 1, "same"),
        Function("relu", 1, "same"),
        Function("clamp", 3, "same"),
        Function("sigmoid", 1, "float"),
        Function("softplus", 1, "float"),
        Function("gelu", 1, "float"),
        Function("silu", 1, "float"),
        Function("leaky_relu", 2, "float"),
        Function("elu", 2, "float"),
        Function("hardtanh", 3, "same"),
        Function("logaddexp", 2, "float"),
        Function("rint", 1, "float"),
        Function("digamma", 1, "float"),
        Function("trigamma", 1, "float"),
        Function("isnan", 1, "bool"),
        Function("isinf", 1, "bool"),
        Function("isfinite", 1, "bool"),
    )
}

# Constant between jumps.
STEPS = frozenset({"ceil", "floor", "logb", "rint", "round", "sign", "trunc"})

# Builtins that are not functions of values.
PAD = "pad"  # takes an access
RAND = "rand"  # its type is what it meets, like that of a float literal


def is_builtin(name: str) -> bool:
    """Whether a name that nothing else has is a builtin function: none is a reserved word."""
    return name in BUILTINS or name in (PAD, RAND)
