"""The head of a definition: generics, parameters and returns become names of a frame."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tcdsl.grammar.check.access import Context, End
from tcdsl.grammar.check.expressions import Typer
from tcdsl.grammar.check.names import Names
from tcdsl.grammar.check.scope import Frame, SilentError, StatementScope, Tensor, near
from tcdsl.grammar.check.state import CheckState
from tcdsl.grammar.check.target import declare
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text import nodes as n
from tcdsl.grammar.text.defaults import fault_of_default, number_of
from tcdsl.grammar.text.errors import Diagnostic, Note
from tcdsl.grammar.text.fault import FaultError
from tcdsl.grammar.text.heads import size_names, type_variables
from tcdsl.grammar.types.dtypes import BY_NAME, DType

FOREIGN_TYPES = {
    "int": "int32",
    "long": "int64",
    "short": "int16",
    "char": "int8",
    "byte": "uint8",
    "uint": "uint32",
    "unsigned": "uint32",
    "half": "float16",
    "fp16": "float16",
    "bf16": "bfloat16",
    "real": "float",
    "boolean": "bool",
}


def declare_generics(state: CheckState, frame: Frame, values: Mapping[str, int | DType]) -> None:
    """Bind the generics of a frame to the values given and to their defaults.

    An integer that a dimension is named after needs no value: it is that size.
    """
    definition = frame.definition
    types, sizes = type_variables(definition), size_names(definition)
    for generic in definition.generics:
        name = generic.name
        declare(state, frame, name, generic.span)
        frame.where[name] = generic.span
        value = values.get(name, generic.default)
        if name in types:
            if isinstance(value, DType):
                frame.types[name] = value
            else:
                message = f"the type variable '{name}' has no type"
                cure = Note("it comes from the arguments of a call")
                if all(p.type is None or p.type.name != name for p in definition.params):
                    cure = Note(f"give it by keyword: {definition.name}(..., {name}=float32)")
                raise FaultError("TC306", message, generic.span, "", cure)
        elif isinstance(value, int) and not isinstance(value, bool):
            if not -(2**63) <= value < 2**63:
                message = f"the generic '{name}' is {value}, which is outside int64"
                raise FaultError("TC116", message, generic.span)
            frame.ints[name] = value
        elif name not in sizes:
            raise FaultError(
                "TC116",
                f"the generic '{name}' has no value",
                generic.span,
                "",
                Note(f"give it by keyword, {definition.name}(..., {name}=1), or as a default"),
            )
    unknown = [k for k in values if k not in {g.name for g in definition.generics}]
    if unknown:
        raise FaultError(
            "TC125",
            f"'{definition.name}' has no generic '{unknown[0]}'",
            definition.name_span or definition.span,
            "",
            near(unknown[0], (g.name for g in definition.generics)),
        )


def declared_dtype(frame: Frame, ref: n.TypeRef) -> DType:
    """Return the type that a declaration names."""
    if ref.name in BY_NAME:
        return BY_NAME[ref.name]
    if ref.name in frame.types:
        frame.used_generics.add(ref.name)
        return frame.types[ref.name]
    meant = FOREIGN_TYPES.get(ref.name.lower())
    hint = Note(f"did you mean '{meant}'?") if meant else near(ref.name, (*BY_NAME, *frame.types))
    declare_it = f"a type variable is declared: def {frame.definition.name}<{ref.name}>(...)"
    raise FaultError("TC304", f"'{ref.name}' is not a type", ref.span, "", hint or Note(declare_it))


def declare_params(state: CheckState, frame: Frame, values: Mapping[str, int | DType]) -> None:
    """Declare the generics and parameters of the entry; dimensions become sizes."""
    declare_generics(state, frame, values)
    for param in frame.definition.params:
        try:
            _declare_param(state, frame, param)
        except FaultError as fault:
            state.report(fault.diagnostic)
    for param in frame.definition.params:
        if param.type is not None:
            for dim in param.type.dims or ():
                if isinstance(dim, n.Name) and dim.name in frame.tensors:
                    tensor = frame.tensors[dim.name]
                    state.report(
                        Diagnostic(
                            "TC101",
                            f"'{dim.name}' is already a parameter",
                            dim.span,
                            "",
                            (Note("declared here", tensor.span), Note("choose another name")),
                        )
                    )


def _declare_param(state: CheckState, frame: Frame, param: n.Param) -> None:
    name, ref = param.name, param.type
    declare(state, frame, name, param.name_span or param.span)
    frame.where[name] = param.span
    tensor = Tensor(name, "param", param.span)
    frame.tensors[name] = tensor
    frame.inputs.add(name)
    state.tensors.append(tensor)
    if ref is None:  # the parser refuses it
        raise FaultError("TC304", f"parameter '{name}' has no type", param.span)
    tensor.declared = ref.span.text if ref.span is not None else ref.name
    tensor.is_poisoned = True
    dims = []
    for dim in ref.dims or ():
        match dim:
            case n.IntLit(value):
                dims.append(Size.const(value))
            case n.Name(size):
                dims.append(_size(state, frame, size, dim))
            case _:
                raise FaultError(
                    "TC114", "a dimension of a parameter is a size or an integer", dim.span
                )
    tensor.type = declared_dtype(frame, ref)
    tensor.dims = tuple(dims)
    tensor.is_poisoned = False
    tensor.default = _default(param, tensor.type)
    if not dims and tensor.type.is_integer:
        is_short = tensor.type.kind == "uint" and tensor.type.bits < 64
        tensor.host = Size.symbol(name, signed=not is_short)


def _default(param: n.Param, dtype: DType) -> int | float | None:
    """Return the default of a parameter; that of a type variable has to fit what it is bound to."""
    if param.default is None:
        return None
    typed = replace(param, type=n.TypeRef(dtype.name, None))
    if fault := fault_of_default(typed):
        raise FaultError(fault.code, fault.message, fault.span, fault.label, *fault.notes)
    return number_of(typed)


def _size(state: CheckState, frame: Frame, name: str, node: n.Name) -> Size:
    if name in frame.ints:
        frame.used_generics.add(name)
        return Size.const(frame.ints[name])
    if name not in frame.sizes:
        is_generic = any(g.name == name for g in frame.definition.generics)
        if not is_generic and (frame.role(name) is None or name in state.defs):
            declare(state, frame, name, node.span)
        frame.sizes[name] = Size.symbol(name)
        frame.where.setdefault(name, node.span)
    frame.used_generics.add(name)
    return frame.sizes[name]


def declare_returns(state: CheckState, frame: Frame) -> None:
    """Declare the returns of the entry."""
    for param in frame.definition.returns:
        try:
            declare(state, frame, param.name, param.name_span or param.span)
            frame.where[param.name] = param.span
            tensor = Tensor(param.name, "return", param.span)
            frame.tensors[param.name] = tensor
            state.tensors.append(tensor)
            annotate(state, frame, tensor, param)
        except FaultError as fault:
            state.report(fault.diagnostic)
        except SilentError:
            continue


def annotate(state: CheckState, frame: Frame, tensor: Tensor, param: n.Param) -> None:
    """Give a return its declared type and extents."""
    ref = param.type
    if ref is None:
        return
    tensor.declared = ref.span.text if ref.span is not None else ref.name
    tensor.type = declared_dtype(frame, ref)
    dims = []
    for dim in ref.dims or ():
        assert not isinstance(dim, n.Dots), "'...' is replaced before the check"
        extent = size_of(state, frame, dim, f"a dimension of '{param.name}'")
        message = f"a dimension of '{param.name}', {extent}, is negative"
        if not state.demand(extent, message, dim.span):
            raise FaultError("TC206", f"{message} for all sizes", dim.span)
        dims.append(extent)
    tensor.dims = tuple(dims)


def size_of(state: CheckState, frame: Frame, node: n.Expr, what: str) -> Size:
    """Return an expression of sizes, generics and scalar parameters."""
    typer = Typer(Names(frame, StatementScope(), state.defs, lambda name: name))
    at = Context(is_subscript=True, end=End())
    size = typer.symbolic.of(typer.integer(node, at, what))
    if any(s.startswith("?") for s in size.symbols()):
        raise FaultError("TC209", f"{what} is not understood", node.span)
    return size
