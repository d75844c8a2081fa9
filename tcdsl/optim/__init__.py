"""Optimizers: parameters change by their gradients, and the learning rate from epoch to epoch."""

from tcdsl.calls.process.places import found_in
from tcdsl.optim import lr_scheduler, swa_utils
from tcdsl.optim.adafactor import Adafactor
from tcdsl.optim.adam import Adam, Adamax, AdamW
from tcdsl.optim.adaptive import Adadelta, Adagrad, RMSprop
from tcdsl.optim.lbfgs import LBFGS
from tcdsl.optim.muon import Muon
from tcdsl.optim.optimizer import Optimizer
from tcdsl.optim.rectified import NAdam, RAdam
from tcdsl.optim.sgd import SGD
from tcdsl.optim.signs import ASGD, Rprop

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "lr_scheduler",
    "swa_utils",
]

found_in(__name__)
