"""The bridge, compiled once a run; and the ways that calls go, with it and without."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def bridge() -> ModuleType:
    """Return the bridge, loaded; calls do not use it yet."""
    from tcdsl.codegen.toolchain.cc import Source
    from tcdsl.codegen.toolchain.objects import compile_source
    from tcdsl.grammar.text.errors import CompileError
    from tcdsl.torch import native

    try:
        text = "#include <string>\n#include <Python.h>\nstd::string s;\n"
        headers = native.python_headers()
        compile_source(
            Source("has_cpp", text, "-O0", ("-fPIC", "-isystem", str(headers)), language="c++")
        )
    except CompileError as error:
        pytest.skip(f"no C++ here: {error}")
    made = native.Bridge()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TCDSL_TORCH_BRIDGE", "1")
        assert made.wait(None), made.why
    native.use(None)
    assert made.module is not None
    return made.module


@pytest.fixture
def with_bridge(bridge: ModuleType) -> Iterator[None]:
    """Let calls use the bridge."""
    from tcdsl.torch import native

    native.use(bridge)
    yield
    native.use(None)


@pytest.fixture
def as_users_do(request: pytest.FixtureRequest) -> None:
    """Let calls use the bridge where there can be one."""
    with contextlib.suppress(pytest.skip.Exception):
        request.getfixturevalue("with_bridge")


@pytest.fixture(params=[pytest.param("functions", marks=pytest.mark.wide), "bridge"])
def way(request: pytest.FixtureRequest) -> str:
    """Run a test twice: calls ask torch through its functions, and through the bridge."""
    assert isinstance(request.param, str)
    if request.param == "bridge":
        request.getfixturevalue("with_bridge")
    return request.param
