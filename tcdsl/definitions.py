"""`define`: text in, kernels out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, NoReturn

from tcdsl.constants import fill_constants
from tcdsl.grammar.check import want_bounded
from tcdsl.grammar.errors import TCTypeError
from tcdsl.grammar.parser import parse
from tcdsl.kernel import Kernel
from tcdsl.session import Check, Session, Settings, Tune


class Definitions:
    """The kernels of a text, by attribute: `T.add`, `T.sub`; `T["add"]` means the same."""

    def __init__(self, kernels: Mapping[str, Kernel]) -> None:
        vars(self)[""] = dict(kernels)  # under a name that no definition has

    @property
    def __kernels(self) -> dict[str, Kernel]:
        found: dict[str, Kernel] = vars(self).get("", {})
        return found

    def __getattr__(self, name: str) -> Kernel:
        try:
            return self.__kernels[name]
        except KeyError:
            known = ", ".join(self.__kernels)
            raise AttributeError(f"no definition '{name}'; the text has {known}") from None

    def __getitem__(self, name: str) -> Kernel:
        return self.__kernels[name]

    def __iter__(self) -> Iterator[Kernel]:
        return iter(self.__kernels.values())

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

    def __copy__(self) -> Definitions:
        return self

    def __deepcopy__(self, memo: object) -> Definitions:
        return self

    def __repr__(self) -> str:
        return f"<tcdsl definitions {', '.join(self.__kernels)}>"


def define(
    text: str,
    name: str | None = None,
    constants: Mapping[str, int | float | str] | None = None,
    *,
    tune: Tune = "cached",
    cache: str | PathLike[str] | None = None,
    seconds: float = 10.0,
    trials: int | None = None,
    seed: int = 0,
    threads: int | None = None,
    check: Check = "async",
    deterministic: bool = False,
    source: str = "<text>",
) -> Kernel | Definitions:
    """Parse a text and return its kernels.

    Parameters
    ----------
    text : str
        One or several definitions.
    name : str, optional
        Return the kernel of this definition only; the others serve its calls.
    constants : mapping, optional
        Values for `{name}` in the text.
    tune : {"cached", "off", "first-call", "online"}
        Use tuned configs that are found in the cache (default); never; tune at the first call of a
        size; or try one checked candidate per call in place of the best until the budget ends.
    cache : path, optional
        SQLite file of tuned configs; by default the one in the user's cache folder.
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
    source : str
        What messages call the text, usually its file.

    Returns
    -------
    Kernel or Definitions
        The kernel if the text has one definition or a name is given; else all of them. Both give
        `T["add"]`, and `T.add` where that is no member of a kernel (`text`, `vjp`, ...).

    Raises
    ------
    TCError
        If the text is wrong; the message shows the places and the cures.

    Examples
    --------
    >>> import numpy as np
    >>> add = define("def add(float(N) A, float(N) B) -> (C) { C(i) = A(i) + B(i) }")
    >>> add(np.ones(3, np.float32), np.ones(3, np.float32))
    array([2., 2., 2.], dtype=float32)
    """
    if not isinstance(text, str):
        raise TCTypeError(_not_a_text(text))
    program = parse(fill_constants(text, constants or {}, source), source)
    if tune not in ("off", "cached", "first-call", "online"):
        raise TCTypeError(f"tune is '{tune}'; expected 'off', 'cached', 'first-call' or 'online'")
    if check not in ("async", "sync", "off"):
        raise TCTypeError(f"check is '{check}'; expected 'async', 'sync' or 'off'")
    settings = Settings(
        tune,
        None if cache is None else Path(cache),
        seconds,
        trials,
        seed,
        threads,
        check,
        deterministic,
    )
    session = Session(program, settings)
    by_name = {d.name: d for d in program.defs}
    if name is not None and name not in by_name:
        raise TCTypeError(f"no definition '{name}'; the text has {', '.join(by_name)}")
    if name is None and len(by_name) == 1:
        (name,) = by_name
    if name is not None:
        session.check_now(by_name[name])
        return Kernel(session, by_name[name])
    want_bounded(program)
    for definition in program.defs:
        session.check_now(definition)
    return Definitions({n: Kernel(session, d) for n, d in by_name.items()})


def _not_a_text(value: object) -> str:
    cure = ""
    if isinstance(value, PathLike):
        cure = "\n  pass what the file holds, path.read_text(), and source=str(path) for messages"
    elif isinstance(value, bytes | bytearray):
        cure = "\n  pass it decoded, as by value.decode()"
    return f"expected definitions as a str, got {type(value).__name__}{cure}"
