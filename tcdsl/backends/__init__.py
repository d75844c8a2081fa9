"""Settings of PyTorch's libraries, `torch.backends`: taken, and without a meaning here."""

from tcdsl.backends import cuda, cudnn, mkl, mkldnn, mps, openmp

__all__ = ["cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp"]
