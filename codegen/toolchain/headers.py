"""Of the headers that a text includes what it needs: a compiler reads a tenth, for the same object.

The preludes have hundreds of functions, of which a kernel calls some. To read all of them is a
third of what a compiler does for a small kernel: 20 ms of 70, with the builtin functions 40 of 130.
So they are preprocessed once for a compiler and its flags, and taken apart into macros, types,
tables and functions; each text then gets those that it names, and those that these name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from tcdsl.codegen.toolchain import contentfile
from tcdsl.codegen.toolchain.cc import INCLUDES, Compiler, environment
from tcdsl.codegen.toolchain.command import Command
from tcdsl.codegen.toolchain.contentfile import hash_of
from tcdsl.codegen.toolchain.includes import included
from tcdsl.codegen.toolchain.source import Source

SUFFIX = ".parts"
_LONGEST_S = 60.0
_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
_MACROS = re.compile(r"^\s*#\s*(?:define|undef|if|el|end|include\s*<)", re.MULTILINE)
_WORD = re.compile(r"[A-Za-z_]\w*")
_ENDS = re.compile(r'("(?:\\.|[^"\\])*"|[{};])')  # what may end a declaration; not in a string
_ATTRIBUTE = re.compile(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)")
_PROTOTYPES = re.compile(r"(\w+(?:\s+\w+)*)\s+(\w+\([\w *,]*\)(?:,\s*\w+\([\w *,]*\))*);")
_PROTOTYPE = re.compile(r"(\w+)\(([\w *,]*)\)")
_OTHERS = ("-c", "-Wl,")  # flags that no header hangs on
_TYPES = ("typedef", "struct", "union", "enum")

Part = tuple[str, str]  # its name, "" where every text gets it; its text


def cut(source: Source, compiler: Compiler, folder: Path) -> str:
    """Return the text of a source with what it needs of our headers in place of its includes.

    It is the text itself where something else decides what its headers are, or where a macro makes
    a name of parts. Lines keep their numbers. folder: where the preprocessor may write.
    """
    if source.language != "c" or source.include is not None or compiler.kind != "gcc":
        return source.text  # others were not measured
    found = [*_INCLUDE.finditer(source.text)]
    if not found or "##" in source.text or _MACROS.search(source.text, 0, found[-1].start()):
        return source.text
    names = dict.fromkeys(match[1] for match in found)
    asked = "".join(f'#include "{name}"\n' for name in names)
    # What is linked, and how, is another one for each unit of a tuner; headers are the same, and so
    # they are whatever is spared of what -O3 does.
    level = "-O3" if source.opt in ("-O1", "-O2") else source.opt
    usual = replace(source, opt=level, is_spelled_out=False).all_flags(compiler)
    flags = [f for f in usual if f.startswith("-") and f[:4] not in _OTHERS]
    told = (compiler.version, compiler.isa_key, *flags, asked)
    key = hash_of([_how(), *told, *included(asked, [INCLUDES])])
    headers = _headers(key, asked, compiler, flags, folder)
    if headers is None:
        return source.text
    body = _INCLUDE.sub("", source.text)
    needed = headers.needed(body)
    if needed is None:
        return source.text
    return "\n".join((*needed, f'#line 1 "{source.file}"', body))


class Headers:
    """The parts of headers, and which others each of them names, found where a text needs it."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._texts = [text for _, text in parts]
        self._by_name: dict[str, list[int]] = {}
        for n, (name, _) in enumerate(parts):
            self._by_name.setdefault(name, []).append(n)
        self._others: dict[int, tuple[str, ...] | None] = {}

    def needed(self, body: str) -> list[str] | None:
        """Return the texts of the parts that a text needs, None where a macro pastes names."""
        kept: set[int] = set()
        seen = {"", *_WORD.findall(body)} & self._by_name.keys()
        named = [*seen]
        while named:
            for n in self._by_name[named.pop()]:
                if n not in self._others:
                    self._others[n] = self._named_by(self._texts[n])
                others = self._others[n]
                if others is None:
                    return None
                kept.add(n)
                named += [name for name in others if name not in seen]
                seen.update(others)
        return [self._texts[n] for n in sorted(kept)]

    def _named_by(self, text: str) -> tuple[str, ...] | None:
        if text.startswith("#define") and "##" in text:
            return None
        return tuple({*_WORD.findall(text)} & self._by_name.keys())


