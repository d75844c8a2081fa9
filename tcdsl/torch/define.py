"""`define` for PyTorch: text in, kernels on tensors out."""

from __future__ import annotations

from os import PathLike
from typing import Unpack, cast

from tcdsl.definitions import Constants, DefineOptions, Definitions, all_of, chosen, read
from tcdsl.torch.autocast import Policy, check_policy
from tcdsl.torch.kernel import Kernel


def define(
    text: str | PathLike[str],
    name: str | None = None,
    constants: Constants | None = None,
    *,
    backward: str | None = None,
    training: bool = False,
    autocast: Policy = "promote",
    **options: Unpack[DefineOptions],
) -> Kernel:
    """Parse a text and return its kernel on tensors; see `tcdsl.define` for what is not here.

    Parameters
    ----------
    backward : str, optional
        The definition of the text that autograd takes for the way back, in place of the one that is
        derived. It takes the parameters, then outputs that it reads, by their names, then an
        adjoint for each float output; it gives a gradient for each float parameter in order, or for
        some of them, told by their names: ``d_W`` or ``W_grad``. Its own derivative is derived.
        `vjp`, `jvp`, `with_grad` and `tcdsl.grad` derive from the text all the same; a kernel over
        a batch (`batched`) has none, and raises where autograd would need one.
    training : bool
        Of no effect, the first Python API had it: every kernel trains.
    autocast : "promote", "lower", "float32" or None, default "promote"
        What torch.autocast does to arguments of float32, float16 and bfloat16. They are cast to
        the type that the text declares. Where that is a type variable: to the widest type among
        its arguments, to autocast's own type, or to float32. None leaves them as they are.
    """
    session = read(text, constants, options, ("name", "backward", "training", "autocast"))
    made = chosen(Kernel, session, name, backward)
    if isinstance(made, Definitions):
        return cast(Kernel, _with_policy(made, autocast))
    check_policy(autocast, [made.definition])
    return made.with_autocast(autocast)


def define_all(
    text: str | PathLike[str],
    constants: Constants | None = None,
    *,
    autocast: Policy = "promote",
    **options: Unpack[DefineOptions],
) -> Definitions[Kernel]:
    """Parse a text and return all its kernels on tensors by name; see `tcdsl.define_all`."""
    return _with_policy(all_of(Kernel, read(text, constants, options, ("autocast",))), autocast)


def _with_policy(made: Definitions[Kernel], autocast: Policy) -> Definitions[Kernel]:
    check_policy(autocast, [k.definition for k in made])
    return Definitions({k.name: k.with_autocast(autocast) for k in made})
