"""What a definition's executables are, by what decides them: nothing is lowered to find an object.

The text of an executable follows from the definition, its types, the specialisation, its config,
the machine and the generator; its object from the text, the compiler and its flags. So a record by
all these names the object, and others the analytic choices: of exact sizes one, of size-generic
executables one for each `Regime` of sizes; and that a config of a file is one of the program's. A
record may be lost, and is trusted with nothing that the objects beside it are not trusted with: a
config that is none of this program's is refused by whoever lowers it, an object that is not there
is compiled.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence

from tcdsl.codegen.forms.base.regime import Regime
from tcdsl.codegen.library import load
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.codegen.machine.spec import Spec
from tcdsl.codegen.toolchain import records
from tcdsl.codegen.toolchain.cc import Source, find_compiler
from tcdsl.codegen.toolchain.objects import lookup
from tcdsl.grammar.text.dataclass import dataclass

_KEY = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Index:
    """The records of a definition bound to types, for the CPU.

    identity: of the definition with its types, as text. name: of the definition.
    """

    identity: str
    name: str
    machine: Machine

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

    def is_suited(self, spec: Spec, exact: Spec) -> bool:
        """Whether the model found the executable for all sizes good enough for exact ones."""
        return bool(records.read("suited", self._suited(spec, exact), _true))

    def keep_suited(self, spec: Spec, exact: Spec) -> None:
        """Keep that the executable for all sizes suits exact ones."""
        records.write("suited", self._suited(spec, exact), True, self.name)

    def is_legal(self, spec: Spec, config: Config) -> bool:
        """Whether a config of anywhere was found to be one of this program's."""
        return bool(records.read("legal", self._legal(spec, config), _true))

    def keep_legal(self, spec: Spec, config: Config) -> None:
        """Keep that a config is one of this program's."""
        records.write("legal", self._legal(spec, config), True, self.name)

    def object(self, spec: Spec, config: Config, sizes: Mapping[str, int]) -> load.Loaded | None:
        """Return an executable, loaded, if it was compiled before and is still there."""
        for key in records.read_all("object", self._compiled(spec, config, sizes), _object_key):
            path = lookup(key)
            if path is not None:
                with contextlib.suppress(OSError, ValueError):  # pruned meanwhile; another's object
                    return load.load(path, self.name)
        return None

    def keep_object(
        self, spec: Spec, config: Config, sizes: Mapping[str, int], loaded: load.Loaded
    ) -> None:
        """Keep which object an executable is."""
        records.write("object", self._compiled(spec, config, sizes), loaded.key, self.name)

    def _parts(self, spec: Spec, sizes: Mapping[str, int]) -> Sequence[str]:
        at = dict(sizes) if spec.is_exact else {}  # what is for others too knows none of them
        return self.identity, repr(self.machine), repr(spec), json.dumps(at)

    def _suited(self, spec: Spec, exact: Spec) -> Sequence[str]:
        return *self._parts(spec, {}), repr(exact)

    def _legal(self, spec: Spec, config: Config) -> Sequence[str]:
        return *self._parts(spec, dict(spec.sizes or ())), config.to_json()

    def _compiled(self, spec: Spec, config: Config, sizes: Mapping[str, int]) -> Sequence[str]:
        found = find_compiler()
        flags = Source(self.name, "").all_flags(found)
        compiler = found.kind, found.version, found.isa_key, *flags
        return *self._parts(spec, sizes), config.to_json(), *compiler


def _true(value: object) -> bool:
    if value is not True:
        raise ValueError("only what is so is kept")
    return True


def _object_key(value: object) -> str:
    if not (isinstance(value, str) and _KEY.fullmatch(value)):
        raise ValueError("it names no object")
    return value
