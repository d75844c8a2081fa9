"""Parameters begin with PyTorch's numbers of the same seed."""

from __future__ import annotations

from typing import Any

import pytest

from tcdsl import library as tc
from tcdsl import nn

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.cc]


@pytest.mark.parametrize(
    ("name", "shape", "keywords"),
    [
        ("trunc_normal_", (40, 7), {"std": 0.02}),
        ("trunc_normal_", (300,), {"std": 2.0, "mean": 1.0}),
        pytest.param(  # few inside: by density
            "trunc_normal_", (50,), {"mean": 2.0, "a": 2.5, "b": 3.5}, marks=pytest.mark.wide
        ),
        ("trunc_normal_", (50,), {"a": -0.3, "b": 0.2}),
        ("orthogonal_", (3, 5), {}),  # drawn as it lies, then turned
        ("orthogonal_", (5, 3), {"gain": 2.0}),
        ("sparse_", (9, 4), {"sparsity": 0.4}),
        ("dirac_", (4, 2, 3), {"groups": 2}),
        ("kaiming_normal_", (4, 3, 3), {"mode": "fan_out"}),
    ],
)
def test_numbers_of_a_seed(name: str, shape: tuple[int, ...], keywords: dict[str, Any]) -> None:
    def fill(lib: Any, init: Any) -> Any:
        lib.manual_seed(5)
        named = {} if name == "dirac_" else {"generator": lib.Generator().manual_seed(3)}
        return getattr(init, name)(lib.zeros(shape), **keywords, **named)

    ours, theirs = fill(tc, nn.init), fill(torch, torch.nn.init)
    torch.testing.assert_close(torch.from_numpy(ours.numpy()), theirs, rtol=2e-5, atol=2e-6)


def test_a_mean_far_from_the_bounds_is_warned_of() -> None:
    with pytest.warns(UserWarning, match="mean is more than 2 std from") as seen:
        nn.init.trunc_normal_(tc.empty(3), mean=9.0)
    assert seen[0].filename == __file__
