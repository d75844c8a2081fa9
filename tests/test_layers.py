"""The rooms of the house: who may import whom, and that nobody does so in a circle."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("grammar", "codegen", "autotune", "tcdsl")
# Each room, a folder, and the rooms that its files import from: `a/` is a with all rooms in it,
# `a` is that one only. A folder that has no line is a part of the room that it lies in. Every
# import counts: at the top of a file, in a function, for annotations.
_NEST = "grammar/ codegen/machine codegen/program codegen/loops"  # what nests are made of
_FORM = f"{_NEST} codegen/forms/base"
_KERNEL = f"{_FORM} codegen/forms/base/cuda"
_RUN = "autotune/store autotune/search autotune/worker"
ROOMS = {
    "grammar": "",
    "grammar/text": "",
    "grammar/proofs": "grammar/text",
    "grammar/types": "grammar/text grammar/proofs",
    "grammar/ranks": "grammar/text grammar/types",
    "grammar/check": "grammar/text grammar/proofs grammar/types grammar/ranks",
    "grammar/batch": "grammar/text grammar/proofs grammar/types grammar/ranks",
    "codegen": "",
    "codegen/machine": "grammar/",
    "codegen/program": "grammar/",
    "codegen/loops": "grammar/",
    "codegen/preludes": "",
    "codegen/forms": "",
    "codegen/forms/base": _NEST,
    "codegen/forms/base/cuda": _FORM,
    "codegen/forms/chain": f"{_FORM} codegen/forms/contraction codegen/forms/rows"
    " codegen/forms/rows/cpu",
    "codegen/forms/contraction": _FORM,
    "codegen/forms/contraction/window": f"{_FORM} codegen/forms/contraction",
    "codegen/forms/contraction/weights": f"{_FORM} codegen/forms/contraction",
    "codegen/forms/contraction/cuda": f"{_KERNEL} codegen/forms/contraction",
    "codegen/forms/points": _FORM,
    "codegen/forms/points/cuda": f"{_KERNEL} codegen/forms/points",
    "codegen/forms/rows": _FORM,
    "codegen/forms/rows/cpu": _FORM.replace("codegen/program ", "") + " codegen/forms/rows",
    "codegen/forms/rows/cuda": f"{_KERNEL} codegen/forms/rows",
    "codegen/forms/stencil": _FORM,
    "codegen/narrow": _NEST,
    "codegen/choose": f"{_NEST} codegen/preludes codegen/forms/ codegen/narrow",
    "codegen/reference": "grammar/ codegen/program",
    "codegen/gradient": "grammar/ codegen/program",
    "codegen/toolchain": "grammar/ codegen/machine",
    "codegen/runtime": "grammar/ codegen/toolchain",
    "codegen/library": "grammar/text codegen/preludes codegen/choose codegen/toolchain",
    "codegen/device": f"{_NEST} codegen/choose codegen/toolchain",
    "autotune/store": "grammar/text codegen/machine codegen/toolchain",
    "autotune/search": "grammar/text codegen/machine autotune/store",
    "autotune/worker": "grammar/text grammar/types codegen/machine codegen/program codegen/loops"
    " codegen/reference codegen/toolchain autotune/store autotune/search",
    "autotune/targets": f"grammar/ codegen codegen/machine codegen/program codegen/reference"
    f" codegen/choose codegen/toolchain {_RUN}",
    "autotune/targets/cpu": f"grammar/ codegen/ {_RUN} autotune/targets",
    "autotune/targets/cuda": f"grammar/ codegen/ {_RUN} autotune/targets",
    "autotune": f"grammar/text codegen/machine {_RUN}",
    "tcdsl/text": "grammar/",
    "tcdsl/calls/process": "",
    "tcdsl/calls/operands": "grammar/ codegen/",
    "tcdsl/calls/bindings": "grammar/ codegen/ autotune/ tcdsl/text tcdsl/calls/process"
    " tcdsl/calls/operands",
    "tcdsl/calls": "grammar/ codegen/ autotune/ tcdsl/text tcdsl/calls/process"
    " tcdsl/calls/operands tcdsl/calls/bindings",
    "tcdsl/calls/gpu": "grammar/ codegen/ tcdsl/calls/process tcdsl/calls/operands"
    " tcdsl/calls/bindings tcdsl/calls",
    "tcdsl/plain": "grammar/ codegen/ tcdsl/text tcdsl/calls/",
    "tcdsl/derived": "grammar/ codegen/ tcdsl/text tcdsl/calls/ tcdsl/plain",
    "tcdsl/ahead": "grammar/text codegen/gradient codegen/toolchain tcdsl/calls/"
    " tcdsl/plain tcdsl/derived",
    "tcdsl": "grammar/ codegen/ autotune/ tcdsl/text tcdsl/calls/ tcdsl/plain tcdsl/derived"
    " tcdsl/ahead tcdsl/ops tcdsl/autograd tcdsl/chance",
    "tcdsl/backends": "",
    "tcdsl/core": "grammar/text codegen/runtime codegen/toolchain tcdsl/calls/bindings",
    "tcdsl/chance": "tcdsl/calls/process tcdsl/plain tcdsl/core",
    "tcdsl/ops": "grammar/text grammar/types codegen/gradient codegen/runtime codegen/device"
    " codegen/machine tcdsl/calls/"
    " tcdsl/chance tcdsl/plain tcdsl/derived tcdsl/core",
    "tcdsl/profiler": "grammar/text grammar/check codegen/runtime codegen/program tcdsl/calls"
    " tcdsl/calls/process",
    "tcdsl/autograd": "tcdsl/profiler tcdsl/calls/process tcdsl/core tcdsl/ops tcdsl/chance",
    "tcdsl/tensors": "grammar/text tcdsl/calls/process tcdsl/core tcdsl/chance tcdsl/ops",
    "tcdsl/serialization": "codegen/device tcdsl/calls/process tcdsl/core tcdsl/ops tcdsl/tensors",
    "tcdsl/library": "codegen/device tcdsl/calls/bindings tcdsl/calls/process tcdsl/core"
    " tcdsl/chance tcdsl/ops tcdsl/autograd tcdsl/tensors tcdsl/serialization",
    "tcdsl/layers": "grammar/ tcdsl/text tcdsl/calls/ tcdsl autotune/ codegen/machine",
    "tcdsl/nn": "grammar/types tcdsl tcdsl/calls/process tcdsl/core tcdsl/ops tcdsl/autograd"
    " tcdsl/tensors tcdsl/library tcdsl/layers",
    "tcdsl/func": "tcdsl/autograd tcdsl/calls/process tcdsl/nn/",
    "tcdsl/cuda": "codegen/device tcdsl/calls/process tcdsl/calls/gpu tcdsl tcdsl/core"
    " tcdsl/tensors tcdsl/amp",
    "tcdsl/testing": "tcdsl tcdsl/core tcdsl/calls/process tcdsl/library",
    "tcdsl/distributions": "grammar/text tcdsl/calls/process tcdsl tcdsl/core tcdsl/ops"
    " tcdsl/autograd tcdsl/library",
    "tcdsl/optim": "tcdsl tcdsl/core tcdsl/calls/process tcdsl/autograd tcdsl/library tcdsl/nn",
    "tcdsl/utils": "grammar/text codegen/runtime tcdsl/calls/process tcdsl/core tcdsl/chance"
    " tcdsl/autograd tcdsl/library",
    "tcdsl/amp": "codegen/device tcdsl/calls/process tcdsl/core tcdsl/library",
    "tcdsl/as_torch": "grammar/text tcdsl/text tcdsl tcdsl/core tcdsl/ops tcdsl/tensors"
    " tcdsl/library tcdsl/layers tcdsl/nn tcdsl/cuda tcdsl/optim",
    "tcdsl/torch": "grammar/ codegen/ tcdsl/text tcdsl/calls/ tcdsl/derived tcdsl tcdsl/layers",
    "tcdsl/tools": "grammar/ codegen/ autotune/ tcdsl/calls/ tcdsl",
    "tcdsl/cli": "grammar/ codegen/ autotune/ tcdsl/text tcdsl/calls/ tcdsl tcdsl/profiler"
    " tcdsl/as_torch tcdsl/tools tcdsl/torch",
}
# Who may import a heavy optional package, by file.
OWNERS = {"cupy": ("codegen/device/cuda.py",), "torch": ("tcdsl/torch/",)}


def python_files(folder: str) -> list[Path]:
    links = {ROOT / "tcdsl" / name for name in PACKAGES}
    return [p for p in (ROOT / folder).rglob("*.py") if links.isdisjoint(p.parents)]


@cache
def modules() -> Mapping[str, Path]:
    """Return the files of all packages by their import names."""
    found = {}
    for path in (p for package in PACKAGES for p in python_files(package)):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts if parts[0] == "tcdsl" else ("tcdsl", *parts))
        found[name.removesuffix(".__init__")] = path
    return found


@cache
def imports(path: Path) -> tuple[tuple[str, int], ...]:
    """Return what a file imports, modules of ours by their names, and the lines."""

    def found() -> Iterator[tuple[str, int]]:
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Import(names):
                    yield from ((alias.name, node.lineno) for alias in names)
                case ast.ImportFrom(module=str(module), level=0, names=names):
                    for name in (f"{module}.{alias.name}" for alias in names):
                        yield name if name in modules() else module, node.lineno
                case ast.ImportFrom():
                    yield "a relative import", node.lineno
                case _:
                    pass

    return tuple(found())


def room_of(path: Path) -> str:
    folder = path.relative_to(ROOT).parent
    return next(str(f) for f in (folder, *folder.parents) if str(f) in ROOMS)


def listed(room: str, rooms: Collection[str]) -> set[str]:
    """Return the rooms that a line of the table names."""
    found = {room}
    for name in ROOMS[room].split():
        within = {r for r in rooms if r == name or f"{r}/".startswith(name)}
        found |= within if name.endswith("/") else {name}
    return found


def circle(arrows: Mapping[str, Collection[str]]) -> list[str]:
    """Return the nodes of a circle in the order of its arrows; none if there is no circle."""
    done: set[str] = set()

    def follow(node: str, path: list[str]) -> list[str]:
        if node in path:
            return path[path.index(node) :]
        if node not in done:
            for other in sorted(arrows[node]):
                if found := follow(other, [*path, node]):
                    return found
            done.add(node)
        return []

    return next((found for node in sorted(arrows) if (found := follow(node, []))), [])


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_from_the_rooms_that_its_line_names(room: str) -> None:
    files = [p for p in modules().values() if room_of(p) == room]
    assert files, f"{room} has no files"
    may, faults, used = listed(room, ROOMS), [], {room}
    for path in files:
        for name, line in imports(path):
            if name.startswith("a relative"):
                faults.append(f"{path.relative_to(ROOT)}:{line}: {name}")
            elif name in modules():
                used.add(other := room_of(modules()[name]))
                if other not in may:
                    faults.append(f"{path.relative_to(ROOT)}:{line}: {name} of {other}")
    assert not faults
    idle = [n for n in ROOMS[room].split() if not any(f"{u}/".startswith(n) for u in used)]
    assert not idle, f"{room} imports nothing from {idle}: its line is the drawing of the house"


def test_the_rooms_are_in_no_circle() -> None:
    assert not circle({room: listed(room, ROOMS) - {room} for room in ROOMS})


@pytest.mark.parametrize("room", ROOMS)
def test_no_files_of_a_room_import_each_other_in_a_circle(room: str) -> None:
    files = {name: path for name, path in modules().items() if room_of(path) == room}
    found = circle(
        {
            name: {other for other, _ in imports(path) if other in files and other != name}
            for name, path in files.items()
        }
    )
    assert not found


def test_a_walk_of_the_graph_finds_a_circle() -> None:
    assert circle({"a": "bc", "b": "c", "c": ""}) == []
    assert circle({"a": "b", "b": "cd", "c": "", "d": "b"}) == ["b", "d"]


@pytest.mark.parametrize("package", OWNERS)
def test_heavy_packages_are_imported_in_one_place(package: str) -> None:
    faults = [
        str(path.relative_to(ROOT))
        for path in modules().values()
        if not str(path.relative_to(ROOT)).startswith(OWNERS[package])
        and any(name.split(".")[0] == package for name, _ in imports(path))
    ]
    assert not faults


def test_every_folder_of_a_package_is_in_the_wheel() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    there = {p.parent.relative_to(ROOT).parts for n in PACKAGES for p in python_files(n)}
    names = {".".join(p if p[0] == "tcdsl" else ("tcdsl", *p)) for p in there}
    assert names == set(project["tool"]["setuptools"]["packages"])


def test_the_links_show_the_packages_under_their_import_names() -> None:
    for name in PACKAGES[:-1]:
        link = ROOT / "tcdsl" / name
        assert link.is_symlink()
        assert link.resolve() == ROOT / name
