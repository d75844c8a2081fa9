"""Where nothing can be kept, calls compute all the same: full disks, folders that are not ours."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import subprocess
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.autotune.store.tuning_file import StoreError
from tcdsl.codegen.toolchain import cachedir, contentfile
from tcdsl.codegen.toolchain.cachedir import CacheError
from tcdsl.grammar.text.errors import TCError
from tcdsl.kernel import Kernel
from tests.tiers import sampled

pytestmark = pytest.mark.cc

_NUMBERS = itertools.count(3)


def fresh_kernel(**options: Any) -> Callable[[], None]:
    """Return a kernel that was never compiled, as a call that checks its answer."""
    n = next(_NUMBERS)
    k = tc.define(f"def f(float(N) x) -> (y) {{ y(i) = {n} * x(i) }}", **options)
    assert isinstance(k, Kernel)
    x = np.arange(5, dtype=np.float32)

    def call() -> None:
        assert np.array_equal(k(x), n * x)

    return call


def called(*calls: Callable[[], None]) -> None:
    for call in calls:
        call()


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> cachedir._StandIn:
    new = cachedir._StandIn()
    monkeypatch.setattr(cachedir, "_stand_in", new)
    return new


def a_file(path: Path) -> None:
    path.write_text("mine")


def a_link_to_nothing(path: Path) -> None:
    path.symlink_to(path.parent / "gone" / "x")


def for_everybody(path: Path) -> None:
    path.mkdir()
    path.chmod(0o777)


def of_another_user(path: Path) -> None:
    path.mkdir(mode=0o700)


PLACES: dict[str, tuple[Callable[[Path], None], str]] = {
    "a file": (a_file, "cannot be used: "),
    "under a file": (a_file, "cannot be used: Not a directory"),
    "a link to nothing": (a_link_to_nothing, "cannot be used: "),
    "for everybody": (for_everybody, "others may write to the cache folder"),
    "of another user": (of_another_user, "belongs to another user"),
}


@sampled("place", PLACES, keep=2)
def test_a_call_does_not_need_its_cache_folder(
    tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, message = PLACES[place]
    path = tmp_path / "cache"
    make(path)
    monkeypatch.setenv("TCDSL_CACHE", str(path / "in" if place == "under a file" else path))
    if place == "of another user":
        real = os.stat

        def stat(at: Any, **how: Any) -> os.stat_result:
            found = real(at, **how)
            is_it = not isinstance(at, int) and os.fspath(at) == str(path)
            return os.stat_result((*found[:4], 12345, *found[5:10])) if is_it else found

        monkeypatch.setattr(os, "stat", stat)
    with pytest.warns(UserWarning, match="set TCDSL_CACHE|chmod 700") as caught:
        called(fresh_kernel(), fresh_kernel())
    assert len(caught) == 1
    assert message in str(caught[0].message)
    assert not path.is_dir() or not [*path.iterdir()]  # nothing is put there
    with pytest.raises(CacheError) as raised:
        cachedir.cache_dir()
    assert isinstance(raised.value, TCError)
    assert isinstance(raised.value, OSError)


def full(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let everything that makes files in a folder fail as on a full disk."""
    for module, name in ((os, "replace"), (os, "open"), (os, "mkdir")):
        real = getattr(module, name)

        def fails(path: Any, *args: Any, real: Any = real, **kwargs: Any) -> Any:
            at = Path(os.fsdecode(path)) if not isinstance(path, int) else Path()
            writes = real.__name__ != "open" or (args[:1] and args[0] & os.O_CREAT)
            if folder in at.parents and writes and not at.is_dir():
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(at))
            return real(path, *args, **kwargs)

        monkeypatch.setattr(module, name, fails)


def test_a_call_computes_on_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stand_in: cachedir._StandIn
) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setenv("TCDSL_CACHE", str(cache))
    fresh_kernel()()
    full(monkeypatch, cache)
    with pytest.warns(UserWarning, match="cannot be written: No space left on device") as caught:
        called(fresh_kernel(), fresh_kernel())
    assert len(caught) == 1
    assert stand_in.here() is not None


@pytest.mark.wide
def test_no_room_anywhere_is_an_error_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TCDSL_CACHE", str(tmp_path / "cache"))
    fresh_kernel()()
    full(monkeypatch, tmp_path / "cache")
    monkeypatch.setattr(cachedir, "lacks_room", lambda folder: True)
    with pytest.raises(CacheError, match="no room in a temporary folder"):
        fresh_kernel()()


