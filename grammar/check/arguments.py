"""Arguments of a call: the callee gets its generics, types, sizes and tensors from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest

from tcdsl.grammar.check.call import Call
from tcdsl.grammar.check.declare import declared_dtype, size_of
from tcdsl.grammar.check.exact import Exact
from tcdsl.grammar.check.scope import SilentError, Tensor, near
from tcdsl.grammar.check.statement import check_comprehension
from tcdsl.grammar.check.symbolic import SymbolicValues
from tcdsl.grammar.check.target import declare
from tcdsl.grammar.check.values import convert
from tcdsl.grammar.check.wide import fits_in
from tcdsl.grammar.check.wording import declared_here, given
from tcdsl.grammar.proofs.ranges import Prover
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.ranks.ellipsis import has_dots, with_ranks
from tcdsl.grammar.text import nodes as n
from tcdsl.grammar.text.defaults import placed
from tcdsl.grammar.text.errors import Note, count
from tcdsl.grammar.text.fault import FaultError
from tcdsl.grammar.text.heads import fixed_dims, has_any_rank, type_variables
from tcdsl.grammar.text.source import Span
from tcdsl.grammar.types import typed as t
from tcdsl.grammar.types.dtypes import BY_NAME, INT64, DType


def arguments_of(call: Call, args: Sequence[n.Arg]) -> tuple[list[n.Expr], dict[str, int | DType]]:
    """Return the positional arguments, and the values of generics."""
    positional: list[n.Expr] = []
    missing: list[str] = []
    values: dict[str, int | DType] = {}
    params, types = call.definition.params, type_variables(call.definition)
    found, named = placed(call.definition, args)
    for arg, param in zip_longest(found, params):
        match arg:
            case n.Dots():
                cure = Note("pass the tensor by its name alone, as in y = f(x)")
                raise FaultError("TC190", "'...' is no argument of a call", arg.span, "", cure)
            case None:
                missing.append(param.name)
            case _:
                assert not isinstance(arg, n.Keyword)
                positional.append(arg)
    for keyword in named:
        name = keyword.name
        if name in values or name in {p.name for p in params}:
            raise FaultError("TC125", f"'{name}=' is given twice", keyword.span)
        generics = [g.name for g in call.definition.generics]
        if name not in generics:
            problem = f"'{call.callee}' has no parameter and no generic '{name}'"
            near_by = near(name, (*generics, *(p.name for p in params)))
            raise FaultError("TC125", problem, keyword.span, "", near_by)
        if name in types:
            values[name] = _type(call, name, keyword.value)
            continue
        values[name] = _constant(call, name, keyword.value)
    if missing or len(positional) > len(params):
        least = sum(p.default is None for p in params)
        takes = count(len(params), "argument")
        if least < len(params):
            takes = f"{least} to {takes}"
        raise FaultError(
            "TC121",
            f"'{call.callee}' takes {takes}, but {given(len(args) - len(named))}",
            call.span,
            "misses " + ", ".join(f"'{name}'" for name in missing) if missing and args else "",
            Note("defined here", call.definition.name_span),
        )
    return positional, values


def _constant(call: Call, name: str, node: n.Expr) -> int:
    value = size_of(call.state, call.frame, node, f"the value of '{name}'").constant
    if value is None:
        raise FaultError(
            "TC125",
            f"the value of '{name}=' is not a constant",
            node.span,
            "expected integers and generics",
        )
    return value


def _type(call: Call, name: str, node: n.Expr) -> DType:
    """Return the type that a call gives to a type variable."""
    known = call.frame.types
    if isinstance(node, n.Name) and (node.name in BY_NAME or node.name in known):
        call.frame.used_generics.add(node.name)
        return BY_NAME.get(node.name) or known[node.name]
    raise FaultError(
        "TC125",
        f"the value of '{name}=' is not a type",
        node.span,
        "expected a scalar type or a type variable",
    )


def bind_callee(call: Call, args: Sequence[n.Expr]) -> None:
    """Let arguments give a callee of any rank its ranks; `...` repeats extents that are 1."""
    if not has_dots(call.definition):
        return
    shapes = []
    for param, arg in zip(call.definition.params, args, strict=True):
        least = len(fixed_dims(param))
        tensor = _tensor(call, arg)
        if tensor is None or tensor.rank is None:  # refused when it is bound
            shapes.append((2,) * least)
            continue
        if has_any_rank(param) and tensor.rank < least:
            raise FaultError(
                "TC103",
                f"'{tensor.name}' has {count(tensor.rank, 'dimension')}, but '{param.name}' of "
                f"'{call.callee}' has at least {least}",
                arg.span,
                "",
                declared_here(tensor),
                Note(f"'{param.name}' is declared here", param.span),
            )
        shapes.append(tuple(1 if e.constant == 1 else 2 for e in tensor.extents()))
    known, key = call.state.ranked, (call.callee, tuple(shapes))
    if key not in known:
        try:
            known[key] = with_ranks(call.definition, call.state.defs, shapes)
        except FaultError as fault:
            here = Note(f"in the call of '{call.callee}' here", call.span)
            fault.diagnostic = replace(fault.diagnostic, notes=(*fault.diagnostic.notes, here))
            raise
    call.definition = call.inner.definition = known[key]


def infer_types(call: Call, args: Sequence[n.Expr], values: dict[str, int | DType]) -> None:
    """Let arguments give type variables their types."""
    types = type_variables(call.definition)
    for param, arg in zip(call.definition.params, args, strict=True):
        if param.type is None or param.type.name not in types:
            continue
        tensor = _tensor(call, arg)
        if tensor is None or tensor.type is None:
            continue
        known = values.setdefault(param.type.name, tensor.type)
        if known != tensor.type:
            raise FaultError(
                "TC305",
                f"'{param.type.name}' is {known} and {tensor.type}",
                arg.span,
                f"this is {tensor.type}",
                Note("one type variable, one type", param.span),
            )


def _tensor(call: Call, arg: n.Expr) -> Tensor | None:
    """Return the tensor that an argument names."""
    if not isinstance(arg, n.Name):
        return None
    tensor = call.frame.tensors.get(arg.name)
    if tensor is not None and tensor.is_poisoned:
        raise SilentError
    return tensor


def bind(call: Call, param: n.Param, arg: n.Expr) -> Tensor:
    """Make an argument the callee's parameter."""
    declare(call.state, call.inner, param.name, param.name_span)
    assert param.type is not None
    rank = len(param.type.dims or ())
    tensor = _tensor(call, arg)
    if isinstance(arg, n.Name) and arg.name in call.frame.later:
        raise FaultError("TC112", f"'{arg.name}' is read before it is written", arg.span)
    if tensor is None and rank == 0:
        tensor = _scalar(call, param, arg)
    if tensor is None:
        note = near(arg.name, call.frame.tensors) if isinstance(arg, n.Name) else None
        what = f"expected the name of a tensor for '{param.name}'"
        cure = Note("give an expression a name first: t(i) = ..., then pass t")
        raise FaultError("TC122", what, arg.span, "", note or cure)
    name = arg.name if isinstance(arg, n.Name) else tensor.name
    if not tensor.is_written:
        message = f"'{name}' is read before it is written"
        raise FaultError("TC112", message, arg.span, "", near(name, call.frame.tensors))
    wanted = Note(f"'{param.name}' is declared here", param.span)
    if tensor.rank != rank:
        raise FaultError(
            "TC103",
            f"'{name}' has {count(tensor.rank or 0, 'dimension')}, but '{param.name}' of "
            f"'{call.callee}' has {rank}",
            arg.span,
            "",
            declared_here(tensor),
            wanted,
        )
    tensor.is_read = True
    type_ = declared_dtype(call.inner, param.type)
    if type_ != tensor.type:
        raise FaultError(
            "TC305",
            f"'{param.name}' of '{call.callee}' is {type_}, but '{name}' is {tensor.type}",
            arg.span,
            "",
            declared_here(tensor),
            wanted,
        )
    tensor = _from_zero(call, tensor)
    for d, dim in enumerate(param.type.dims or ()):
        _unify(call, dim, tensor.extents()[d], d, name, arg.span, wanted)
    call.inner.tensors[param.name] = tensor
    call.inner.inputs.add(param.name)
    call.inner.where[param.name] = param.span
    return tensor


