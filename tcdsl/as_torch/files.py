"""Files of PyTorch that scripts import names from, where the library has the names elsewhere.

`torch.distributions.normal` is a file there and none here; as a module it stands for the room that
has its names, `tcdsl.distributions`.
"""

from __future__ import annotations

import importlib
import types
from typing import Any

from tcdsl.as_torch.absent import absent_module

__all__ = ["attach", "room_of", "stand_in"]

# Where PyTorch's files lie: the files, and the modules here that have their names.
_FILES = (
    ("", "types", ("as_torch.argument_types",)),
    ("", "version", ("as_torch.version",)),
    ("", "functional", ("library",)),
    ("", "fft", ("as_torch.fourier",)),
    ("", "accelerator", ("as_torch.accelerator",)),
    ("", "jit", ("as_torch.jit",)),
    ("", "distributed", ("as_torch.alone",)),
    ("", "multiprocessing", ("as_torch.multiprocess",)),
    ("", "onnx", ()),  # for scripts that export only if asked to: every name says why not
    ("utils", "dlpack", ("as_torch.capsules",)),
    ("utils", "hooks", ("autograd.hooks",)),
    ("distributions",
     "bernoulli beta binomial categorical cauchy chi2 constraint_registry continuous_bernoulli "
     "dirichlet exponential fishersnedecor gamma geometric gumbel half_cauchy "
     "half_normal independent inverse_gamma kl kumaraswamy laplace log_normal "
     "lkj_cholesky logistic_normal lowrank_multivariate_normal mixture_same_family multinomial "
     "multivariate_normal negative_binomial normal one_hot_categorical pareto poisson "
     "relaxed_bernoulli relaxed_categorical studentT transformed_distribution uniform "
     "von_mises weibull wishart",
     ("distributions",)),
    ("optim",
     "adadelta adagrad adam adamax adamw asgd lbfgs _muon nadam radam rmsprop rprop sgd",
     ("optim",)),
    ("nn.modules",
     "activation adaptive batchnorm channelshuffle container conv distance dropout flatten fold "
     "instancenorm lazy linear loss normalization padding pixelshuffle pooling rnn sparse "
     "transformer upsampling",
     ("nn", "nn.modules.running_norms", "nn.modules.loss")),
    ("nn.modules", "utils", ("as_torch.sizes",)),
    ("nn", "common_types", ("as_torch.sizes",)),
    ("nn.parallel", "data_parallel", ("nn.parallel",)),
    ("nn.utils", "clip_grad convert_parameters", ("nn.utils",)),
    ("autograd", "grad_mode", ("autograd",)),
    ("utils.data", "dataloader dataset sampler", ("utils.data",)),
    ("utils.data", "_utils", ()),
    ("utils.data._utils", "collate", ("utils.data",)),
)  # fmt: skip
_ROOMS = {
    f"{at}.{name}".lstrip("."): rooms for at, names, rooms in _FILES for name in names.split()
}
# Names that start with a line and are no name of a module that is searched.
_UNDER = {
    "_ConvNd": "nn.modules.conv._Conv",
    "_ConvTransposeNd": "nn.modules.conv._Transposed",
    "_DropoutNd": "nn.modules.dropout._Dropout",
    "_NormBase": "nn.modules.running_norms._Running",
}
_made: dict[str, types.ModuleType] = {}
_ABSENT = object()


class _File(types.ModuleType):
    """A file of PyTorch: it has the names of the modules that stand for it."""

    def __getattr__(self, name: str) -> Any:
        at = self.__name__.partition(".")[2]
        if at + "." + name in _ROOMS:
            return stand_in(f"{at}.{name}")
        if name == "__all__":  # what `import *` brings
            return [n for n in dir(self) if n[0] != "_" and n != "annotations"]
        if not name.startswith("__") or name == "__version__":
            path, _, last = _UNDER.get(name, "").rpartition(".")
            for room in (path,) if path else (at, *_ROOMS[at]):
                found = getattr(_ours(room), last or name, _ABSENT)
                if found is not _ABSENT:  # None is a value: of what was not built
                    return found
        why = absent_module(at)
        raise AttributeError(
            f"module '{self.__name__}' has no attribute '{name}' in tcdsl{why and ': '}{why}"
        )

    def __dir__(self) -> list[str]:
        rooms = _ROOMS[self.__name__.partition(".")[2]]
        return sorted({n for room in rooms for n in dir(importlib.import_module(f"tcdsl.{room}"))})


def _ours(path: str) -> types.ModuleType | None:
    """Return the library's own module, if it has one of this path."""
    full = f"tcdsl.{path}"
    try:
        return importlib.import_module(full)
    except ModuleNotFoundError as e:
        if e.name is not None and (full == e.name or full.startswith(e.name + ".")):
            return None
        raise


def room_of(file: str) -> bool:
    """Whether this is a file of PyTorch, named without `torch.`, that another module stands for."""
    return file in _ROOMS


def stand_in(file: str) -> types.ModuleType:
    """Return the module that stands for a file of PyTorch."""
    if file not in _made:
        _made[file] = _File(f"torch.{file}", "Names of PyTorch's file, computed by tcdsl.")
    return _made[file]


def attach(room: str) -> None:
    """Let the files below a room be attributes, as PyTorch's are without an import.

    What stands for a file asks a file of our own of the same name first. `nn.modules` has all
    layers, as PyTorch's has.
    """
    for at, names, _rooms in _FILES:
        if not at or at.partition(".")[0] != room or at.endswith("._utils"):
            continue
        package = importlib.import_module(f"tcdsl.{at}")
        for name in names.split():
            vars(package)[name] = stand_in(f"{at}.{name}")
    if room == "nn":
        layers = importlib.import_module("tcdsl.nn")
        found = {n: v for n, v in vars(layers).items() if isinstance(v, type)}
        vars(layers.modules).update({n: v for n, v in found.items() if n[0].isupper()})
