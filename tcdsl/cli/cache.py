"""`tcdsl cache`: what the tuner has found."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tcdsl.cli.app import (
    CACHE,
    JSON,
    check_installed,
    check_writable,
    main,
    print_json,
    say,
    time_span,
)

if TYPE_CHECKING:
    from tcdsl.autotune.store.rows import TrialRow

# What `show --json` tells of a trial: the rest of its row is the tuner's own.
_TRIAL_FIELDS = ("config", "status", "reason", "detail", "time_ns", "origin", "created")


@main.group()
def cache() -> None:
    """Look at, move and clean what the tuner has found.

    PROBLEM is a name or a digest as `list` shows them, or any beginning of one.
    """


def _database(given: Path | None) -> Path:
    from tcdsl.calls.bindings.settings import default_database

    return given or default_database()


@cache.command("path")
@CACHE
def path_(cache: Path | None) -> None:
    """Print where tuned configs lie, and compiled objects with what is known of them."""
    from tcdsl.codegen.toolchain.cachedir import cache_dir

    say(f"configs  {_database(cache)}")
    say(f"objects  {cache_dir()}")


@cache.command("list")
@CACHE
@JSON
def list_(cache: Path | None, as_json: bool) -> None:
    """List the problems that were tuned, the latest first."""
    from tcdsl.autotune.report import duration
    from tcdsl.autotune.store.records import problems

    found = problems(_database(cache))
    if as_json:
        print_json([asdict(p) for p in found])
        return
    for p in found:
        time = "not finished" if p.time_ns is None else duration(p.time_ns)
        say(f"{p.digest[:8]}  {p.name}  {time}  {p.trials} trials, {p.failed} failed")
    if not found:
        say(f"nothing was tuned yet in {_database(cache)}")


@cache.command()
@click.argument("problem")
@CACHE
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), help="Draw the history.")
@JSON
def show(problem: str, cache: Path | None, plot: Path | None, as_json: bool) -> None:
    """Show the trials of PROBLEM: config, time, or why it failed."""
    from tcdsl.autotune.report import duration
    from tcdsl.autotune.store.records import find, trials
    from tcdsl.tuning import draw_trials

    if plot is not None:
        check_writable(plot, "--plot")
        check_installed("matplotlib")
    database = _database(cache)
    found = find(database, problem)
    records = trials(database, found)
    if plot is not None:
        draw_trials(found, records, plot)
    if as_json:
        print_json({"problem": asdict(found), "trials": [_shown(t) for t in records]})
        return
    say(f"{found.name}\n{found.text}")
    for t in records:
        outcome = f"{t.status} {t.reason}" if t.time_ns is None else duration(t.time_ns)
        say(f"  {outcome:>12}  {t.config}")
    if plot is not None:
        say(f"plot: {plot}")


def _shown(trial: TrialRow) -> dict[str, Any]:
    fields = asdict(trial)
    return {name: fields[name] for name in _TRIAL_FIELDS}


@cache.command()
@click.argument("problem")
@CACHE
@JSON
def best(problem: str, cache: Path | None, as_json: bool) -> None:
    """Show the tuned config of PROBLEM and its time beside the default's."""
    from tcdsl.autotune.report import duration
    from tcdsl.autotune.store.records import find

    found = find(_database(cache), problem)
    if as_json:
        print_json(asdict(found))
        return
    if found.config is None or found.time_ns is None:
        say(f"{found.name} has no tuned config yet")
        return
    gain = "" if not found.default_ns else f", {found.default_ns / found.time_ns:.2f}x the default"
    say(f"{found.name}: {duration(found.time_ns)}{gain}")
    for name, value in found.config.items:
        say(f"  {name} = {value}")


@cache.command()
@click.argument("target", type=click.Path(dir_okay=False, path_type=Path))
@CACHE
def export(target: Path, cache: Path | None) -> None:
    """Copy the tuned configs into the new file TARGET, to merge elsewhere or ship with a model."""
    from tcdsl.autotune.store.transfer import export as export_to

    say(f"{export_to(_database(cache), target)} configs written to {target}")


@cache.command()
@click.argument("other", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@CACHE
@click.option("--replace", is_flag=True, help="Prefer the file's configs to those found here.")
def merge(other: Path, cache: Path | None, replace: bool) -> None:
    """Bring in the tuned configs of the file OTHER; configs only, never machine code."""
    from tcdsl.autotune.store.transfer import merge as merge_from

    say(f"{merge_from(_database(cache), other, replace=replace)} configs came in")


@cache.command()
@CACHE
@click.option(
    "--days",
    type=float,
    callback=time_span,
    default=90.0,
    show_default=True,
    help="Remove trials older than this.",
)
@click.option("--failed", is_flag=True, help="Remove failed trials too; they are tried again.")
@click.option(
    "--objects",
    is_flag=True,
    help="Remove compiled objects and what is known of them too; they are made again.",
)
def prune(cache: Path | None, days: float, failed: bool, objects: bool) -> None:
    """Remove old trials; tuned configs stay. Deleting the whole folder is always safe."""
    from tcdsl.autotune.store.transfer import prune as prune_trials
    from tcdsl.codegen.toolchain import contentfile

    rows = prune_trials(_database(cache), older_than_days=days, failed=failed)
    say(f"{rows} rows removed")
    if objects:
        say(f"{contentfile.prune():,} bytes of objects removed")
