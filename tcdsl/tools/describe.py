"""What `tcdsl check` and `tcdsl show` tell of a definition, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tcdsl.calls.bindings.sizes import check_sizes
from tcdsl.calls.bindings.variant import Variant, spec_for
from tcdsl.codegen.choose import compiler
from tcdsl.codegen.program.program import Statement
from tcdsl.codegen.program.unparse import range_text
from tcdsl.codegen.program.work import bytes_of, flops_of
from tcdsl.grammar.types.typed import CheckedDef, Tensor


def signature_line(checked: CheckedDef) -> str:
    """Return one line: `fcrelu(I: float32(B, M), ...) -> O: float32(B, N)`."""
    params = ", ".join(_declared(t) for t in checked.params)
    returns = ", ".join(_declared(t) for t in checked.returns)
    return f"{checked.name}({params}) -> {returns}"


def describe(variant: Variant, sizes: Mapping[str, int] | None) -> dict[str, Any]:
    """Return shapes, ranges and, where sizes are given, leaf forms, bytes and flops.

    Raises
    ------
    ShapeError
        If sizes misses one, or breaks a condition of the definition.
    """
    checked = variant.checked
    result: dict[str, Any] = {
        "name": checked.name,
        "signature": signature_line(checked),
        "sizes": list(checked.sizes),
        "tensors": [
            {"name": t.name, "role": t.role, "type": str(t.dtype), "shape": [*map(str, t.shape)]}
            for t in (*checked.params, *checked.returns, *checked.temps)
        ],
        "statements": [_ranged(s) for s in variant.program.statements],
        "conditions": [c.message for c in checked.constraints],
    }
    if sizes is None:
        return result
    values = check_sizes(checked, sizes)
    spec, config = variant.choice_of_first(spec_for(variant, values), values)
    titled = compiler.titled(variant.program, spec, config, variant.machine, values)
    listed = variant.program.statements
    if len(titled) != len(listed):  # pairs of long products, what is taken out of loops
        listed = tuple(s for s, _ in titled)
    result["statements"] = [
        _ranged(s) | {"form": form} for s, (_, form) in zip(listed, titled, strict=True)
    ]
    for tensor, t in zip(
        result["tensors"], (*checked.params, *checked.returns, *checked.temps), strict=True
    ):
        tensor["extents"] = [s.evaluate(values) for s in t.shape]
    result["config"] = dict(config.items)
    result["open"] = list(spec.open)
    result["is_rank_free"] = variant.signature.pointwise is not None and not variant.is_for_gpu
    result["flops"] = flops_of(variant.program, values)
    result["bytes"] = bytes_of(variant.program, values)
    return result


def _ranged(s: Statement) -> dict[str, Any]:
    return {
        "text": s.text,
        "ranges": {r.name: range_text(r).partition(" in ")[2] for r in s.ranges},
        "reductions": [r.name for r in s.reductions],
    }


def _declared(tensor: Tensor) -> str:
    shape = f"({', '.join(map(str, tensor.shape))})" if tensor.shape else ""
    return f"{tensor.name}: {tensor.dtype}{shape}"
