"""Without PyTorch, or with an old one, the import says what to install."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def imported_after(code: str) -> str:
    """Return what `import tcdsl.torch` raises after some code, in a process of its own."""
    code += """
try:
    import tcdsl.torch
except ImportError as error:
    print(f"{type(error).__name__} of {error.name}: {error}")
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_without_pytorch_the_import_says_what_to_install() -> None:
    assert imported_after("import sys; sys.modules['torch'] = None") == (
        "ModuleNotFoundError of torch: tcdsl.torch needs PyTorch, which is not installed\n"
        '  pip install "tcdsl[torch]"'
    )


def test_an_old_pytorch_is_refused_with_its_version() -> None:
    fake = "import sys, types; sys.modules['torch'] = t = types.ModuleType('torch')"
    assert imported_after(f"{fake}; t.__version__ = '2.4.1+cpu'") == (
        "ImportError of torch: tcdsl.torch needs PyTorch 2.13 or newer, found 2.4.1+cpu\n"
        '  pip install "tcdsl[torch]"'
    )


def test_the_oldest_version_is_that_of_the_package() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (wanted,) = extras["optional-dependencies"]["torch"]
    text = (ROOT / "tcdsl/torch/installed.py").read_text()
    oldest = re.search(r"OLDEST = \((\d+), (\d+)\)", text)
    assert oldest is not None
    assert wanted == f"torch>={oldest[1]}.{oldest[2]}"
