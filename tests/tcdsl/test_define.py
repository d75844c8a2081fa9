"""`define`: what it takes for a text, its settings, and what it is to a type checker."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tcdsl as tc
from tcdsl.codegen import runtime
from tcdsl.grammar.text import errors
from tcdsl.grammar.text.source import MAX_TEXT_BYTES

ROOT = Path(__file__).parents[2]
ADD = "def add(float(N) A, float(N) B) -> (C) { C(i) = A(i) + B(i) }"
TWO = ADD + "\ndef sub(float(N) A, float(N) B) -> (C) { C(i) = A(i) - B(i) }"


def test_a_file_is_read_as_utf8_whatever_its_mark_and_line_ends(tmp_path: Path) -> None:
    file = tmp_path / "größe.tc"
    file.write_bytes(b"\xef\xbb\xbf# gr\xc3\xb6\xc3\x9fer\r\n" + ADD.encode() + b"\r\n")
    k = tc.define(file)
    assert (k.name, k.output_shapes(N=3)) == ("add", {"C": (3,)})
    file.write_text(ADD.replace("A(i)", "A(j)"))
    with pytest.raises(tc.TCError, match=f"^{re.escape(str(file))}:1:"):
        tc.define(file)
    with pytest.raises(tc.TCError, match=r"^mine\.tc:1:"):
        tc.define(file, source="mine.tc")
    file.write_text(TWO)
    assert [k.name for k in tc.define_all(file)] == ["add", "sub"]
    assert tc.define(file, "sub").name == "sub"
    file.write_text(ADD.replace("A(i)", "{factor} * A(i)"))
    assert tc.define(file, constants={"factor": 2}).name == "add"


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "missing.tc"
    with pytest.raises(tc.FileError) as caught:
        tc.define(missing)
    assert str(caught.value) == f"the text {missing} cannot be read: No such file or directory"
    assert isinstance(caught.value, OSError)
    with pytest.raises(OSError, match="cannot be read: Is a directory"):
        tc.define(tmp_path)
    with pytest.raises(tc.FileError, match="cannot be read: embedded null byte"):
        tc.define(Path("a\0b"))
    file = tmp_path / "latin.tc"
    file.write_bytes(b"# gr\xf6\xdfer\n" + ADD.encode())
    with pytest.raises(tc.TCSyntaxError, match=r"is not UTF-8: invalid .* at byte 4"):
        tc.define(file)
    with pytest.raises(tc.TCSyntaxError, match="is too long; the most is 1048576 bytes"):
        tc.define(Path("/dev/zero"))
    file.write_bytes(ADD.encode() + b" " * MAX_TEXT_BYTES)
    with pytest.raises(tc.TCSyntaxError, match="TC016"):
        tc.define(file)


@pytest.mark.parametrize("text", ["layer.tc", "models/layer", "/a/b/c.txt"])
def test_the_name_of_a_file_is_no_text_but_is_understood(text: str) -> None:
    with pytest.raises(tc.TCSyntaxError) as caught:
        tc.define(text)
    last = "the text looks like the name of a file\n  pass pathlib.Path"
    assert str(caught.value).endswith(f"{last}({text!r})")
    assert caught.value.diagnostics


@pytest.mark.parametrize("text", ["", "layer", "def f(float(N) A) -> (B) { B(i) = A(i) / }"])
def test_other_texts_are_not_taken_for_names(text: str) -> None:
    with pytest.raises(tc.TCSyntaxError) as caught:
        tc.define(text)
    assert "name of a file" not in str(caught.value)


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(tc.TCTypeError, match="expected definitions as a str or a path, got bytes"):
        tc.define(ADD.encode())  # type: ignore[arg-type]
    with pytest.raises(tc.TCTypeError, match=r"got int$"):
        tc.define(3)  # type: ignore[arg-type]


def test_define_all_gives_definitions_also_of_one() -> None:
    one = tc.define_all(ADD, tune="off", threads=1)
    assert isinstance(one, tc.Definitions)
    assert (len(one), one.add.session.settings.tune) == (1, "off")
    assert repr(one) == "<tcdsl definitions add>"
    with pytest.raises(KeyError, match="no definition 'mul'; the text has add"):
        one["mul"]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"tune": "no"}, "tune is 'no'; expected 'off', 'cached', 'first-call' or 'online'"),
        ({"check": "no"}, "check is 'no'; expected 'async', 'sync' or 'off'"),
        ({"threads": 0}, "threads is 0; expected an int from 1 on, or None"),
        ({"threads": "2"}, "threads is '2'; expected an int from 1 on, or None"),
        ({"threads": 2**31}, "threads is 2147483648; expected at most 2147483647"),
        ({"seconds": -1}, "seconds is -1; expected a number from 0 on, or None"),
        ({"trials": 1.5}, "trials is 1.5; expected an int from 0 on, or None"),
        ({"seed": "x"}, "seed is 'x'; expected an int"),
    ],
)
def test_settings_are_checked(option: Any, message: str) -> None:
    for made in (tc.define, tc.define_all):
        with pytest.raises(tc.TCTypeError, match=re.escape(message)):
            made(ADD, **option)


def test_a_kernel_takes_no_other_way_to_tune_than_define() -> None:
    with pytest.raises(tc.TCTypeError, match="tune is 'no'; expected 'off', 'cached'"):
        tc.define(ADD).with_tune("no")  # type: ignore[arg-type]


def test_every_class_of_errors_is_public() -> None:
    home = errors.__name__
    ours = {n for n, v in vars(errors).items() if getattr(v, "__module__", "") == home}
    ours = {n for n in ours if isinstance(getattr(errors, n), type)}
    assert {"TCError", "FileError", "Diagnostic"} < ours
    assert ours <= {*tc.__all__}
    assert ours <= {*dir(tc)}
    for name in ours:
        assert getattr(tc, name) is getattr(errors, name)
    assert sorted(tc.__all__) == sorted({*tc._HOME})


@pytest.mark.parametrize(
    ("limit", "kind", "message"),
    [
        (-1, ValueError, "set_cache_limit: limit is negative, -1"),
        (2**63, OverflowError, "set_cache_limit: limit is beyond 2**63, 9223372036854775808"),
        ("1G", TypeError, "set_cache_limit: expected limit as an int, got '1G'"),
        (1e9, TypeError, "set_cache_limit: expected limit as an int, got 1000000000.0"),
    ],
)
def test_a_limit_of_the_memory_kept_is_a_number_of_bytes(
    limit: Any, kind: type[Exception], message: str
) -> None:
    before = runtime.memory()[2]
    with pytest.raises(kind) as caught:
        tc.set_cache_limit(limit)
    cure = "\n  pass a number of bytes, as set_cache_limit(2**30) for 1 GiB; 0 keeps nothing"
    assert str(caught.value) == message + cure
    assert isinstance(caught.value, tc.TCError)
    assert runtime.memory()[2] == before


USES = """
import numpy as np
import tcdsl as tc
from pathlib import Path