@lru_cache(maxsize=1)
def _how() -> str:
    """Return the text of this file: who takes headers apart another way finds nothing kept."""
    return Path(__file__).read_text(encoding="utf-8")


_read: dict[str, Headers] = {}


def _headers(
    key: str, asked: str, compiler: Compiler, flags: Sequence[str], folder: Path
) -> Headers | None:
    """Return headers, taken apart now or before; None where they do not compile."""
    if key not in _read:
        found = next(_kept(key), None)
        if found is None:
            printed = _preprocessed(asked, compiler, flags, folder)
            if printed is None:
                return None
            found = tuple(taken_apart(printed, INCLUDES))
            contentfile.keep(json.dumps(found).encode(), "headers", key, SUFFIX)
        _read[key] = Headers(found)
    return _read[key]


def _kept(key: str) -> Iterator[tuple[Part, ...]]:
    for path, content in contentfile.contents(key, SUFFIX):
        try:
            yield tuple((str(name), str(text)) for name, text in json.loads(content))
        except (ValueError, TypeError, RecursionError):
            contentfile.remove(path)


def _preprocessed(asked: str, compiler: Compiler, flags: Sequence[str], folder: Path) -> str | None:
    """Return what the preprocessor makes of includes, with the macros that they define."""
    file, printed, errors = (folder / name for name in ("headers.c", "expanded", "errors"))
    file.write_text(asked, encoding="utf-8")
    words = [*compiler.command, *flags, f"-I{INCLUDES}", "-E", "-dD", str(file)]
    command = Command(words, _LONGEST_S, folder, printed, environment(folder), errors)
    command.wait()
    return printed.read_text(encoding="utf-8") if command.status == 0 else None


def taken_apart(expanded: str, folder: Path) -> Iterator[Part]:
    """Yield the declarations and macros of the headers of a folder, in their order.

    expanded: what the preprocessor made of them, with `-dD`.
    """
    macros: dict[str, str] = {}
    declared: list[Part] = []
    is_ours, depth, text = False, 0, ""
    for line in expanded.splitlines():
        if line.startswith("# "):
            is_ours = f'"{folder}/' in line
        elif not is_ours:
            continue
        elif line.startswith("#define"):
            macros[_WORD.findall(line)[1]] = line
        elif line.startswith("#undef"):
            macros.pop(_WORD.findall(line)[1], None)
        elif line.startswith("#"):  # a pragma: of the loop behind it, or of all that follows
            text += f"\n{line}\n"
            if not depth:
                declared.append(("", text))
                text = ""
        else:
            for piece in _ENDS.split(line):
                text += piece
                depth += (piece == "{") - (piece == "}")
                if not depth and (piece == ";" or (piece == "}" and _is_function(text))):
                    declared += _prototypes(text) or [(_name_of(text), text.strip())]
                    text = ""
            text += "\n"
    yield from macros.items()
    yield from declared


def _prototypes(text: str) -> list[Part]:
    """Return the functions that a declaration is of, each by itself; none if it is no such."""
    text = text.strip()
    plain = _ATTRIBUTE.sub("", text)
    found = _PROTOTYPES.fullmatch(plain)
    if found is None:
        return []
    each = _PROTOTYPE.findall(found[2])
    if len(each) == 1:
        return [(each[0][0], text)]
    return [(name, f"{found[1]} {name}({of});") for name, of in each] if plain == text else []


def _head_of(text: str) -> str:
    return _ATTRIBUTE.sub("", text.partition("{")[0]).strip()


def _is_function(text: str) -> bool:
    head = _head_of(text)
    return "(" in head and "=" not in head and not head.startswith(_TYPES)


def _name_of(text: str) -> str:
    """Return the name of a function or a table; "" of what may be several names, and is short."""
    head = _head_of(text)
    if head.startswith(_TYPES) or (text.endswith(";") and "(" in head):
        return ""
    before = re.split(r"[(\[=;]", head)[0]
    return _WORD.findall(before)[-1] if _WORD.search(before) else ""
