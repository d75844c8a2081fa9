"""What calls ask of a definition bound to types; found by a record, it is not checked to be called.

The check of a text takes longer than all else that the first call of a compiled kernel does, and
gives little of it to the call: operands, sizes, conditions. That little is a record, by the
definition with its types and by the text that places in messages point into. A text that has
faults or warnings has none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from tcdsl.codegen.program.pointwise import Places, Pointwise
from tcdsl.codegen.program.rowwise import Rowwise
from tcdsl.codegen.toolchain import records
from tcdsl.grammar.proofs.plain import from_plain, plain
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text import nodes
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.source import Source, Span
from tcdsl.grammar.types.dtypes import BOOL, BY_NAME, DType
from tcdsl.grammar.types.typed import (
    CheckedDef,
    Constraint,
    Loop,
    Tensor,
    statements,
    tensors_read,
)

if TYPE_CHECKING:
    from tcdsl.codegen.program.program import Program

T = TypeVar("T")

_KEY = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Signature:
    """All that calls ask of a definition, which is not its statements.

    name, sizes, scalars, params, returns, constraints: those of the `CheckedDef`. starts: the
    operator of the first statement on each return. temporaries: names, types and shapes. inplace:
    returns and parameters that may be one view (`inplace_pairs`). has_loops: whether turns are
    counted. read: the parameters whose values are read, not only their extents. outermost: the
    sizes that no stride of a tensor in C order hangs on, as the number of images. pointwise,
    rowwise: how calls may collapse their dimensions, at most one of both; None where they may not.
    """

    name: str
    sizes: tuple[str, ...]
    scalars: tuple[str, ...]
    params: tuple[Tensor, ...]
    returns: tuple[Tensor, ...]
    constraints: tuple[Constraint, ...]
    starts: tuple[str, ...]
    temporaries: tuple[tuple[str, DType, tuple[Size, ...]], ...]
    inplace: tuple[tuple[int, int], ...]
    has_loops: bool
    read: tuple[str, ...]
    outermost: tuple[str, ...]
    pointwise: Pointwise | None
    rowwise: Rowwise | None

    @staticmethod
    def of(
        checked: CheckedDef, program: Program, inplace: tuple[tuple[int, int], ...]
    ) -> Signature:
        """Return the signature of a definition."""
        from tcdsl.codegen.program.collapse import pointwise_of  # on use: a record says it mostly
        from tcdsl.codegen.program.collapse_rows import rowwise_of

        pointwise = pointwise_of(program)
        temporaries = tuple(
            (b.tensor, b.dtype, b.shape) for b in program.buffers if b.role == "temp"
        )
        shapes = [t.shape for t in (*checked.params, *checked.returns)]
        shapes += [shape for _, _, shape in temporaries]
        ops: dict[str, str] = {}
        read = {*checked.scalars}
        for s in statements(checked.body):
            ops.setdefault(s.target, s.op)
            read.update(tensors_read(*s.exprs))
        return Signature(
            checked.name,
            checked.sizes,
            checked.scalars,
            checked.params,
            checked.returns,
            checked.constraints,
            tuple(ops.get(t.name, "") for t in checked.returns),
            temporaries,
            inplace,
            any(isinstance(s, Loop) for s in checked.body),
            tuple(t.name for t in checked.params if t.name in read),
            _outermost(checked, shapes),
            pointwise,
            rowwise_of(program) if pointwise is None else None,
        )


def _outermost(checked: CheckedDef, shapes: Sequence[tuple[Size, ...]]) -> tuple[str, ...]:
    """Return the sizes that no stride hangs on of tensors of these shapes."""
    leading = {n for shape in shapes for e in shape[:1] for n in e.symbols() if e == Size.symbol(n)}
    bound = {n for shape in shapes for e in shape[1:] for n in e.symbols()}
    bound |= {n for shape in shapes for e in shape[:1] for n in e.symbols() if e != Size.symbol(n)}
    return tuple(n for n in checked.sizes if n in leading - bound - {*checked.scalars})


def read(identity: str, definition: nodes.Def) -> Signature | None:
    """Return the signature that a definition has by a record, None if there is none."""
    source = _source(definition)
    if source is None:
        return None
    return records.read("signature", (identity, source.text), _Reader(definition, source).signature)


def write(identity: str, definition: nodes.Def, signature: Signature) -> None:
    """Keep the signature of a definition that was checked without a warning."""
    source = _source(definition)
    spans = [t.span for t in (*signature.params, *signature.returns)]
    spans += [c.span for c in signature.constraints]
    if source is None or any(s is not None and s.source is not source for s in spans):
        return  # a program made it, in part: its places are in several texts
    value = [
        signature.name,
        signature.sizes,
        signature.scalars,
        [_plain_tensor(t) for t in signature.params],
        [_plain_tensor(t) for t in signature.returns],
        [_plain_constraint(c) for c in signature.constraints],
        signature.starts,
        [[n, d.name, [plain(x) for x in shape]] for n, d, shape in signature.temporaries],
        signature.inplace,
        signature.has_loops,
        signature.read,
        signature.outermost,
        None if signature.pointwise is None else _plain_pointwise(signature.pointwise),
        None if signature.rowwise is None else _plain_rowwise(signature.rowwise),
    ]
    records.write("signature", (identity, source.text), value, signature.name)


def _source(definition: nodes.Def) -> Source | None:
    """Return the text that places in a definition point into; one bound to ranks has its heads'."""
    spans = [definition.span, *(head.span for head in (*definition.params, *definition.returns))]
    return next((span.source for span in spans if span is not None), None)


