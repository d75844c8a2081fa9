"""Names of PyTorch that are not here, and what to say in their place."""

from __future__ import annotations

from tcdsl import names
from tcdsl.text.instead import instead

__all__ = ["missing"]

_COMPLEX = "there are no complex numbers: fft gives real and imaginary parts as a last dimension"
_SPARSE = "there are no sparse tensors: use dense ones, and index_add or gather for their products"
_HALVES = "there are no quantised tensors: use torch.bfloat16 or torch.int8"
_OLD = "it has gone from PyTorch too"
REASONS = {
    "complex64": _COMPLEX, "complex128": _COMPLEX, "cfloat": _COMPLEX, "cdouble": _COMPLEX,
    "view_as_complex": _COMPLEX, "view_as_real": _COMPLEX, "polar": _COMPLEX,
    "sparse": _SPARSE, "sparse_coo_tensor": _SPARSE, "sparse_csr_tensor": _SPARSE,
    "quantization": _HALVES, "quantize_per_tensor": _HALVES, "ao": _HALVES,
    "jit": "models are compiled kernels already: leave script and trace out, or say torch.compile",
    "onnx": "models are not exported: save a state_dict and load it in PyTorch to export it",
    "hub": "models are not downloaded: define the model, and load a state_dict by torch.load",
    "fx": "graphs of Python programs are not made: torch.compile takes a model as it is",
    "export": "models are not exported: save a state_dict and load it in PyTorch to export it",
    "distributed": "processes do not talk to each other here; each is one of its own",
    "multiprocessing": "use Python's multiprocessing; DataLoader(num_workers=) has its own workers",
    "mps": "there are CPUs and CUDA: torch.device('cpu')",
    "xpu": "there are CPUs and CUDA: torch.device('cpu')",
    "solve": "use torch.linalg.solve; " + _OLD,
    "lstsq": "use torch.linalg.lstsq; " + _OLD,
    "__config__": "what it is built of is shown by `tcdsl doctor`",
}  # fmt: skip


_MODULES = {
    "fft": "there are no complex numbers: torch.rfft, torch.irfft and torch.ifft give and take "
    "real and imaginary parts as a last dimension",
    "utils.tensorboard": "write numbers to a file",
    "utils.cpp_extension": "kernels are texts: see tcdsl.define",
    "utils.mobile_optimizer": "models are not exported",
}


def absent_module(name: str) -> str:
    """Return why a submodule of `torch` is not here or what to use; or nothing."""
    for known in (name, name.partition(".")[0]):
        if found := _MODULES.get(known, REASONS.get(known, "")):
            return found
    return ""


def missing(name: str) -> str:
    """Return the end of a message: why a name is not here or what to use, else the nearest name."""
    if name in REASONS:
        return f": {REASONS[name]}"
    found = instead(name, [*names.ROOMS, *names.LIBRARY])
    return found if found.startswith("; did you mean") else ""
