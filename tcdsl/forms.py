"""Arrays without elements, for tracers: what `Kernel.infer` takes and gives."""

from tcdsl.calls.operands.abstract import AbstractArray

Form = AbstractArray  # its earlier name, which programs import

__all__ = ["AbstractArray", "Form"]
