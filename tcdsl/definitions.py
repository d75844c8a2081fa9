"""`define`: text in, kernels out.

To a type checker `define` gives a `Kernel` and `define_all` `Definitions`. Which of them a text
gives only its reader knows; a union would refuse the first call that anybody writes, and a type
with every attribute would find no slip of the pen. So `__getattr__` of kernels and of the package
is hidden from checkers, and `T["name"]` is right for both.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypedDict, Unpack, cast

from tcdsl.calls.bindings.parsed import parsed
from tcdsl.calls.bindings.session import Session
from tcdsl.calls.bindings.settings import Check, Settings, Tune, shipped_in
from tcdsl.grammar.text.errors import TCSyntaxError, TCTypeError
from tcdsl.kernel import Kernel
from tcdsl.text.constants import fill_constants
from tcdsl.text.file import read_text
from tcdsl.text.instead import instead

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # checkers have it; the default spares `Definitions[..]`

    from tcdsl.autotune.store.shipped import Shipped

    K = TypeVar("K", bound=Kernel, default=Kernel)
else:
    from typing import TypeVar

    K = TypeVar("K")

Constants = Mapping[str, int | float | str]

_MOST_OF_A_NAME = 4096  # characters of a path


class DefineOptions(TypedDict, total=False):
    """The settings of `define`, as keywords of other functions that make kernels."""

    tune: Tune
    cache: str | PathLike[str] | None
    configs: str | PathLike[str] | Shipped | None
    seconds: float
    trials: int | None
    seed: int
    threads: int | None
    check: Check
    deterministic: bool
    source: str | None


class Definitions(Generic[K]):
    """The kernels of a text, by attribute: `T.add`, `T.sub`; `T["add"]` means the same."""

    def __init__(self, kernels: Mapping[str, K]) -> None:
        vars(self)[""] = dict(kernels)  # under a name that no definition has

    @property
    def __kernels(self) -> dict[str, K]:
        found: dict[str, K] = vars(self).get("", {})
        return found

    def __getattr__(self, name: str) -> K:
        try:
            return self.__kernels[name]
        except KeyError:
            known = ", ".join(self.__kernels)
            problem = f"no definition '{name}'; the text has {known}"
            raise AttributeError(problem, name=name, obj=self) from None

    def __getitem__(self, name: str) -> K:
        try:
            return self.__kernels[name]
        except KeyError:
            known = ", ".join(self.__kernels)
            raise KeyError(f"no definition '{name}'; the text has {known}") from None

    def __iter__(self) -> Iterator[K]:
        return iter(self.__kernels.values())

    def __len__(self) -> int:
        return len(self.__kernels)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.__kernels]

    def __call__(self, /, *args: Any, **keywords: Any) -> NoReturn:
        """Refuse a call: it does not say which definition is meant."""
        names = ", ".join(self.__kernels)
        raise TCTypeError(
            f"a text of several definitions cannot be called; it has {names}\n"
            "  call one of them by name: T = tcdsl.define(...), then T.name(...)"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.__kernels,)

    def __copy__(self) -> Definitions[K]:
        return self

    def __deepcopy__(self, memo: object) -> Definitions[K]:
        return self

    def __repr__(self) -> str:
        return f"<tcdsl definitions {', '.join(self.__kernels)}>"


def define(
    text: str | PathLike[str],
    name: str | None = None,
    constants: Constants | None = None,
    *,
    backward: str | None = None,
    tune: Tune = "cached",
    cache: str | PathLike[str] | None = None,
    configs: str | PathLike[str] | Shipped | None = None,
    seconds: float = 10.0,
    trials: int | None = None,
    seed: int = 0,
    threads: int | None = None,
    check: Check = "async",
    deterministic: bool = False,
    source: str | None = None,
) -> Kernel:
    """Parse a text and return its kernel, or its kernels.

    Parameters
    ----------
    text : str or path
        One or several definitions; or a file of them, as `pathlib.Path`, in UTF-8.
    name : str, optional
        Return the kernel of this definition only; the others serve its calls.
    constants : mapping, optional
        Values for `{name}` in the text.
    backward : str, optional
        The definition of the text that is the way back of calls on `tcdsl.Tensor` that are
        recorded, in place of the one that is derived. It takes the parameters, then outputs that
        it reads, by their names, then an adjoint for each float output; it gives a gradient for
        each float parameter in order, or for some of them, told by their names: ``d_W`` or
        ``W_grad``. Its own derivative is derived. `vjp`, `jvp`, `with_grad` and `tcdsl.grad` derive
        from the text all the same.
    tune : {"cached", "off", "first-call", "online"}
        Use tuned configs that are found in the cache (default); never; tune at the first call of a
        size; or try one checked candidate per call in place of the best until the budget ends.
    cache : path, optional
        SQLite file of tuned configs; by default the one in the user's cache folder.
    configs : path, optional
        Tuned configs that come with a model: a file that `tcdsl cache export` left. It is read
        here, once, and never written, so it may lie in an installed package. Calls use them
        where the cache has none of the sizes: what was tuned on this machine comes first. Tuning
        tries them too. Each is checked, and one of other versions of the compiler or of tcdsl
        serves as well.
    seconds, trials, seed
        Budget and seed of tuning at calls.
    threads : int, optional
        How many threads a kernel may use; by default all cores this process may run on.
    check : {"async", "sync", "off"}
        When a call on a GPU raises for a subscript read from data that is outside its tensor: at
        the next call on the same stream or at `tcdsl.synchronize()`; before the call returns,
        which has to wait for the kernel; or never. On the CPU a call always raises at once.
    deterministic : bool, default False
        Whether a call on a GPU gives the same bits every time, as all calls on the CPU do. By
        default sums of floats in which points meet (`dE(I(b), d) += dO(b, d)`) are atomic
        additions, in the order in which threads come; everything else is the same in any case.
    source : str, optional
        What messages call the text; by default the path of its file.

    Returns
    -------
    Kernel
        If the text has one definition or a name is given. A text of several gives `Definitions`,
        which a type checker cannot know: `define_all` says so. Both give `T["add"]`, and `T.add`
        where that is no member of a kernel (`text`, `vjp`, ...).

    Raises
    ------
    TCError
        If the text is wrong; the message shows the places and the cures. If the file cannot be
        read it is an `OSError` too.

    Examples
    --------
    >>> import numpy as np
    >>> add = define("def add(float(N) A, float(N) B) -> (C) { C(i) = A(i) + B(i) }")
    >>> add(np.ones(3, np.float32), np.ones(3, np.float32))
    array([2., 2., 2.], dtype=float32)
    """
    options: DefineOptions = {
        "tune": tune,
        "cache": cache,
        "configs": configs,
        "seconds": seconds,
        "trials": trials,
        "seed": seed,
        "threads": threads,
        "check": check,
        "deterministic": deterministic,
        "source": source,
    }
    return cast(Kernel, chosen(Kernel, read(text, constants, options), name, backward))


def define_all(
    text: str | PathLike[str], constants: Constants | None = None, **options: Unpack[DefineOptions]
) -> Definitions:
    """Parse a text and return all its kernels by name, also where it has one.

    What `define` does for a text of several definitions, where a type checker knows it too.

    Parameters
    ----------
    text, constants, **options
        See `define`.

    Examples
    --------
    >>> T = define_all("def twice(float(N) A) -> (B) { B(i) = 2 * A(i) }")
    >>> T.twice.output_shapes(N=3)
    {'B': (3,)}
    """
    return all_of(Kernel, read(text, constants, options))


def read(
    text: str | PathLike[str],
    constants: Constants | None = None,
    options: DefineOptions | None = None,
    further: Sequence[str] = (),
) -> Session:
    """Return the session of a text or of a file of one; its definitions are not checked yet.

    Parameters
    ----------
    text, constants, options
        Of `define`.
    further : sequence of str
        Keywords that the caller takes beside them, one of which an unknown option may have meant.

    Raises
    ------
    TCError
        If it cannot be read or parsed, or a setting is wrong.
    """
    given: dict[str, Any] = {**(options or {})}
    for option in given.keys() - DefineOptions.__annotations__.keys():
        known = (*DefineOptions.__annotations__, "constants", *further)
        raise TCTypeError(f"there is no setting '{option}'{instead(option, known)}")
    source, cache = given.pop("source", None), given.pop("cache", None)
    configs = shipped_in(given.pop("configs", None))
    settings = Settings(**given, cache=None if cache is None else Path(cache), configs=configs)
    if isinstance(text, PathLike):
        source = os.fsdecode(text) if source is None else source
        text = read_text(text)
    elif not isinstance(text, str):
        raise TCTypeError(_not_a_text(text))
    source = "<text>" if source is None else source
    try:
        program = parsed(fill_constants(text, constants or {}, source), source)
    except TCSyntaxError as error:
        if _is_like_a_path(text):
            cure = f"the text looks like the name of a file\n  pass pathlib.Path({text!r})"
            raise TCSyntaxError(f"{error}\n{cure}", error.diagnostics) from None
        raise
    return Session(program, settings)


def chosen(
    kind: type[K], session: Session, name: str | None, backward: str | None = None
) -> K | Definitions[K]:
    """Return the kernel of that name, or the only one of a text, or all.

    Parameters
    ----------
    kind : type of Kernel
        What they are.
    backward : str, optional
        The definition that is the way back of the only other one, or of that of the name.

    Raises
    ------
    TCError
        If there is none of that name, or a definition is wrong, or the two do not fit together.
    """
    names = [d.name for d in session.program.defs]
    if backward is not None and name is None:
        others = [n for n in names if n != backward]
        if backward in names and len(others) != 1:
            raise TCTypeError(
                f"of which definition is '{backward}' the way back? the text has "
                f"{', '.join(names)}\n  say it by name=..."
            )
        name = others[0] if backward in names else None
    if name is not None and name not in names:
        raise TCTypeError(f"no definition '{name}'; the text has {', '.join(names)}")
    if name is None and len(names) > 1 and backward is None:
        return all_of(kind, session)
    definition = session.definition(names[0] if name is None else name)
    session.check_now(definition)
    made = kind(session, definition)
    return made if backward is None else made.with_backward(backward)


def all_of(kind: type[K], session: Session) -> Definitions[K]:
    """Return the kernels of all definitions.

    Raises
    ------
    TCError
        If one is wrong.
    """
    session.check_all()
    return Definitions({d.name: kind(session, d) for d in session.program.defs})


def _not_a_text(value: object) -> str:
    cure = ""
    if isinstance(value, bytes | bytearray):
        cure = "\n  pass it decoded, as by value.decode()"
    return f"expected definitions as a str or a path, got {type(value).__name__}{cure}"


def _is_like_a_path(text: str) -> bool:
    """Whether a text that does not parse was meant for the name of a file."""
    if not text or len(text) > _MOST_OF_A_NAME or any(c in text for c in "\n{}()"):
        return False
    return text.endswith(".tc") or os.sep in text
