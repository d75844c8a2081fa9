"""The kernel of a PyTorch user: tensors in and out, seen by autograd and by transforms."""

from __future__ import annotations

from typing import Any

from tcdsl import kernel
from tcdsl.torch import eager, operator, transforms
from tcdsl.torch.routes import Route, route_of, tensors_of


class Kernel(kernel.Kernel):
    """A definition as a callable on tensors; on arrays of other kinds it is a `tcdsl.Kernel`.

    Calls on plain tensors of which none requires grad do not enter this class: the launcher runs
    them.
    """

    def _call_slowly(self, /, *args: Any, **keywords: Any) -> Any:
        tensors = [*tensors_of(args, keywords)]
        if not tensors:
            return super()._call_slowly(*args, **keywords)
        match route_of(tensors):
            case Route.PLAIN:
                return super()._call_slowly(*args, **keywords)
            case Route.RECORDED:
                return eager.call(self, self.arguments(args, keywords))
            case Route.OPERATOR:
                return operator.call(self, self.arguments(args, keywords))
            case Route.TRANSFORM:
                return transforms.call(self, self.arguments(args, keywords))
