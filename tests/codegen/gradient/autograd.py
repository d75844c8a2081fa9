"""A checked definition run by torch in float64, whose autograd judges gradients.

It shares with the compiler, and with the reference evaluator, nothing but the checked definition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tcdsl.codegen.reference.evaluator import sizes_of
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.builtins import PAD
from tcdsl.grammar.types.typed import CheckedDef, Expr
from tests.codegen.gradient.differences import Array, floats

Tensor = Any  # of torch, which is loaded on use

_STARTS = {"+": 0.0, "*": 1.0, "min": np.inf, "max": -np.inf}


def pulled(
    torch: Any, checked: CheckedDef, args: Sequence[Any], seeds: Sequence[Array]
) -> tuple[list[Array], list[Array]]:
    """Return the float results of a definition, and its gradients by the float parameters."""
    run = _Run(torch, checked, args)
    inputs = [run.store[checked.params[i].name] for i in floats(checked)]
    run.block(checked.body, {})
    outs = [run.store[t.name] for t in checked.returns if t.dtype.is_float]
    loss = sum((o * torch.as_tensor(s)).sum() for o, s in zip(outs, seeds, strict=True))
    grads = torch.autograd.grad(loss, inputs, materialize_grads=True)
    return [o.detach().numpy() for o in outs], [g.numpy() for g in grads]


class _Run:
    def __init__(self, torch: Any, checked: CheckedDef, args: Sequence[Any]) -> None:
        self.torch = torch
        self.checked = checked
        self.sizes = sizes_of(checked, args)
        self.store: dict[str, Tensor] = {}
        for t, arg in zip(checked.params, args, strict=True):
            is_float = t.dtype.is_float
            value = torch.tensor(np.asarray(arg, np.float64 if is_float else np.int64))
            self.store[t.name] = value.requires_grad_() if is_float else value

    def block(self, body: Sequence[typed.Stmt], turn: Mapping[str, int]) -> None:
        for x in body:
            if isinstance(x, typed.Loop):
                for s in _statements(x.body):
                    self.begin(s)
                sizes = {**self.sizes, **turn}
                for t in range(x.low.evaluate(sizes), x.high.evaluate(sizes)):
                    self.block(x.body, {**turn, x.var: t})
            else:
                self.statement(x, turn)

    def begin(self, s: typed.Statement) -> None:
        """Give a tensor its initial contents where nothing has written it."""
        if s.target not in self.store:
            t = self.checked.tensor(s.target)
            assert t.dtype.is_float, f"'{t.name}' is no float"
            shape = [x.evaluate(self.sizes) for x in t.shape]
            start = _STARTS[s.op.rstrip("=!")] if s.op != "=" else 0.0
            self.store[t.name] = self.torch.full(shape, start, dtype=self.torch.float64)

    def statement(self, s: typed.Statement, turn: Mapping[str, int]) -> None:
        torch, target = self.torch, self.checked.tensor(s.target)
        self.begin(s)
        values = _Values(self, turn, s.ranges)
        value = values.of(s.value).to(torch.float64).expand(values.shape)
        left = sum(r.kind == "output" for r in s.ranges)
        assert all(r.kind == "output" for r in s.ranges[:left]), "output indices stand first"
        outputs = values.shape[:left]
        at = []
        for e, low in zip(s.subs, target.low, strict=True):
            place = values.subscript(e) - low.evaluate(values.sizes)
            at.append(place.expand(values.shape)[(..., *(0 for _ in values.shape[left:]))])
        new = self.store[s.target].clone()
        op = s.op.rstrip("=!")
        if op:  # of a ragged sum not all points of the box count
            value = torch.where(values.inside, value, _STARTS[op])
        flat = value.reshape(*outputs, -1)
        if op == "+":
            combined = flat.sum(-1)
        elif op == "*":
            combined = flat.prod(-1)
        elif op in ("min", "max"):
            combined = self.first(flat, op) if flat.shape[-1] else None
        else:
            combined = flat[..., 0]
        if s.op.endswith("!"):
            new[tuple(at)] = _STARTS[op]
        if combined is not None and op:
            before = new[tuple(at)]
            if op in ("min", "max"):
                combined = self.first(torch.stack([before, combined], -1), op)
            else:
                combined = before + combined if op == "+" else before * combined
        if combined is not None:
            new[tuple(at)] = combined
        self.store[s.target] = new

    def first(self, flat: Tensor, op: str) -> Tensor:
        """Return the extremes of the last dimension; the gradient goes to the first of equals."""
        extreme = flat.amax(-1, keepdim=True) if op == "max" else flat.amin(-1, keepdim=True)
        place = (flat == extreme).to(self.torch.int8).argmax(-1, keepdim=True)
        return flat.gather(-1, place)[..., 0]


class _Values:
    """Expressions at all points of a statement, a dimension for each of its ranges."""

    def __init__(self, run: _Run, turn: Mapping[str, int], ranges: Sequence[typed.Range]) -> None:
        self.run, self.torch = run, run.torch
        self.sizes = {**run.sizes, **turn}
        spans = [(r.low.evaluate(self.sizes), r.high.evaluate(self.sizes)) for r in ranges]
        self.shape = tuple(max(0, high - low) for low, high in spans)
        self.index: dict[str, Tensor] = {
            name: self.torch.tensor(value) for name, value in turn.items()
        }
        for d, (r, (low, high)) in enumerate(zip(ranges, spans, strict=True)):
            dims = [-1 if k == d else 1 for k in range(len(ranges))]
            self.index[r.name] = self.torch.arange(low, max(low, high)).reshape(dims)
        self.inside = self.torch.tensor(True)  # of ragged ranges
        for r in ranges:
            if r.bounds is not None:
                low, high = (self.subscript(e) for e in r.bounds)
                here = self.index[r.name]
                self.inside = self.inside & (low <= here) & (here < high)

    def subscript(self, e: Expr) -> Tensor:
        return self.of(e).to(self.torch.int64)

    def read(self, r: typed.Read, other: Expr | None = None) -> Tensor:
        """Return elements; other: what stands for those outside, which guards leave out."""
        tensor, array = self.run.checked.tensor(r.tensor), self.run.store[r.tensor]
        at, inside = [], self.torch.tensor(True)
        for e, low, extent in zip(r.subs, tensor.low, array.shape, strict=True):
            place = self.subscript(e) - low.evaluate(self.sizes)
            inside = inside & (place >= 0) & (place < extent)
            at.append(place.clamp(0, max(0, extent - 1)))
        found = array[tuple(self.torch.broadcast_tensors(*at))] if at else array
        return found if other is None else self.torch.where(inside, found, self.of(other))

    def of(self, e: Expr) -> Tensor:
        torch = self.torch
        match e:
            case typed.Lit(value):
                kind = torch.float64 if isinstance(value, float) else None
                return torch.tensor(value, dtype=kind)
            case typed.IndexValue(name):
                return self.index[name]
            case typed.SizeValue(size):
                return torch.tensor(size.evaluate(self.sizes))
            case typed.Read():
                return self.read(e)
            case typed.Cast(operand, dtype):
                value = self.of(operand)
                assert dtype.is_float or not value.dtype.is_floating_point, "no float to integer"
                return value.to(torch.float64) if dtype.is_float else value
            case typed.Unary(op, operand):
                value = self.of(operand)
                return -value if op == "-" else torch.logical_not(value)
            case typed.Binary("/" | "%" as op, lhs, rhs) if not e.dtype.is_float:
                a, b = self.of(lhs), self.of(rhs)
                return a // b if op == "/" else a % b
            case typed.Binary(op, lhs, rhs):
                return _BINARY[op](self.of(lhs), self.of(rhs))
            case typed.Select(cond, then, other):
                return torch.where(self.of(cond), self.of(then), self.of(other))
            case typed.Builtin(name, (typed.Read() as r, other)) if name == PAD:
                return self.read(r, other)
            case typed.Builtin(name, args):
                values = [self.of(a) for a in args]
                return _BUILTINS[name](torch, *values)


def _statements(body: Sequence[typed.Stmt]) -> list[typed.Statement]:
    return [*typed.statements(tuple(body))]


_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "&&": lambda a, b: a & b,
    "||": lambda a, b: a | b,
}
_BUILTINS: dict[str, Callable[..., Any]] = {
    **{
        name: lambda torch, x, name=name: getattr(torch, name)(x)
        for name in ("exp", "log", "sin", "cos", "tanh", "sigmoid", "rsqrt", "sqrt", "abs", "relu")
    },
    "fabs": lambda torch, x: torch.abs(x),
    "softplus": lambda torch, x: torch.logaddexp(x, torch.zeros_like(x)),
    "max": lambda torch, a, b: torch.maximum(a, b),
    "min": lambda torch, a, b: torch.minimum(a, b),
    "fmax": lambda torch, a, b: torch.where(a >= b, a, b),
    "fmin": lambda torch, a, b: torch.where(a <= b, a, b),
}
