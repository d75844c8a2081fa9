"""Training in halves: PyTorch's names."""

from tcdsl.amp.custom import custom_bwd, custom_fwd, is_autocast_available
from tcdsl.amp.grad_scaler import GradScaler
from tcdsl.calls.process.places import found_in
from tcdsl.library.autocast_mode import autocast

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]

found_in(__name__)
