"""`compiler.py`, loaded at its first use: a call whose executable a record finds does without.

The forms are two thirds of our code and their classes most of an import's time. Attributes set here
hide those of the module, as a test may want.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["compiler"]

if TYPE_CHECKING:
    from tcdsl.codegen.choose import compiler
else:

    class _Late:
        """A module by its name."""

        def __getattr__(self, name: str) -> Any:
            from tcdsl.codegen.choose import compiler as module

            return getattr(module, name)

    compiler = _Late()
