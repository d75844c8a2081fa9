"""Parts that candidates of a problem have alike, compiled once for all its units.

Candidates that differ in blocks have the same register tiles; those that differ in one group have
the same phases for the others. Such parts become objects that units are linked with:

    static TC_MICRO void k1_tile(..) {..}            ->  TC_MICRO void part_5e_0(..) {..}
    static tc_i32 k1_panel(..) { k1_tile(..); }      ->  tc_i32 part_c3_0(..) { part_5e_0(..); }

A part is compiled as in its candidate's own text, so its code is what the candidate has alone:
micro-kernels, of which gcc knows nothing outside (`noipa`), nor they of what is outside; and
phases, which nobody calls but the launcher, with all that they call or read. What two of them call
or read makes them one part. What a plan calls, or what calls the library, stays where it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import field
from pathlib import Path
from threading import Lock

from tcdsl.autotune.store.key import digest_of
from tcdsl.autotune.worker.emitted import Emitted
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import CompileError

_DEFINITION = re.compile(
    r"^(?:static (?P<head>[^\n]*?(?P<function>\w+)\([^\n]*\)) \{\n.*?^\}\n"
    r"|TC_FN [^\n]*?(?P<inline>\w+)\([^\n]*\) \{\n.*?^\}\n"
    r"|static [^\n]*?(?P<table>\w+)\[\d*\] = \{[^\n]*\n)",
    re.M | re.S,
)
_MICRO = "TC_MICRO "
_PHASE = "(const tc_args *args, char *workspace, tc_i64 begin, tc_i64 end)"
_IMPORT = re.compile(r"^static [^\n]*?\(\*(\w+)\)\(", re.M)  # its address is the candidate's
_INCLUDE = re.compile(r"^#include [^\n]*\n", re.M)
_OBJECT = ("-c", "-ffunction-sections")
_LINKED = ("-Wl,--gc-sections",)  # of an object a unit gets what it calls

# Makes a text an object, by further flags or with further objects, as long as it is wanted.
Compile = Callable[[str, Sequence[str], Callable[[], bool]], Path | CompileError]


@dataclass(frozen=True, slots=True)
class _Part:
    """Definitions of a candidate as a text of their own, with names by their content.

    names : of what is called from outside, by the candidate's own. needs : other parts it calls.
    """

    text: str
    names: Mapping[str, str]
    needs: tuple[_Part, ...]


class Parts:
    """What is compiled of a problem so far; `build` may run in several threads.

    Parameters
    ----------
    compile : callable
    """

    def __init__(self, compile: Compile) -> None:
        self._compile = compile
        self._made: dict[str, Future[Path | None]] = {}  # by text; None where it failed
        self._needs: dict[Path, frozenset[str]] = {}  # of an object: texts of parts in others
        self._lock = Lock()

    def build(
        self, sources: Sequence[Emitted], is_unwanted: Callable[[], bool]
    ) -> Path | CompileError:
        """Return a shared object of candidates; what fails so is tried whole."""
        taken = [_Taken(source) for source in sources]
        parts = {part.text: part for one in taken for part in one.parts}
        with self._lock:  # what others make is made once; they wait for none of ours
            new = {text: part for text, part in parts.items() if text not in self._made}
            future = Future[Path | None]()
            self._made |= dict.fromkeys(new, future)
        made = {text: future for text, future in self._made.items() if text in parts}
        if new:
            try:
                future.set_result(self._object(sources, new, is_unwanted))
            finally:
                if not future.done():
                    future.set_result(None)
                if future.result() is None:  # the next one may have more luck
                    with self._lock:
                        for text in new:
                            del self._made[text]
        objects = {text: self._objects(future) for text, future in made.items()}
        texts = [one.linked({text for text, paths in objects.items() if paths}) for one in taken]
        paths = dict.fromkeys(str(path) for paths in objects.values() for path in paths)
        built = self._compile("\n".join(texts), (*_LINKED, *paths) if paths else (), is_unwanted)
        if isinstance(built, CompileError) and paths:
            return self._compile(whole(sources), (), is_unwanted)
        return built

    def _object(
        self,
        sources: Sequence[Emitted],
        new: Mapping[str, _Part],
        is_unwanted: Callable[[], bool],
    ) -> Path | None:
        """Return the object of new parts."""
        includes = dict.fromkeys(i for s in sources for i in _INCLUDE.findall(s.text))
        path = self._compile("\n".join(["".join(includes), *new]), _OBJECT, is_unwanted)
        if isinstance(path, CompileError):
            return None
        needed = {part.text for one in new.values() for part in one.needs}
        self._needs[path] = frozenset(needed - new.keys())
        return path

    def _objects(self, future: Future[Path | None]) -> list[Path]:
        """Return an object and those that it needs, made here or in other threads; or nothing."""
        found: dict[Path, None] = {}
        todo: list[Future[Path | None] | None] = [future]
        while todo:
            making = todo.pop()
            path = None if making is None else making.result()
            if path is None:
                return []
            if path not in found:
                found[path] = None
                todo += [self._made.get(text) for text in sorted(self._needs[path])]
        return list(found)


def whole(sources: Sequence[Emitted]) -> str:
    """Return candidates as one text that is linked with nothing."""
    return "\n".join(source.text for source in sources)


@dataclass(slots=True)
class _Group:
    """Definitions that stay together: those that others may call, and what these call or read."""

    called: set[str]
    names: set[str]
    is_fixed: bool = False  # to its candidate


@dataclass(slots=True)
class _Taken:
    """A candidate taken apart."""

    source: Emitted
    parts: list[_Part] = field(default_factory=list)
    _found: dict[str, re.Match[str]] = field(default_factory=dict)
    _used: dict[str, list[str]] = field(default_factory=dict)  # by each definition, of others
    _importing: set[str] = field(default_factory=set)
    _group_of: dict[str, _Group] = field(default_factory=dict)
    _part_of: dict[int, _Part | None] = field(default_factory=dict)  # by the group's identity

    def __post_init__(self) -> None:
        text, own = self.source.text, re.compile(rf"\b{self.source.name}\w*")
        for found in _DEFINITION.finditer(text):
            self._found[found["function"] or found["inline"] or found["table"]] = found
        for name, found in self._found.items():
            words = dict.fromkeys(own.findall(found[0]))
            self._used[name] = [w for w in words if w in self._found and w != name]
        if imported := _IMPORT.findall(text):
            calls = re.compile(rf"\b(?:{'|'.join(imported)})\(")
            self._importing = {n for n, found in self._found.items() if calls.search(found[0])}
        for group in self._groups():
            part = self._part(group)
            if part is not None and part not in self.parts:
                self.parts.append(part)

    def linked(self, made: set[str]) -> str:
        """Return the candidate's text that calls the parts that are made, by their texts."""
        names: dict[str, str] = {}
        gone: set[str] = set()
        for group in {id(g): g for g in self._group_of.values()}.values():
            part = self._part(group)
            if part is not None and part.text in made:
                names |= part.names
                gone |= group.names

        def declared(found: re.Match[str]) -> str:
            name = found["function"] or found["inline"] or found["table"]
            if name in names:
                return f"{found['head']};\n"
            return "" if name in gone else found[0]

        text = _DEFINITION.sub(declared, self.source.text)
        return re.sub(rf"\b{self.source.name}\w*", lambda m: names.get(m[0], m[0]), text)

    def _groups(self) -> list[_Group]:
        users = {name for used in self._used.values() for name in used}
        groups: list[_Group] = []
        for name, found in self._found.items():
            head = found["head"] or ""
            is_micro = self._is_micro(name)
            is_phase = head.endswith(_PHASE) and name not in users
            if not (is_micro or is_phase or name not in users):
                continue  # it comes with who calls it
            is_free = is_micro or is_phase
            names = self._closure(name)
            group = _Group({name}, names, not is_free or not names.isdisjoint(self._importing))
            for other in [g for g in groups if g.names & group.names]:
                groups.remove(other)
                group.called |= other.called
                group.names |= other.names
                group.is_fixed |= other.is_fixed
            groups.append(group)
        match [group for group in groups if not group.is_fixed]:
            case [only] if not any(map(self._is_micro, only.called)):
                only.is_fixed = True  # all there is: other candidates have another one
        self._group_of = {name: group for group in groups for name in group.names}
        return groups

    def _is_micro(self, name: str) -> bool:
        return (self._found[name]["head"] or "").startswith(_MICRO)

    def _closure(self, name: str) -> set[str]:
        """Return a definition and what it calls or reads, but for micro-kernels."""
        found, todo = {name}, [name]
        while todo:
            for used in self._used[todo.pop()]:
                if used not in found and not self._is_micro(used):
                    found.add(used)
                    todo.append(used)
        return found

    def _part(self, group: _Group) -> _Part | None:
        """Return a group as a part; None where it stands on what is its candidate's alone."""
        if id(group) not in self._part_of:
            self._part_of[id(group)] = None  # of who stands on itself
            self._part_of[id(group)] = self._new_part(group)
        return self._part_of[id(group)]

    def _new_part(self, group: _Group) -> _Part | None:
        if group.is_fixed:
            return None
        ours = [name for name in self._found if name in group.names]
        outside = {u: self._group_of[u] for n in ours for u in self._used[n] if u not in ours}
        needs: list[_Part] = []
        names = {name: f"@{k}" for k, name in enumerate(ours)}
        for name, other in outside.items():
            part = self._part(other)
            if part is None:
                return None
            names[name] = part.names[name]
            if part not in needs:
                needs.append(part)
        heads = [self._declaration(name, outside[name]) for name in outside]
        texts = [
            self._found[n][0].removeprefix("static " if n in group.called else "") for n in ours
        ]
        plain = re.sub(
            rf"\b{self.source.name}\w*",
            lambda m: names.get(m[0], m[0]),
            "\n".join([*heads, *texts]),
        )
        if self.source.name in plain:
            return None
        own = f"part_{digest_of(plain)}_"
        by_content = {n: names[n].replace("@", own) for n in group.called}
        return _Part(plain.replace("@", own), by_content, tuple(needs))

    def _declaration(self, name: str, group: _Group) -> str:
        assert name in group.called
        return f"{self._found[name]['head']};\n"
