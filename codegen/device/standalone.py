"""A unit for a GPU as files that stand alone: CUDA text, and a C header that says how to start it.

The text has its preludes inside and compiles by `nvcc -cubin` or NVRTC with no other file. The
header needs a C compiler only: from sizes it computes what the driver API's `cuLaunchKernel`
takes, as `hostplan.plan` does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from tcdsl.codegen.device.hostplan import ALIGNMENT
from tcdsl.codegen.loops import emit
from tcdsl.codegen.loops.loopir import (
    Argument,
    Bin,
    Call,
    Const,
    Expr,
    Function,
    Launch,
    LaunchLoop,
    Unit,
    Var,
)
from tcdsl.codegen.loops.names import safe_name
from tcdsl.codegen.loops.spelling import in_comment
from tcdsl.codegen.loops.target import CUDA
from tcdsl.codegen.machine.spec import SMALL, Spec
from tcdsl.codegen.program.program import Buffer, Program
from tcdsl.codegen.toolchain.cubins import cached_cubin
from tcdsl.codegen.toolchain.nvrtc import CudaSource, headers
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import InternalError
from tcdsl.grammar.text.stack import on_own_stack


@dataclass(frozen=True, slots=True)
class Standalone:
    """The texts of NAME.cu and NAME.h."""

    name: str
    arch: str
    source: str
    header: str

    def write(self, folder: Path, *, with_cubin: bool = False) -> tuple[Path, ...]:
        """Write the files, and NAME.cubin on request; return where they lie.

        Raises
        ------
        CompileError
            If the cubin is wanted and there is no NVRTC.
        """
        cubin = cached_cubin(CudaSource(self.name, self.source), self.arch) if with_cubin else None
        folder.mkdir(parents=True, exist_ok=True)
        stem = folder / self.name
        source, header = stem.with_suffix(".cu"), stem.with_suffix(".h")
        source.write_text(self.source, encoding="utf-8")
        header.write_text(self.header, encoding="utf-8")
        if cubin is None:
            return source, header
        code = stem.with_suffix(".cubin")
        code.write_bytes(cubin.data)
        return source, header, code


@on_own_stack
def standalone(unit: Unit, program: Program, spec: Spec, arch: str) -> Standalone:
    """Return the files of a unit for an architecture; names in the header begin with its name."""
    source = inlined(emit.emit(unit, CUDA))
    return Standalone(unit.name, arch, source, _Header(unit, program, spec, arch).text())


def inlined(text: str) -> str:
    """Return CUDA text with what it includes in place, each header once."""
    known = dict(headers())

    def go(part: str, depth: int = 0) -> Iterator[str]:
        for line in part.splitlines():
            found = re.fullmatch(r'\s*#\s*include\s+"([^"]+)".*', line)
            if found is None:
                yield line
            elif (header := known.pop(found[1], None)) is not None:
                # of functions in a header nobody asks whether they are called
                yield from _QUIET if depth == 0 else ()
                yield from go(header, depth + 1)
                yield from _LOUD if depth == 0 else ()

    return "\n".join(go(text)) + "\n"


_QUIET = ("#pragma nv_diagnostic push", "#pragma nv_diag_suppress 177")
_LOUD = ("#pragma nv_diagnostic pop",)


_HELPERS = """\
static inline int64_t {name}_div(int64_t x, int64_t y) {{
  return y == 0 ? 0 : x / y - (x % y != 0 && (x < 0) != (y < 0));
}}
static inline int64_t {name}_mod(int64_t x, int64_t y) {{
  return y == 0 ? 0 : x - {name}_div(x, y) * y;
}}
static inline int64_t {name}_min(int64_t x, int64_t y) {{ return x < y ? x : y; }}
static inline int64_t {name}_max(int64_t x, int64_t y) {{ return x > y ? x : y; }}
"""

_TYPES = """\
/* One start of a kernel: cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, shared_bytes, ...).
 * Nothing is started where blocks is 0. Above 48 KB of shared_bytes, first
 * cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_bytes). */
typedef struct {{
  const char *kernel;
  int64_t blocks;
  int64_t threads;
  int64_t shared_bytes;
}} {name}_launch;
"""

_FAULT = """\
/* What kernels with the argument `fault` fill when a subscript leaves its tensor: code is not 0
 * then. Zero it in device memory before a call and read it after. tensor counts parameters, then
 * returns; -1 is a temporary. */
