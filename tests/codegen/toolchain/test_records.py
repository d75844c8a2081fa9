"""Records: found again as they were written, and lost without harm."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tcdsl.codegen.toolchain import contentfile, records
from tests.codegen.compiled import recorded

PARTS = ("a text", "a machine")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    recorded(monkeypatch, tmp_path / "cache")
    return tmp_path / "cache"


def as_number(value: object) -> int:
    if not isinstance(value, int):
        raise ValueError("it is no number")
    return value


def found(*parts: str) -> int | None:
    return records.read("answer", parts or PARTS, as_number)


def file_of(cache: Path) -> Path:
    (path,) = cache.glob("objects/*/*.json")
    return path


def with_content(path: Path, content: bytes) -> None:
    """Replace a record by another content, under the name that it would have."""
    stem, key, _ = path.stem.rsplit("-", 2)
    path.unlink()
    total = hashlib.sha256(content).hexdigest()[:16]
    path.with_name(f"{stem}-{key}-{total}.json").write_bytes(content)


def test_what_is_written_is_read() -> None:
    assert found() is None
    records.write("answer", PARTS, 42, "f")
    records.write("answer", PARTS, 42, "f")  # once more: the same file
    assert found() == 42
    assert found("a text", "another machine") is None
    assert records.read("question", PARTS, as_number) is None
    assert contentfile.size()[0] == 1


def cut(content: bytes) -> bytes:
    return content[:-3]


def of_another_key(content: bytes) -> bytes:
    return json.dumps({**json.loads(content), "key": "f" * 32}).encode()


def of_another_version(content: bytes) -> bytes:
    return json.dumps({**json.loads(content), "version": records.VERSION - 1}).encode()


def of_more(content: bytes) -> bytes:
    return json.dumps({**json.loads(content), "code": "print()"}).encode()


def of_another_shape(content: bytes) -> bytes:
    return json.dumps({**json.loads(content), "value": ["x"]}).encode()


def binary(content: bytes) -> bytes:
    return b"\xff\x80" + content


def too_deep(content: bytes) -> bytes:
    return b"[" * (1 << 17)


@pytest.mark.parametrize(
    "change",
    [cut, of_another_key, of_another_version, of_more, of_another_shape, binary, too_deep],
)
@pytest.mark.parametrize("is_renamed", [False, True])
def test_another_content_is_a_miss_and_is_replaced(
    cache: Path, change: Callable[[bytes], bytes], is_renamed: bool
) -> None:
    records.write("answer", PARTS, 42, "f")
    path = file_of(cache)
    content = change(path.read_bytes())
    if is_renamed:  # by whoever knows how names are made
        with_content(path, content)
    else:
        path.write_bytes(content)
    assert found() is None
    assert not [*cache.glob("objects/*/*.json")]
    records.write("answer", PARTS, 42, "f")
    assert found() == 42


def test_another_generator_finds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    records.write("answer", PARTS, 42, "f")
    monkeypatch.setattr(records, "generator", lambda: "1" * 32)
    assert found() is None
    monkeypatch.setattr(records, "generator", lambda: None)
    records.write("answer", PARTS, 43, "f")
    assert found() is None
    assert contentfile.size()[0] == 1


@pytest.mark.parametrize("name", ["mkdir", "replace", "open"])
def test_where_it_cannot_be_written_nothing_is_kept_and_nothing_said(
    cache: Path, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder, name: str
) -> None:
    def full(*args: Any, **kwargs: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, name, full)
        records.write("answer", PARTS, 42, "f")
        assert found() is None
    assert not [f for f in cache.rglob("*") if f.is_file()]
    assert not recwarn


def test_a_cache_for_reading_only_serves_what_it_has(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records.write("answer", PARTS, 42, "f")

    def refused(*args: Any, **kwargs: Any) -> None:
        raise PermissionError(13, "Permission denied")

    for name in ("utime", "unlink", "replace"):
        monkeypatch.setattr(os, name, refused)
    assert found() == 42


def test_several_write_and_read_at_once() -> None:
    seen: list[int | None] = []

    def work() -> None:
        for _ in range(20):
            records.write("answer", PARTS, 42, "f")
            seen.append(found())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert seen == [42] * 80
    assert contentfile.size()[0] == 1


def test_they_are_pruned_as_objects_are() -> None:
    records.write("answer", PARTS, 42, "f")
    assert contentfile.prune() > 0
    assert found() is None


# ---- the generator


def sources(tmp_path: Path) -> Path:
    folder = tmp_path / "package"
    (folder / "room").mkdir(parents=True)
    (folder / "room" / "a.py").write_text("a = 1\n")
    (folder / "prelude.h").write_text("int a;\n")
    (folder / "README.md").write_text("nothing that decides\n")
    return folder


LATER = 1 << 62  # after all that is written here


def test_a_generator_is_what_its_files_hold(tmp_path: Path) -> None:
    folder = sources(tmp_path)
    first = records.digest_of_sources([folder], LATER)
    assert first is not None
    assert records.digest_of_sources([folder], LATER) == first
    (folder / "README.md").write_text("as before\n")
    assert records.digest_of_sources([folder], LATER) == first
    status = (folder / "room" / "a.py").stat()
    (folder / "room" / "a.py").write_text("a = 2\n")  # as long as before, and as old
    os.utime(folder / "room" / "a.py", ns=(status.st_atime_ns, status.st_mtime_ns))
    second = records.digest_of_sources([folder], LATER)
    assert second not in (None, first)
    (folder / "room" / "a.py").write_text("a = 1\n")
    assert records.digest_of_sources([folder], LATER) == first
    (folder / "room" / "b.py").write_text("")
    assert records.digest_of_sources([folder], LATER) not in (None, first, second)


def test_files_that_change_while_a_process_runs_are_of_no_generator(tmp_path: Path) -> None:
    folder = sources(tmp_path)
    assert records.digest_of_sources([folder], time.time_ns() - 10**12) is None


def test_what_was_read_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = sources(tmp_path)
    first = records.digest_of_sources([folder], LATER)
    monkeypatch.setattr(records, "_content", lambda files: "f" * 32)
    assert records.digest_of_sources([folder], LATER) == first
    contentfile.prune()
    assert records.digest_of_sources([folder], LATER) == "f" * 32


def test_a_source_that_goes_while_it_is_read_is_of_no_generator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = sources(tmp_path)
    read = contentfile.contents

    def gone(key: str, suffix: str) -> Any:
        (folder / "room" / "a.py").unlink()
        return read(key, suffix)

    monkeypatch.setattr(contentfile, "contents", gone)
    assert records.digest_of_sources([folder], LATER) is None


def test_a_source_that_changes_while_it_is_read_is_of_no_generator(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = sources(tmp_path)
    read = records._content

    def changed(files: Any) -> str:
        (folder / "room" / "a.py").write_text("a = 23\n")
        return read(files)

    monkeypatch.setattr(records, "_content", changed)
    assert records.digest_of_sources([folder], LATER) is None
    assert not [*cache.rglob("*.sum")]


def test_what_was_installed_without_its_sources_has_no_generator(tmp_path: Path) -> None:
    folder = sources(tmp_path)
    (folder / "room" / "a.py").rename(folder / "room" / "a.pyc")
    assert records.digest_of_sources([folder], LATER) is None


@pytest.mark.parametrize("change", ["prelude.h", "room/a.py", "room/new.py"])
def test_nothing_is_kept_once_a_source_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    folder = sources(tmp_path)
    first = records._found_in([folder])
    monkeypatch.setattr(records, "_folders", lambda: [folder])
    monkeypatch.setattr(records, "_found_first", lambda: first)
    monkeypatch.setattr(records, "_watch", records._Watch())
    monkeypatch.setattr(records, "_MOMENT_S", 0)
    records.write("answer", PARTS, 42, "f")
    text = (folder / change).read_text() if (folder / change).exists() else ""
    (folder / change).write_text(f"{text}int b;\n")
    if change.endswith(".py"):  # it may be what was loaded
        monkeypatch.setitem(sys.modules, "one_more", sys)
    records.write("answer", ("later",), 43, "f")
    (folder / change).write_text(text)  # what was loaded meanwhile stays loaded
    records.write("answer", ("later",), 43, "f")
    assert found() == 42
    assert found("later") is None


@pytest.mark.parametrize(
    ("change", "times", "is_same"),
    [
        ("", 0, True),
        ("README.md", 0, True),
        ("room/notes.md", 1, True),  # a name more, of no source
        ("prelude.h", 1, False),
        ("room/a.py", 1, False),
        ("room/new.py", 1, False),
    ],
)
def test_folders_that_are_untouched_are_not_gone_through_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str, times: int, is_same: bool
) -> None:
    folder = sources(tmp_path)
    for path in (folder, folder / "room"):
        os.utime(path, ns=(10**18, 10**18))  # long before this process
    first = records._found_in([folder])
    gone_through: list[Path] = []

    def folders() -> list[Path]:
        gone_through.append(folder)
        return [folder]

    monkeypatch.setattr(records, "_folders", folders)
    monkeypatch.setattr(records, "_found_first", lambda: first)
    monkeypatch.setattr(records, "_MOMENT_S", 0)
    watch = records._Watch()
    assert watch.is_same()
    assert not gone_through
    if change:
        text = (folder / change).read_text() if (folder / change).exists() else ""
        (folder / change).write_text(f"{text}int b;\n")
    monkeypatch.setitem(sys.modules, "one_more", sys)
    assert watch.is_same() == is_same
    assert len(gone_through) == times


def test_where_no_module_was_loaded_only_headers_are_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = sources(tmp_path)
    first = records._found_in([folder])
    monkeypatch.setattr(records, "_folders", lambda: [folder])
    monkeypatch.setattr(records, "_found_first", lambda: first)
    monkeypatch.setattr(records, "_MOMENT_S", 0)
    watch = records._Watch()
    assert watch.is_same()
    asked: list[str] = []
    stat = os.stat

    def noted(path: Any) -> os.stat_result:
        asked.append(str(path))
        return stat(path)

    monkeypatch.setattr(os, "stat", noted)
    assert watch.is_same()
    assert asked
    assert not [path for path in asked if path.endswith(".py")]
    (folder / "prelude.h").unlink()
    assert not watch.is_same()


def test_a_folder_that_has_just_changed_is_gone_through(tmp_path: Path) -> None:
    folder = sources(tmp_path)
    first = records._found_in([folder])
    assert first is not None
    assert not first.is_there(), "another name may have come in the same moment"
