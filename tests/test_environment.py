"""The README's table of environment variables has those that the code reads, and no others."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.test_layers import PACKAGES, ROOT, python_files

README = (ROOT / "README.md").read_text(encoding="utf-8")


def is_environment(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(value=ast.Name("os"), attr="environ"):
            return True
    return False


def literals(key: ast.expr, tree: ast.AST) -> list[str]:
    """Return the names that a key may be: one, or those that a comprehension runs over."""
    match key:
        case ast.Constant(str(name)):
            return [name]
        case ast.Name(variable):
            for node in ast.walk(tree):
                match node:
                    case ast.comprehension(target=ast.Name(other), iter=ast.Tuple(names)):
                        if other == variable:
                            return [x for n in names for x in literals(n, tree)]
    raise AssertionError(f"a variable whose name is not written out: {ast.unparse(key)}")


def read_by(path: Path) -> Iterator[str]:
    """Yield the variables that a file asks for; what it hands on as a whole it does not read."""
    text = path.read_text(encoding="utf-8")
    if "environ" not in text:
        return
    tree = ast.parse(text)
    known = 0
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(value=whole, attr="get" | "setdefault"), args=[key, *_]
            ):
                if is_environment(whole):
                    known += 1
                    yield from literals(key, tree)
            case ast.Subscript(value=whole, slice=key) if is_environment(whole):
                known += 1
                yield from literals(key, tree)
            case ast.Compare(left=key, ops=[ast.In() | ast.NotIn()], comparators=[whole]):
                if is_environment(whole):
                    known += 1
                    yield from literals(key, tree)
            case ast.BinOp(left=whole, op=ast.BitOr()) if is_environment(whole):
                known += 1
            case ast.Dict(keys=keys, values=values):
                known += sum(
                    k is None and is_environment(v) for k, v in zip(keys, values, strict=True)
                )
    assert known == sum(is_environment(n) for n in ast.walk(tree)), f"{path}: another use of it"


def test_the_readme_lists_the_variables_that_are_read() -> None:
    files = [path for package in PACKAGES for path in python_files(package)]
    read = {name for path in files for name in read_by(path)}
    table = README.split("\n## Environment variables\n")[1].split("\n\n")[0]
    listed = set(re.findall(r"`([A-Z_]{4,})`", table))
    assert read == listed


def test_nothing_else_reads_them() -> None:
    calls = re.compile(r"\bgetenv\b|environb|from os import .*environ|^from os.*\*", re.M)
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*"):
            if path.suffix in (".py", ".c", ".cpp", ".h", ".cuh"):
                assert not calls.search(path.read_text(encoding="utf-8")), path
