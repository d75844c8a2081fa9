"""The tables of grammar/LANGUAGE.md that are made from the code."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import groupby

import numpy as np

from tcdsl.codegen.gradient.rules import partials
from tcdsl.codegen.program.unparse import expr_text
from tcdsl.codegen.reference.arithmetic import BUILTINS as COMPUTED
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.format import LEVELS
from tcdsl.grammar.text.parser import parse
from tcdsl.grammar.types.builtins import BUILTINS
from tcdsl.grammar.types.dtypes import ALL, FLOAT64, promote
from tcdsl.grammar.types.typed import Builtin, Read, Statement
from tests.codegen.preludes.smath_bounds import FUNCTIONS, Array
from tests.codegen.preludes.test_smath import ROUNDED, SEVERAL

RANGES = ("A(i)", "A(i + 2)", "A(2 * i)", "A(2 * i) + A(2 * i + 1)", "A(i) * B(i)",
          "A(i + k) * w(k)", "A(2 * i + k) * w(k)", "A(N - 1 - i)")  # fmt: skip
ARGUMENTS = ("x", "y", "z", "w")

# What a name does not say, or where a function has choices.
MEANINGS = {
    "abs": "integers too; of the least integer that integer",
    "atan2": "the angle of the point at x and y, from -pi to pi",
    "ceil": "up to an integer",
    "clamp": "min(max(x, y), z), integers too",
    "copysign": "x with the sign of y",
    "cospi": "cos(pi * x)",
    "cyl_bessel_i0": "modified Bessel function of order 0",
    "cyl_bessel_i1": "modified Bessel function of order 1",
    "digamma": "derivative of lgamma",
    "elu": "x where x > 0, else y * expm1(x)",
    "erfc": "1 - erf(x)",
    "erfcinv": "inverse of erfc",
    "erfcx": "exp(x * x) * erfc(x)",
    "erfinv": "inverse of erf",
    "exp10": "10 to the x",
    "exp2": "2 to the x",
    "expm1": "exp(x) - 1",
    "fabs": "absolute value",
    "fdim": "x - y where that is positive, else 0; NaN stays",
    "fdivide": "x / y",
    "floor": "down to an integer",
    "fma": "x * y + z, rounded once",
    "fmax": "the greater one; a NaN is dropped",
    "fmin": "the lesser one; a NaN is dropped",
    "fmod": "x - trunc(x / y) * y: the sign of x",
    "gelu": "x * normcdf(x)",
    "hardtanh": "min(max(x, y), z), integers too; its ends are flat",
    "hypot": "sqrt(x * x + y * y), without overflow",
    "isfinite": "neither infinite nor NaN",
    "isinf": "infinite",
    "isnan": "NaN",
    "j0": "Bessel function of the first kind, order 0",
    "j1": "of order 1",
    "leaky_relu": "x where x > 0, else y * x",
    "lgamma": "log(abs(gamma(x)))",
    "logaddexp": "log(exp(x) + exp(y)), without overflow",
    "log1p": "log(1 + x)",
    "logb": "exponent of x in base 2, an integer",
    "max": "the greater one, integers too; NaN stays",
    "min": "the lesser one, integers too; NaN stays",
    "nextafter": "the next number from x towards y",
    "norm3d": "root of the sum of squares",
    "norm4d": "root of the sum of squares",
    "normcdf": "normal distribution",
    "normcdfinv": "its inverse",
    "pow": "x to the y; pow(x, 0) is 1, NaN where x < 0 and y is no integer",
    "rcbrt": "1 / cbrt(x)",
    "relu": "max(x, 0), integers too; NaN stays",
    "remainder": "x - round(x / y) * y, halves to even",
    "rhypot": "1 / hypot(x, y)",
    "rnorm3d": "1 / norm3d(x, y, z)",
    "rnorm4d": "1 / norm4d(x, y, z, w)",
    "rint": "to the nearest integer, halves to even",
    "round": "to the nearest integer, halves away from 0",
    "rsqrt": "1 / sqrt(x)",
    "sigmoid": "1 / (1 + exp(-x))",
    "sign": "-1, 0 or 1, integers too; NaN stays",
    "silu": "x * sigmoid(x)",
    "sinpi": "sin(pi * x)",
    "softplus": "log(1 + exp(x)), without overflow",
    "tgamma": "gamma function",
    "trigamma": "second derivative of lgamma",
    "trunc": "towards 0, to an integer",
    "y0": "Bessel function of the second kind, order 0",
    "y1": "of order 1",
}
# Derivatives by x whose text has cases that only keep digits.
SHORT = {
    "cyl_bessel_i1": "cyl_bessel_i0(x) - cyl_bessel_i1(x) / x",
    "erfcx": "2 * x * erfcx(x) - 1.12838",
    "j1": "j0(x) - j1(x) / x",
    "trigamma": "-2 * (1 / pow(x, 3) + 1 / pow(x + 1, 3) + ..)",
}
DOMAINS: dict[str, Callable[[Array], Array]] = {  # the first that is right
    "all": lambda x: x == x,
    "x >= 0": lambda x: x >= 0,
    "x >= 1": lambda x: x >= 1,
    "x >= -1": lambda x: x >= -1,
    "-1 to 1": lambda x: np.abs(x) <= 1,
    "0 to 1": lambda x: (x >= 0) & (x <= 1),
    "0 to 2": lambda x: (x >= 0) & (x <= 2),
    "finite": np.isfinite,
    "above -inf": lambda x: x > -np.inf,
    "no integer below 0": lambda x: (x >= 0) | (x != np.floor(x)),
}
SAMPLES = np.array([-np.inf, -30.5, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2, 2.5, 30.5, np.inf])


def precedence() -> str:
    """Return the operators, those that bind most first."""
    meanings = {
        "*": "`/` and `%` of integers round down", "+": "", "<": "give a bool",
        "<<": "integers", "&": "integers and bools", "^": "", "|": "",
        "&&": "the right is evaluated only where the left is true",
        "||": "the right is evaluated only where the left is false",
    }  # fmt: skip
    rows = [("`-` `!` `~`", "prefix", "negative; not; all bits the other way")]
    ordered = sorted(LEVELS, key=lambda op: -LEVELS[op])
    for _, same in groupby(ordered, key=LEVELS.__getitem__):
        ops = [*same]
        shown = " ".join(f"`{op}`".replace("|", "\\|") for op in ops)
        rows.append((shown, "left", meanings[ops[0]]))
    rows.append(("`? :`", "right", "only the chosen side is evaluated"))
    return table(("operators", "group", ""), rows)


def ranges() -> str:
    """Return what the check infers for the index `i` of some right sides."""
    rows = []
    for value in RANGES:
        text = f"def f(float(N) A, float(M) B, float(K) w) -> (O) {{ O(i) +=! {value} }}"
        (statement,) = check(parse(text)).body
        assert isinstance(statement, Statement)
        shown = ", ".join(f"`{r.name}` in `{r.low}:{r.high}`" for r in statement.ranges)
        rows.append((f"`{value}`", shown))
    return table(("read", "ranges"), rows)


def promotion() -> str:
    """Return the type of `a + b` for each pair of scalar types."""
    short = {d: d.name.replace("float", "f").replace("uint", "u").replace("int", "i") for d in ALL}
    rows = [(short[a], *(short[promote(a, b)] for b in ALL)) for a in ALL]
    return table(("", *short.values()), rows)


def builtins() -> str:
    """Return what each builtin of floats computes, where, and its derivative."""
    rows = []
    for name in sorted((*BUILTINS, "max", "min")):
        args = _arguments(name)
        meaning = MEANINGS.get(name, "").replace("|", "\\|")
        domain, *edges = _on_the_line(name) if len(args) == 1 else ("", "", "", "")
        rows.append((f"`{name}({', '.join(args)})`", meaning, domain, *edges, _derivative(name)))
    head = ("function", "is", "for", "at -inf", "at 0", "at inf", "derivative by x, y, ..")
    return table(head, rows)


def _arguments(name: str) -> tuple[str, ...]:
    """Return names for the arguments of a builtin."""
    if name == "atan2":
        return "y", "x"
    return ARGUMENTS[: BUILTINS[name].arity if name in BUILTINS else 2]


def _on_the_line(name: str) -> tuple[str, ...]:
    """Return where a function of one argument is a number, and its values at the ends and at 0."""
    with np.errstate(all="ignore"):
        values = np.asarray(COMPUTED[name](SAMPLES))
        ends = np.asarray(COMPUTED[name](np.array([-np.inf, 0.0, np.inf])))
    if values.dtype == bool:
        return "all", *(str(bool(v)).lower() for v in ends)
    inside = ~np.isnan(values)
    fitting = [text for text, holds in DOMAINS.items() if (inside == holds(SAMPLES)).all()]
    assert fitting, f"{name} is a number at {SAMPLES[inside]}"
    return fitting[0], *(f"{v:.4g}" for v in ends)


def _derivative(name: str) -> str:
    """Return the derivatives of a builtin as its rule gives them, numbers to six digits."""
    if name.startswith("is"):
        return ""
    if name in SHORT:
        return f"`{SHORT[name]}`"
    args = _arguments(name)
    call = Builtin(name, tuple(Read(a, (), FLOAT64) for a in args), FLOAT64)
    made = partials(call)
    if made is None:
        return "none (TC141)"
    if name.startswith(("norm", "rnorm")) and len(args) > 2:
        made = made[:1]  # the others are the same by other names
    texts = ["0" if p is None else expr_text(p) for p in made]
    digits = [re.sub(r"\d+\.\d+(e-?\d+)?", lambda m: f"{float(m[0]):.6g}", t) for t in texts]
    return ", ".join(f"`{t}`" for t in digits)


def accuracy() -> str:
    """Return how far builtins may be off in emitted C, in units of the last place."""
    bounds = dict.fromkeys(ROUNDED, (0.5, 0.5)) | SEVERAL
    bounds |= {name: (f.bound32, f.bound64) for name, f in FUNCTIONS.items()}
    assert bounds.keys() == BUILTINS.keys()
    rows = []
    ordered = sorted(bounds, key=lambda name: (*bounds[name], name))
    for (single, double), names in groupby(ordered, key=bounds.__getitem__):
        rows.append((" ".join(names), f"{single:g}", f"{double:g}"))
    return table(("functions", "float32", "float64"), rows)


# What NVIDIA states in the CUDA Programming Guide 13, "Floating-Point Computation", 5.5.7 (C++
# standard library) and 5.5.8 (others): the greatest error that was seen, in units of the last
# place, from the correctly rounded result. Float32, float64.
NVIDIA = """
acos 2 2, acosh 4 3, asin 2 2, asinh 3 3, atan 2 2, atan2 3 2, atanh 3 2, cbrt 1 1, ceil 0 0,
copysign 0 0, cos 2 2, cosh 2 1, cospi 1 2, cyl_bessel_i0 6 6, cyl_bessel_i1 6 6, erf 2 2, erfc 4 5,
erfcinv 4 6, erfcx 4 4, erfinv 2 5, exp 2 1, exp10 2 1, exp2 2 1, expm1 1 1, fabs 0 0, floor 0 0,
fma 0 0, fmod 0 0, hypot 3 2, log 1 1, log10 2 1, log1p 1 1, log2 1 1, logb 0 0, nextafter 0 0,
norm3d 3 2, norm4d 3 2, normcdf 5 5, normcdfinv 5 8, pow 4 2, rcbrt 1 1, remainder 0 0, rhypot 2 1,
rint 0 0, rnorm3d 2 1, rnorm4d 2 1, rsqrt 2 1, sin 2 2, sinh 3 2, sinpi 1 2, sqrt 0 0, tan 4 2,
tanh 2 1, tgamma 5 10, trunc 0 0
"""
OVER_A_PART = {
    "lgamma": ("6, more from -10.001 to -2.264", "4, more from -23.0001 to -2.2637"),
    "j0 j1 y0 y1": ("9 where abs(x) < 8, else 2.2e-6 absolute",
                    "7 where abs(x) < 8, else 5e-12 absolute"),
}  # fmt: skip
# In CUDA made of operators and of functions above (builtins.h): exact, or rounded once.
COMPOSED = (
    "abs", "clamp", "fdim", "fdivide", "fmax", "fmin", "isfinite", "isinf", "isnan", "relu",
    "round", "sign", "hardtanh", "leaky_relu",
)  # fmt: skip
ACTIVATIONS = {
    "sigmoid": ("4", "3"),
    "softplus": ("3", "3"),
    "gelu": ("6.5", "that of x * normcdf(x)"),
    "silu": ("5", "4"),
    "elu": ("2", "2"),
    "logaddexp": ("3", "3"),
    "digamma trigamma": ("0.51", "5"),
}


def cuda() -> str:
    """Return how far builtins may be off in emitted CUDA: what NVIDIA states, and of ours."""
    stated = {n: (single, double) for n, single, double in map(str.split, NVIDIA.split(","))}
    of_parts = {n for names in OVER_A_PART for n in names.split()}
    named = [*stated, *of_parts, *COMPOSED, *(n for row in ACTIVATIONS for n in row.split())]
    assert sorted(named) == sorted(BUILTINS)
    ordered = sorted(stated, key=lambda n: (*map(float, stated[n]), n))
    rows = [
        (" ".join(names), *bounds) for bounds, names in groupby(ordered, key=stated.__getitem__)
    ]
    rows += [(names, *bounds) for names, bounds in OVER_A_PART.items()]
    rows.append((f"ours: {' '.join(COMPOSED)}", "0", "0"))
    rows += [(f"ours: {name}", *bounds) for name, bounds in ACTIVATIONS.items()]
    return table(("functions", "float32", "float64"), rows)


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ("---",) * len(head), *rows]
    return "".join(re.sub(" +", " ", f"| {' | '.join(line)} |\n") for line in lines)


TABLES = {t.__name__: t for t in (precedence, ranges, promotion, builtins, accuracy, cuda)}


def filled(text: str) -> str:
    """Return a document whose parts `<!-- made: NAME -->` to `<!-- end -->` are made anew."""
    made = re.compile(r"(<!-- made: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
    return made.sub(lambda m: f"{m[1]}{TABLES[m[2]]()}{m[3]}", text)
