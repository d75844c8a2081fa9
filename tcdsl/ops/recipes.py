"""The way back of an op's calls: what is kept of them, and the ops that give gradients.

Gradients are ops of texts that the compiler derives, or that stand beside the op's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from tcdsl.calls.bindings.parsed import parsed
from tcdsl.calls.bindings.session import Session
from tcdsl.calls.bindings.variant import Variant
from tcdsl.calls.process.bounded import thinned
from tcdsl.calls.process.locks import Lock
from tcdsl.codegen.gradient.derivatives import FORWARD, GRADIENT
from tcdsl.core import FORM, GRAD, INPUT, LARGE, NEEDS, OUTPUT, Op, Recipe, Tensor, is_grad_enabled
from tcdsl.derived.by_hand import WayBack, check_gradients
from tcdsl.grammar.text import nodes
from tcdsl.grammar.text.parser import parse
from tcdsl.ops.meaning import Meaning, anything
from tcdsl.ops.typed import TypedText

if TYPE_CHECKING:
    from tcdsl.calls.dispatch import Dispatch
    from tcdsl.calls.to_come import Begun
    from tcdsl.codegen.gradient.derivatives import Gradient

_MAX_TRAINED = 1024


class Texted(Protocol):
    """An op of a text, as this room makes them (`forms.Forms`, which says what each is)."""

    name: str
    session: Session
    definition: nodes.Def
    meaning: Meaning
    writes: bool
    params: tuple[str, ...]
    returns: tuple[str, ...]
    text: TypedText
    op: Op
    recipes: Recipes
    keeps_extra: bool
    begun: Begun
    dispatch: Dispatch

    @property
    def plain_op(self) -> Op:
        """The op whose recorded calls keep operands and results only."""

    def result(self, values: tuple[Tensor, ...]) -> Any:
        """Return several results as callers get them."""


Make = Callable[[str, Session, nodes.Def, Meaning], Texted]
Way = tuple[Texted, tuple[int, ...]]


class Recipes:
    """The recipes of one op's recorded calls, by variant and by which gradients are needed.

    Parameters
    ----------
    forms : Texted
        The op.
    make : callable
        Makes the ops of its gradients.
    """

    def __init__(self, forms: Texted, make: Make) -> None:
        self._forms, self._make = forms, make
        self._params, self._returns = forms.params, forms.returns
        self._recipes: dict[tuple[int, int], tuple[Variant, Recipe]] = {}
        self._taken: dict[tuple[int, int], frozenset[int]] = {}  # by derived recipes
        self._spread: dict[tuple[int, int], int] = {}  # parameters that an adjoint is spread over
        self._trained: dict[object, Op] = {}
        self._ways: dict[tuple[int, int], Way] = {}
        self.fixed_way: Way | None = None
        self._lock = Lock()
        self.fixed: Recipe | None = None  # of every recorded call, where one is given

    def of(self, variant: Variant, needs: int) -> Recipe:
        """Return what a recorded call keeps by which these gradients are needed, bit by bit."""
        if self.fixed is not None:
            return self.fixed
        known = self._recipes.get((id(variant), needs))
        if known is None:
            made = self._made_recipe(variant, needs)
            with self._lock:
                known = self._recipes.setdefault((id(variant), needs), (variant, made))
        return known[1]

    def spreads(self, variant: Variant, needs: int, values: Sequence[Any]) -> bool:
        """Whether the way back of a call hands on a view of its adjoint."""
        at = self._spread.get((id(variant), needs))
        return at is not None and bool(values[at].numel() >= LARGE)

    def way(self, variant: Variant, needs: int) -> Way | None:
        """Return the op that gives these gradients and what it takes.

        None where a function of Python's gives them: which ops that calls, it alone knows.
        """
        self.of(variant, needs)
        return self.fixed_way or self._ways.get((id(variant), needs))

    def _made_recipe(self, variant: Variant, needs: int) -> Recipe:
        vjp = self._forms.meaning.vjp
        if self._forms.meaning.backward:
            return self._by_somebody(self._forms.session.definition(self._forms.meaning.backward))
        if callable(vjp):
            grads = [GRAD + r for r in range(len(self._returns))]
            taken = (NEEDS, *grads, *map(self._code, self._forms.meaning.saves))
            to = tuple(range(len(self._params)))
            return Recipe(vjp, taken, to, standing=self._forms.text.standing)
        if vjp == "derived":
            return self._derived(variant, needs)
        assert isinstance(vjp, str)
        return self._by_hand(variant, needs, self._forms.session.definition(vjp))

    def _code(self, name: str) -> int:
        """Return what a name of `saves` or of a gradient's parameter stands for."""
        if name.startswith("like:"):
            return FORM + self._params.index(name[5:])
        if name in self._params:
            return INPUT + self._params.index(name)
        if name in self._returns:
            return OUTPUT + self._returns.index(name)
        if name.startswith("d_") and name[2:] in self._returns:
            return GRAD + self._returns.index(name[2:])
        raise TypeError(f"{self._forms.name}: '{name}' is no parameter or return of its text")

    def _by_hand(self, variant: Variant, needs: int, definition: nodes.Def) -> Recipe:
        """Return the recipe of a gradient that the text has."""
        taken = tuple(self._code(p.name) for p in definition.params)
        to = tuple(self._params.index(r.name.removeprefix("d_")) for r in definition.returns)
        meaning = self._of_gradients(self._shared_generics(definition))
        made = self._make(definition.name, self._forms.session, definition, meaning)
        taken = made.text.unread_as_forms(taken)
        self._ways[id(variant), needs] = made, taken
        return Recipe(made.op, taken, to, standing=self._forms.text.standing)

    def _by_somebody(self, definition: nodes.Def) -> Recipe:
        """Return the recipe of a way back that a user wrote, whose gradients are checked."""
        way = WayBack(self._forms.session, self._forms.definition, definition)
        meaning = self._of_gradients(generics=self._shared_generics(definition))
        back = self._make(definition.name, self._forms.session, definition, meaning)
        taken = (
            *(INPUT + i for i in range(len(self._params))),
            *(OUTPUT + r for r in way.kept),
            *(GRAD + r for r in way.floats),
        )
        wanted = tuple((i, self._params[i]) for i in way.wrt)
        vjp = partial(_checked, back.op, back.name, back.returns, wanted)
        return Recipe(vjp, taken, way.wrt)

    def _of_gradients(self, generics: Mapping[str, int] | None = None) -> Meaning:
        """Return what texts of gradients mean: they say the type of each parameter."""
        return Meaning(
            types=anything, generics=generics or {}, is_tunable=self._forms.meaning.is_tunable
        )

    def _session(self, program: nodes.Program) -> Session:
        """Return the session of a text that is derived from this one, tuned where this one is."""
        settings = self._forms.session.settings
        return Session(program, replace(settings, of=settings.root))

    def _shared_generics(self, definition: nodes.Def) -> dict[str, int]:
        names = {g.name for g in definition.generics}
        return {k: v for k, v in self._forms.meaning.generics.items() if k in names}

    def _derived(self, variant: Variant, needs: int) -> Recipe:
        wanted = _wanted(variant, needs)
        self._taken[id(variant), needs] = frozenset()
        if not wanted:
            return Recipe(None, (), ())
        from tcdsl.derived.texts import gradient_of  # on use: many programs need no gradient
        from tcdsl.ops.passing import passed_on, spread_over

        made = gradient_of(variant, None, wanted)
        passed, missing = passed_on(made), spread_over(made)
        wanted = tuple(name for name in wanted if name not in passed)
        by_number = tuple(map(self._params.index, passed))
        narrow = partial(self._narrower, variant, needs)
        if not wanted:
            return Recipe(None, (), (), by_number, narrow)
        if passed:
            made = gradient_of(variant, None, wanted)
        if made.extra and self._forms.keeps_extra and not self._forms.writes:
            self._forms.op.recorded = self._record  # from the next call on
        codes, program = self._gradient_text(made)
        definition = program.defs[-1]
        back = self._make(definition.name, self._session(program), definition, self._of_gradients())
        taken = back.text.unread_as_forms(tuple(codes[p.name] for p in definition.params))
        self._taken[id(variant), needs] = frozenset(taken)
        self._ways[id(variant), needs] = back, taken
        to = tuple(self._params.index(name) for name in made.wrt)
        spread = None
        if missing is not None and [t - FORM for t in taken if t < GRAD] == [*to]:
            self._spread[id(variant), needs], spread = to[0], partial(_spread, missing)
        standing = self._forms.text.standing
        return Recipe(back.op, taken, to, by_number, narrow, standing=standing, large=spread)

    def _record(self, *values: Any) -> Any:
        """Make a recorded call that keeps more than its outputs: sums that its gradient reads."""
        needs = sum(
            1 << i for i, v in enumerate(values) if isinstance(v, Tensor) and v.requires_grad
        )
        forms = tuple((v.dtype, v.shape) if isinstance(v, Tensor) else type(v) for v in values)
        op = self._trained.get((forms, needs))
        if op is None:
            if self._forms.meaning.shape is not None:
                self._forms.meaning.shape(values)
            dtype = self._forms.text.computed(values)
            cast = self._forms.text.all_cast(values, dtype)
            if cast is not None:
                return self._forms.op(*cast)
            variant = self._forms.text.variant(values, dtype)
            op = self._training(variant, needs)
            with self._lock:
                self._trained = thinned(self._trained, _MAX_TRAINED)
                op = self._trained.setdefault((forms, needs), op)
        result = op(*values)
        n = len(self._returns)
        if op is self._forms.plain_op:
            return result
        return result[0] if n == 1 else self._forms.result(tuple(result[:n]))

    def _training(self, variant: Variant, needs: int) -> Op:
        """Return the op of the training forward: what the gradient keeps are further outputs."""
        from tcdsl.codegen.gradient.whole import whole  # on use: as in `_derived`
        from tcdsl.derived.texts import gradient_of

        wanted = _wanted(variant, needs)
        made = gradient_of(variant, None, wanted) if wanted else None
        if made is None or not made.extra:
            plain: Op = self._forms.plain_op
            return plain
        program = parsed(made.forward, FORWARD)
        meaning = self._of_gradients()
        forward = self._make(self._forms.name, self._session(program), program.defs[-1], meaning)
        codes = self._codes(made)
        kept = {n: OUTPUT + forward.returns.index(n) for n in made.kept}
        ways = []
        for text, known in ((parsed(made.text, GRADIENT), codes | kept), (whole(made), codes)):
            back = self._make(text.defs[-1].name, self._session(text), text.defs[-1], meaning)
            ways.append((back, back.text.unread_as_forms(tuple(known[p] for p in back.params))))
        every = dict.fromkeys(code for _, taken in ways for code in taken)
        taken = tuple(c for c in every if not (FORM <= c < OUTPUT and c - FORM in every))
        places = {c: i for i, c in enumerate(taken)}
        at = [
            (back.op, tuple(places[c] if c in places else places[c - FORM] for c in codes))
            for back, codes in ways
        ]
        to = tuple(self._params.index(name) for name in made.wrt)
        forward.recipes.fixed = Recipe(partial(_one_of, *at), taken, to)
        forward.recipes.fixed_way = ways[0]
        return forward.op

    def _narrower(self, variant: Variant, wide: int, needs: int) -> Recipe:
        """Return the recipe of fewer gradients, or the wider one where that keeps too little."""
        fewer, there = self.of(variant, needs), self._taken[id(variant), wide]
        for code in self._taken[id(variant), needs]:
            whole_too = code - FORM if FORM <= code < OUTPUT else code
            if code < GRAD and code not in there and whole_too not in there:
                return self.of(variant, wide)
        return fewer

    def _codes(self, made: Gradient) -> dict[str, int]:
        """Return what a gradient is given: parameters, gradients of returns."""
        codes = {p: INPUT + i for i, p in enumerate(self._params)}
        codes |= {g.name: GRAD + self._returns.index(g.output) for g in made.given if g.output}
        return codes

    def _gradient_text(self, made: Gradient) -> tuple[dict[str, int], nodes.Program]:
        """Return what each parameter of a derived gradient stands for, and its program."""
        from tcdsl.codegen.gradient.whole import whole  # on use: as above

        codes = self._codes(made)
        if made.extra:  # what is kept is no output: it is computed again
            return codes, whole(made)
        if made.kept:
            forward = parse(made.forward, FORWARD).defs[0]
            names = [r.name for r in forward.returns]
            codes |= {name: OUTPUT + names.index(name) for name in made.kept}
        return codes, parsed(made.text, GRADIENT)