typedef struct {{
  int64_t code, tensor, dim, value, extent;
}} {name}_fault;
"""


class _Header:
    """The text of a header in the making."""

    def __init__(self, unit: Unit, program: Program, spec: Spec, arch: str) -> None:
        self.unit, self.program, self.spec, self.arch = unit, program, spec, arch
        self.name = unit.name
        self.functions = {f.name: f for f in unit.functions}

    def text(self) -> str:
        """Return the header."""
        guard = f"{self.name.upper()}_H"
        has_fault = any(a.kind == "fault" for x in self.unit.launches for a in x.arguments)
        parts = [
            self._comment(),
            f"#ifndef {guard}\n#define {guard}\n#include <stdint.h>\n",
            self._sizes(),
            _TYPES.format(name=self.name),
            *([_FAULT.format(name=self.name)] if has_fault else []),
            _HELPERS.format(name=self.name),
            self._workspace(),
            f"enum {{ {self.name}_launches = {len(self.unit.launches)} }};\n",
            *(self._launch(i, x) for i, x in enumerate(self.unit.launches)),
            *(self._loop(i, x) for i, x in enumerate(self.unit.loops)),
            self._all_launches(),
            "#endif\n",
        ]
        return "\n".join(parts)

    def _comment(self) -> str:
        name = self.name
        lines = [
            *self.unit.header.strip().splitlines(),
            "",
            f"How to start the kernels of {name}.cu:",
            "",
            f"    nvcc -std=c++17 -arch={self.arch} -cubin -o {name}.cubin {name}.cu",
            "",
            f'    CUmodule module; cuModuleLoad(&module, "{name}.cubin");',
            f"    {name}_sizes sizes = {{...}};",
            f"    CUdeviceptr workspace; cuMemAlloc(&workspace, {name}_workspace_bytes(&sizes));",
            f"    for (int i = 0; i < {name}_launches; i++) {{",
            f"      {name}_launch start = {name}_launch_of(i, &sizes);",
            "      CUfunction function; cuModuleGetFunction(&function, module, start.kernel);",
            "      void *arguments[] = {...};  // the address of each value, as listed below",
            "      if (start.blocks > 0)",
            "        cuLaunchKernel(function, start.blocks, 1, 1, start.threads, 1, 1,",
            "                       start.shared_bytes, stream, arguments, NULL);",
            "    }",
            "",
            "All launches of a call go to one stream, in order. The workspace need not be cleared.",
            *self._repeated(),
            *self._conditions(),
        ]
        return "\n".join(["/*", *(f" * {x}".rstrip() for x in map(in_comment, lines)), " */"])

    def _repeated(self) -> Iterator[str]:
        for i, x in enumerate(self.unit.loops):
            end = f"{self.name}_loop_{i}"
            yield f"Launches {x.first} to {x.last - 1} run, in order, for each value of turns[{i}]"
            yield f"from {end}_low(&sizes, turns) to {end}_high(&sizes, turns) - 1."

    def _loop(self, index: int, x: LaunchLoop) -> str:
        ends = (("low", x.low), ("high", x.high))
        return "".join(
            f"static inline int64_t {self.name}_loop_{index}_{end}"
            f"(const {self.name}_sizes *sizes, const int64_t *turns) {{\n"
            f"  (void)sizes;\n  (void)turns;\n  return {self._expr(e)};\n}}\n"
            for end, e in ends
        )

    def _conditions(self) -> Iterator[str]:
        if self.spec.sizes is None and self.spec.is_small:
            yield "Addresses are computed in 32 bits: sizes, elements of each tensor, and points"
            yield f"of each statement have to be fewer than {SMALL}."
        for i, layout in enumerate(self.spec.layouts):
            buffer = self._buffer(i)
            if buffer.shape:
                how = "in C order" if layout.contiguous else "with strides, in elements"
                shape = ", ".join(map(str, buffer.shape))
                yield f"{buffer.tensor}: {buffer.dtype} ({shape}) {how}"

    def _buffer(self, operand: int) -> Buffer:
        name = self.program.operands[operand]
        return next(x for x in self.program.buffers if x.name == name)

    def _tensor(self, operand: int) -> str:
        return self._buffer(operand).tensor

    def _sizes(self) -> str:
        members = "".join(f"  int64_t {safe_name(n)};\n" for n in self.program.sizes)
        members = members or "  int64_t unused;\n"
        text = f"typedef struct {{\n{members}}} {self.name}_sizes;\n"
        if self.spec.sizes:
            known = dict(self.spec.sizes)
            values = ", ".join(str(known.get(n, 0)) for n in self.program.sizes)
            text = (
                f"/* Made for these sizes alone. */\n#define {self.name}_exact {{{values}}}\n{text}"
            )
        return text

    def _workspace(self) -> str:
        cases, total = [], "0"
        for i, size in enumerate(self.unit.workspace):
            cases.append(f"  if (block == {i}) return at;\n  at += {self._rounded(size)};\n")
            total = f"{self.name}_workspace_offset(sizes, {len(self.unit.workspace)})"
        return (
            f"/* Where block i of the workspace begins, in bytes. */\n"
            f"static inline int64_t {self.name}_workspace_offset"
            f"(const {self.name}_sizes *sizes, int block) {{\n"
            f"  int64_t at = 0;\n  (void)sizes;\n  (void)block;\n{''.join(cases)}  return at;\n}}\n"
            f"static inline int64_t {self.name}_workspace_bytes"
            f"(const {self.name}_sizes *sizes) {{\n  (void)sizes;\n  return {total};\n}}\n"
        )

    def _rounded(self, size: Expr) -> str:
        return f"({self._expr(size)} + {ALIGNMENT - 1}) / {ALIGNMENT} * {ALIGNMENT}"  # not negative

    def _launch(self, index: int, x: Launch) -> str:
        f = self.functions[x.function]
        listed = [f" *   {p} = {what}" for p, what in self._arguments(f, x)]
        comment = "\n".join(
            ["/* " + in_comment(emit.signature(f, CUDA)) + ";", *map(in_comment, listed)]
        )
        return (
            f"{comment}\n */\n"
            f"static inline {self.name}_launch {self.name}_launch_{index}"
            f"(const {self.name}_sizes *sizes) {{\n"
            f'  {self.name}_launch start = {{"{x.function}", {self._expr(x.blocks)}, '
            f"{x.threads}, {self._expr(x.shared_bytes)}}};\n"
            f"  (void)sizes;\n  return start;\n}}\n"
        )

    def _arguments(self, f: Function, x: Launch) -> Iterator[tuple[str, str]]:
        for p, a in zip(f.params, x.arguments, strict=True):
            yield p.name, self._argument(a)

    def _argument(self, a: Argument) -> str:
        match a.kind:
            case "data":
                return f"address of {self._tensor(a.index)}"
            case "stride":
                return f"stride of {self._tensor(a.index)} along dimension {a.dim}"
            case "size":
                return f"size {self.program.sizes[a.index]}"
            case "turn":
                return f"turns[{a.index}]"
            case "scalar":
                return f"number {self.program.scalars[a.index]}"
            case "workspace":
                return f"workspace + {self.name}_workspace_offset(&sizes, {a.index})"
            case "fault":
                return f"address of a {self.name}_fault"

    def _all_launches(self) -> str:
        cases = "".join(
            f"    case {i}: return {self.name}_launch_{i}(sizes);\n"
            for i in range(len(self.unit.launches))
        )
        return (
            f"static inline {self.name}_launch {self.name}_launch_of"
            f"(int index, const {self.name}_sizes *sizes) {{\n"
            f"  {self.name}_launch none = {{0, 0, 0, 0}};\n"
            f"  (void)sizes;\n"
            f"  switch (index) {{\n{cases}    default: return none;\n  }}\n}}\n"
        )

    def _expr(self, e: Expr) -> str:
        """Return an expression over sizes in C, every part in parentheses."""
        match e:
            case Const(value):
                return str(value)
            case Var(name):
                turns = [x.var for x in self.unit.loops]
                return f"turns[{turns.index(name)}]" if name in turns else f"sizes->{name}"
            case Bin("/" | "%" as op, x, y):
                word = "div" if op == "/" else "mod"
                return f"{self.name}_{word}({self._expr(x)}, {self._expr(y)})"
            case Bin("+" | "-" | "*" as op, x, y):
                return f"({self._expr(x)} {op} {self._expr(y)})"
            case Call(function, (x, y)) if function in _CALLS:
                return f"{self.name}_{_CALLS[function]}({self._expr(x)}, {self._expr(y)})"
            case _:
                raise InternalError(f"a launch cannot compute {e}")


_CALLS: Mapping[str, str] = {f"tc_{w}_i64": w for w in ("div", "mod", "min", "max")}
