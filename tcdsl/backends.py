"""Settings of PyTorch's libraries, `torch.backends`: taken, and without a meaning here."""

from types import SimpleNamespace

__all__ = ["cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp"]


def _absent() -> bool:
    """Return False: none of these libraries computes here."""
    return False


# The same inputs give the same bits whatever is said, and float32 is float32.
cudnn = SimpleNamespace(
    enabled=True,
    benchmark=False,
    deterministic=False,
    allow_tf32=True,
    is_available=_absent,
    version=lambda: None,
)
cuda = SimpleNamespace(matmul=SimpleNamespace(allow_tf32=False), is_built=_absent)
mps = SimpleNamespace(is_available=_absent, is_built=_absent)
mkl = SimpleNamespace(is_available=_absent)
mkldnn = SimpleNamespace(is_available=_absent, enabled=True)
openmp = SimpleNamespace(is_available=_absent)
