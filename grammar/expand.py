"""Statements in order, and calls: a callee is checked in a frame of its own, inside the caller."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tcdsl.grammar import nodes as n
from tcdsl.grammar import typed as t
from tcdsl.grammar.declare import annotate, declare_generics, dtype_of, size_of, type_variables
from tcdsl.grammar.dtypes import INT64, DType
from tcdsl.grammar.errors import Note
from tcdsl.grammar.forms import Forms
from tcdsl.grammar.leftovers import report_leftovers, targets_of
from tcdsl.grammar.scope import FatalError, FaultError, Frame, SilentError, Tensor, computing, near
from tcdsl.grammar.session import Session
from tcdsl.grammar.sizes import Size
from tcdsl.grammar.source import Span
from tcdsl.grammar.statement import check_comprehension
from tcdsl.grammar.target import declare, target_of
from tcdsl.grammar.values import convert
from tcdsl.grammar.wording import count, declared_here, given, not_yet_dots

MAX_CALLS = 50  # calls within calls
MAX_STATEMENTS = 5_000  # of a definition whose calls are inlined


def check_body(session: Session, frame: Frame, body: Iterable[n.Stmt]) -> tuple[t.Stmt, ...]:
    """Return the checked statements, calls inlined; what is wrong goes to the session."""
    done: list[t.Stmt] = []
    body = tuple(body)
    frame.later = set(targets_of(body)) - set(frame.tensors)

    def is_call(name: str) -> bool:
        return name in session.defs and frame.role(name) is None

    for node in body:
        session.statements += 1
        frame.later -= set(targets_of((node,)))
        if session.statements > MAX_STATEMENTS:
            raise FatalError(
                "TC130",
                "calls make the definition too large",
                node.span,
                f"more than {MAX_STATEMENTS} statements after inlining",
            )
        try:
            match node:
                case n.Comprehension(value=n.Apply(name) as apply) if is_call(name):
                    done += _single(session, frame, node, apply)
                case n.Comprehension():
                    done.append(check_comprehension(session, frame, node))
                case n.MultiCall(targets, callee, args):
                    call = _Call(session, frame, node.span, callee)
                    for tensor in call.run(targets, args):
                        tensor.is_read = True  # a call may give more than is wanted
                    done += call.statements
                case n.ForLoop():
                    raise FaultError("TC194", "'for' is not available yet", node.span)
        except FatalError:
            raise
        except FaultError as fault:
            session.report(fault.diagnostic)
        except SilentError:
            continue
    return tuple(done)


def _single(session: Session, frame: Frame, node: n.Comprehension, apply: n.Apply) -> list[t.Stmt]:
    """Check `y = f(x)`."""
    problem = None
    if node.op != "=":
        problem = f"the result of a call is assigned by '=', not by '{node.op}'"
    elif node.target.subs is not None:
        problem = "the target of a call is a bare name"
    elif node.clauses:
        problem = "a call has no 'where'"
    if problem is not None:
        cure = Note(f"'{apply.name}' is a definition: write x = {apply.name}(...), then use x(i)")
        raise FaultError("TC122", problem, node.span, "", cure)
    call = _Call(session, frame, node.span, apply.name)
    call.run((node.target,), apply.args)
    return call.statements


class _Call:
    """A call being inlined."""

    def __init__(self, session: Session, frame: Frame, span: Span | None, callee: str) -> None:
        self.session = session
        self.frame = frame
        self.span = span
        self.callee = callee
        self.statements: list[t.Stmt] = []

    def _find(self) -> None:
        """Look the callee up; a definition may not call itself."""
        defs = self.session.defs
        if self.callee not in defs:
            problem = f"no definition is called '{self.callee}'"
            raise FaultError("TC120", problem, self.span, "", near(self.callee, defs))
        names = [name for name, _ in self.session.calls]
        if self.callee in names:
            cycle = [*names[names.index(self.callee) :], self.callee]
            raise FaultError(
                "TC123",
                f"'{self.callee}' calls itself",
                self.span,
                "",
                Note("the cycle: " + " -> ".join(cycle)),
            )
        if len(names) > MAX_CALLS:
            raise FatalError("TC130", f"calls nested deeper than {MAX_CALLS}", self.span)
        self.definition = defs[self.callee]
        self.inner = Frame(self.definition, is_entry=False)

    def run(self, targets: Sequence[n.Target], args: Sequence[n.Arg]) -> list[Tensor]:
        """Inline the call; return the tensors of its targets."""
        outer = [target_of(self.session, self.frame, target) for target in targets]
        try:
            self._find()
            self._run(targets, outer, args)
        except (FaultError, SilentError):
            for tensor in outer:
                tensor.is_poisoned = True
            raise
        return outer

    def _run(
        self, targets: Sequence[n.Target], outer: Sequence[Tensor], args: Sequence[n.Arg]
    ) -> None:
        session, inner, definition = self.session, self.inner, self.definition
        positional, values = self._arguments(args)
        if len(outer) != len(definition.returns):
            raise FaultError(
                "TC124",
                f"'{self.callee}' gives {count(len(definition.returns), 'result')}, "
                f"but {given(len(outer), count(len(outer), 'name'))}",
                self.span,
                "",
                Note("defined here", definition.name_span),
            )
        self._twice(targets)
        self._infer_types(positional, values)
        declare_generics(session, inner, values)
        passed = [
            self._bind(param, arg) for param, arg in zip(definition.params, positional, strict=True)
        ]
        results = [
            self._result(param, tensor, passed)
            for param, tensor in zip(definition.returns, outer, strict=True)
        ]
        session.calls.append((self.callee, self.span))
        before = session.error_count
        try:
            self.statements += check_body(session, inner, definition.body)
            report_leftovers(session, inner)
        finally:
            session.calls.pop()
        if session.error_count > before:
            raise SilentError
        for target, tensor, result in zip(targets, outer, results, strict=True):
            self._hand_back(target, tensor, result)

    # ---- arguments

    def _arguments(self, args: Sequence[n.Arg]) -> tuple[list[n.Expr], dict[str, int | DType]]:
        positional: list[n.Expr] = []
        values: dict[str, int | DType] = {}
        types = type_variables(self.definition)
        for arg in args:
            match arg:
                case n.Dots():
                    raise not_yet_dots(arg.span)
                case n.Keyword(name, value):
                    if name in values:
                        raise FaultError("TC125", f"'{name}=' is given twice", arg.span)
                    generics = [g.name for g in self.definition.generics]
                    if name not in generics:
                        problem = f"'{self.callee}' has no generic '{name}'"
                        raise FaultError("TC125", problem, arg.span, "", near(name, generics))
                    if name in types:
                        problem = f"the type variable '{name}' comes from the arguments"
                        raise FaultError("TC125", problem, arg.span)
                    values[name] = self._constant(name, value)
                case _:
                    positional.append(arg)
        wanted = len(self.definition.params)
        if len(positional) != wanted:
            raise FaultError(
                "TC121",
                f"'{self.callee}' takes {count(wanted, 'argument')}, but {given(len(positional))}",
                self.span,
                "",
                Note("defined here", self.definition.name_span),
            )
        return positional, values

    def _constant(self, name: str, node: n.Expr) -> int:
        value = size_of(self.session, self.frame, node, f"the value of '{name}'").constant
        if value is None:
            raise FaultError(
                "TC125",
                f"the value of '{name}=' is not a constant",
                node.span,
                "expected integers and generics",
            )
        return value

    def _infer_types(self, args: Sequence[n.Expr], values: dict[str, int | DType]) -> None:
        types = type_variables(self.definition)
        for param, arg in zip(self.definition.params, args, strict=True):
            if param.type is None or param.type.name not in types:
                continue
            tensor = self._tensor(arg)
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

    def _tensor(self, arg: n.Expr) -> Tensor | None:
        """Return the tensor that an argument names."""
        if not isinstance(arg, n.Name):
            return None
        tensor = self.frame.tensors.get(arg.name)
        if tensor is not None and tensor.is_poisoned:
            raise SilentError
        return tensor

    def _bind(self, param: n.Param, arg: n.Expr) -> Tensor:
        """Make an argument the callee's parameter."""
        declare(self.session, self.inner, param.name, param.name_span)
        assert param.type is not None
        rank = len(param.type.dims or ())
        tensor = self._tensor(arg)
        if isinstance(arg, n.Name) and arg.name in self.frame.later:
            raise FaultError("TC112", f"'{arg.name}' is read before it is written", arg.span)
        if tensor is None and rank == 0:
            tensor = self._scalar(param, arg)
        if tensor is None:
            note = near(arg.name, self.frame.tensors) if isinstance(arg, n.Name) else None
            what = f"expected the name of a tensor for '{param.name}'"
            cure = Note("give an expression a name first: t(i) = ..., then pass t")
            raise FaultError("TC122", what, arg.span, "", note or cure)
        name = arg.name if isinstance(arg, n.Name) else tensor.name
        if not tensor.is_written:
            message = f"'{name}' is read before it is written"
            raise FaultError("TC112", message, arg.span, "", near(name, self.frame.tensors))
        wanted = Note(f"'{param.name}' is declared here", param.span)
        if tensor.rank != rank:
            raise FaultError(
                "TC103",
                f"'{name}' has {count(tensor.rank or 0, 'dimension')}, but '{param.name}' of "
                f"'{self.callee}' has {rank}",
                arg.span,
                "",
                declared_here(tensor),
                wanted,
            )
        tensor.is_read = True
        type_ = dtype_of(self.inner, param.type)
        if type_ != tensor.type:
            raise FaultError(
                "TC305",
                f"'{param.name}' of '{self.callee}' is {type_}, but '{name}' is {tensor.type}",
                arg.span,
                "",
                declared_here(tensor),
                wanted,
            )
        tensor = self._from_zero(tensor)
        for d, dim in enumerate(param.type.dims or ()):
            self._unify(dim, tensor.extents()[d], d, name, arg.span, wanted)
        self.inner.tensors[param.name] = tensor
        self.inner.inputs.add(param.name)
        self.inner.where[param.name] = param.span
        return tensor

    def _scalar(self, param: n.Param, arg: n.Expr) -> Tensor:
        """Compute a scalar argument into a temporary."""
        assert param.type is not None
        type_ = dtype_of(self.inner, param.type)
        name = self.session.fresh(f"{self.callee}_{param.name}")
        tensor = Tensor(name, "temp", arg.span, type_, ())
        self._add(name, tensor)
        target = n.Target(name, None, span=arg.span)
        node = n.Comprehension(target, "=", arg, span=arg.span)
        statement = check_comprehension(self.session, self.frame, node)
        self.statements.append(statement)
        if type_.is_integer:
            form = self._forms_of(statement.value)
            if not any(s.startswith("?") for s in form.symbols()):
                tensor.host = form
        return tensor

    def _forms_of(self, expr: t.Expr) -> Size:
        forms = Forms()
        for tensor in self.frame.tensors.values():
            if tensor.host is not None and tensor.type is not None:
                forms.know(t.Read(tensor.name, (), tensor.type, ()), tensor.host)
        return forms.of(expr)

    def _unify(
        self, dim: n.Expr | n.Dots, extent: Size, d: int, name: str, span: Span | None, note: Note
    ) -> None:
        """Let a dimension of a parameter be an extent of the argument."""
        match dim:
            case n.Dots():
                raise not_yet_dots(dim.span)
            case n.IntLit(value):
                wanted = Size.const(value)
            case n.Name(size) if size in self.inner.ints:
                self.inner.used_generics.add(size)
                wanted = Size.const(self.inner.ints[size])
            case n.Name(size):
                self.inner.used_generics.add(size)
                self.inner.where.setdefault(size, dim.span)
                wanted = self.inner.sizes.setdefault(size, extent)
            case _:
                raise AssertionError(dim)
        what = f"'{dim.name}'" if isinstance(dim, n.Name) else "the dimension"
        message = (
            f"dimension {d} of '{name}' is {extent}, but {what} of '{self.callee}' is {wanted}"
        )
        if not self.session.demand(extent - wanted, message, span, "==0"):
            raise FaultError("TC210", message, span, "", note)

    # ---- results

    def _twice(self, targets: Sequence[n.Target]) -> None:
        seen: dict[str, Span | None] = {}
        for target in targets:
            if target.name in seen:
                note = Note("the first is here", seen[target.name])
                raise FaultError(
                    "TC101", f"'{target.name}' takes two results", target.span, "", note
                )
            seen[target.name] = target.span

    def _result(self, param: n.Param, outer: Tensor, passed: Sequence[Tensor]) -> Tensor:
        """Return the tensor that the callee writes: the caller's own if nothing is in the way."""
        declare(self.session, self.inner, param.name, param.name_span)
        is_free = not outer.is_written and outer.type is None and outer not in passed
        if is_free:
            result = outer
        else:
            name = self.session.fresh(f"{self.callee}_{param.name}")
            result = Tensor(name, "temp", param.span)
            self._add(name, result)
        self.inner.tensors[param.name] = result
        self.inner.results.add(param.name)
        self.inner.where[param.name] = param.span
        annotate(self.session, self.inner, result, param)
        return result

    def _hand_back(self, target: n.Target, outer: Tensor, result: Tensor) -> None:
        """Copy a result that the callee could not write in place."""
        if result is outer:
            return
        if outer.dims is not None and len(outer.dims) == result.rank:
            for d, (want, got) in enumerate(zip(outer.dims, result.extents(), strict=True)):
                message = f"dimension {d} of '{outer.name}' is {want}, but the result has {got}"
                if not self.session.demand(got - want, message, target.span, "==0"):
                    raise FaultError("TC210", message, target.span, "", declared_here(outer))
        names = [self.session.fresh(f"i{d}") for d in range(result.rank or 0)]
        subs = tuple(n.Name(name, span=target.span) for name in names)
        value = n.Apply(result.name, subs, span=self.span)
        left = n.Target(target.name, subs, span=target.span, name_span=target.name_span)
        node = n.Comprehension(left, "=", value, span=self.span, op_span=self.span)
        self.statements.append(check_comprehension(self.session, self.frame, node))

    def _from_zero(self, tensor: Tensor) -> Tensor:
        """Return the tensor, or a copy of it whose elements are counted from 0."""
        bounds = tensor.bounds()
        if all(low == Size() for low, _ in bounds):
            return tensor
        assert tensor.type is not None
        name = self.session.fresh(f"{self.callee}_{tensor.name}")
        copy = Tensor(name, "temp", tensor.span, tensor.type, tensor.extents(), first_op="=")
        self._add(name, copy)
        names = [self.session.fresh(f"i{d}") for d in range(len(bounds))]
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
        value = convert(read, computing(stored))
        checked = (False,) * len(subs)
        self.statements.append(t.Statement(name, at, "=", value, ranges, checked, span=self.span))
        return copy

    def _add(self, name: str, tensor: Tensor) -> None:
        self.frame.tensors[name] = tensor
        self.session.tensors.append(tensor)
        tensor.is_read = True