def _scalar(call: Call, param: n.Param, arg: n.Expr) -> Tensor:
    """Compute a scalar argument into a temporary."""
    assert param.type is not None
    type_ = declared_dtype(call.inner, param.type)
    name = call.state.fresh(f"{call.callee}_{param.name}")
    tensor = Tensor(name, "temp", arg.span, type_, ())
    call.add_temporary(name, tensor)
    target = n.Target(name, None, span=arg.span)
    node = n.Comprehension(target, "=", arg, span=arg.span)
    statement = check_comprehension(call.state, call.frame, node)
    call.statements.append(statement)
    if type_.is_integer:
        value = _value_of(call, statement.value)
        if not any(s.startswith("?") for s in value.symbols()):
            tensor.host = value
    return tensor


def _value_of(call: Call, expr: t.Expr) -> Size:
    """Return the value of a scalar argument where it keeps to its type, else an unknown."""
    values = SymbolicValues()
    for tensor in call.frame.tensors.values():
        if tensor.host is not None and tensor.type is not None:
            values.know(t.Read(tensor.name, (), tensor.type, ()), tensor.host)
    prover = Prover({}, (), call.state.turns)
    exact = Exact(values, lambda *x: call.state.is_trial or fits_in(call.state, prover, *x))
    return values.of(exact.number(expr))


