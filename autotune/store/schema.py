"""The tables of a tuning file; the version stands in their names: another schema, other tables."""

from __future__ import annotations

from collections.abc import Mapping

NAME = "tuned.db"  # of the user's own file, in the cache folder
APPLICATION_ID = 0x74636473  # in the head of every file of ours
PROBLEMS, TRIALS, CONFIGS = "problems_v1", "trials_v1", "configs_v1"
PRIMARY: Mapping[str, str] = {PROBLEMS: "digest", TRIALS: "id", CONFIGS: "problem"}


def _columns(texts: str, numbers: str) -> dict[str, type]:
    return dict.fromkeys(texts.split(), str) | dict.fromkeys(numbers.split(), float)


COLUMNS: Mapping[str, Mapping[str, type]] = {
    PROBLEMS: _columns("digest family name key text", "created"),
    TRIALS: {"id": int}
    | _columns(
        "problem config status reason detail times_ns owner origin text",
        "time_ns created updated",
    ),
    CONFIGS: _columns("problem family sizes config origin", "time_ns default_ns updated"),
}
# How our tables begin in every version.
PREFIXES = tuple(name.rstrip("0123456789") for name in COLUMNS)
