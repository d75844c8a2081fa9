"""Documents are true: what they name is there; maps of rooms list their files and no others."""

from __future__ import annotations

import ast
import inspect
import os
import re
from collections.abc import Iterator
from functools import cache

import pytest

from tcdsl.codegen.choose import forms, gpu_forms
from tests.test_layers import PACKAGES, ROOMS, ROOT, listed

FOLDERS = (*PACKAGES, "benchmarks", "examples", "tests")


@cache
def files() -> tuple[str, ...]:
    """Return the files below the folders of the house; links to folders are not followed."""
    found = [os.path.join(at, name) for f in FOLDERS for at, _, names in os.walk(ROOT / f)
             for name in names]  # fmt: skip
    return ("README.md", *sorted(os.path.relpath(path, ROOT) for path in found))


DOCUMENTS = [file for file in files() if file.endswith(".md")]
LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)(?:#([^)]*))?\)")
PATH = re.compile(r"`([\w./-]+\.(?:py|cuh|h|c|cpp|md|lark|tc|toml))`")


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_links_of_a_document_lead_somewhere(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    for link, anchor in LINK.findall(text):
        to = os.path.normpath(os.path.join(os.path.dirname(name), link)) if link else name
        assert (ROOT / to).exists(), f"{name} links to {link}"
        if anchor:
            headings = re.findall(r"^#+ (.*)$", (ROOT / to).read_text(encoding="utf-8"), re.M)
            there = {re.sub(r"[^\w -]", "", h).strip().lower().replace(" ", "-") for h in headings}
            assert anchor in there, f"{name} links to {link}#{anchor}"


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_files_that_a_document_names_are_there(name: str) -> None:
    for path in PATH.findall((ROOT / name).read_text(encoding="utf-8")):
        assert any(file == path or file.endswith(f"/{path}") for file in files()), path


SOURCES = [file for file in files() if file.endswith((".py", ".c", ".h", ".cuh", ".cpp"))]
NAMED = re.compile(r"(?<![\w.*/{}<>-])((?:[\w-]+/)*[\w-]+\.(?:py|cuh|h|c|cpp|md|lark))(?![\w/])")
OTHERS = {  # of other projects, and made at run time
    "Python.h",
    "dlpack.h",
    "tensor_comprehensions/tc_unit.py",
    "NAME.h",
    "benchmarks/NAME.py",
    "pick.h",
}
# Decisions stand undated beside what they explain. What makes a nest of a group is a form.
GONE = re.compile(r"\b20\d\d-[01]\d-[0-3]\d\b|\b[Ll]owerings?\b|\blower/")


@cache
def said_in(name: str) -> str:
    """Return what a file says to its readers: a document, or comments and docstrings."""
    text = (ROOT / name).read_text(encoding="utf-8")
    if not name.endswith(".py"):
        return text
    parts = re.findall(r'"""(?:.|\n)*?"""|#(?!include).*', text)
    return "\n".join(part for part in parts if "\ndef " not in part)  # no texts of programs


def test_the_files_that_comments_and_docstrings_name_are_there() -> None:
    ends = {
        f"/{file}"[at:] for file in files() for at in range(len(file) + 1) if f"/{file}"[at] == "/"
    }
    named = ((name, path) for name in SOURCES for path in NAMED.findall(said_in(name)))
    assert not [(n, path) for n, path in named if f"/{path}" not in ends and path not in OTHERS]


def test_what_packages_say_has_no_dates_and_no_words_of_before() -> None:
    said = ((name, said_in(name)) for name in (*SOURCES, *DOCUMENTS) if name.startswith(PACKAGES))
    assert not [(name, found) for name, text in said for found in GONE.findall(text)]


def fields_told(doc: str) -> Iterator[str]:
    """Yield what a docstring explains as a field or parameter: `sizes: ...`, or in a section."""
    for told in re.findall(r"(?:^|\n\n|\.\s+)([a-z_]+(?:(?:, | and )[a-z_]+)*): ", doc):
        yield from re.split(r", | and ", told)
    for rows in re.findall(r"(?:Parameters|Attributes)\n-+\n((?:.|\n)*?)(?=\n\n\w+\n-+|\Z)", doc):
        for names in re.findall(r"^([a-z_*][^\n:]*)", rows, re.M):
            yield from (name.strip(" *") for name in names.split(","))


DOC_OF_CLASS = re.compile(r'^ *class \w+:[^\n]*\n +r?"""(.*?)"""', re.M | re.S)


def test_the_fields_that_docstrings_explain_exist() -> None:
    wrong = []
    for name in (n for n in SOURCES if n.startswith(PACKAGES) and n.endswith(".py")):
        text = (ROOT / name).read_text(encoding="utf-8")
        docs = map(inspect.cleandoc, DOC_OF_CLASS.findall(text))
        if not any(True for doc in docs for _ in fields_told(doc)):
            continue  # most files: trees of all take seconds
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef) and not node.bases:
                told = [*fields_told(ast.get_docstring(node) or "")]
                if not told:
                    continue
                has = {x.id for x in ast.walk(node) if isinstance(x, ast.Name)}
                has |= {x.attr for x in ast.walk(node) if isinstance(x, ast.Attribute)}
                has |= {x.name for x in ast.walk(node) if isinstance(x, ast.FunctionDef)}
                has |= {x.arg for x in ast.walk(node) if isinstance(x, ast.arg)}
                wrong += [f"{name}: {node.name}.{x}" for x in told if x not in has]
    assert set(wrong) == {"codegen/loops/loopir.py: Argument.data"}  # one of its kinds


def test_a_folder_of_tests_mirrors_a_room_or_is_in_the_map() -> None:
    folders = {os.path.relpath(os.path.dirname(f), "tests") for f in files()
               if f.startswith("tests/") and f.endswith(".py")} - {"."}  # fmt: skip
    listed = re.findall(r"`([\w/]+)/`", (ROOT / "tests/README.md").read_text(encoding="utf-8"))
    assert not [f for f in folders if not (ROOT / f).is_dir() and f not in listed]


def map_of(room: str) -> list[str]:
    """Return the files in the table of a room's README; [] where it has none."""
    path = ROOT / room / "README.md"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    rows = re.findall(r"^\| file \| job \|\n\|---\|---\|\n((?:\|.*\n)+)", text, re.M)
    cells = [line.split("|")[1] for table in rows for line in table.splitlines()]
    own = [cell for cell in cells if "/`:" not in cell]  # others name what lies in a folder of it
    return [file for cell in own for file in re.findall(r"`([\w.]+\.\w+)`", cell)]


MAPPED = sorted({*ROOMS, *(os.path.dirname(n) for n in DOCUMENTS if n.startswith(PACKAGES))})


@pytest.mark.parametrize("room", [room for room in MAPPED if "/" in room and map_of(room)])
def test_the_map_of_a_room_has_its_files_and_its_job_in_a_sentence(room: str) -> None:
    there = {p.name for p in (ROOT / room).iterdir() if p.is_file() and p.suffix != ".md"}
    assert sorted({*map_of(room)} - {"__init__.py"}) == sorted(there - {"__init__.py"})
    head = (ROOT / room / "README.md").read_text(encoding="utf-8").splitlines()[0]
    assert re.fullmatch(rf"# (.*[/.])?{room.rpartition('/')[2]}: \S.*", head)


def test_the_map_of_the_library_has_each_room_once_and_behind_what_it_imports() -> None:
    text = (ROOT / "tcdsl/README.md").read_text(encoding="utf-8")
    rows = [
        os.path.normpath(f"tcdsl/{row}") for row in re.findall(r"^\| `([\w/.]+)` \|", text, re.M)
    ]
    assert sorted(rows) == sorted(room for room in ROOMS if room.startswith("tcdsl"))
    early = [
        (room, other)
        for at, room in enumerate(rows)
        for other in listed(room, ROOMS) & {*rows[at + 1 :]}
    ]
    assert not early


def test_the_forms_of_each_target_are_in_their_map() -> None:
    text = (ROOT / "codegen/forms/README.md").read_text(encoding="utf-8")
    told: dict[str, list[str]] = {"cpu": [], "gpu": []}
    for rooms, names in re.findall(r"^\| (`[^|]+) \| (`[^|]+) \|$", text, re.M):
        told["gpu" if "cuda/" in rooms else "cpu"] += re.findall(r"`(\w+)`", names)
    for target, offered in (("cpu", forms.CPU), ("gpu", gpu_forms.GPU)):
        assert sorted(told[target]) == sorted(form.name for form in offered)


def test_each_room_of_the_grammar_has_a_map() -> None:
    assert all(map_of(room) for room in ROOMS if room.startswith("grammar/"))
