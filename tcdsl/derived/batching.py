"""`kernel.batched(...)`: a kernel over a batch, from what a caller says of its operands.

Outputs that do not depend on the batch stay as they are, and `out_dims` says so, as the `vmap` rule
of a `torch.autograd.Function` may; JAX and `torch.func.vmap` repeat them, which
``out_dims={"y": 0}`` asks for. There is no randomness="error", since the numbers of a kernel are a
function of its arguments.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tcdsl.calls.bindings.parsed import parsed
from tcdsl.calls.bindings.session import Session
from tcdsl.codegen.gradient.derivatives import FORWARD, Gradient
from tcdsl.grammar.batch.definition import Backward, Batch, batched
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.errors import TCError, TCTypeError
from tcdsl.grammar.text.format import format_program
from tcdsl.grammar.text.heads import shapes_of_rank, type_variables
from tcdsl.grammar.types.dtypes import BY_NAME, FLOAT32
from tcdsl.plain.kernel import PlainKernel
from tcdsl.text.instead import instead

if TYPE_CHECKING:
    from tcdsl.grammar.batch.definition import Randomness
    from tcdsl.grammar.types.typed import CheckedDef

Dims = Mapping[str, int | None]


def asked(
    kernel: PlainKernel, which: Sequence[Any], named: Mapping[str, Any], out_dims: Any
) -> tuple[dict[str, int], dict[str, int | None], int]:
    """Return where parameters have the batch, where named returns have it, and where the others.

    Raises
    ------
    TCTypeError
        If it names what is not there, twice, or nothing at all; or says what is no dimension.
    """
    call = f"{kernel.name}.batched"
    params = kernel.params
    dims: dict[str, int | None] = {}
    if len(which) == 1 and isinstance(which[0], Mapping):
        dims |= _by_name(call, "parameter", params, which[0])
    elif len(which) == 1 and isinstance(which[0], tuple | list):
        dims |= _in_order(call, "parameter", params, which[0])
    else:
        for name in which:
            if not isinstance(name, str):
                raise TCTypeError(
                    f"{call}: expected names of parameters, got {type(name).__name__}\n"
                    f"  as in batched({', '.join(map(repr, params[:2]))}), or their dimensions: "
                    f"batched({params[0] if params else 'x'}=0)"
                )
        dims |= _by_name(call, "parameter", params, dict.fromkeys(which, 0))
    if twice := [name for name in named if name in dims]:
        raise TCTypeError(f"{call}: '{twice[0]}' is given twice")
    dims |= _by_name(call, "parameter", params, named)
    if not dims:
        dims = dict.fromkeys(params, 0)
    in_dims = {name: dims[name] for name in params if dims.get(name) is not None}
    if not params:
        raise TCTypeError(f"{call}: it has no parameters, so nothing differs within a batch")
    if not in_dims:
        raise TCTypeError(
            f"{call}: no parameter has the batch; name at least one of {', '.join(params)}"
        )
    found = {name: at for name, at in in_dims.items() if at is not None}
    if isinstance(out_dims, Mapping):
        return found, _by_name(call, "return", kernel.returns, out_dims), 0
    if isinstance(out_dims, tuple | list):
        return found, _in_order(call, "return", kernel.returns, out_dims), 0
    return found, {}, _dim(call, "out_dims", out_dims)


def over_batch(
    kernel: PlainKernel,
    in_dims: Mapping[str, int],
    out_dims: Dims,
    out_dim: int,
    randomness: Randomness,
    back: Backward | None = None,
) -> tuple[Session, str]:
    """Return the session of a kernel over a batch, its last definition; see `Kernel.batched`.

    back: a definition of the text that is its way back. The name is that of the same over the
    batch.
    """
    session = kernel.session
    if randomness not in ("same", "different"):
        raise TCTypeError(
            f"{kernel.name}.batched: randomness is '{randomness}'; expected 'same' or 'different'"
        )
    origin = session.origin
    if {*session.settings.directions}.issuperset(in_dims):
        randomness = "same"  # the pass that this is a derivative of drew once, for all of them
    made = _batch(kernel, in_dims, out_dims, out_dim, randomness, back)
    if origin is not None:
        origin = _origin(origin, made, in_dims, randomness)
    program = parsed(format_program(made.program), f"<{kernel.name} over a batch>")
    new = Session(program, session.settings, origin, tuple(made.out_dims.values()))
    new.check_now(program.defs[-1])
    return new, made.back


def _batch(
    kernel: PlainKernel,
    in_dims: Mapping[str, int],
    out_dims: Dims,
    out_dim: int,
    randomness: Randomness,
    back: Backward | None,
) -> Batch:
    definition = kernel.definition
    checked = None
    if any(_is_length(p.type.name, p.type.dims) for p in definition.params
           if p.type is not None and p.name in in_dims):  # fmt: skip
        checked = _checked(kernel)
    return batched(
        kernel.session.program,
        kernel.name,
        in_dims,
        out_dims,
        out_dim=out_dim,
        randomness=randomness,
        checked=checked,
        back=back,
    )


def _is_length(type_name: str, dims: Sequence[object] | None) -> bool:
    """Whether a parameter may be an integer that ranges depend on."""
    dtype = BY_NAME.get(type_name)
    return not dims and (dtype is None or dtype.is_integer)


def _checked(kernel: PlainKernel) -> CheckedDef | None:
    """Return the definition, checked at usual types and ranks; None if only calls can tell them.

    Then the check of what is made of it, at a call, refuses ranges that differ.
    """
    definition, session = kernel.definition, kernel.session
    types = dict.fromkeys(type_variables(definition), FLOAT32)
    try:
        rank = session.check_now(definition, types)
        shapes = shapes_of_rank(definition, rank) if kernel.has_any_rank else None
        return session.variant(definition, types, None, shapes).checked
    except TCError:
        return None


def _origin(
    origin: Gradient, made: Batch, in_dims: Mapping[str, int], randomness: Randomness
) -> Gradient | None:
    """Return what a gradient over a batch is the gradient of; None if of nothing.

    Where what is kept has the batch exactly if the forward pass gives it one.
    """
    forward = parsed(origin.forward, FORWARD)
    head = forward.defs[-1]
    params = {p.name: in_dims[p.name] for p in head.params if p.name in in_dims}
    kept = {name: in_dims.get(name) for name in origin.kept}
    any_kept = any(at is not None for at in kept.values())
    if params:
        try:
            forward = batched(forward, head.name, params, kept, randomness=randomness).program
        except TCError:
            return None
    elif any_kept:
        return None
    size = Size.symbol(made.size)
    given = tuple(
        replace(g, shape=_with(g.shape, in_dims[g.name], size)) if g.name in in_dims else g
        for g in origin.given
    )
    return replace(
        origin,
        name=made.program.defs[-1].name,
        text=format_program(made.program),
        forward=format_program(forward),
        given=given,
        memory=origin.memory * size if any_kept else origin.memory,  # at most
    )


def _with(shape: tuple[Size, ...], place: int, size: Size) -> tuple[Size, ...]:
    at = place if place >= 0 else len(shape) + 1 + place
    return (*shape[:at], size, *shape[at:])


def _by_name(
    call: str, what: str, names: Sequence[str], given: Mapping[Any, Any]
) -> dict[str, int | None]:
    for name in given:
        if name not in names:
            raise TCTypeError(f"{call}: no {what} '{name}'{instead(str(name), names)}")
    return {name: None if at is None else _dim(call, name, at) for name, at in given.items()}


def _in_order(
    call: str, what: str, names: Sequence[str], given: Sequence[Any]
) -> dict[str, int | None]:
    if len(given) != len(names):
        raise TCTypeError(
            f"{call}: expected a dimension or None for each {what} "
            f"({', '.join(names)}), got {len(given)}"
        )
    return _by_name(call, what, names, dict(zip(names, given, strict=True)))


def _dim(call: str, name: str, value: Any) -> int:
    if not isinstance(value, bool):
        try:
            return operator.index(value)
        except TypeError:
            pass
    raise TCTypeError(
        f"{call}: expected the number of a dimension for '{name}', or None, got {value!r:.40}"
    )
