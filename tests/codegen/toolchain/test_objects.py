"""The object cache: compiled once, never torn, never another machine's."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tcdsl.codegen.toolchain import cachedir, cc, contentfile, processor
from tcdsl.codegen.toolchain.cachedir import cache_dir, read_json
from tcdsl.codegen.toolchain.cc import find_compiler, probe
from tcdsl.codegen.toolchain.command import uninterrupted
from tcdsl.codegen.toolchain.objects import (
    compile_many,
    compile_source,
    file_name,
    key_of,
    lookup,
    named,
    use_object,
)
from tcdsl.codegen.toolchain.source import Source
from tcdsl.grammar.text.errors import CompileError
from tests.codegen.toolchain.test_cc import fake_compiler

pytestmark = pytest.mark.cc


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a fresh cache folder."""
    path = tmp_path / "cache"
    monkeypatch.setenv("TCDSL_CACHE", str(path))
    return path


def number(value: int, name: str = "number") -> Source:
    text = f'__attribute__((visibility("default"))) int number(void) {{ return {value}; }}\n'
    return Source(name, text)


def counting_compiler(folder: Path, delay_s: float = 0.0) -> tuple[Path, Path]:
    """Return a compiler that is slow on request and a file with one line per compile."""
    count = folder / "count"
    real = find_compiler().command[0]
    body = f'case "$*" in *-shared*) echo x >> {count}; sleep {delay_s};; esac; exec {real} "$@"'
    return fake_compiler(folder, "counting", body), count


def leftovers(cache: Path) -> list[Path]:
    return [p for folder in ("locks", "building") for p in (cache / folder).glob("*")]


def test_what_is_pruned_before_it_is_loaded_is_compiled_again(cache: Path) -> None:
    seen = []

    def use(path: Path) -> int:
        seen.append(path)
        if len(seen) == 1:
            contentfile.prune()
        return int(ctypes.CDLL(str(path)).number())

    assert use_object(number(7), use) == 7
    assert len(seen) == 2


