"""What the kernels of one text share: its definitions, settings, and bindings to types."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tcdsl.arguments import Array
from tcdsl.codegen.config import Config
from tcdsl.codegen.machine import Machine, detect, usable_cores
from tcdsl.codegen.spec import Spec
from tcdsl.grammar import nodes
from tcdsl.grammar.check import check
from tcdsl.grammar.errors import render
from tcdsl.variant import Variant

Tune = Literal["off", "cached", "first-call", "online"]


@dataclass(frozen=True, slots=True)
class Settings:
    """How kernels of a text are tuned; see `define`."""

    tune: Tune = "cached"
    cache: Path | None = None
    seconds: float = 10.0
    trials: int | None = None
    seed: int = 0
    threads: int | None = None


class Session:
    """The definitions of one text, bound to types as calls need them."""

    def __init__(self, program: nodes.Program, settings: Settings) -> None:
        self.program = program
        self.settings = settings
        self._variants: dict[Any, Variant] = {}
        self._lock = threading.RLock()
        self._warned: set[str] = set()

    @property
    def machine(self) -> Machine:
        """The machine that kernels are compiled for."""
        return detect()

    @property
    def threads(self) -> int:
        """How many threads a kernel may use."""
        return self.settings.threads or usable_cores()

    def variant(self, definition: nodes.Def, generics: Mapping[str, Any]) -> Variant:
        """Return the definition bound to generics, checked at its first use."""
        key = (definition.name, tuple(sorted(generics.items(), key=lambda g: g[0])))
        with self._lock:
            found = self._variants.get(key)
            if found is None:
                checked = check(self.program, definition.name, generics=generics)
                for warning in checked.warnings:
                    text = render(warning)
                    if text not in self._warned:
                        self._warned.add(text)
                        warnings.warn(text, stacklevel=4)
                found = self._variants[key] = Variant(checked, self.machine, self.threads)
            return found

    def check_now(self, definition: nodes.Def) -> None:
        """Report faults at once; a definition with generics can only be checked when bound."""
        if all(g.default is not None for g in definition.generics):
            self.variant(definition, {})

    def bind(
        self, definition: nodes.Def, arrays: Sequence[Array], generics: Mapping[str, Any]
    ) -> tuple[Variant, dict[str, int]]:
        """Return the variant that takes these arrays, and the sizes they bring.

        Raises
        ------
        TCError
            If generics, types, ranks or sizes do not fit the definition.
        """
        from tcdsl.codegen.reference import sizes_of

        variant = self.variant(definition, generics)
        values = sizes_of(variant.checked, arrays)
        return variant, {s: values[s] for s in variant.checked.sizes}

    def tuned(self, variant: Variant) -> Callable[[Spec], Config | None]:
        """Return how to find the tuned config of an exact specialisation."""
        return lambda spec: None
