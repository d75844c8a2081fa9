"""The operators of PyTorch that kernels are to graphs, and what they run on memory.

    tcdsl::call(str text, str name, str backward, str settings, str generics,
                Tensor[] tensors,
                str kinds="", SymInt[]? integers=None, Scalar[]? floats=None) -> Tensor[]
    tcdsl::call_out(..., Tensor[] tensors, Tensor(a!)[] outputs, ...) -> ()

One operator serves every kernel: the text is an argument, so that a graph holds no object of ours
and a saved program runs wherever this module is imported. kinds has a letter for each parameter of
the kernel: "t", the next tensor; "i", the next integer; "u", the next integer, one of 64 bits
without a sign; "f", the next float. "" is all tensors.

Refused: an operator for each text, which a saved program would not know; `custom_op`, 9.6 us a
call; objects of classes that graphs know, for which every tracer needs rules. Here a call takes 7.9
us: 3.9 are PyTorch's boxing of its arguments (3.2 were they one string), 1.8 the kernel. Its
strings are told apart once (`Callee`). Where nothing but memory is behind autograd, the training
forward runs without a second dispatch: a recorded call takes 21 us, with it 60.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from sys import intern
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, WeakValueDictionary

import torch

from tcdsl import kernel
from tcdsl.calls.bindings.session import Session, text_of
from tcdsl.calls.bindings.settings import Settings
from tcdsl.calls.process.bounded import thinned
from tcdsl.grammar.text.errors import TCTypeError
from tcdsl.grammar.text.nodes import Def
from tcdsl.grammar.text.parser import parse
from tcdsl.torch.differentiable import DifferentiableKernel

_MOST_RUNNERS = 1024  # kernels kept for texts of which nobody holds a kernel any more
_MOST_CALLEES = 256  # of a kernel

LIBRARY: Any = torch.library.Library("tcdsl", "DEF")  # type: ignore[no-untyped-call]
# kernels take any strides, but code for the usual ones is there and the fastest
_TAGS = (torch.Tag.pt2_compliant_tag, torch.Tag.needs_exact_strides)
_KERNEL = "str text, str name, str backward, str settings, str generics"
# lists of numbers that are empty are None: torch.export.save knows no other
_NUMBERS = "str kinds='', SymInt[]? integers=None, Scalar[]? floats=None"
LIBRARY.define(f"call({_KERNEL}, Tensor[] tensors, {_NUMBERS}) -> Tensor[]", tags=_TAGS)
LIBRARY.define(
    f"call_out({_KERNEL}, Tensor[] tensors, Tensor(a!)[] outputs, {_NUMBERS}) -> ()", tags=_TAGS
)


class Spelling(NamedTuple):
    """A kernel in strings: all that a graph holds of it.

    backward: the definition of the text that is the way back, "" where it is derived. settings: see
    `Settings.to_json`; without the file of tuned configs, since a path means nothing elsewhere.
    """

    text: str
    name: str
    backward: str
    settings: str


# ---- kernels to text


def spelling_of(of: kernel.Kernel, backward: str = "") -> Spelling:
    """Return a kernel in strings; a call of the operator with them in this process finds it."""
    spelling = _spellings.get(of)
    if spelling is None:
        text, _ = text_of(of.session.program)
        settings = replace(of.session.settings, cache=None).to_json()
        spelling = _spellings[of] = Spelling(text, of.name, backward, settings)
        _kernels[spelling] = of
    return spelling


_spellings: WeakKeyDictionary[kernel.Kernel, Spelling] = WeakKeyDictionary()
_kernels: WeakValueDictionary[Spelling, kernel.Kernel] = WeakValueDictionary()
_runners: dict[Spelling, Runner] = {}


# ---- text to kernels


class Runner(DifferentiableKernel):
    """A kernel that knows no routes: memory in, memory out.

    by_look: its ways back by the look of a call. is_alike: whether that is one for all calls, as
    soon as one tells. callees: by generics and kinds.
    """

    def __init__(self, session: Session, definition: Def, backward: str = "") -> None:
        super().__init__(session, definition, backward)
        self.by_look: dict[Any, Any] = {}
        self.is_alike = False
        self.callees: dict[tuple[str, str], Callee] = {}

    @property
    def backward(self) -> str:
        """The definition of the text that is the way back, "" where it is derived."""
        return self._backward


def runner_of(spelling: Spelling) -> Runner:
    """Return the kernel of a text.

    It shares variants and what is compiled with the kernel that the text is of, if there is one.
    """
    global _runners
    found = _runners.get(spelling)
    if found is None:
        of = _kernels.get(spelling)
        session = of.session if of is not None else _session_of(spelling)
        found = Runner(session, session.definition(spelling.name), spelling.backward)
        _spellings[found] = spelling
        _runners = thinned(_runners, _MOST_RUNNERS)
        _runners[spelling] = found
    return found


def _session_of(spelling: Spelling) -> Session:
    """Return the session of a text that nobody here has a kernel of: a stranger's, perhaps.

    Raises
    ------
    TCError
        If the text is wrong, lacks a definition, or the settings are none or name a file.
    """
    settings = Settings.from_json(spelling.settings)
    if settings.cache is not None:
        raise TCTypeError(
            f"{spelling.name}: the settings of a saved program name the file {settings.cache}\n"
            "  save it again: programs hold no paths, and this one was changed"
        )
    session = Session(parse(spelling.text, f"<{spelling.name}>"), settings)
    for name in (spelling.name, spelling.backward or spelling.name):
        if not session.has(name):
            known = ", ".join(d.name for d in session.program.defs)
            raise TCTypeError(f"no definition {name!r:.60} in the text of a call; it has {known}")
    return session


def forget_choices(of: kernel.Kernel) -> None:
    """Let operators find what was tuned, as calls of the kernel do."""
    spelling = _spellings.get(of)
    if spelling is not None and _runners.pop(spelling, None) is not None:
        _kernels[spelling] = of  # of several kernels of one text it is the tuned one


# ---- a call


class Callee:
    """What of a call are strings, told apart once.

    Attributes
    ----------
    kernel : Runner
    generics, kinds : str
        As the operator has them.
    named : dict
        The values of generics.
    letters : str
        kinds, with a letter for each parameter in any case.
    """

    __slots__ = ("_is_one", "_tensors", "generics", "kernel", "kinds", "letters", "named")

    def __init__(self, kernel: Runner, generics: str, kinds: str) -> None:
        self.kernel = kernel
        self.generics = generics
        self.kinds = kinds
        self.named = generics_of(generics)
        self.letters = kinds or "t" * len(kernel.params)
        self._tensors = -1 if kinds.strip("t") else len(kernel.params)
        self._is_one = len(kernel.returns) == 1

    def values(
        self,
        tensors: Sequence[Any],
        integers: Sequence[Any] | None,
        floats: Sequence[Any] | None,
    ) -> Sequence[Any]:
        """Return the arguments of the kernel in order.

        Raises
        ------
        TCTypeError
            If they are more or fewer than the parameters, or than kinds says.
        """
        if len(tensors) == self._tensors and integers is None and floats is None:
            return tensors
        return _merged(self.kernel, tensors, self.kinds, integers, floats)

    def run(
        self,
        tensors: Sequence[Any],
        integers: Sequence[Any] | None,
        floats: Sequence[Any] | None,
        **out: Any,
    ) -> list[torch.Tensor]:
        """Call the kernel with tensors in memory, none of which autograd would record."""
        values = self.values(tensors, integers, floats)
        if self.named or out:
            results = self.kernel(*values, **self.named, **out)
        else:
            results = self.kernel(*values)
        if self._is_one:
            return [results if type(results) is torch.Tensor else _tensor(results)]
        return [*map(_tensor, results)]


Given = tuple[Callee, Sequence[Any], Sequence[Any] | None, Sequence[Any] | None]


def given(
    text: str,
    name: str,
    backward: str,
    settings: str,
    generics: str,
    tensors: Sequence[Any],
    kinds: str = "",
    integers: Sequence[Any] | None = None,
    floats: Sequence[Any] | None = None,
) -> Given:
    """Return what a call calls, its tensors, integers and floats, from what the operator takes."""
    kernel = _runners.get((text, name, backward, settings))  # type: ignore[call-overload]
    if kernel is None:
        kernel = runner_of(Spelling(text, name, backward, settings))
    callee = kernel.callees.get((generics, kinds))
    if callee is None:
        callee = Callee(kernel, generics, kinds)
        kernel.callees = thinned(kernel.callees, _MOST_CALLEES)
        kernel.callees[generics, kinds] = callee
    return callee, tensors, integers, floats


def given_out(*args: Any) -> tuple[Given, Sequence[Any]]:
    """Return the same of the operator that writes, and the outputs."""
    return given(*args[:6], *args[7:]), args[6]


def _merged(
    kernel: kernel.Kernel,
    tensors: Sequence[Any],
    kinds: str,
    integers: Sequence[Any] | None,
    floats: Sequence[Any] | None,
) -> Sequence[Any]:
    letters = kinds or "t" * len(tensors)
    count_t, count_f = letters.count("t"), letters.count("f")
    count_i = letters.count("i") + letters.count("u")
    given = len(tensors), len(integers or ()), len(floats or ())
    if given != (count_t, count_i, count_f) or count_t + count_i + count_f != len(letters):
        raise TCTypeError(
            f"{kernel.name}: kinds is {kinds!r:.60}, but the call has {given[0]} tensors, "
            f"{given[1]} integers and {given[2]} floats\n"
            "  kinds has a letter for each argument: t tensor, i or u integer, f float"
        )
    if len(letters) != len(kernel.params):
        raise TCTypeError(
            f"{kernel.name}({', '.join(kernel.params)}): expected {len(kernel.params)} arguments, "
            f"got {len(letters)}"
        )
    if not kinds:
        return tensors
    rest = {"t": iter(tensors), "i": iter(integers or ()), "f": iter(floats or ())}
    return [next(rest["i"]) % 2**64 if k == "u" else next(rest[k]) for k in kinds]


def generics_of(spelled: str) -> dict[str, Any]:
    """Return values of generics from ``"SH=2 R=float32"``; what is no number stays text.

    Names and text are interned, as the launcher finds them.
    """
    pairs = (g.partition("=") for g in spelled.split())
    return {intern(n): int(v) if _NUMBER.fullmatch(v) else intern(v) for n, _, v in pairs}


_NUMBER = re.compile("-?[0-9]{1,19}")


def _tensor(result: Any) -> torch.Tensor:
    """Return a result in NumPy's memory as a tensor."""
    return result if isinstance(result, torch.Tensor) else torch.from_numpy(result)


# ---- implementations for memory


def _call(*args: Any) -> list[torch.Tensor]:
    callee, tensors, integers, floats = given(*args)
    with torch.no_grad():  # what records stands above
        return callee.run(tensors, integers, floats)


def _call_out(*args: Any) -> None:
    (callee, tensors, integers, floats), outputs = given_out(*args)
    with torch.no_grad():
        callee.run(tensors, integers, floats, out=tuple(outputs))


LIBRARY.impl("call", _call, "CompositeExplicitAutograd")
LIBRARY.impl("call_out", _call_out, "CompositeExplicitAutograd")