def test_what_cannot_be_loaded_is_compiled_once_more(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compiler of the same version and answers has the same key, but wrote nonsense one day."""

    def loaded(path: Path) -> int:
        return int(ctypes.CDLL(str(path)).number())

    real, mark = find_compiler().command[0], tmp_path / "is_ill"
    body = f"""case "$*" in *-shared*) if [ -e {mark} ]; then
        echo nonsense > object.so; exit; fi;; esac; exec {real} "$@"
    """
    monkeypatch.setenv("TCDSL_CC", str(fake_compiler(tmp_path, "ill", body)))
    mark.touch()
    with pytest.raises(CompileError, match="the object of 'number' cannot be loaded") as caught:
        use_object(number(7), loaded)
    assert str(tmp_path / "ill") in str(caught.value)
    assert lookup(key_of(number(7), find_compiler())) is None
    compile_source(number(7))  # nonsense that another process left
    mark.unlink()
    assert use_object(number(7), loaded) == 7


def test_a_filled_cache_needs_no_compiler(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TCDSL_CC", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    real = shutil.which(find_compiler().command[0])
    fake_compiler(bin_, "cc", f'PATH={os.environ["PATH"]} exec {real} "$@"')
    cc._find.cache_clear()
    try:
        monkeypatch.setenv("PATH", str(bin_))
        path = compile_source(number(7))
        (bin_ / "cc").unlink()
        cc._find.cache_clear()
        assert compile_source(number(7)) == path
        with pytest.raises(CompileError, match=r"'other' is not in the cache .*: install one"):
            compile_source(number(8, "other"))
        assert leftovers(cache) == []
        assert "no C compiler" in cc.report()["error"]
        monkeypatch.setattr(processor, "processor", lambda: "another computer")
        with pytest.raises(CompileError, match="no C compiler that serves was found"):
            find_compiler()
    finally:
        cc._find.cache_clear()


def a_folder(path: Path) -> None:
    path.mkdir()
    (path / "x").touch()


def without_end(path: Path) -> None:
    path.symlink_to("/dev/zero")


def huge(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 42)


def a_circle(path: Path) -> None:
    path.symlink_to(path)


@pytest.mark.parametrize("put", [a_folder, os.mkfifo, without_end, huge, a_circle])
def test_what_cannot_be_read_is_neither_waited_for_nor_in_the_way(
    cache: Path, put: Callable[[Path], None]
) -> None:
    found = compile_source(number(8))
    found.unlink()
    put(found)
    assert lookup(key_of(number(8), find_compiler())) is None
    assert compile_source(number(8)).read_bytes().startswith(b"\x7fELF")
    found.unlink()
    put(found)
    contentfile.prune()
    assert contentfile.size()[1] == 0


@pytest.mark.parametrize("put", [a_folder, os.mkfifo, without_end, huge, a_circle])
def test_what_is_known_of_compilers_is_found_out_again(
    cache: Path, put: Callable[[Path], None]
) -> None:
    put(cache_dir() / "compilers.json")
    assert read_json("compilers.json") == {}


def test_a_folder_that_goes_while_the_cache_is_pruned_is_no_fault(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = contentfile.building_folder()
    folder.rmdir()
    listed = contentfile._listed
    monkeypatch.setattr(contentfile, "_listed", lambda at: [*listed(at), folder])
    assert contentfile.prune() == 0


def test_a_forked_child_keeps_no_lock_of_a_parent_that_died(cache: Path) -> None:
    lock = contentfile.KeyLock.take("k")
    assert lock is not None
    ready, done = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.close(done[1])  # so that the end of the parent ends the child, whatever fails there
        lock.release()  # is the parent's
        os.write(ready[1], b"x")
        os.read(done[0], 1)
        os._exit(0)
    try:
        os.read(ready[0], 1)
        assert contentfile.KeyLock.take("k") is None, "the parent holds it"
        os.close(lock._handle)  # as the end of the parent does, with nothing said to the kernel
        contentfile._held.remove(lock)
        again = contentfile.KeyLock.take("k")
    finally:
        os.write(done[1], b"x")
        os.waitpid(child, 0)
        for end in (*ready, *done):
            os.close(end)
    assert again is not None
    again.release()


def test_what_was_compiled_is_found_again(cache: Path) -> None:
    first = compile_source(number(1))
    status = first.stat()
    assert compile_source(number(1)) == first
    assert first.stat().st_ino == status.st_ino
    assert named(file_name(first.name)) == first
    assert ctypes.CDLL(str(first)).number() == 1
    assert not leftovers(cache)


def test_equal_sources_in_one_call_are_compiled_once(cache: Path, tmp_path: Path) -> None:
    compiler, count = counting_compiler(tmp_path)
    paths = compile_many([number(i % 2) for i in range(6)], probe((str(compiler),)))
    assert len(set(paths)) == 2
    assert count.read_text() == "x\nx\n"


def test_an_error_stands_for_its_own_source(cache: Path) -> None:
    good, bad, other = compile_many([number(1), Source("bad", "int f("), number(2)])
    assert isinstance(bad, CompileError)
    assert isinstance(good, Path)
    assert isinstance(other, Path)
    assert not leftovers(cache)


def test_the_folder_is_for_the_user_alone(cache: Path) -> None:
    path = compile_source(number(1))
    for folder in (cache, path.parent, path.parent.parent):
        assert folder.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_others_write_to_is_refused_and_left_as_it_is(cache: Path) -> None:
    cache.mkdir()
    cache.chmod(0o777)
    with pytest.raises(CompileError, match=r"others may write .*\n.*chmod 700"):
        cache_dir()
    assert cache.stat().st_mode & 0o777 == 0o777


@pytest.mark.parametrize("which", ["objects", "of keys"])
def test_what_lies_where_others_may_write_is_not_loaded(
    which: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever writes there can name a file so that its sum holds."""
    monkeypatch.setattr(cachedir, "_stand_in", cachedir._StandIn())
    path = compile_source(number(7))
    assert path.stat().st_mode & 0o777 == 0o700
    open_to_all = cache / "objects" if which == "objects" else path.parent
    open_to_all.chmod(0o777)
    assert lookup(key_of(number(7), find_compiler())) is None
    assert named(path.name) is None
    with pytest.warns(UserWarning, match="others may write to it"):
        assert cache not in compile_source(number(7)).parents
    open_to_all.chmod(0o700)
    assert lookup(key_of(number(7), find_compiler())) == path


