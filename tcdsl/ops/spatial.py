"""Texts for images of any number of dimensions, made of texts for one.

What has a 1 at the end of its names is there once for each dimension: ``T(N, C, H1) input`` is
``T(N, C, H1, H2) input`` for two, ``pad(input(n, c, S1 * h1 + k1 - P1), 0)`` is
``pad(input(n, c, S1 * h1 + k1 - P1, S2 * h2 + k2 - P2), 0)``. The language has no index of a
dimension.
"""

from __future__ import annotations

import re
from functools import cache

_NAMED = re.compile(r"\b([A-Za-z]+)1\b")
_BEFORE_LIST = re.compile(r"(\w|\]|-> *)$")
_BUILTIN = re.compile(r"\b(abs|clamp|max|min)$")
_ACCESS = re.compile(r"\b(?!(?:abs|clamp|max|min)\b)\w+\(")
_GENERICS = re.compile(r"(?<=\w)<[^<>]*>(?=\()")


@cache
def spatial(text: str, rank: int) -> str:
    """Return a text for one dimension as that for `rank` of them."""
    listed = _GENERICS.sub(lambda found: f"[{found[0][1:-1]}]", text)
    done, _ = _items(listed, 0, rank)
    return done.replace("[", "<").replace("]", ">")


def _items(text: str, at: int, rank: int) -> tuple[str, int]:
    """Write the items up to a closing bracket, and say where that is."""
    done = item = ""
    own = ""  # of the item, what is not in the list of an access
    while at < len(text) and text[at] not in ")]":
        letter = "where " if text.startswith("where ", at) else text[at]
        at += len(letter)
        if letter in (",", "\n", "{", "where "):
            done += _repeated(item, own, rank) + letter
            item = own = ""
        elif letter in "([":
            is_list = _BEFORE_LIST.search(item) is not None
            if is_list and _BUILTIN.search(item):  # of numbers it is arithmetic
                is_list = _ACCESS.search(_until_closed(text, at)[0]) is not None
            inner, at = _items(text, at, rank) if is_list else _until_closed(text, at)
            item += letter + inner + text[at]
            own += "" if is_list else inner
            at += 1
        else:
            item, own = item + letter, own + letter
    return done + _repeated(item, own, rank), at


def _until_closed(text: str, at: int) -> tuple[str, int]:
    """Return what stands in a bracket of arithmetic, and where it ends."""
    depth, start = 1, at
    while depth:
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        at += 1
    return text[start : at - 1], at - 1


def _repeated(item: str, own: str, rank: int) -> str:
    if not _NAMED.search(own):
        return item
    what = item.lstrip()
    each = (_NAMED.sub(rf"\g<1>{d}", what) for d in range(1, rank + 1))
    return item[: len(item) - len(what)] + ", ".join(each)


def without_rest(text: str) -> str:
    """Return a text over ``(N, C, L)`` for tensors that have nothing behind their channels.

    With L of 1 element the innermost loop would be over it: nothing would be done side by side.
    """
    return re.sub(r", [lL]\b|\s\* L\b", "", text)


@cache
def with_channels_behind(text: str, rows: str = "n") -> str:
    """Return a text over rows of images, ``(N, H1)``, for images whose channels lie last.

    What begins with `rows` has the channels as a last dimension: ``(N, H1, C)``.
    """
    done, closing = "", []
    for at, letter in enumerate(text):
        if letter == "(":
            first = re.match(r"\w*", text[at + 1 :])
            word = first[0] if first is not None else ""
            closing.append({rows: ", c", rows.upper(): ", C"}.get(word, ""))
        done += closing.pop() + ")" if letter == ")" else letter
    return done


@cache
def with_channels_moved(text: str, count: int = 1) -> str:
    """Return a text over images ``(N, C, H1)`` for such whose channels lie last, ``(N, H1, C)``.

    What begins with n has `count` subscripts behind it, of groups and channels, moved to its end.
    """
    done, at = "", 0
    while at < len(text):
        done, letter, at = done + text[at], text[at], at + 1
        if letter != "(":
            continue
        inner, end = _until_closed(text, at)
        if re.match(r"[nN],", inner):
            first, *items = _split(inner)
            moved = [first, *items[count:], *items[:count]]
            done, at = done + ", ".join(moved), end
    return done


def _split(items: str) -> list[str]:
    """Return what stands between the commas of a list, those in brackets of its own left alone."""
    found, depth = [""], 0
    for letter in items:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and not depth:
            found.append("")
        else:
            found[-1] += letter
    return [one.strip() for one in found]
