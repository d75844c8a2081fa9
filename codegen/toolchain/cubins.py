"""The cubin cache: CUDA text in, machine code out; each text is compiled once for an architecture.

A file holds a line of JSON (what the compilers said) and the cubin behind it, so that both come
and go together.
"""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

from tcdsl.codegen.toolchain import contentfile
from tcdsl.codegen.toolchain.cachedir import with_room
from tcdsl.codegen.toolchain.contentfile import KeyLock, building_folder, hash_of, move_into_place
from tcdsl.codegen.toolchain.nvrtc import (
    OPTIONS,
    Cubin,
    CudaSource,
    compile_cuda,
    find_nvrtc,
    headers,
)

FORMAT = "1"  # of keys and of files
SUFFIX = ".cubin"
PLAIN = ".elf"  # the cubin alone, for loaders of other libraries
_POLL_S = 0.005


def cached_cubin(source: CudaSource, arch: str) -> Cubin:
    """Return the cubin of a text, compiled now or at any time before.

    Raises
    ------
    CompileError
        If there is no NVRTC or it refuses the text.
    """
    return with_room(lambda: _cached_cubin(source, arch))


def _cached_cubin(source: CudaSource, arch: str) -> Cubin:
    key = key_of(source, arch)
    while (found := lookup(key)) is None:
        lock = KeyLock.take(key)
        if lock is None:  # another thread or process is at work on it
            time.sleep(_POLL_S)
            continue
        try:
            if (found := lookup(key)) is None:
                found = compile_cuda(source.text, arch, name=source.name)
                _keep(found, source.name, key)
        finally:
            lock.release()
        return found
    return found


def cubin_file(source: CudaSource, arch: str) -> Path:
    """Return a file of the cache that holds the cubin of a text and nothing else.

    Raises
    ------
    CompileError
        If there is no NVRTC or it refuses the text.
    """
    key = key_of(source, arch)
    found = contentfile.lookup(key, PLAIN)
    if found is None:
        data = cached_cubin(source, arch).data
        found = with_room(lambda: _moved(data, source.name, key, PLAIN))
    return found


def key_of(source: CudaSource, arch: str) -> str:
    """Return the hash of all that decides a cubin: text, headers, options, NVRTC's version."""
    included = (part for header in headers() for part in header)
    version = ".".join(map(str, find_nvrtc().version))
    return hash_of([FORMAT, version, arch, *OPTIONS, source.name, source.text, *included])


def lookup(key: str) -> Cubin | None:
    """Return the cubin of a key, or None."""
    path = contentfile.lookup(key, SUFFIX)
    if path is None:
        return None
    try:
        head, _, data = path.read_bytes().partition(b"\n")
    except FileNotFoundError:  # pruned meanwhile
        return None
    facts = json.loads(head)
    return Cubin(data, facts["arch"], facts["log"])


def _keep(cubin: Cubin, name: str, key: str) -> Path:
    head = json.dumps({"arch": cubin.arch, "log": cubin.log})
    return _moved(head.encode() + b"\n" + cubin.data, name, key, SUFFIX)


def _moved(data: bytes, name: str, key: str, suffix: str) -> Path:
    folder = building_folder()
    try:
        made = folder / "cubin"
        made.write_bytes(data)
        return move_into_place(made, name, key, suffix)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
