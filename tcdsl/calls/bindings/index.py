"""What a definition's executables are, by what decides them: nothing is lowered to find an object.

The text of an executable follows from the definition, its types, the specialisation, its config,
the machine and the generator; its object from the text, the compiler and its flags. So a record by
all these names the object, and others the analytic choices: of exact sizes one, of size-generic
executables one for each `Regime` of sizes; and that a config of a file is one of the program's.
Which sizes have executables of their own beside that for all, and which suit that one, is one
record for all sizes, so that a new one reads none: whoever adds to it writes it anew, and where two
do so at once there are two of them. A record may be lost, and is trusted with nothing that the
objects beside it are not trusted with: a config that is none of this program's is refused by
whoever lowers it, an object that is not there is compiled.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import lru_cache

from tcdsl.codegen.forms.base.regime import Regime
from tcdsl.codegen.library import load
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.codegen.machine.spec import Spec
from tcdsl.codegen.toolchain import records
from tcdsl.codegen.toolchain.cc import find_compiler
from tcdsl.codegen.toolchain.listed import Listed
from tcdsl.codegen.toolchain.objects import file_name, named
from tcdsl.codegen.toolchain.source import Source
from tcdsl.grammar.text.dataclass import dataclass

_MOST_SIZES = 256  # of layouts, of which is known what serves them


@dataclass(frozen=True, slots=True)
class Own:
    """An executable of sizes' own: its config, and the name of its object's file.

    regime: of the sizes that it leaves open.
    """

    config: Config
    file: str
    regime: Regime = Regime()


@dataclass(frozen=True, slots=True)
class ForAll:
    """That an executable for all sizes serves them well; spec: which one, as text."""

    spec: str


_Sizes = tuple[tuple[str, int], ...]
_Key = tuple[_Sizes, tuple[str, ...]]  # and the names of those that are left open
_BySizes = Mapping[_Key, Sequence[object]]


@dataclass(frozen=True, slots=True)
class Index:
    """The records of a definition bound to types, for the CPU.

    identity: of the definition with its types, as text. name: of the definition.
    """

    identity: str
    name: str
    machine: Machine
    _own: dict[object, Listed[_BySizes]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def choice(self, spec: Spec, sizes: Mapping[str, int]) -> Config | None:
        """Return the analytic choice, if it was made before."""
        return records.read("choice", self._parts(spec, sizes), Config.from_json)

    def keep_choice(self, spec: Spec, sizes: Mapping[str, int], config: Config) -> None:
        """Keep the analytic choice."""
        records.write("choice", self._parts(spec, sizes), config.to_json(), self.name)

    def generic_choices(self, spec: Spec, sizes: Sequence[str]) -> Iterator[tuple[Config, Regime]]:
        """Yield the analytic choices that were made for all sizes of a regime."""

        def decoded(value: object) -> tuple[Config, Regime]:
            match value:
                case [config, regime]:
                    return Config.from_json(config), Regime.from_plain(regime, sizes)
            raise ValueError("it is no config with its sizes")

        return records.read_all("regime", self._parts(spec, {}), decoded)

    def keep_generic_choice(self, spec: Spec, config: Config, regime: Regime) -> None:
        """Keep the analytic choice for all sizes of a regime."""
        value = [config.to_json(), regime.to_plain()]
        records.write("regime", self._parts(spec, {}), value, self.name)

    def of_sizes(self, *specs: Spec) -> Iterator[tuple[Spec, Own | ForAll]]:
        """Yield what processes have given sizes where that for all sizes is not taken unasked.

        Executables of their own come first, as the record was read last: whoever takes one does not
        ask whether other processes have added to it.

        specs: of the same layouts; the record is read once.
        """
        record = self._record(specs[0])
        given: list[tuple[Spec, Own]] = []
        for spec, one in _of(specs, record.known):
            if isinstance(one, Own):
                given.append((spec, one))
                yield spec, one
        for spec, one in _of(specs, record.found):
            if (spec, one) not in given:
                yield spec, one

    def with_own(self, spec: Spec) -> Iterator[_Sizes]:
        """Yield the sizes, of these layouts, that have executables of their own.

        They are without those that these leave open.
        """
        for (sizes, _), found in self._record(spec).found.items():
            if not all(isinstance(one, str) for one in found):
                yield sizes

    def keep_own(self, spec: Spec, config: Config, regime: Regime, loaded: load.Loaded) -> None:
        """Keep an executable of own sizes by these alone: config and object are found at once.

        regime: which values of those that it leaves open it is for.
        """
        self._add(spec, [config.to_json(), loaded.file, regime.to_plain()])

    def keep_for_all(self, spec: Spec, for_all: Spec) -> None:
        """Keep that an executable for all sizes suits these."""
        self._add(spec, repr(for_all))

    def _record(self, spec: Spec) -> Listed[_BySizes]:
        """Return the record that `of_sizes` is of."""
        of = spec.layouts, spec.threads, spec.is_small, spec.is_deterministic
        found = self._own.get(of)
        if found is None:
            like = replace(spec, sizes=None, open=())
            parts = *self._parts(like, {}), *self._compiler()
            found = self._own[of] = Listed("own", parts, _by_sizes)
        return found

    def _add(self, spec: Spec, one: object) -> None:
        record = self._record(spec)
        known = dict(record.found)
        others = [x for x in known.pop(_key_of(spec), ()) if x != one]
        known[_key_of(spec)] = [*others, one]
        latest = [*known.items()][-_MOST_SIZES:]
        record.write([[*key, found] for key, found in latest], self.name)

    def is_legal(self, spec: Spec, config: Config) -> bool:
        """Whether a config of anywhere was found to be one of this program's."""
        return bool(records.read("legal", self._legal(spec, config), _true))

    def keep_legal(self, spec: Spec, config: Config) -> None:
        """Keep that a config is one of this program's."""
        records.write("legal", self._legal(spec, config), True, self.name)

    def object(self, spec: Spec, config: Config, sizes: Mapping[str, int]) -> load.Loaded | None:
        """Return an executable, loaded, if it was compiled before and is still there."""
        for file in records.read_all("object", self._compiled(spec, config, sizes), file_name):
            if (found := self.loaded(file)) is not None:
                return found
        return None

    def loaded(self, file: str) -> load.Loaded | None:
        """Return the executable whose object is in this file, if it is still there."""
        path = named(file)
        if path is not None:
            with contextlib.suppress(OSError, ValueError):  # pruned meanwhile; another's object
                return load.load(path, self.name)
        return None

    def keep_object(
        self, spec: Spec, config: Config, sizes: Mapping[str, int], loaded: load.Loaded
    ) -> None:
        """Keep which object an executable is."""
        records.write("object", self._compiled(spec, config, sizes), loaded.file, self.name)

    def _parts(self, spec: Spec, sizes: Mapping[str, int]) -> Sequence[str]:
        at = dict(sizes) if spec.is_exact else {}  # what is for others too knows none of them
        return self.identity, repr(self.machine), repr(spec), json.dumps(at)

    def _legal(self, spec: Spec, config: Config) -> Sequence[str]:
        return *self._parts(spec, dict(spec.sizes or ())), config.to_json()

    def _compiled(self, spec: Spec, config: Config, sizes: Mapping[str, int]) -> Sequence[str]:
        return *self._parts(spec, sizes), config.to_json(), *self._compiler()

    def _compiler(self) -> Sequence[str]:
        found = find_compiler()
        return found.kind, found.version, found.isa_key, *Source(self.name, "").all_flags(found)


