"""Settings of products on GPUs, where float32 is float32 whatever is said."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

matmul = SimpleNamespace(allow_tf32=False)


def is_built() -> bool:
    """Return False: PyTorch's kernels are not here."""
    return False


def _taken(enabled: bool = True, *args: object, **kwargs: object) -> None:
    """Take what kernel attention may choose: there is one."""


enable_flash_sdp = enable_math_sdp = enable_mem_efficient_sdp = enable_cudnn_sdp = _taken


@contextmanager
def sdp_kernel(
    enable_flash: bool = True,
    enable_math: bool = True,
    enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> Iterator[None]:
    """Choose nothing, as `nn.attention.sdpa_kernel` does."""
    yield


def _is_chosen() -> bool:
    """Return True: what is asked for is what there is."""
    return True


flash_sdp_enabled = math_sdp_enabled = mem_efficient_sdp_enabled = cudnn_sdp_enabled = _is_chosen