def test_tuning_on_a_full_disk_says_what_is_lost_and_first_calls_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full(monkeypatch, tmp_path / "full")
    database = tmp_path / "full" / "in" / "tuned.db"
    k = tc.define("def f(float(N) x) -> (y) { y(i) = 2 * x(i) }", cache=database)
    assert isinstance(k, Kernel)
    with pytest.raises(StoreError, match="cannot be written: No space left") as raised:
        k.autotune(N=4, trials=1, quiet=True)
    assert isinstance(raised.value, TCError)
    assert isinstance(raised.value, OSError)
    assert str(raised.value).endswith("--cache FILE, cache=")
    with pytest.warns(UserWarning, match="f runs untuned: .*No space left"):
        fresh_kernel(tune="first-call", trials=1, cache=database)()


def test_a_forked_child_does_not_use_its_parents_stand_in(stand_in: cachedir._StandIn) -> None:
    with pytest.warns(UserWarning, match="no reason"):
        parents = stand_in.make("no reason")
    child = os.fork()
    if child == 0:
        os._exit(0 if stand_in.here() is None else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert parents.is_dir()
    shutil.rmtree(parents)


# ---- a real file system, where we may mount one


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "disk"
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=4m,mode=700", "tmpfs", str(path)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


def fill_up(disk: Path) -> None:
    with open(disk / "ballast", "wb") as file:
        try:
            while True:
                os.write(file.fileno(), bytes(4096))
        except OSError:
            pass


@pytest.mark.wide
def test_a_call_computes_where_the_disk_is_really_full(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TCDSL_CACHE", str(disk))
    k = tc.define("def f(float(N) x) -> (y) { y(i) = 2 * x(i) }")
    assert isinstance(k, Kernel)
    k.autotune(N=4, trials=1, quiet=True)
    fill_up(disk)
    with pytest.warns(UserWarning, match="No space left on device") as caught:
        fresh_kernel()()
    assert len(caught) == 1
    with pytest.raises(TCError) as raised:
        k.autotune(N=50_000, trials=3, quiet=True)
    assert isinstance(raised.value, OSError)
    assert k.tuned_config(np.zeros(4, np.float32)) is not None  # what was found before


@pytest.mark.wide
def test_a_cache_that_can_only_be_read_serves_what_it_has(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TCDSL_CACHE", str(disk))
    texts = [f"def f(float(N) x) -> (y) {{ y(i) = {n} * x(i) }}" for n in (2, 3)]
    x = np.ones(4, np.float32)
    first, _ = (tc.define(text) for text in texts)
    assert isinstance(first, Kernel)
    first.autotune(x, trials=1, quiet=True)
    assert (first(x) == 2).all()
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    again, new = (tc.define(text) for text in texts)
    assert isinstance(again, Kernel)
    assert isinstance(new, Kernel)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (again(x) == 2).all()
        assert again.tuned_config(x) is not None
    with pytest.warns(UserWarning, match="cannot be written"):
        assert (new(x) == 3).all()
    with pytest.raises(StoreError):
        again.autotune(N=9, trials=1, quiet=True)
    assert contentfile.size()[0] > 0


def test_a_folder_whose_files_may_not_be_loaded_is_replaced_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hardened systems mount /tmp and homes so."""
    folder, status = tmp_path / "cache", os.statvfs
    monkeypatch.setenv("TCDSL_CACHE", str(folder))
    kept = fresh_kernel(tune="off")
    kept()

    def flagged(path: Any) -> Any:
        found = status(path)
        if folder not in (path, *Path(path).parents):
            return found
        return SimpleNamespace(
            f_flag=found.f_flag | os.ST_NOEXEC, f_bavail=found.f_bavail, f_frsize=found.f_frsize
        )

    monkeypatch.setattr(os, "statvfs", flagged)
    files = {*folder.rglob("*.so")}
    assert files
    with pytest.warns(UserWarning, match="noexec"):
        fresh_kernel(tune="off")()
    assert {*folder.rglob("*.so")} == files
    key = next(iter(files)).stem.rsplit("-", 2)[1]
    assert contentfile.lookup(key, ".so") is None, "what lies there cannot be loaded either"