def _unify(
    call: Call, dim: n.Expr | n.Dots, extent: Size, d: int, name: str, span: Span | None, note: Note
) -> None:
    """Let a dimension of a parameter be an extent of the argument."""
    match dim:
        case n.IntLit(value):
            wanted = Size.const(value)
        case n.Name(size) if size in call.inner.ints:
            call.inner.used_generics.add(size)
            wanted = Size.const(call.inner.ints[size])
        case n.Name(size):
            call.inner.used_generics.add(size)
            call.inner.where.setdefault(size, dim.span)
            wanted = call.inner.sizes.setdefault(size, extent)
        case _:
            raise AssertionError(dim)
    what = f"'{dim.name}'" if isinstance(dim, n.Name) else "the dimension"
    message = f"dimension {d} of '{name}' is {extent}, but {what} of '{call.callee}' is {wanted}"
    if not call.state.demand(extent - wanted, message, span, "==0"):
        raise FaultError("TC210", message, span, "", note)


def _from_zero(call: Call, tensor: Tensor) -> Tensor:
    """Return the tensor, or a copy of it whose elements are counted from 0."""
    bounds = tensor.bounds()
    if all(low == Size() for low, _ in bounds):
        return tensor
    assert tensor.type is not None
    name = call.state.fresh(f"{call.callee}_{tensor.name}")
    copy = Tensor(name, "temp", tensor.span, tensor.type, tensor.extents(), first_op="=")
    call.add_temporary(name, copy)
    names = [call.state.fresh(f"i{d}") for d in range(len(bounds))]
    at = tuple(t.IndexValue(i, INT64) for i in names)
    subs = tuple(
        t.Binary("+", i, t.SizeValue(low, INT64), INT64)
        for i, (low, _) in zip(at, bounds, strict=True)
    )
    stored = tensor.stored
    read = t.Read(tensor.name, subs, stored, (False,) * len(subs))
    ranges = tuple(
        t.Range(i, Size(), extent, "output")
        for i, extent in zip(names, tensor.extents(), strict=True)
    )
    value = convert(read, stored.computed)
    checked = (False,) * len(subs)
    call.statements.append(t.Statement(name, at, "=", value, ranges, checked, span=call.span))
    return copy
