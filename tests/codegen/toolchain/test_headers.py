"""A text is compiled with what it needs of our headers, to the object that all of them give."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tcdsl.codegen.toolchain import headers
from tcdsl.codegen.toolchain.cc import INCLUDES, find_compiler
from tcdsl.codegen.toolchain.running import Run
from tcdsl.codegen.toolchain.source import Source
from tcdsl.grammar.text.errors import CompileError

EXPANDED = f"""
# 1 "<built-in>"
#define __x86_64__ 1
# 1 "{INCLUDES}/prelude.h" 1
#define TC_TWO 2
#define TC_GONE 1
#undef TC_GONE
#define TC_JOIN(a,b) a##b
typedef int tc_i32;
enum {{ L = 4 }};
extern double exp(double), log(double);
static const int table[2] = {{ 1, 2 }};
static inline __attribute__((always_inline)) tc_i32 first(tc_i32 *a) {{ struct {{ int x; }} s = {{ 1 }};
# 7 "{INCLUDES}/prelude.h"
#pragma GCC unroll 4
# 7 "{INCLUDES}/prelude.h"
 for (int i = 0; i < L; i++) a[i] = "}};"[i]; return table[0]; }} static tc_i32 second(tc_i32 *a) {{ return first(a); }}
# 1 "/usr/include/math.h"
double strange(double);
"""  # noqa: E501
TEXT = """#include "prelude.h"
#include "smath.h"

TC_EXPORT void f(float *restrict out, const float *restrict a, tc_i64 n) {
  for (tc_i64 i = 0; i < n; i++) out[i] = tc_exp_f32(tc_max_f32(a[i], TC_NAN_F32));
}
"""


def test_headers_are_taken_apart_into_macros_types_tables_and_functions() -> None:
    parts = [*headers.taken_apart(EXPANDED, INCLUDES)]
    names = ["TC_TWO", "TC_JOIN", "", "", "exp", "log", "table", "first", "second"]
    assert [name for name, _ in parts] == names
    assert "#pragma GCC unroll 4" in dict(parts)["first"].splitlines()
    assert headers.Headers(parts).needed("int x = TC_TWO;") == [
        "#define TC_TWO 2", "typedef int tc_i32;", "enum { L = 4 };",
    ]  # fmt: skip
    needed = headers.Headers(parts).needed("double f(double x) { return log(x); }")
    assert needed is not None
    assert needed[-1] == "extern double log(double);"
    needed = headers.Headers(parts).needed("void f(void) { second(0); }")
    assert needed is not None
    assert [n in "".join(needed) for n in ("second(", "first(", "table[2]")] == [True] * 3
    assert headers.Headers(parts).needed("int TC_JOIN(ta, ble);") is None


@pytest.mark.cc
def test_the_object_is_that_of_the_whole_headers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler, source = find_compiler(), Source("f", TEXT.replace("tc_exp_f32", "tgamma"))
    if compiler.kind != "gcc":
        pytest.skip("others get the whole headers")
    made = []
    for name in ("cut", "whole"):
        if name == "whole":
            monkeypatch.setattr(headers, "_headers", lambda *_: None)
        folder = tmp_path / name
        folder.mkdir()
        run = Run(compiler, source, folder)
        run.wait()
        assert run.error() is None
        text = (folder / source.file).read_text()
        assert ("tc_mod_i32" in text, '#include "' in text) == (False, name == "whole")
        made.append(run.started.output.read_bytes())
    assert made[0] == made[1]


@pytest.mark.cc
def test_only_what_names_a_function_of_libm_is_linked_with_it(tmp_path: Path) -> None:
    compiler = find_compiler()
    for text, libraries in (
        (TEXT, ["-lgcc"]),
        (TEXT.replace("tc_exp_f32", "tgamma"), ["-lm", "-lgcc"]),
    ):
        source = Source("f", text)
        if not source.is_bare(compiler):
            pytest.skip("others are linked with all")
        run = Run(compiler, source, tmp_path)
        run.kill()
        assert [word for word in run.started.words if word.startswith("-l")] == libraries


@pytest.mark.cc
def test_an_error_is_told_at_its_line(tmp_path: Path) -> None:
    run = Run(find_compiler(), Source("f", TEXT.replace("a[i]", "b[i]")), tmp_path)
    run.wait()
    error = run.error()
    assert isinstance(error, CompileError)
    assert ">    5 |" in str(error)


@pytest.mark.cc
def test_a_text_whose_headers_something_else_decides_is_as_it_is(tmp_path: Path) -> None:
    compiler = find_compiler()
    for source in (
        Source("f", f"#define TC_ONCE(T, p) (*(p))\n{TEXT}"),
        Source("f", f"{TEXT}\n#define TWICE(T) tc_##T"),
        Source("f", TEXT, include=tmp_path),
        Source("f", TEXT, language="c++"),
        Source("f", "int f(void) { return 1; }"),
        Source("f", TEXT.replace("smath.h", "nowhere.h")),
    ):
        assert headers.cut(source, compiler, tmp_path) == source.text
    other = replace(compiler, kind="clang")
    assert headers.cut(Source("f", TEXT), other, tmp_path) == TEXT


@pytest.mark.cc
def test_what_was_taken_apart_is_kept_and_a_damaged_file_of_it_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if find_compiler().kind != "gcc":
        pytest.skip("others get the whole headers")
    monkeypatch.setenv("TCDSL_CACHE", str(tmp_path))
    asked: list[str] = []
    real = headers._preprocessed

    def noted(includes: str, *how: Any) -> str | None:
        asked.append(includes)
        return real(includes, *how)

    monkeypatch.setattr(headers, "_preprocessed", noted)
    for damage in (None, "", "[1, 2]", None):
        monkeypatch.setattr(headers, "_read", {})
        texts = {headers.cut(Source("f", TEXT), find_compiler(), tmp_path) for _ in range(2)}
        assert len(texts) == 1
        (kept,) = tmp_path.glob("objects/*/*.parts")
        assert len(json.loads(kept.read_text())) > 100
        if damage is not None:
            kept.write_text(damage)
    assert len(asked) == 3


def test_what_a_text_is_linked_with_makes_no_other_headers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(headers, "_headers", lambda key, *_: asked.append(key))
    compiler = replace(find_compiler(), kind="gcc")
    for flags in ((), ("-Wl,--gc-sections", "/of/another.so"), ("-c",), ("-DTWO=2",)):
        headers.cut(Source("f", TEXT, flags=flags), compiler, tmp_path)
    assert len(asked) == 4
    assert len(set(asked[:3])) == 1
    assert asked[3] != asked[0]


def test_what_a_compiler_is_spared_makes_no_other_headers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(headers, "_headers", lambda key, *_: asked.append(key))
    compiler, source = replace(find_compiler(), kind="gcc"), Source("f", TEXT)
    plan, kernel = replace(source, opt="-O1"), replace(source, opt="-O2", is_spelled_out=True)
    for one in (source, plan, kernel, replace(source, opt="-O0")):
        headers.cut(one, compiler, tmp_path)
    assert len(set(asked[:3])) == 1
    assert asked[3] != asked[0], "without optimisation a macro is another one"
