"""How a target spells what loop nests say: data only, read by the one printer.

Names of vectors, masks, literals and short dtype names are the prelude's, the same on every
target; what differs is here.
"""

from __future__ import annotations

from collections.abc import Mapping

from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types.dtypes import DType


@dataclass(frozen=True, slots=True)
class Target:
    """Spellings of one target.

    prelude: the include that every unit has; maths: that of units which call builtin functions
    of the language; words: that of units which widen integers or take words; tiles:
    that of products of tiles; scans: that of
    units which scan lanes. restrict: the qualifier of pointers that share no memory. types: C
    names of scalar dtypes. linkages: what stands before a function's result, by
    `Function.linkage`. spelled_out: what stands behind that of a function that is.
    bounds: what stands behind a kernel's, for its threads and blocks.
    export: what stands before `tc_exe_NAME`. spaces: what stands before a local array, by
    `Array.space`. align: what stands before those, for a number of bytes. table: what stands
    before a constant table. unroll: the pragma for a count. simd: the pragma before reduction
    clauses; empty where loops have none.
    """

    name: str
    prelude: str
    maths: str
    words: str
    tiles: str
    scans: str
    restrict: str
    types: Mapping[str, str]
    linkages: Mapping[str, str]
    spelled_out: str
    bounds: str
    export: str
    spaces: Mapping[str, str]
    align: str
    table: str
    unroll: str
    simd: str


def short_name(dtype: DType) -> str:
    """Return the name of a dtype in prelude functions and vector types: f32, i64, u8, bf16."""
    match dtype.kind:
        case "bool":
            return "b"
        case "uint":
            return f"u{dtype.bits}"
        case "int":
            return f"i{dtype.bits}"
        case "float":
            return "bf16" if dtype.name == "bfloat16" else f"f{dtype.bits}"


_SCALARS = {
    "bool": "tc_b",
    **{f"uint{b}": f"tc_u{b}" for b in (8, 16, 32, 64)},
    **{f"int{b}": f"tc_i{b}" for b in (8, 16, 32, 64)},
    "float16": "tc_f16",
    "bfloat16": "tc_bf16",
    "float32": "float",
    "float64": "double",
}

C = Target(
    name="c",
    prelude='#include "prelude.h"',
    maths='#include "smath.h"',
    words='#include "words.h"',
    tiles='#include "tiles.h"',
    scans='#include "scans.h"',
    restrict="restrict",
    types=_SCALARS,
    linkages={
        "micro": "static TC_MICRO",
        "helper": "static",
        "apart": "static TC_APART",
        "inline": "TC_FN",
        "phase": "static",
        "plan": "static",
        "range": "static",
        "import": "static",
        "export": "TC_EXPORT",
    },
    spelled_out=" TC_SPELLED_OUT",
    bounds="",
    export="TC_EXPORT",
    spaces={"local": ""},
    align="__attribute__((aligned({}))) ",
    table="static",
    unroll="#pragma GCC unroll {}",
    simd="#pragma omp simd",
)

CUDA = Target(
    name="cuda",
    prelude='#include "prelude.cuh"',
    maths='#include "smath.cuh"',
    words="",
    tiles="",
    scans="",
    restrict="__restrict__",
    types=_SCALARS,
    linkages={
        "micro": "TC_MICRO",
        "helper": "TC_HELPER",
        "inline": "TC_FN",
        "kernel": 'extern "C" __global__',
    },
    spelled_out="",
    bounds="__launch_bounds__({threads}, {min_blocks}) ",
    export="",
    spaces={"local": "", "shared": "__shared__ "},
    align="__align__({}) ",
    table="static __device__",
    unroll="#pragma unroll {}",
    simd="",
)
