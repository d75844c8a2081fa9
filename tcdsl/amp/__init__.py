"""Training in halves: PyTorch's names."""

from tcdsl.amp.grad_scaler import GradScaler
from tcdsl.library.settings import autocast

__all__ = ["GradScaler", "autocast"]