def _plain_tensor(t: Tensor) -> list[Any]:
    shape, low = ([plain(n) for n in sizes] for sizes in (t.shape, t.low))
    default = None if t.default is None else repr(t.default)  # JSON has no infinity
    return [t.name, t.dtype.name, shape, low, t.is_updated, default, _plain_span(t.span)]


def _plain_constraint(c: Constraint) -> list[Any]:
    return [plain(c.size), c.relation, c.message, _plain_span(c.span)]


def _plain_pointwise(p: Pointwise) -> list[Any]:
    return [p.key, p.places, p.costly]


def _plain_rowwise(r: Rowwise) -> list[Any]:
    return [r.key, [plain(n) for n in r.extents], r.kept, r.places, r.is_ordered]


def _plain_span(span: Span | None) -> list[int] | None:
    return None if span is None else [span.start, span.end]


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads what `write` has written; ValueError if it is anything else."""

    definition: nodes.Def
    source: Source

    def signature(self, value: object) -> Signature:
        match value:
            case [str(name), sizes, scalars, params, returns, constraints, starts, temps, inplace,
                  bool(has_loops), read, outermost, pointwise, rowwise]:  # fmt: skip
                found = Signature(
                    name,
                    _each(sizes, _text),
                    _each(scalars, _text),
                    _each(params, lambda v: self._tensor(v, "param")),
                    _each(returns, lambda v: self._tensor(v, "return")),
                    _each(constraints, self._constraint),
                    _each(starts, _text),
                    _each(temps, _temporary),
                    _each(inplace, _pair),
                    has_loops,
                    _each(read, _text),
                    _each(outermost, _text),
                    None if pointwise is None else _pointwise(pointwise),
                    None if rowwise is None else _rowwise(rowwise),
                )
                self._check(found)
                return found
        raise ValueError("it is no signature")

    def _check(self, found: Signature) -> None:
        """Check that it is one of the definition."""
        heads = self.definition.name, self.definition.params, self.definition.returns
        name, params, returns = heads
        if not (
            found.name == name
            and [t.name for t in found.params] == [p.name for p in params]
            and [t.name for t in found.returns] == [r.name for r in returns]
            and len(found.starts) == len(returns)
            and {*found.outermost} <= {*found.sizes} - {*found.scalars}
            and all(r < len(returns) and p < len(params) for r, p in found.inplace)
            and (found.pointwise is None or _fits(found.pointwise, found))
            and (found.rowwise is None or _fits_rows(found.rowwise, found))
        ):
            raise ValueError("it is the signature of another definition")

    def _tensor(self, value: object, role: Literal["param", "return"]) -> Tensor:
        match value:
            case [str(name), str(of), list(shape), list(low), bool(is_updated), number, span] if (
                len(shape) == len(low)
            ):
                sizes, lows = tuple(map(from_plain, shape)), tuple(map(from_plain, low))
                place, dtype = self._span(span), _dtype(of)
                default = _number(number, dtype)
                return Tensor(
                    name, dtype, sizes, lows, role, is_updated, default=default, span=place
                )
        raise ValueError("it is no tensor")

    def _constraint(self, value: object) -> Constraint:
        match value:
            case [size, ">=0" | "==0" as relation, str(message), span]:
                known: Literal[">=0", "==0"] = ">=0" if relation == ">=0" else "==0"
                return Constraint(from_plain(size), known, message, self._span(span))
        raise ValueError("it is no constraint")

    def _span(self, value: object) -> Span | None:
        match value:
            case None:
                return None
            case [int(start), int(end)] if 0 <= start <= end <= len(self.source.text):
                return Span(start, end, self.source)
        raise ValueError("it is no place in the text")


def _each(value: object, read: Callable[[object], T]) -> tuple[T, ...]:
    if not isinstance(value, list):
        raise ValueError("expected a list")
    return tuple(map(read, value))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("expected a text")
    return value


def _dtype(name: str) -> DType:
    found = BY_NAME.get(name)
    if found is None:
        raise ValueError("it is no type")
    return found


def _number(value: object, dtype: DType) -> int | float | None:
    """Return a default from its text."""
    match value:
        case None:
            return None
        case "True" | "False" if dtype == BOOL:
            return value == "True"
        case str() if dtype.is_float:
            return float(value)
        case str() if dtype.is_integer and len(value) < 30:
            return int(value)
    raise ValueError("it is no number")


def _temporary(value: object) -> tuple[str, DType, tuple[Size, ...]]:
    match value:
        case [str(name), str(dtype), list(shape)]:
            return name, _dtype(dtype), tuple(map(from_plain, shape))
    raise ValueError("it is no temporary")


def _pair(value: object) -> tuple[int, int]:
    match value:
        case [int(r), int(p)] if r >= 0 and p >= 0:
            return r, p
    raise ValueError("it is no pair of a return and a parameter")


def _pointwise(value: object) -> Pointwise:
    match value:
        case [str(key), places, costly] if _KEY.fullmatch(key):
            return Pointwise(
                key,
                _each(places, lambda v: None if v is None else _each(v, _place)),
                _each(costly, lambda v: _each(v, _count)),
            )
    raise ValueError("it is no way to collapse dimensions")


def _rowwise(value: object) -> Rowwise:
    match value:
        case [str(key), extents, int(kept), places, bool(is_ordered)] if _KEY.fullmatch(key):
            return Rowwise(
                key,
                _each(extents, from_plain),
                _count(kept),
                _each(places, lambda v: None if v is None else _each(v, _place)),
                is_ordered,
            )
    raise ValueError("it is no way to collapse dimensions of rows")


def _fits(p: Pointwise, of: Signature) -> bool:
    """Whether each dimension of the operands has a place of its own among those of the results."""
    rank = len(of.returns[0].shape) if of.returns else 0
    return (
        len(p.places) == len(of.params) + len(of.returns)
        and all(map(_fits_operand, p.places, (*of.params, *of.returns), [rank] * len(p.places)))
        and all(places == tuple(range(rank)) for places in p.places[len(of.params) :])
        and all(i < len(of.params) and p.places[i] is not None for one in p.costly for i in one)
    )


def _fits_rows(r: Rowwise, of: Signature) -> bool:
    """Whether operands lie along these dimensions, and results along all that are kept."""
    rank, operands = len(r.extents), (*of.params, *of.returns)
    return (
        of.pointwise is None
        and r.kept < rank
        and all({*n.symbols()} <= {*of.sizes} for n in r.extents)
        and len(r.places) == len(operands)
        and all(map(_fits_operand, r.places, operands, [rank] * len(operands)))
        and all(
            p is not None and {*range(r.kept)} <= {*p} and len({*p} - {None}) in (r.kept, rank)
            for p in r.places[len(of.params) :]
        )
    )


def _fits_operand(places: Places | None, tensor: Tensor, rank: int) -> bool:
    walked = [d for d in places or () if d is not None]
    is_whole = places is None or len(places) == len(tensor.shape)
    return is_whole and len({*walked}) == len(walked) and all(d < rank for d in walked)


def _place(value: object) -> int | None:
    return None if value is None else _count(value)


def _count(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise ValueError("expected a number from 0 on")
