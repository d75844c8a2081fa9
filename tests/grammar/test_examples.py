"""The examples in the docstrings of the language's modules run."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import tcdsl.grammar

MODULES = [
    module.name
    for module in pkgutil.walk_packages(tcdsl.grammar.__path__, "tcdsl.grammar.")
    if not module.ispkg
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_run(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0
