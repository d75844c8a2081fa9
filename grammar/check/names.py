"""What the names of a statement mean: resolved by role, or refused in the words of the text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, NoReturn

from tcdsl.grammar.check.scope import (
    Frame,
    Index,
    SilentError,
    StatementScope,
    Tensor,
    function_names,
    near,
)
from tcdsl.grammar.check.wording import declared_here
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text import nodes as n
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.defaults import FLOAT_NAMES
from tcdsl.grammar.text.errors import Note, count
from tcdsl.grammar.text.fault import FaultError
from tcdsl.grammar.text.foreign import FOREIGN_FUNCTIONS
from tcdsl.grammar.text.source import Span
from tcdsl.grammar.types.builtins import (
    BUILTINS,
    PAD,
    RAND,
    Function,
    is_builtin,
)
from tcdsl.grammar.types.dtypes import DType

MAX_INDICES = 64  # of one statement

Meaning = n.Let | Index | Size | int | float | Tensor


@dataclass(slots=True)
class Names:
    """The names that the expressions of one statement can use.

    rename gives the name of a new index in the checked statement, new_kind its kind.
    """

    frame: Frame
    scope: StatementScope
    defs: Mapping[str, n.Def]
    rename: Callable[[str], str]
    new_kind: Literal["output", "reduction"] = "reduction"

    def meaning(self, node: n.Name, *, new_indices: bool) -> Meaning:
        """Return what a name alone stands for; one that nothing else has is a new index."""
        name, frame, scope = node.name, self.frame, self.scope
        if name in scope.lets:
            return scope.lets[name]
        if name in scope.indices:
            return scope.indices[name]
        if name in frame.sizes:
            frame.used_generics.add(name)
            return frame.sizes[name]
        if name in frame.ints:
            frame.used_generics.add(name)
            return frame.ints[name]
        if name in frame.tensors:
            return self._bare_tensor(frame.tensors[name], node)
        if name in frame.types:
            raise FaultError("TC101", f"'{name}' is a type, not a value", node.span)
        if name in FLOAT_NAMES:
            return FLOAT_NAMES[name]
        if name in self.defs:
            message = f"'{name}' is a definition, not an index"
            raise FaultError("TC101", message, node.span, "", Note("choose another name"))
        if not new_indices:
            raise FaultError(
                "TC114",
                f"'{name}' is not known here",
                node.span,
                "expected a size, an integer or an integral scalar parameter",
                near(name, frame.names()),
                Note(
                    f"a size that no parameter has is a generic: def "
                    f"{frame.definition.name}<{name}>(...)"
                ),
            )
        return self._new_index(node)

    def applied(self, node: n.Apply) -> DType | Tensor | Function | Literal["pad", "rand"]:
        """Return what a name with arguments is: a cast, a tensor, a builtin, `pad` or `rand`."""
        name, frame, span = node.name, self.frame, node.name_span or node.span
        if name in frame.types:
            frame.used_generics.add(name)
            return frame.types[name]
        if name in frame.tensors:
            return frame.tensors[name]
        role = frame.role(name)
        if name in self.scope.lets:
            role = "a name of 'where'"
        elif name in self.scope.indices:
            role = "an index"
        if role is not None:
            problem = f"'{name}' is {role}, not a tensor"
            raise FaultError("TC107", problem, span, "it takes no subscripts", hides(name, role))
        if name in self.defs:
            raise FaultError(
                "TC122",
                f"the call of '{name}' is part of an expression",
                node.span,
                "",
                Note(f"a call is a whole right side: give its result a name, x = {name}(...)"),
                hides(name, "definition"),
            )
        self._refuse_later(name, span)
        if name == PAD:
            return "pad"
        if name == RAND:
            return "rand"
        if name in BUILTINS:
            return BUILTINS[name]
        raise FaultError(
            "TC102",
            f"nothing is called '{name}'",
            span,
            "neither a tensor nor a function",
            Note(FOREIGN_FUNCTIONS[name])
            if name in FOREIGN_FUNCTIONS
            else near(name, (*frame.tensors, *self.defs, *function_names()), of_letters=True),
        )

    def extent(self, node: n.Extent) -> Size:
        """Return the extent that `A.0` stands for."""
        tensor = self.frame.tensors.get(node.name)
        if tensor is None:
            note = near(node.name, self.frame.tensors)
            raise FaultError("TC102", f"no tensor is called '{node.name}'", node.span, "", note)
        self.want_readable(tensor, node.name, node.span)
        bounds = tensor.bounds()
        if not -len(bounds) <= node.dim < len(bounds):
            raise FaultError(
                "TC117",
                f"'{node.name}' has {count(len(bounds), 'dimension')}, "
                f"so there is no '.{node.dim}'",
                node.span,
                "",
                declared_here(tensor),
            )
        tensor.is_read = True
        low, high = bounds[node.dim]
        return high - low

    def want_readable(self, tensor: Tensor, name: str, span: Span | None) -> None:
        """Refuse a tensor that holds nothing yet."""
        if tensor.is_poisoned:
            raise SilentError
        if not tensor.is_written:
            self._refuse_unwritten(name, span)

    def _bare_tensor(self, tensor: Tensor, node: n.Name) -> Tensor:
        if tensor.is_poisoned:
            raise SilentError
        if tensor.rank not in (0, None):
            raise FaultError(
                "TC108",
                f"'{node.name}' is a tensor of {count(tensor.rank or 0, 'dimension')}, "
                "but no index is given",
                node.span,
                "",
                Note(f"write {node.name}({', '.join('ijklmnpq'[: tensor.rank])})"),
                declared_here(tensor),
            )
        return tensor

    def _new_index(self, node: n.Name) -> Index:
        self._refuse_later(node.name, node.span)
        if len(self.scope.indices) >= MAX_INDICES:
            raise FaultError("TC130", f"more than {MAX_INDICES} indices", node.span)
        index = Index(self.rename(node.name), self.new_kind, node.span)
        self.scope.indices[node.name] = index
        return index

    def _refuse_later(self, name: str, span: Span | None) -> None:
        """Refuse the name of a tensor that only a later statement writes."""
        if name not in self.frame.later:
            return
        if self.new_kind == "output":
            raise FaultError(
                "TC101",
                f"'{name}' is a temporary of a later statement, so it cannot be an index",
                span,
                "",
                Note("choose another name"),
            )
        self._refuse_unwritten(name, span)

    def _refuse_unwritten(self, name: str, span: Span | None) -> NoReturn:
        raise FaultError(
            "TC112",
            f"'{name}' is read before it is written",
            span,
            "",
            near(name, (k for k, v in self.frame.tensors.items() if v.is_written)),
            Note("statements run in the order written"),
            hides(name, "tensor"),
        )


def hides(name: str, role: str) -> Note | None:
    """Return the note that a name hides a builtin function, if there is one."""
    if not is_builtin(name):
        return None
    what = role.removeprefix("a ").removeprefix("an ")
    return Note(f"the {what} hides the builtin function of that name: choose another name")
