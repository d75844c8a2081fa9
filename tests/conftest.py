"""Marks, seeds and goldens."""

from __future__ import annotations

import gc
import importlib.util
import os
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path
from typing import Any

# Threads of BLAS and OpenMP that wait by turning round would take the core of the other worker:
# one small product of torch costs 17 ms so. Before numpy is imported; workers inherit it.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from tcdsl.codegen.library import functions
from tcdsl.codegen.toolchain import cc, nvrtc
from tcdsl.codegen.toolchain.source import Source
from tests.tiers import share

# How long an example takes is the machine's affair: on a busy one any takes longer than 200 ms.
settings.register_profile("tcdsl", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tcdsl")

ROOT = Path(__file__).parent.parent
GOLDEN = ROOT / "tests" / "golden"
CHECKED_MARKS = ("cc", "zig", "clang", "nvrtc", "cusim", "torch")
TIERS = ("wide", "deep")  # what runs only if asked for, the longer behind the shorter
LEFT = pytest.StashKey[Counter[str]]()  # tests of each tier that wait; one that runs has none


def _wait_for_sources() -> None:
    """Wait until all sources are two seconds old: who loads younger ones keeps no records."""
    folders = (ROOT / name for name in ("grammar", "codegen", "autotune", "tcdsl"))
    newest = max((p.stat().st_mtime for folder in folders for p in folder.rglob("*")), default=0.0)
    time.sleep(max(0.0, min(newest + 2.5 - time.time(), 2.5)))


_wait_for_sources()  # before a test loads `records`, which says what is younger


def _missing() -> dict[str, str]:
    """Return why a mark cannot run here, for those that cannot."""
    why = {}
    if not any(shutil.which(c) for c in ("cc", "gcc", "clang")):
        why["cc"] = "no C compiler on PATH"
    if importlib.util.find_spec("ziglang") is None:
        why["zig"] = "the ziglang wheel is not installed"
    if shutil.which("clang") is None:
        why["clang"] = "no clang on PATH"
    if "error" in nvrtc.report():
        why["nvrtc"] = "no NVRTC is installed"
    if importlib.util.find_spec("torch") is None:
        why["torch"] = "torch is not installed"
    if importlib.util.find_spec("cupy") is None:
        why["gpu"] = "cupy is not installed"
    return why


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite tests/golden")
    parser.addoption("--wide", action="store_true", help="run the tests marked wide too")
    parser.addoption("--deep", action="store_true", help="run every test: wide and deep too")
    parser.addoption("--share", metavar="K/N", help="run the K-th of N shares, each test in one")


def _waits(config: pytest.Config, marks: Iterable[pytest.Mark]) -> str | None:
    """Return the tier of a test with these marks, the longer of two, where nobody asked for it."""
    names = {mark.name for mark in marks}
    return next((tier for tier in reversed([*config.stash[LEFT]]) if tier in names), None)


@pytest.hookimpl(wrapper=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> Iterator[None]:
    """Make no case that waits: of thousands each costs half a millisecond.

    pytest makes one where all wait; like a test without cases it is left out when all are there.
    A case that is `wide` twice, by two lists that are crossed or by its test and a list, is deep.
    """
    yield
    config, calls = metafunc.config, metafunc._calls
    of_all = [*metafunc.definition.iter_markers()]
    for call in calls:
        if sum(mark.name == "wide" for mark in (*of_all, *call.marks)) > 1:
            call.marks.append(pytest.mark.deep.mark)
    tiers = [_waits(config, (*of_all, *call.marks)) for call in calls]
    taken = [call for call, tier in zip(calls, tiers, strict=True) if tier is None]
    if calls and not taken:
        taken = calls[:1]
        del tiers[0]
    config.stash[LEFT].update(tier for tier in tiers if tier)
    metafunc._calls = taken


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Let every other worker of xdist begin with the last file.

    Each collects all files, but what one has compiled, with its assertions rewritten, others read.
    """
    report = yield
    is_folder = isinstance(collector, pytest.Session | pytest.Directory)
    if is_folder and int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % 2:
        report.result.reverse()
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    named = [item.nodeid for item in items if " at 0x" in item.nodeid]
    if named:  # each worker would collect other tests, and the run would end before it began
        raise pytest.UsageError(f"the name of a test has an address in it: {named[0]}")
    missing = _missing()
    asked_for = config.getoption("--share")
    if asked_for is not None:
        is_in = share(asked_for)
        items[:] = [item for item in items if is_in(item.nodeid)]
    taken: list[pytest.Item] = []
    for item in items:
        tier = _waits(config, item.iter_markers())
        if tier:
            config.stash[LEFT][tier] += 1
        else:
            taken.append(item)
    # All workers have one order. The longest waits begin first, so that no worker is alone with one
    # at the end: the bridge to torch is compiled by one while the others run on.
    items[:] = sorted(taken, key=lambda item: (not item.get_closest_marker("torch"), item.path))
    for item in items:
        for mark in missing:
            if item.get_closest_marker(mark):
                item.add_marker(pytest.mark.skip(reason=missing[mark]))
        for mark in CHECKED_MARKS:
            if item.get_closest_marker(mark):
                item.user_properties.append(("mark", mark))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without looking for garbage, and never look through what was collected again.

    Tens of thousands of items, modules and trees live until the end: each search costs what a
    small test does.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


class _MarkCount:
    """Counts, per mark, the tests that ran and those that were skipped; per tier, those left."""

    def __init__(self) -> None:
        self.ran: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self.left: Counter[str] = Counter()

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Hand on what waits: where xdist has workers, only they have collected."""
        self.left = self.left | session.config.stash[LEFT]
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["left"] = dict(self.left)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over what a worker of xdist has found waiting: the same as any other."""
        self.left |= Counter(getattr(node, "workeroutput", {}).get("left", {}))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        marks = [str(value) for name, value in report.user_properties if name == "mark"]
        if report.skipped:
            self.skipped.update(marks)
        elif report.when == "call":
            self.ran.update(marks)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for mark in CHECKED_MARKS:
            if self.ran[mark] or self.skipped[mark]:
                terminalreporter.write_line(
                    f"mark {mark}: {self.ran[mark]} run, {self.skipped[mark]} skipped"
                )
        for tier in TIERS:
            if self.left[tier]:
                terminalreporter.write_line(f"{self.left[tier]} {tier} tests wait for --{tier}")


# Folders whose tests ask what kernels mean, within the rounding of their sums, and of no other
# process that compiles them. Bits are not those of -O3: no product is part of a sum's fma.
OF_MEANING = {
    "codegen/choose", "codegen/forms", "codegen/gradient", "codegen/loops", "codegen/program",
    "tcdsl/amp", "tcdsl/autograd", "tcdsl/core", "tcdsl/derived",
    "tcdsl/distributions", "tcdsl/nn", "tcdsl/ops", "tcdsl/optim", "tcdsl/programs",
    "tcdsl/serialization", "tcdsl/tensors", "tcdsl/testing", "tcdsl/text", "tcdsl/utils",
}  # fmt: skip


class _Levels:
    """Has kernels whose meaning alone is asked for compiled by -Og, in half of the time.

    All others are compiled as users have them; so are those under codegen, which holds the compiler
    of texts itself, in wider runs, and all in deep ones.
    """

    def __init__(self) -> None:
        self.is_users = True
        usual = Source.all_flags

        def flags(source: Source, compiler: cc.Compiler) -> tuple[str, ...]:
            found = usual(source, compiler)
            return found if self.is_users else tuple("-Og" if f == "-O3" else f for f in found)

        Source.all_flags = flags  # type: ignore[method-assign, assignment]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        left = item.config.stash[LEFT]
        here = Path(__file__).parent
        folder = next((f for f in OF_MEANING if here / f in item.path.parents), None)
        is_users = (
            folder is None
            or "deep" not in left
            or ("wide" not in left and folder.startswith("codegen"))
        )
        if is_users != self.is_users:
            functions._loaded.clear()  # by name alone: bits of another level would meet these
        self.is_users = is_users


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as behind `nohup` and `&`
        # Children inherit it: those that a test interrupts would not notice.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    asked = {"wide": ["--wide", "--deep"], "deep": ["--deep"]}
    left = (tier for tier in TIERS if not any(config.getoption(o) for o in asked[tier]))
    config.stash[LEFT] = Counter(dict.fromkeys(left, 0))
    if "wide" in config.stash[LEFT]:
        # Examples are drawn from the numbers of our sources too, but to read those takes each
        # worker five seconds in a fresh clone: what the few examples of this tier need not.
        providers._get_local_constants = lambda: providers._local_constants  # none
    config.pluginmanager.register(_MarkCount(), "tcdsl-mark-count")
    config.pluginmanager.register(_Levels(), "tcdsl-levels")


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep tests out of the user's cache; one cache for the run, so that kernels compile once."""
    if "TCDSL_CACHE" not in os.environ:
        base = tmp_path_factory.getbasetemp()
        workers = "PYTEST_XDIST_WORKER" in os.environ  # each has a folder in the run's
        folder = (base.parent if workers else base) / "cache"
        folder.mkdir(mode=0o700, exist_ok=True)
        os.environ["TCDSL_CACHE"] = str(folder)
    os.environ.setdefault("TCDSL_TORCH_BRIDGE", "0")  # a minute of compiling; tests ask for it


@pytest.fixture(autouse=True, scope="session")
def _nothing_aside(_own_cache: None) -> None:
    """Have second sizes served by executables for all sizes, whatever a cache holds.

    So tests that call twice see both kinds; those of what is built aside say so.
    """
    from tcdsl.calls.bindings import beginning, meanwhile
    from tcdsl.codegen.toolchain import records
    from tcdsl.derived import beforehand

    records._MOMENT_S = 2.0  # between looks at all sources: at each kernel they cost a twentieth
    meanwhile.LONG_FORMS.clear()
    meanwhile.FOLLOWS = False
    beginning.BEGINS = False
    beforehand.IS_USUAL = False


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep files in a cache of the test's own; the core library, which takes 5 s, is there."""
    run, own = Path(os.environ["TCDSL_CACHE"]), tmp_path / "cache"
    own.mkdir(0o700)
    for made in [*(run / "objects").glob("*/core-*.so"), *(run / "objects").glob("*/tensors-*.so")]:
        copy = own / made.relative_to(run)
        for folder in (copy.parent.parent, copy.parent):
            folder.mkdir(0o700, exist_ok=True)
        shutil.copy(made, copy)
    monkeypatch.setenv("TCDSL_CACHE", str(own))
    return own


@pytest.fixture(autouse=True)
def _compiles_anew(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let torch.compile forget: it counts the forms of each function over the whole process."""
    yield
    dynamo = sys.modules.get("torch._dynamo")
    if dynamo is not None and request.node.get_closest_marker("torch"):
        dynamo.reset()


@pytest.fixture
def rng() -> np.random.Generator:
    """Return a generator with a fixed seed."""
    return np.random.default_rng(20261120)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Return a function that holds a text against a file of tests/golden."""

    def check(text: str, name: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert path.exists(), f"no golden {name}: run pytest --update-golden and read the diff"
        assert text == path.read_text(), "run pytest --update-golden and read the diff"

    return check