def _key_of(spec: Spec) -> _Key:
    return spec.sizes or (), spec.open


def _by_sizes(values: Iterable[object]) -> _BySizes:
    """Return what is said of sizes, in the order in which it was."""
    found: dict[_Key, list[object]] = {}
    for value in values:
        match value:
            case [[*sizes], [*names], [*what]] if all(isinstance(n, str) for n in names):
                of = found.setdefault((tuple(map(_size, sizes)), tuple(map(str, names))), [])
                of += [one for one in what if one not in of]
            case _:
                raise ValueError("sizes come with names and what serves them")
    return found


def _size(value: object) -> tuple[str, int]:
    match value:
        case [str(name), int(n)]:
            return name, n
    raise ValueError("a size has a name and a value")


def _of(specs: Sequence[Spec], listed: _BySizes) -> Iterator[tuple[Spec, Own | ForAll]]:
    for spec in specs:
        names = [*dict(spec.sizes or ()), *spec.open]
        for one in _own_or_for_all(listed.get(_key_of(spec), ()), names):
            yield spec, one


def _own_or_for_all(values: Iterable[object], names: Sequence[str]) -> Iterator[Own | ForAll]:
    """Yield what is said of some sizes, but for what is neither; names: of the sizes."""
    for value in values:
        with contextlib.suppress(ValueError):
            match value:
                case [str(config), file, regime]:
                    found = Regime.from_plain(regime, names)
                    yield Own(_config(config), file_name(file), found)
                case str(for_all):
                    yield ForAll(for_all)


def _true(value: object) -> bool:
    if value is not True:
        raise ValueError("only what is so is kept")
    return True


@lru_cache(maxsize=256)
def _config(text: str) -> Config:
    """Return the config of a text: that of many sizes is the same."""
    return Config.from_json(text)
