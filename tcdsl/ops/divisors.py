"""Greatest common divisors and least common multiples."""

from __future__ import annotations

from functools import cache

from tcdsl.core import Op, Tensor
from tcdsl.ops.rules import TypeRule, broadcast, only, promote
from tcdsl.ops.table import Family, in_place, op_of_text, publish

ops = Family(__file__)
# Of Euclid's algorithm, by the bits of the greatest: as many as the largest neighbours among
# Fibonacci's numbers take.
_STEPS = {7: 13, 10: 17, 15: 24, 24: 37, 31: 47, 52: 77, 63: 93}


def _whole(name: str) -> TypeRule:
    """Return the rule of the type that holds all operands, which are integers."""
    return only(f"{name}_cpu", (1,), promote)


_greatest = ops.op("greatest", types=promote, shape=broadcast, vjp=None)


@cache
def _op(name: str, bits: int, steps: int, product: str, over: int) -> Op:
    """Return the op for integers of so many bits, whose product is formed in a type.

    over: one more than the greatest of the type, as the least one may divide; 0 of types without.

    In floats that hold them quotients are right once they are cut: a / b is 1 / b at least below
    the next integer, more than rounding takes it up. Each step is a statement, so that they stay in
    registers; integers that no float holds go through a loop.
    """
    types = _whole(name)
    if bits > 52:
        return ops.op(name, types=types, shape=broadcast).with_generics(STEPS=steps)
    kind = "float32" if bits <= 24 else "float64"
    turns = ""
    for n in range(steps):
        a, b = f"a{n}(...)", f"b{n}(...)"
        turns += f"  a{n + 1}(...) = {b} != 0 ? {b} : {a}\n"
        if n + 1 < steps:
            rest = f"fma(-floor({a} / {b}), {b}, {a})"
            turns += f"  b{n + 1}(...) = {b} != 0 ? {rest} : {kind}(0)\n"
    found = f"a{steps}(...)"
    if name == "lcm":
        quotient = f"{kind}(abs(int64(input(...)))) / {found}"
        found = f"abs({product}({quotient}) * {product}(other(...)))"
    elif over:
        found = f"({found} < {over} ? {found} : -{found})"  # as the type goes round
    return op_of_text(
        f"def {name}<T>(T(...) input, T(...) other) -> (T(...) out) {{\n"
        f"  a0(...) = {kind}(abs(int64(input(...))))\n  b0(...) = {kind}(abs(int64(other(...))))\n"
        f"{turns}  out(...) = T({found})\n}}",
        types=types,
        shape=broadcast,
        vjp=None,
    )


def _called(name: str, input: Tensor, other: Tensor) -> Tensor:
    types = _whole(name)((input, other))
    input, other = (o.to(types) if not o.dtype.category else o for o in (input, other))
    bits = few = _room(8 * types.itemsize - types.is_signed)
    if types.itemsize > 1:
        of_all, of_lesser = _greatest(input, other)
        bits, few = (_room(max(0, int(n.item())).bit_length()) for n in (of_all, of_lesser))
    # A step for a greater one, however great, leaves two that are no greater than the lesser.
    steps = min(_STEPS[bits], _STEPS[few] + 1)
    product = "int64" if types.itemsize == 8 else "int32"
    over = 1 << 8 * types.itemsize - 1 if types.is_signed and bits >= 8 * types.itemsize else 0
    made: Tensor = _op(name, bits, steps, product, over)(input, other)
    return made


def _room(bits: int) -> int:
    """Return the key of `_STEPS` for integers of so many bits."""
    return next(n for n in _STEPS if bits < n or n == 63)


def gcd(input: Tensor, other: Tensor) -> Tensor:
    """Return the greatest common divisors of integers; of 0 and 0 it is 0.

    None is below 0 but that of two which the least integer of the type divides: that one.
    """
    return _called("gcd", input, other)


def lcm(input: Tensor, other: Tensor) -> Tensor:
    """Return the least common multiples of integers, none below 0."""
    return _called("lcm", input, other)


for _function in (gcd, lcm):
    publish(_function, (_function.__name__,))
    publish(in_place(_function), (f"{_function.__name__}_",))
