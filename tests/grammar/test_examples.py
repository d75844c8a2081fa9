"""The examples in the docstrings of the language's modules run."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import tcdsl.grammar

MODULES = [module.name for module in pkgutil.iter_modules(tcdsl.grammar.__path__)]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_run(name: str) -> None:
    assert doctest.testmod(importlib.import_module(f"tcdsl.grammar.{name}")).failed == 0
