"""What programs say before they train means what it says, or is taken, or refused in words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tcdsl import backends, library, nn, optim


@pytest.mark.cc
def test_what_programs_say_before_they_train_is_taken() -> None:
    backends.cudnn.benchmark = True
    assert not backends.mps.is_available()
    model = nn.Linear(2, 2)
    assert library.compile(model) is model
    assert repr(model.load_state_dict(model.state_dict())) == "<All keys matched successfully>"
    assert "missing_keys=['bias']" in repr(model.load_state_dict({"weight": model.weight}, False))
    optim.AdamW(model.parameters(), fused=False)
    library.set_float32_matmul_precision("high")
    assert library.get_float32_matmul_precision() == "high"
    assert library.is_floating_point(model.weight)
    assert model.get_parameter("weight") is model.weight
    assert not any(p.requires_grad for p in model.requires_grad_(False).parameters())


@pytest.mark.cc
def test_nothing_is_recorded_in_inference_mode() -> None:
    x = library.ones(2, requires_grad=True)

    @library.inference_mode()  # type: ignore[untyped-decorator]
    def twice(t: Any) -> Any:
        return t * 2

    with library.inference_mode():
        assert not (x * 2).requires_grad
    with library.no_grad(), library.inference_mode(False):  # which leaves the mode
        assert (x * 2).requires_grad
    assert not twice(x).requires_grad
    assert (x * 2).requires_grad


def test_what_types_hold_is_what_numpy_says() -> None:
    for name in ("float16", "float32", "float64"):
        made, known = library.finfo(getattr(library, name)), np.finfo(name)
        for field in ("bits", "max", "min", "eps", "tiny"):
            assert getattr(made, field) == getattr(known, field)
    for name in ("uint8", "int8", "int16", "int32", "int64"):
        whole, limits = library.iinfo(getattr(library, name)), np.iinfo(name)
        assert (whole.max, whole.min, whole.bits) == (limits.max, limits.min, limits.bits)
    with pytest.raises(TypeError, match="requires a floating point input type"):
        library.finfo(library.int32)
