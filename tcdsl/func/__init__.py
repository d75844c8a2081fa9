"""Functions made of functions and calls of modules without their state: `torch.func`'s names."""

from tcdsl.autograd.transforms import (
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    vjp,
)
from tcdsl.autograd.vmapped import vmap
from tcdsl.calls.process.places import found_in
from tcdsl.nn.utils.stateless import functional_call, stack_module_state

__all__ = [
    "functional_call",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "stack_module_state",
    "vjp",
    "vmap",
]

found_in(__name__)
