"""What vmap makes of a kernel, for torch.func and for the operator: the text over a batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from tcdsl.grammar.text.errors import TCTypeError
from tcdsl.grammar.text.heads import applied
from tcdsl.kernel import Kernel

K = TypeVar("K", bound=Kernel)


def over_batch(of: K, places: Mapping[str, int], randomness: str) -> K:
    """Return a kernel over a batch.

    Parameters
    ----------
    of : Kernel
    places : mapping of str to int
        The parameters that have the batch, and at which dimension.
    randomness : {"error", "same", "different"}
        As vmap takes it: what becomes of numbers whose seed is one for all elements. Of a
        derivative over adjoints or tangents alone they are those of its one pass in any case.

    Raises
    ------
    TCTypeError
        If there are such numbers, and vmap has not been told what to do with them.
    """
    if "rand" not in applied(of.session.program.defs):
        return of.batched(places)
    if randomness != "error":
        return of.batched(places, randomness="different" if randomness == "different" else "same")
    same = of.batched(places)
    if {*of.session.settings.directions}.issuperset(places):
        return same
    try:
        is_one_seed = (
            same.session.program != of.batched(places, randomness="different").session.program
        )  # of callees too
    except TCTypeError as fault:  # of one in a callee that has nothing of the batch
        if not any(d.code == "TC163" for d in fault.diagnostics):
            raise
        is_one_seed = True
    if is_one_seed:
        raise TCTypeError(
            f"{of.name}: vmap over random numbers of one seed, with randomness='error'\n"
            "  give each element its own seed, or say vmap(..., randomness='same' or 'different')"
        )
    return same
