"""Arrays without elements, for tracers: what `Kernel.infer` takes and gives."""

from tcdsl.calls.operands.form import Form

__all__ = ["Form"]
