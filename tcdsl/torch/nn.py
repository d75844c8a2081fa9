"""`TC`: a text as an `nn.Module` of PyTorch's; `tcdsl/layers` has what it is."""

from __future__ import annotations

from typing import Any

import torch

from tcdsl.grammar.text.errors import TCTypeError
from tcdsl.layers.layer import TextLayer
from tcdsl.layers.library import Texts
from tcdsl.torch.define import define
from tcdsl.torch.face import LIBRARY
from tcdsl.torch.kernel import Kernel


class TC(TextLayer, torch.nn.Module):  # noqa: D101 - that of both libraries' layers
    __doc__ = TextLayer.__doc__

    library = LIBRARY
    texts = Texts(define, lambda kernel: isinstance(kernel, Kernel), "tcdsl.torch.define")

    def __prepare_scriptable__(self) -> Any:  # torch.jit.script asks for it
        raise TCTypeError(
            f"{self.tc.name}: torch.jit.script compiles Python, and a kernel is none\n"
            "  torch.compile and torch.export take the layer as it is"
        )
