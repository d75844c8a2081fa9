"""Names that scripts import from PyTorch's files are there, whichever file of ours has them."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections import OrderedDict

import pytest

from tcdsl import cuda, library
from tcdsl.as_torch import alone, capsules, files, fourier, jit, multiprocess, sizes

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.cc]

SCRIPT = """
import torch
import torch.nn as nn
import torch.nn.modules.transformer as transformer
import torch.functional
import torch.onnx
import torch.types
import torch.utils.data._utils
import torch.version
from torch.distributions.kl import register_kl
from torch.distributions.normal import Normal
from torch.nn.common_types import _size_2_t
from torch.nn.modules import Linear
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import Conv2d, _ConvNd
from torch.nn.modules.loss import HuberLoss, _Loss, _WeightedLoss
from torch.nn.modules.padding import *
from torch.nn.modules.utils import _pair, _triple
from torch.nn.utils.clip_grad import clip_grad_norm_
from torch.optim.adam import Adam
from torch.optim.lr_scheduler import _LRScheduler
from torch.utils.data._utils.collate import default_collate
from torch.types import Device, Number, _size, _dtype
from torch.utils.data.dataloader import DataLoader
from torch.utils.hooks import RemovableHandle

print(isinstance(nn.BatchNorm2d(2), nn.modules.batchnorm._BatchNorm), issubclass(Conv2d, _ConvNd))
print(nn.modules.linear.Linear is nn.Linear is Linear, torch.optim.Adam is Adam)
print(torch.distributions.normal.Normal is Normal is torch.distributions.Normal, _pair(3))
print(torch.utils.data._utils.collate.default_collate([1, 2]), transformer.TransformerEncoder)
print(torch.version.__version__ == torch.__version__, torch.version.cuda, isinstance(3, Number),
      isinstance(torch.device("cpu"), Device),
      isinstance(nn.Linear(1, 1).weight.register_hook(print), RemovableHandle),
      torch.functional.einsum is torch.einsum)
print(type(nn.Linear(1, 1).weight), type(torch.ones(1)))
print(ReflectionPad2d, hasattr(torch.nn.modules.batchnorm, "no_such_name"))
"""


def test_a_script_finds_what_it_imports() -> None:
    command = [sys.executable, "-c", f"import tcdsl.as_torch as a; a.install()\n{SCRIPT}"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")
    assert said[:3] == ["True True", "True True", "True (3, 3)"]
    assert said[3].startswith("tensor([1, 2])")
    assert said[4] == "True None True True True True"
    assert said.pop(5) == "<class 'torch.nn.parameter.Parameter'> <class 'torch.Tensor'>"
    assert said[5].endswith(" False")


def test_every_file_is_pytorchs() -> None:
    found = [
        name
        for at, words, _ in files._FILES
        for name in (f"{at}.{w}".lstrip(".") for w in words.split())
    ]
    assert len(found) == len({*found})
    for name in found:
        assert importlib.util.find_spec(f"torch.{name}") is not None, name


def test_a_capsule_is_of_the_same_memory() -> None:
    x = library.ones(3, requires_grad=True)
    back = capsules.from_dlpack(capsules.to_dlpack(x))
    back[1] = 5
    assert x.tolist() == capsules.from_dlpack(back.numpy()).tolist() == [1, 5, 1]
    assert torch.utils.dlpack.from_dlpack(capsules.to_dlpack(x)).tolist() == [1, 5, 1]


@pytest.mark.parametrize(
    ("name", "value"), [("_pair", 3), ("_triple", (1, 2, 3)), ("_single", [4])]
)
def test_sizes(name: str, value: object) -> None:
    theirs = getattr(torch.nn.modules.utils, name)
    assert getattr(sizes, name)(value) == theirs(value)
    assert getattr(sizes, name).__name__ == theirs.__name__


def test_frequencies_and_their_order() -> None:
    for n in (4, 5):
        for name in ("fftfreq", "rfftfreq"):
            theirs = getattr(torch.fft, name)(n, d=0.5)
            assert getattr(fourier, name)(n, d=0.5).tolist() == theirs.tolist()
        for name in ("fftshift", "ifftshift"):
            theirs = getattr(torch.fft, name)(torch.arange(n))
            assert getattr(fourier, name)(library.arange(n)).tolist() == theirs.tolist()


def test_prefixes_are_taken_off() -> None:
    said = []
    for consume in (
        sizes.consume_prefix_in_state_dict_if_present,
        torch.nn.modules.utils.consume_prefix_in_state_dict_if_present,
    ):
        state = OrderedDict([("module.a", 1), ("b", 2), ("module.c.d", 3)])
        state._metadata = {"": 0, "module": 1, "module.c": 2}  # type: ignore[attr-defined]
        consume(state, "module.")
        said.append((list(state.items()), state._metadata))  # type: ignore[attr-defined]
    assert said[0] == said[1]


def test_functions_are_what_they_are_under_jit() -> None:
    def twice(x: int) -> int:
        return 2 * x

    assert jit.script(twice) is jit.trace(twice, (1,)) is jit.ignore(twice) is jit.unused(twice)
    assert jit.ignore(drop=True)(twice) is jit.export(twice) is jit.freeze(twice) is twice
    assert not (jit.is_scripting())
    assert not (jit.is_tracing())
    assert jit.annotate(list[int], [1]) == [1]
    assert jit.isinstance([1], list[int])


def test_processes_are_pythons() -> None:
    multiprocess.set_sharing_strategy("file_system")
    assert multiprocess.get_sharing_strategy() == "file_system"
    assert multiprocess.cpu_count() > 0
    with pytest.raises(AssertionError, match="invalid sharing strategy"):
        multiprocess.set_sharing_strategy("no")
    multiprocess.start_processes(abs, (), 1, start_method="fork")
    with pytest.raises(RuntimeError, match="process 0 terminated with exit code"):
        multiprocess.start_processes((1).__truediv__, (), 2, start_method="fork")


def test_a_process_is_alone() -> None:
    assert not (alone.is_available())
    assert not (alone.is_initialized())
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        alone.get_rank()


def test_older_names_of_training_in_halves_need_no_import() -> None:
    assert cuda.amp.autocast is not None
    assert cuda.get_rng_state_all() == []
    assert cuda.max_memory_allocated() == 0
    assert not cuda.is_bf16_supported()