add = tc.define("def add(float(N) A, float(N) B) -> (C) { C(i) = A(i) + B(i) }")
x = np.ones(3, np.float32)
y = add(x, x, out=x)
y, pull = add.vjp(x, x)
d_a, d_b = pull(x)
slope: tc.Kernel = tc.grad(add).whole
shapes: dict[str, tuple[int, ...]] = add.output_shapes(N=3)
config = add.with_tune("off").autotune(N=3, trials=1)
T = tc.define_all("def add(float(N) A, float(N) B) -> (C) { C(i) = A(i) + B(i) }", tune="off")
z = T.add(x, x) + T["add"](x, x)
names = [k.name for k in T]
try:
    tc.define(Path("layer.tc"), "add", {"eps": 1e-5}, source="layer.tc")
except (tc.FileError, tc.ShapeError) as error:
    print(error.diagnostics)
"""
SLIPS = {
    "add.autotun(x)": '"Kernel" has no attribute "autotun"; maybe "autotune"?',
    "add.add(x, x)": '"Kernel" has no attribute "add"',
    "tc.define(1)": 'Argument 1 to "define" has incompatible type "int"',
    'tc.define("", tune="of")': 'Argument "tune" to "define" has incompatible type',
    'tc.define_all("", tunes="off")': 'Unexpected keyword argument "tunes" for "define_all"',
    "tc.Defintions": 'Module has no attribute "Defintions"',
    'T["add"].outputs': '"Kernel" has no attribute "outputs"',
}


@pytest.mark.wide
def test_users_code_passes_mypy_and_slips_do_not(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    (tmp_path / "uses.py").write_text(USES)
    (tmp_path / "readme.py").write_text("\n".join(blocks))
    (tmp_path / "slips.py").write_text(USES + "\n".join(SLIPS))
    options = ["--strict", "--follow-imports=silent", "--no-error-summary"]
    options += ["--disable-error-code=import-not-found"]  # torch need not be there
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "uses.py", "readme.py", "slips.py"],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    found = [line for line in done.stdout.splitlines() if ": error: " in line]
    assert [line for line in found if not line.startswith("slips.py")] == [], done.stdout
    first = USES.count("\n") + 1
    wanted = {first + i: message for i, message in enumerate(SLIPS.values())}
    assert {int(line.split(":")[1]) for line in found} == {*wanted}, done.stdout
    for line in found:
        assert wanted[int(line.split(":")[1])] in line


def test_a_session_names_the_nearest_definition() -> None:
    kernel = tc.define("def double_it(float(N) X) -> (Y) { Y(n) = 2 * X(n) }")
    with pytest.raises(
        errors.TCTypeError, match="no definition 'duble_it'; did you mean 'double_it'"
    ):
        kernel.session.definition("duble_it")


def test_the_command_is_the_package_too() -> None:
    run = [sys.executable, "-m", "tcdsl", "--help"]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Usage: tcdsl ")