def _wanted(variant: Variant, needs: int) -> tuple[str, ...]:
    """Return the parameters that have gradients, of those that need one, bit by bit."""
    params = variant.signature.params
    return tuple(p.name for i, p in enumerate(params) if needs >> i & 1 and p.dtype.is_float)


def _checked(
    op: Op,
    of: str,
    names: Sequence[str],
    wanted: Sequence[tuple[int, str]],
    *values: Any,
) -> tuple[Any, ...]:
    """Return the gradients of a way back that a user wrote, of the shapes of the parameters."""
    result = op(*values)
    gradients = result if isinstance(result, tuple) else (result,)
    shapes = [(name, tuple(getattr(values[i], "shape", ()))) for i, name in wanted]
    check_gradients(of, names, gradients, shapes)
    return gradients


def _spread(missing: Sequence[int], like: Tensor, adjoint: Tensor) -> Tensor:
    """Return an adjoint along more dimensions, a view."""
    for d in missing:
        adjoint = adjoint.unsqueeze(d)
    repeated: Tensor = adjoint.expand(like.shape)
    return repeated


_Call = tuple[Op, tuple[int, ...]]


def _one_of(cheap: _Call, again: _Call, *values: Any) -> Any:
    """Return gradients by what was kept; where they are recorded, as functions of the inputs."""
    op, places = again if is_grad_enabled() else cheap
    return op(*(values[i] for i in places))
