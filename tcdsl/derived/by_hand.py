"""A way back that somebody wrote: a definition held against the one whose derivative it is.

What depends on a call is told by the call: the convolution of the announcement of 2018 says that O
has the extents of I, which is so for windows of 1 only. All its gradients are computed at each
call, and its second derivative is derived from it.

Over a batch all float outputs have the batch, also those that are one for all: the way back takes
an adjoint for each element, and nobody but its author knows that it is linear.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tcdsl.grammar.proofs.signs import substitute_symbols
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text import nodes
from tcdsl.grammar.text.errors import ShapeError, TCTypeError
from tcdsl.grammar.text.heads import has_any_rank, shapes_of_rank, type_variables
from tcdsl.grammar.types.dtypes import FLOAT32
from tcdsl.grammar.types.typed import CheckedDef, Tensor, statements, tensors_read

if TYPE_CHECKING:
    from tcdsl.calls.bindings.ranks import Shapes
    from tcdsl.calls.bindings.session import Session
    from tcdsl.grammar.batch.definition import Randomness
    from tcdsl.plain.kernel import PlainKernel

_SPELLINGS = ("d_{}", "d{}", "{}_grad", "grad_{}")  # of the gradient by a parameter


def with_shapes(kernel: PlainKernel, backward: str, shapes: Shapes) -> tuple[Session, nodes.Def]:
    """Return a definition and its way back bound to the ranks of arguments; see `Session`."""
    session, definition = kernel.session.with_shapes(kernel.definition, shapes)
    back = session.definition(backward)
    if any(map(has_any_rank, back.params)):
        like = WayBack(kernel.session, kernel.definition, kernel.session.definition(backward)).like
        checked = session.variant(definition, _generics(definition)).checked
        known = dict(zip(kernel.params, shapes, strict=True))
        known |= {
            t.name: tuple(1 if e.constant == 1 else 2 for e in t.shape) for t in checked.returns
        }
        session, _ = session.with_shapes(back, [known[like[p.name]] for p in back.params])
    return session, session.definition(kernel.name)


def over_batch(
    kernel: PlainKernel,
    backward: str,
    in_dims: Mapping[str, int],
    out_dims: Mapping[str, int | None],
    out_dim: int,
    randomness: Randomness,
) -> tuple[Session, str]:
    """Return a session of a kernel over a batch, and the name of its way back there.

    Each element has outputs of its own and an adjoint for each, also where an output is the same
    for all: so the way back of the batch is that of its elements, added up for what they share.

    Raises
    ------
    TCTypeError
        If a float output shall have no batch.
    """
    from tcdsl.derived import batching  # on use: most kernels have no batch
    from tcdsl.grammar.batch.definition import Backward

    way = WayBack(kernel.session, kernel.definition, kernel.session.definition(backward))
    for name in way.outputs:
        if out_dims.get(name, out_dim) is None:
            raise TCTypeError(
                f"{kernel.name}: '{name}' cannot be without the batch, since the way back "
                f"'{backward}' was written by hand and takes an adjoint for each element\n"
                f"  let it have the batch at a dimension, as in out_dims={{'{name}': 0}}"
            )
    placed = {**dict.fromkeys(way.outputs, out_dim), **out_dims}
    back = Backward(backward, way.like)
    return batching.over_batch(kernel, in_dims, placed, out_dim, randomness, back)


class WayBack:
    """The derivative of a kernel by a definition of the same text.

    The definition takes the parameters of the kernel, then outputs that it reads, by their names,
    then an adjoint for each float output. It gives a gradient for each float parameter in order;
    or for some, which are told by their names: ``d_W``, ``dW``, ``W_grad`` or ``grad_W``.

    Parameters
    ----------
    session : Session
        Of both definitions.
    forward, definition : nodes.Def
        The kernel's, and the way back.

    Raises
    ------
    TCTypeError, ShapeError
        If they do not fit together.

    Attributes
    ----------
    what : str
        How messages begin.
    floats, kept, wrt : tuple of int
        The returns that have an adjoint, those that it reads, the parameters of its gradients.
    reads : tuple of bool
        Per parameter of the kernel, whether it reads the values, and not the shape only.
    outputs : tuple of str
        The returns of the kernel that have an adjoint.
    like : mapping of str to str
        For each tensor that the definition takes or gives, what of the kernel's has its shape.
    """

    def __init__(self, session: Session, forward: nodes.Def, definition: nodes.Def) -> None:
        rank = _rank(session, forward)
        f = _stand_in(session, forward, rank)
        back = _stand_in(session, definition, rank)
        self.what = f"{back.name} as the way back of {f.name}"
        self.floats = tuple(i for i, t in enumerate(f.returns) if t.dtype.is_float)
        self.kept = self._outputs_read(f, back)
        given = (
            *f.params,
            *(f.returns[i] for i in self.kept),
            *(f.returns[i] for i in self.floats),
        )
        sizes = self._sizes(back.params, given)
        self.wrt = self._parameters_of(f, back.returns)
        self.outputs = tuple(f.returns[i].name for i in self.floats)
        self.like = {p.name: t.name for p, t in zip(back.params, given, strict=True)}
        self.like |= {r.name: f.params[i].name for r, i in zip(back.returns, self.wrt, strict=True)}
        for gradient, i in zip(back.returns, self.wrt, strict=True):
            shape = tuple(substitute_symbols(s, sizes) for s in gradient.shape)
            self._compare(gradient, shape, f.params[i])
        read = values_read(back)  # also by what it calls
        self.reads = tuple(not t.shape or t.name in read for t in back.params[: len(f.params)])

    def _outputs_read(self, f: CheckedDef, back: CheckedDef) -> tuple[int, ...]:
        """Return the outputs that stand between the parameters and the adjoints."""
        names = [t.name for t in f.returns]
        count = len(back.params) - len(f.params) - len(self.floats)
        read = [t.name for t in back.params[len(f.params) : len(f.params) + max(0, count)]]
        if not self.floats or count < 0 or not {*read} <= {*names}:
            floats = ", ".join(f"d_{names[i]}" for i in self.floats) or "none: it has no float one"
            raise TCTypeError(
                f"{self.what}: it takes ({', '.join(t.name for t in back.params)}); expected "
                f"{', '.join(t.name for t in f.params)}, then outputs that it reads, by their "
                f"names, then an adjoint for each float output: {floats}"
            )
        return tuple(map(names.index, read))

    def _sizes(self, params: Sequence[Tensor], given: Sequence[Tensor]) -> dict[str, Size]:
        """Return the sizes of the way back in those of the kernel."""
        sizes: dict[str, Size] = {}
        for param, meant in zip(params, given, strict=True):
            for dim, extent in zip(param.shape, meant.shape, strict=False):
                if dim.constant is None:
                    sizes.setdefault(str(dim), extent)
            self._compare(param, [substitute_symbols(s, sizes) for s in param.shape], meant)
        return sizes

    def _compare(self, one: Tensor, shape: Sequence[Size], other: Tensor) -> None:
        """Refuse a tensor that cannot have the type and the shape of another."""
        if (one.dtype, len(one.shape)) != (other.dtype, len(other.shape)):
            raise TCTypeError(
                f"{self.what}: expected {one.name} like {_shown(other)}, got {_shown(one)}"
            )
        for a, b in zip(shape, other.shape, strict=True):
            if (a - b).constant:  # where their difference is no number calls tell
                raise ShapeError(
                    f"{self.what}: {one.name} has the extent {a} where {other.name} has {b}\n"
                    f"  it is {_shown(one)}, expected {_shown(other)}"
                )

    def _parameters_of(self, f: CheckedDef, returns: Sequence[Tensor]) -> tuple[int, ...]:
        """Return of which parameter each result is the gradient."""
        floats = [i for i, t in enumerate(f.params) if t.dtype.is_float]
        spelt = {s.format(f.params[i].name): i for i in floats for s in _SPELLINGS}
        found = [spelt.get(t.name) for t in returns]
        if None not in found and len({*found}) == len(found):
            return tuple(i for i in found if i is not None)
        if len(returns) == len(floats) and all(
            i in (None, place) for i, place in zip(found, floats, strict=True)
        ):
            return tuple(floats)
        gradients = ", ".join(f"d_{f.params[i].name}" for i in floats)
        raise TCTypeError(
            f"{self.what}: it gives ({', '.join(t.name for t in returns)}); expected the gradients "
            f"by the float parameters, in their order or by name: {gradients}"
        )


def check_gradients(
    of: str,
    names: Sequence[str],
    gradients: Sequence[Any],
    wanted: Sequence[tuple[str, tuple[int, ...]]],
) -> None:
    """Refuse gradients that have not the shapes of their parameters: autograd would sum some up.

    Parameters
    ----------
    of : str
        The definition that gave them.
    names, gradients : sequence
    wanted : sequence of (str, tuple of int)
        For each the parameter and its shape.

    Raises
    ------
    ShapeError
    """
    for name, gradient, (param, shape) in zip(names, gradients, wanted, strict=True):
        if tuple(gradient.shape) != shape:
            raise ShapeError(
                f"{of}: expected {name} of the shape of {param}, {shape}, "
                f"got {tuple(gradient.shape)}"
            )


def values_read(checked: CheckedDef) -> set[str]:
    """Return the tensors whose values a definition reads; sizes may be values as well."""
    found = {*checked.scalars}
    for s in statements(checked.body):
        found.update(tensors_read(*s.exprs))
    return found


def _rank(session: Session, definition: nodes.Def) -> int:
    """Return how many dimensions `...` may stand for."""
    return session.check_now(definition, _generics(definition))


def _stand_in(session: Session, definition: nodes.Def, rank: int) -> CheckedDef:
    """Return a definition checked with stand-ins for what only calls say."""
    is_open = any(map(has_any_rank, definition.params))
    shapes = shapes_of_rank(definition, rank) if is_open else None
    return session.variant(definition, _generics(definition), None, shapes).checked


def _generics(definition: nodes.Def) -> dict[str, Any]:
    types = type_variables(definition)
    return {
        g.name: FLOAT32 if g.name in types else 1 for g in definition.generics if g.default is None
    }


def _shown(tensor: Tensor) -> str:
    dims = ", ".join(map(str, tensor.shape))
    return f"{tensor.dtype}({dims}) {tensor.name}" if dims else f"{tensor.dtype} {tensor.name}"
