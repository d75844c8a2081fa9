"""Definitions of any rank, bound to the ranks that calls bring."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

from tcdsl.calls.bindings.identity import printed
from tcdsl.calls.process.bounded import thinned
from tcdsl.calls.process.locks import Lock
from tcdsl.codegen.toolchain import records
from tcdsl.codegen.toolchain.spare import later
from tcdsl.grammar.text import nodes
from tcdsl.grammar.text.cached import cached_property
from tcdsl.grammar.text.errors import ShapeError, TCTypeError
from tcdsl.grammar.text.format import format_def
from tcdsl.grammar.text.heads import has_any_rank, shapes_of_rank, size_names
from tcdsl.grammar.text.stack import on_own_stack

Shapes = Sequence[tuple[int, ...]]
_Form = tuple[str, tuple[tuple[int, ...], ...]]  # a definition's name, and shapes bound alike

_MAX_RANKED = 4096  # definitions bound to ranks and repeated dimensions


class Ranks:
    """The definitions of a text that have any rank, and what they are at the ranks of calls."""

    def __init__(self, program: nodes.Program) -> None:
        self._program = program
        self._open = {d.name for d in program.defs if any(map(has_any_rank, d.params))}
        self._bound: dict[_Form, tuple[nodes.Def, str]] = {}
        self._texts: dict[_Form, str] = {}
        self._lock = Lock()

    def has_any(self, definition: nodes.Def) -> bool:
        """Whether a definition has any rank."""
        return definition.name in self._open

    def bound(self, definition: nodes.Def, shapes: Shapes | None) -> nodes.Def:
        """Return a definition of any rank bound to the ranks of its arguments.

        Shapes of the same ranks in which the same dimensions are repeated share one.

        Raises
        ------
        TCError
            If it has no meaning at these ranks, or nothing says which they are.
        """
        return self._made(_form(definition, shapes))[0]

    def text(self, definition: nodes.Def, shapes: Shapes | None) -> str:
        """Return the text of what `bound` returns, which no process makes again to have its text.

        Names of its sizes and indices are none of all definitions' beside it, so a record of it is
        one of the whole program.

        Raises
        ------
        TCError
            As there.
        """
        form = _form(definition, shapes)
        with self._lock:
            found = self._texts.get(form)
            if found is None:
                parts = self._printed, *map(repr, form)
                found = records.read("ranked", parts, _text)
                if found is None:
                    _, found = self._made(form)
                    later(partial(records.write, "ranked", parts, found, definition.name))
                self._texts = thinned(self._texts, _MAX_RANKED)
                self._texts[form] = found
            return found

    def _made(self, form: _Form) -> tuple[nodes.Def, str]:
        with self._lock:
            found = self._bound.get(form)
            if found is None:
                self._bound = thinned(self._bound, _MAX_RANKED)
                found = self._bound[form] = _at_ranks(self._program, *form)
            return found

    @cached_property
    def _printed(self) -> str:
        return "\n".join(map(printed, self._program.defs))

    def named(self, definition: nodes.Def, sizes: Collection[str]) -> int:
        """Return for how many dimensions `...` stands where a definition has these sizes.

        Raises
        ------
        ShapeError
            If it has them at no rank.
        """
        found = None
        for rank in range(len(sizes) + 1):
            try:
                bound = self.bound(definition, shapes_of_rank(definition, rank))
            except TCTypeError:  # the text has a meaning at other ranks only
                continue
            if size_names(bound) <= {*sizes}:
                found = rank
        if found is None:
            bound = self.bound(definition, shapes_of_rank(definition, 1))
            raise ShapeError(
                f"{definition.name} has the sizes {', '.join(sizes) or 'none'} at no rank; where "
                f"'...' is one dimension, it has {', '.join(sorted(size_names(bound)))}"
            )
        return found

    def shapes_named(self, definition: nodes.Def, sizes: Collection[str]) -> Shapes | None:
        """Return shapes of the rank at which a definition has these sizes; None if it has one rank.

        Raises
        ------
        ShapeError
            If it has them at no rank.
        """
        if not self.has_any(definition):
            return None
        return shapes_of_rank(definition, self.named(definition, sizes))


def _form(definition: nodes.Def, shapes: Shapes | None) -> _Form:
    """Return what decides of shapes to which definition they bind one; an extent is 1 or 2."""
    if shapes is None:
        name = definition.name
        raise TCTypeError(
            f"{name} has parameters of any rank, and only its calls say which\n"
            f"  choose one: {name}.with_rank(2)"
        )
    ones = tuple(tuple(1 if extent == 1 else 2 for extent in shape) for shape in shapes)
    return definition.name, ones


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("it is no text")
    return value


@on_own_stack
def _at_ranks(program: nodes.Program, name: str, shapes: Shapes) -> tuple[nodes.Def, str]:
    """Return a definition bound to ranks, and its text."""
    from tcdsl.grammar.ranks.ellipsis import bind_ranks  # on use: few texts have `...`

    bound = bind_ranks(program, name, shapes)
    return bound, format_def(bound)
