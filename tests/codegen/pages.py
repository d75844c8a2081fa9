"""Problems whose arrays end, or begin, exactly at pages that cannot be touched."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from tcdsl.autotune.targets.cpu.guard_pages import GuardedBytes, Place
from tests.codegen.harness import Problem


@contextmanager
def between_pages(p: Problem, place: Place) -> Iterator[Problem]:
    """Give the problem with its inputs against such a page, none of them to be written."""
    with ExitStack() as stack:
        args: list[Any] = []
        for a in p.args:
            if not np.ndim(a):
                args.append(a)
                continue
            memory = stack.enter_context(GuardedBytes(a.nbytes, place, a.itemsize))
            view = memory.bytes.view(a.dtype).reshape(a.shape)
            view[...] = a
            memory.seal()
            args.append(view)
        yield Problem(p.checked, tuple(args), p.outs)
