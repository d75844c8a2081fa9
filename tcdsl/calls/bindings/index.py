"""What a definition's executables are, by what decides them: nothing is lowered to find an object.

The text of an executable follows from the definition, its types, the specialisation, the sizes it
is chosen at, the machine and the generator; its object from the text, the compiler and its flags.
So a record by all these names the object, and another one the analytic choice. A record may be
lost, and is trusted with nothing that the objects beside it are not trusted with: a config that is
none of this program's is refused by whoever lowers it, an object that is not there is compiled.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.codegen.machine.spec import Spec
from tcdsl.codegen.toolchain import load, records
from tcdsl.codegen.toolchain.cc import Source, find_compiler
from tcdsl.codegen.toolchain.objects import lookup

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

    def object(self, spec: Spec, config: Config, sizes: Mapping[str, int]) -> load.Loaded | None:
        """Return an executable, loaded, if it was compiled before and is still there."""
        key = records.read("object", self._compiled(spec, config, sizes), _object_key)
        path = None if key is None else lookup(key)
        if path is None:
            return None
        try:
            return load.load(path, self.name)
        except (OSError, ValueError):  # pruned meanwhile; another's object
            return None

    def keep_object(
        self, spec: Spec, config: Config, sizes: Mapping[str, int], loaded: load.Loaded
    ) -> None:
        """Keep which object an executable is."""
        records.write("object", self._compiled(spec, config, sizes), loaded.key, self.name)

    def _parts(self, spec: Spec, sizes: Mapping[str, int]) -> Sequence[str]:
        return self.identity, repr(self.machine), repr(spec), json.dumps(dict(sizes))

    def _compiled(self, spec: Spec, config: Config, sizes: Mapping[str, int]) -> Sequence[str]:
        found = find_compiler()
        flags = Source(self.name, "").all_flags(found)
        compiler = found.kind, found.version, found.isa_key, *flags
        return *self._parts(spec, sizes), config.to_json(), *compiler


def _object_key(value: object) -> str:
    if not (isinstance(value, str) and _KEY.fullmatch(value)):
        raise ValueError("it names no object")
    return value
