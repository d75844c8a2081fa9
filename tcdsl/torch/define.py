"""`define` for PyTorch: text in, kernels on tensors out."""

from __future__ import annotations

from os import PathLike
from typing import Unpack, cast

from tcdsl.definitions import Constants, Definitions, Options, all_of, chosen, read
from tcdsl.torch.autocast import Policy, check_policy
from tcdsl.torch.kernel import Kernel


def define(
    text: str | PathLike[str],
    name: str | None = None,
    constants: Constants | None = None,
    *,
    autocast: Policy = "promote",
    **options: Unpack[Options],
) -> Kernel:
    """Parse a text and return its kernel on tensors; see `tcdsl.define` for what is not here.

    Parameters
    ----------
    autocast : "promote", "lower", "float32" or None, default "promote"
        What torch.autocast does to arguments of float32, float16 and bfloat16. They are cast to
        the type that the text declares. Where that is a type variable: to the widest type among
        its arguments, to autocast's own type, or to float32. None leaves them as they are.
    """
    made = chosen(Kernel, read(text, constants, options), name)
    if isinstance(made, Definitions):
        return cast(Kernel, _with_policy(made, autocast))
    check_policy(autocast, [made.definition])
    return made.with_autocast(autocast)


def define_all(
    text: str | PathLike[str],
    constants: Constants | None = None,
    *,
    autocast: Policy = "promote",
    **options: Unpack[Options],
) -> Definitions[Kernel]:
    """Parse a text and return all its kernels on tensors by name; see `tcdsl.define_all`."""
    return _with_policy(all_of(Kernel, read(text, constants, options)), autocast)


def _with_policy(made: Definitions[Kernel], autocast: Policy) -> Definitions[Kernel]:
    check_policy(autocast, [k.definition for k in made])
    return Definitions({k.name: k.with_autocast(autocast) for k in made})
