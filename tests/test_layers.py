"""The import order of the packages: grammar < codegen < autotune < tcdsl."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LAYERS = ("grammar", "codegen", "autotune", "tcdsl")
# Who may import a heavy optional package, by file.
OWNERS = {"cupy": ("codegen/cuda.py",), "torch": ("tcdsl/torch/",)}


def python_files(layer: str) -> list[Path]:
    links = {ROOT / "tcdsl" / name for name in LAYERS}
    return [p for p in (ROOT / layer).rglob("*.py") if links.isdisjoint(p.parents)]


def imports(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Import(names):
                yield from ((alias.name, node.lineno) for alias in names)
            case ast.ImportFrom(module=str(module), level=0, names=names):
                yield from ((f"{module}.{alias.name}", node.lineno) for alias in names)
            case ast.ImportFrom():
                yield f"relative import in {path}", node.lineno
            case _:
                pass


def layer_of(module: str) -> int | None:
    """Return the layer a module belongs to; None where it is not ours."""
    parts = module.split(".")
    if parts[0] != "tcdsl":
        return None
    return LAYERS.index(parts[1]) if len(parts) > 1 and parts[1] in LAYERS else len(LAYERS) - 1


@pytest.mark.parametrize("layer", LAYERS)
def test_a_package_imports_only_what_stands_to_its_left(layer: str) -> None:
    own, files = LAYERS.index(layer), python_files(layer)
    assert files
    faults = [
        f"{path.relative_to(ROOT)}:{line}: {module}"
        for path in files
        for module, line in imports(path)
        if module.startswith("relative") or (layer_of(module) or 0) > own
    ]
    assert not faults


@pytest.mark.parametrize("package", OWNERS)
def test_heavy_packages_are_imported_in_one_place(package: str) -> None:
    faults = [
        str(path.relative_to(ROOT))
        for layer in LAYERS
        for path in python_files(layer)
        if not str(path.relative_to(ROOT)).startswith(OWNERS[package])
        and any(module.split(".")[0] == package for module, _ in imports(path))
    ]
    assert not faults


def test_the_links_show_the_packages_under_their_import_names() -> None:
    for name in LAYERS[:-1]:
        link = ROOT / "tcdsl" / name
        assert link.is_symlink()
        assert link.resolve() == ROOT / name
