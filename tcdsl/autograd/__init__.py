"""Gradients: backward, grad, which calls are recorded, hooks."""

from importlib import import_module
from types import ModuleType

from tcdsl.autograd import forward_ad, functional, graph
from tcdsl.autograd.anomaly import detect_anomaly, is_anomaly_enabled, set_detect_anomaly
from tcdsl.autograd.function import Function
from tcdsl.autograd.gradcheck import gradcheck, gradgradcheck
from tcdsl.autograd.gradients import backward, grad
from tcdsl.autograd.hooks import RemovableHandle
from tcdsl.autograd.modes import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    no_grad,
    set_grad_enabled,
)
from tcdsl.autograd.variable import Variable
from tcdsl.calls.process.places import found_in

__all__ = [
    "Function",
    "RemovableHandle",
    "Variable",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "forward_ad",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "is_anomaly_enabled",
    "is_grad_enabled",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
]
found_in(__name__)


def __getattr__(name: str) -> ModuleType:
    """Load at its first use what most programs do without."""
    if name != "profiler":
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return import_module("tcdsl.autograd.profiler")
