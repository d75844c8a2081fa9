"""The bridge, compiled once a run; and the ways that calls go, with it and without."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def bridge() -> ModuleType:
    """Return the bridge, loaded; calls do not use it yet."""
    from tcdsl.codegen.toolchain.objects import compile_source
    from tcdsl.codegen.toolchain.source import Source
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


@pytest.fixture(params=["functions", pytest.param("bridge", marks=pytest.mark.wide)])
def way(request: pytest.FixtureRequest) -> str:
    """Run a test twice: calls ask torch through its functions, and through the bridge.

    What calls mean is the same; to compile the bridge takes half a minute, which is for wider runs.
    """
    assert isinstance(request.param, str)
    if request.param == "bridge":
        request.getfixturevalue("with_bridge")
    return request.param