def test_a_file_of_another_user_is_not_loaded(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = compile_source(number(7))
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    with pytest.raises(ValueError, match="no file of the cache"):
        cachedir.content_of(path)


def test_a_cache_that_cannot_be_made_says_how_to_move_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("TCDSL_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(CompileError, match="set TCDSL_CACHE"):
        cache_dir()


@pytest.mark.parametrize("damage", [b"", b"garbage"])
def test_a_damaged_object_is_compiled_again(cache: Path, damage: bytes) -> None:
    path = compile_source(number(5))
    path.write_bytes(damage)
    again = compile_source(number(5))
    assert ctypes.CDLL(str(again)).number() == 5


def test_a_file_is_found_by_its_name_if_it_is_whole(cache: Path) -> None:
    path = compile_source(number(5))
    assert named(path.name.replace("number", "another")) is None
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    assert named(path.name) is None
    assert not path.exists()
    path.mkdir()
    assert named(path.name) is None
    assert compile_source(number(5)).read_bytes() == content


@pytest.mark.parametrize("name", ["", "x", "../x", "a/{}", "../{}", "{}.so", "{}\n", "é{}", 7])
def test_a_record_names_no_other_file(name: object) -> None:
    whole = f"number-{'0' * 32}-{'1' * 16}.so"
    assert file_name(whole) == whole
    with pytest.raises(ValueError, match="it names no object"):
        file_name(name.format(whole) if isinstance(name, str) else name)


def test_the_key_covers_all_that_decides_the_content(cache: Path, tmp_path: Path) -> None:
    compiler, source = find_compiler(), number(1)
    (tmp_path / "inner.h").write_text("#define X 1\n")
    (tmp_path / "outer.h").write_text('#include "inner.h"\n')
    included = replace(source, text='#include "outer.h"\n' + source.text, include=tmp_path)
    before = key_of(included, compiler)
    (tmp_path / "inner.h").write_text("#define X 2\n")
    keys = {
        key_of(source, compiler),
        key_of(number(2), compiler),
        key_of(replace(source, name="other"), compiler),
        key_of(replace(source, opt="-O2"), compiler),
        key_of(replace(source, flags=("-g",)), compiler),
        key_of(source, replace(compiler, version="0")),
        key_of(source, replace(compiler, isa_key="0")),
        key_of(source, replace(compiler, flags=())),
        before,
        key_of(included, compiler),
    }
    assert len(keys) == 10


def test_many_threads_compile_once(cache: Path, tmp_path: Path) -> None:
    compiler, count = counting_compiler(tmp_path, delay_s=0.3)
    chosen = probe((str(compiler),))
    found: list[Path] = []
    threads = [
        threading.Thread(target=lambda: found.append(compile_source(number(3), chosen)))
        for _ in range(6)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(set(found)) == 1
    assert len(found) == 6
    assert count.read_text() == "x\n"
    assert not leftovers(cache)


CHILD = """
import sys
from tcdsl.codegen.toolchain.cc import probe
from tcdsl.codegen.toolchain.source import Source
from tcdsl.codegen.toolchain.objects import compile_source
print("ready", flush=True)
print(compile_source(Source("number", sys.argv[2]), probe((sys.argv[1],))), flush=True)
"""


def child(compiler: Path, source: Source) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(CHILD), str(compiler), source.text],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_many_processes_compile_once(cache: Path, tmp_path: Path) -> None:
    compiler, count = counting_compiler(tmp_path, delay_s=0.5)
    probe((str(compiler),))
    processes = [child(compiler, number(4)) for _ in range(3)]
    # Not communicate, which passes over what the first readline has left in its buffer.
    paths = {p.stdout.read() for p in processes if p.stdout}
    assert [p.wait(60) for p in processes] == [0] * 3
    assert len(paths) == 1
    assert count.read_text() == "x\n"
    assert not leftovers(cache)


def wait_for(path: Path) -> None:
    end = time.monotonic() + 300
    while not path.exists():
        assert time.monotonic() < end
        time.sleep(0.01)


def is_running(marker: str) -> bool:
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if marker in entry.read_bytes().decode(errors="replace"):
                return True
        except OSError:
            continue
    return False


def test_ctrl_c_leaves_no_lock_no_object_and_no_compiler(cache: Path, tmp_path: Path) -> None:
    compiler, count = counting_compiler(tmp_path, delay_s=600)
    probe((str(compiler),))
    process = child(compiler, number(6))
    wait_for(count)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=300)
    assert "KeyboardInterrupt" in errors
    assert not leftovers(cache)
    assert contentfile.size() == (0, 0)
    assert not is_running(str(compiler))


def test_ctrl_c_waits_until_a_started_compiler_is_noted() -> None:
    noted = False
    with pytest.raises(KeyboardInterrupt), uninterrupted():  # noqa: PT012  (the point)
        signal.raise_signal(signal.SIGINT)
        noted = True
    assert noted


def test_ctrl_c_leaves_nothing_of_a_compiler_that_is_asked_who_it_is(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def interrupted() -> Path:
        made.append(contentfile.building_folder())
        signal.raise_signal(signal.SIGINT)
        return made[0]

    monkeypatch.setattr(cc, "building_folder", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cc._ask(find_compiler().command)
    assert len(made) == 1
    assert not leftovers(cache)


def test_a_killed_process_does_not_keep_its_lock(cache: Path, tmp_path: Path) -> None:
    compiler, count = counting_compiler(tmp_path, delay_s=2)
    chosen = probe((str(compiler),))
    process = child(compiler, number(7))
    wait_for(count)
    process.kill()
    process.communicate(timeout=300)
    assert ctypes.CDLL(str(compile_source(number(7), chosen))).number() == 7


def test_prune_removes_what_was_unused_for_longest(cache: Path) -> None:
    old, new = (compile_source(number(i)) for i in (1, 2))
    os.utime(old, (1, 1))
    files, size_bytes = contentfile.size()
    assert files == 2
    assert contentfile.prune(size_bytes - 1) == size_bytes - contentfile.size()[1]
    assert not old.exists()
    assert new.exists()
    contentfile.prune()
    assert contentfile.size()[1] == 0
    assert lookup(key_of(number(2), find_compiler())) is None
