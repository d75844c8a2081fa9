"""The kernel of a PyTorch user: tensors in and out, seen by autograd and by transforms."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from torch.overrides import handle_torch_function, has_torch_function

from tcdsl import kernel
from tcdsl.torch import eager, operator, transforms
from tcdsl.torch.derivatives import Derivatives
from tcdsl.torch.routes import Route, route_of, tensors_of


class Kernel(kernel.Kernel):
    """A definition as a callable on tensors; on arrays of other kinds it is a `tcdsl.Kernel`.

    Calls on plain tensors of which none requires grad do not enter this class: the launcher runs
    them.
    """

    @cached_property
    def derivatives(self) -> Derivatives:
        """What recorded calls run."""
        return Derivatives(self)

    def _call_slowly(self, /, *args: Any, **keywords: Any) -> Any:
        tensors = [*tensors_of(args, keywords)]
        if not tensors:
            return super()._call_slowly(*args, **keywords)
        if has_torch_function(tensors):  # a subclass, or a mode as torch.device is
            found = handle_torch_function(self._listed, tensors, *args, **keywords)
            return found if len(self.returns) == 1 else self.result(found)
        match route_of(tensors):
            case Route.PLAIN:
                return super()._call_slowly(*args, **keywords)
            case Route.RECORDED:
                return eager.call(self, self.arguments(args, keywords))
            case Route.OPERATOR:
                return operator.call(self, self.arguments(args, keywords))
            case Route.TRANSFORM:
                return transforms.call(self, self.arguments(args, keywords))

    def _listed(self, /, *args: Any, **keywords: Any) -> Any:
        """Call; several results are a plain tuple, whose type takes a sequence of others."""
        found = self(*args, **keywords)
        return found if len(self.returns) == 1 else tuple(found)
