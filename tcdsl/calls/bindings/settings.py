"""How kernels of a text are tuned and checked."""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Iterable
from dataclasses import field, fields, replace
from numbers import Real
from os import PathLike
from pathlib import Path
from sys import intern
from typing import TYPE_CHECKING, Any, Literal, get_args

from tcdsl.autotune.store.schema import NAME
from tcdsl.codegen.machine.plainjson import loads
from tcdsl.codegen.toolchain.cachedir import usable_folder
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import TCTypeError

if TYPE_CHECKING:
    from tcdsl.autotune.store.shipped import Shipped

Tune = Literal["off", "cached", "first-call", "online"]
Check = Literal["async", "sync", "off"]

_MOST_SAVED = 1 << 27  # characters of settings: tuned configs may be among them
_MOST_THREADS = 2**31 - 1  # the launcher counts them in an int


def default_database() -> Path:
    """Return the SQLite file of tuned configs in the user's cache folder."""
    return usable_folder() / NAME


@dataclass(frozen=True, slots=True)
class Settings:
    """How kernels of a text are tuned and checked; see `define`.

    They are checked here, whoever makes them: `define`, `with_tune`, a pickle. `deterministic` is
    one of them and no switch of the process, so that a kernel means the same wherever it is called;
    what is tuned for one is not found by the other.

    directions: of a derivative, the parameters that are adjoints or tangents. The pass that it is a
    derivative of has not looked at them: so a batch of these alone meets what that pass drew.
    sizes: what the owner of a kernel, a layer, knows of its calls. Kernels whose sizes differ share
    nothing that is compiled, also where only text and settings say which kernel is meant. of: in
    this process, those of the kernel that a derivative is of. general: no call has an executable
    for its sizes where one for all ranks can serve it, and kernels of equal texts share that: ops.
    """

    tune: Tune = "cached"
    cache: Path | None = None
    seconds: float = 10.0
    trials: int | None = None
    seed: int = 0
    threads: int | None = None
    check: Check = "async"
    deterministic: bool = False
    configs: Shipped | None = None
    directions: tuple[str, ...] = ()
    sizes: tuple[tuple[str, int], ...] = ()
    general: bool = False
    of: Settings | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        check_budget(self.seconds, self.trials)
        for name, least in (("threads", 1), ("trials", 0), ("seed", None)):
            object.__setattr__(self, name, _count(name, getattr(self, name), least))
        if self.threads is not None and self.threads > _MOST_THREADS:
            raise TCTypeError(f"threads is {self.threads!r:.40}; expected at most {_MOST_THREADS}")
        object.__setattr__(self, "seconds", float(self.seconds))
        for name, value, kind in (("tune", self.tune, Tune), ("check", self.check, Check)):
            if value not in get_args(kind):
                *first, last = map(repr, get_args(kind))
                raise TCTypeError(f"{name} is '{value}'; expected {', '.join(first)} or {last}")
        if not (self.configs is None or hasattr(self.configs, "lookup")):
            raise TCTypeError(
                f"configs is {self.configs!r:.40}; expected what a file was read into"
            )
        given = self.directions
        if not (isinstance(given, list | tuple) and all(isinstance(n, str) for n in given)):
            raise TCTypeError(f"directions is {given!r:.40}; expected names of parameters")
        object.__setattr__(self, "directions", tuple(given))
        try:
            sizes = tuple((intern(name), operator.index(size)) for name, size in self.sizes)
        except (TypeError, ValueError):
            raise TCTypeError(
                f"sizes is {self.sizes!r:.40}; expected pairs of a name and an int"
            ) from None
        object.__setattr__(self, "sizes", sizes)

    def along(self, directions: Iterable[str]) -> Settings:
        """Return the settings of a derivative, which has these further directions."""
        every = tuple(sorted({*self.directions, *directions}))
        return replace(self, directions=every, of=self.root)

    @property
    def root(self) -> Settings:
        """Those of the kernel that derivatives of any order are of."""
        return self.of or self

    def to_json(self) -> str:
        """Return those that are not the default, by name: a later version, with more, reads it."""
        default = Settings()
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.compare}
        given = {n: v for n, v in values.items() if v != getattr(default, n)}
        if self.cache is not None:
            given["cache"] = str(self.cache)
        if self.configs is not None:
            given["configs"] = self.configs.to_json()
        return json.dumps(given, sort_keys=True)

    @staticmethod
    def from_json(text: str) -> Settings:
        """Read what `to_json` wrote.

        Raises
        ------
        TCTypeError
            If it is of a later version, or none of ours.
        """
        try:
            given = loads(text, _MOST_SAVED, _MOST_SAVED) if text else {}  # of earlier versions
            if not isinstance(given, dict):
                raise ValueError("it is no object")
            if (configs := given.get("configs")) is not None:
                from tcdsl.autotune.store.shipped import Shipped  # on use: it needs SQLite

                given["configs"] = Shipped.from_json(configs)
        except ValueError as error:
            raise TCTypeError(f"what was saved are no settings of a kernel: {error}") from None
        known = [f.name for f in fields(Settings) if f.compare]
        if unknown := [name for name in given if name not in known]:
            raise TCTypeError(
                f"the settings of what was saved have '{unknown[0]}', which this version of tcdsl "
                "does not know\n  load it with the version that saved it, or a later one"
            )
        if given.get("cache") is not None:
            given["cache"] = Path(given["cache"])
        return Settings(**given)

    def __reduce__(self) -> tuple[Any, ...]:
        return Settings.from_json, (self.to_json(),)


def _count(name: str, value: Any, least: int | None) -> int | None:
    """Return a setting that counts as a plain int, whichever integer it came as.

    Raises
    ------
    TCTypeError
        If it is none, or less than the least.
    """
    if value is None and least is not None:
        return None
    try:
        count = operator.index(value)
    except TypeError:
        count = None
    if count is None or (least is not None and count < least):
        wanted = "an int" if least is None else f"an int from {least} on, or None"
        raise TCTypeError(f"{name} is {value!r:.40}; expected {wanted}")
    return count


def check_budget(seconds: float | None, trials: int | None) -> None:
    """Refuse a budget of tuning that is negative, endless or no number.

    Raises
    ------
    TCTypeError
        Naming it.
    """
    for name, value in (("seconds", seconds), ("trials", trials)):
        if value is None:
            continue
        if not isinstance(value, Real) or not 0 <= value < math.inf:
            raise TCTypeError(f"{name} is {value!r:.40}; expected a number from 0 on, or None")


# Pickles name it by a place that stays: one of today is read by versions to come.
Settings.from_json.__module__ = "tcdsl.session"


def shipped_in(configs: str | PathLike[str] | Shipped | None) -> Shipped | None:
    """Return the tuned configs that a file has, or that were read before.

    Raises
    ------
    TCError
        If there is no such file, or it is no tuning file.
    """
    if configs is None:
        return None
    from tcdsl.autotune.store.shipped import Shipped  # on use: it needs SQLite

    return configs if isinstance(configs, Shipped) else Shipped.read(Path(configs))
