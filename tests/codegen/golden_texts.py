"""The machines and configs for which texts of the golden programs are emitted, and their hashes.

Nothing here depends on this machine, on a compiler or on a device: the machines are made up, the
configs are drawn by seeds that are names. All of tcdsl that is used is imported and touched here.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tcdsl.codegen.choose import compiler, gpu_forms
from tcdsl.codegen.choose import forms as registered
from tcdsl.codegen.device import hostplan
from tcdsl.codegen.loops.loopir import Unit
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.codegen.machine.gpu import Gpu
from tcdsl.codegen.machine.spec import Layout, Spec
from tcdsl.grammar.text.errors import ScheduleError
from tests.codegen.golden_programs import Item, item, items_of

SAMPLED = 5  # configs of a program and spec behind the default one
_PATIENCE = 30  # draws that a rule between knobs may refuse in a row
_DIGITS = 10  # of a hash
_INDICES = frozenset({"inner", "columns"})  # knobs whose values are names of indices

_KIB = 1 << 10
_AVX512 = Machine("avx512", 64, 32, 32 * _KIB, 8, 1024 * _KIB, 32 << 20, 4, 3.0, 2)
_AVX2 = Machine("avx2", 32, 16, 32 * _KIB, 8, 512 * _KIB, 16 << 20, 2, 3.5, 2, crosses_lines=True)
_SM_80 = Gpu("sm_80", 108, 65536, 164 * _KIB, 163 * _KIB, 2048, 32, 40 << 20, 1.41, 1555, 64, 1024)
_SM_90 = Gpu("sm_90", 132, 65536, 228 * _KIB, 227 * _KIB, 2048, 32, 60 << 20, 1.98, 4800, 128, 2048)


@dataclass(frozen=True, slots=True)
class Target:
    """A kind of machine and of spec; configs counts those that are tried, the default included.

    layout: "strided" has strides at run time and none of one element, "turned" the first dimension
    next to each other.
    """

    machine: Machine | Gpu
    exact: bool
    configs: int = 1 + SAMPLED
    layout: str = "contiguous"
    is_small: bool = False
    is_deterministic: bool = False

    @property
    def language(self) -> str:
        return "cuda" if isinstance(self.machine, Gpu) else "c"


MAIN = {
    "c exact": Target(_AVX512, exact=True),
    "c generic": Target(_AVX512, exact=False),
    "cuda exact": Target(_SM_80, exact=True),
    "cuda generic": Target(_SM_80, exact=False, is_small=True),
}
OTHERS = {  # of the small programs: other machines, layouts and promises
    "c exact avx2": Target(_AVX2, exact=True, configs=1),
    "c exact turned": Target(_AVX512, exact=True, configs=1, layout="turned"),
    "c generic strided": Target(_AVX512, exact=False, configs=1, layout="strided"),
    "cuda exact sm_90": Target(_SM_90, exact=True, configs=1, is_deterministic=True),
    "cuda exact turned": Target(_SM_80, exact=True, configs=1, layout="turned"),
    "cuda generic strided": Target(_SM_80, exact=False, configs=1, layout="strided"),
}
TARGETS = MAIN | OTHERS


def spec_of(item: Item, target: Target) -> Spec:
    """Return what a target specialises an item for."""
    program = item.program
    layouts = tuple(_layout(len(program.buffer(n).shape), target.layout) for n in program.operands)
    extents = tuple((n, item.sizes[n]) for n in program.sizes if n not in program.scalars)
    return Spec(
        extents if target.exact else None,
        layouts,
        2 if target.language == "c" else 0,
        target.is_small,
        target.is_deterministic,
    )


def _layout(rank: int, kind: str) -> Layout:
    if kind == "contiguous" or rank == 0:
        return Layout(rank, True, rank - 1 if rank else None)
    apart = (False,) * (rank - 1)
    return Layout(rank, False, 0 if kind == "turned" else None, (), apart)


def drawn(item: Item, target: Target, label: str, seen: Seen) -> Iterator[Config]:
    """Yield the default config, then drawn ones, each with other forms than the one before.

    What is drawn depends on the order of partitions, forms and values, not on their names.
    """
    yield Config()
    if target.configs == 1:
        return
    spec = spec_of(item, target)
    found = compiler.choices(item.program, spec, target.machine, item.sizes)
    seen.offer(target, (form for groups in found.values() for forms in groups for form in forms))
    rng = random.Random(f"{item.name} {label}")  # a text is a seed of its own, not its hash
    shift = rng.randrange(8)
    turn = 0
    while True:
        groups = rng.choice(list(found.items()))
        values: dict[str, Any] = {"partition": groups[0]}
        for g, forms in enumerate(groups[1]):
            form = forms[(turn + shift * (g + 1)) % len(forms)]
            values[f"g{g}.form"] = form.name
            values |= {f"g{g}.{k.name}": rng.choice(k.values) for k in form.knobs}
        turn += 1
        yield Config.of(values)


@dataclass(slots=True)
class Seen:
    """What the units of a net have been: by language, forms' names and what their texts call them.

    knobs: values by language, form and knob, and those that were offered.
    """

    names: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    kinds: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    knobs: dict[tuple[str, str, str], set[str]] = field(default_factory=lambda: defaultdict(set))
    offered: dict[tuple[str, str, str], set[str]] = field(default_factory=lambda: defaultdict(set))

    def add(self, item: Item, target: Target, config: Config, text: str) -> None:
        """Take down one unit."""
        values = dict(config.items)
        for name, value in values.items():
            group, _, knob = name.partition(".")
            if not knob:
                continue
            form = str(values[f"{group}.form"])
            self.names[target.language].add(form)
            if knob != "form":
                self.knobs[target.language, form, knob].add(json.dumps(value))
        head = text.split("*/", 1)[0]
        kinds = re.findall(r"\[([^\[\]]*)\]$", head, re.MULTILINE)
        self.kinds[target.language].update(re.sub(r"\d+", "#", kind) for kind in kinds)

    def offer(self, target: Target, forms: Iterable[compiler.FormChoice]) -> None:
        """Take down what could have been drawn."""
        for form in forms:
            for knob in form.knobs:
                if knob.name in _INDICES:
                    continue
                found = self.offered[target.language, form.name, knob.name]
                found.update(map(json.dumps, knob.values))

    def lines(self) -> list[str]:
        """Return it as sorted lines."""
        kinds = [f"{t} | kind | {kind}" for t, found in self.kinds.items() for kind in found]
        knobs = [
            f"{t} | knob | {form} {knob} | {_spaced(self.knobs[key])} | {_spaced(values)}"
            for key, values in self.offered.items()
            for t, form, knob in [key]
        ]
        forms = [f"{t} | form | {name}" for t, found in self.names.items() for name in found]
        return sorted(kinds + knobs + forms)


def _spaced(values: Iterable[str]) -> str:
    return " ".join(sorted(values, key=lambda v: (len(v), v)))


def text_of(unit: Unit, target: Target, item: Item) -> str:
    """Return the text of a unit; behind CUDA text also what the host starts, and its memory."""
    if target.language == "c":
        return compiler.emit_c(unit)
    plan = hostplan.plan(unit, _representative(unit, item))
    lines = [
        f"{s.function} {s.blocks} {s.threads} {s.shared_bytes}"
        + "".join(f" {a.kind}{a.index}.{a.dim}" for a in s.arguments)
        for s in plan.starts
    ]
    lines += [f"{x.var} {x.first}:{x.last}" for x in plan.loops]
    return "\n".join([compiler.emit_cuda(unit), *lines, f"{plan.offsets}"])


def _representative(unit: Unit, item: Item) -> dict[str, int]:
    """Return the sizes, and a turn of each loop."""
    return {**item.sizes, **{x.var: 1 for x in unit.loops}}


def line_of(item: Item, label: str, seen: Seen, configs: int | None = None) -> str:
    """Return the line of an item and target: `NAME | LABEL | HASH HASH ...`, the default first.

    Draws that a rule refuses or that were drawn before are left out; where that leaves none, the
    line is shorter.
    """
    target = TARGETS[label]
    spec, program = spec_of(item, target), item.program
    hashes: list[str] = []
    known: set[Config] = set()
    left, repeats = _PATIENCE, 0
    wanted = min(configs or _configs_of(item, target), target.configs)
    for config in drawn(item, target, label, seen):
        if left == 0 or repeats > 4 * SAMPLED:
            break
        try:
            whole = compiler.complete(program, spec, config, target.machine, item.sizes)
            if whole in known:
                repeats += 1
                continue
            unit = compiler.lower(program, spec, whole, target.machine, item.sizes, "k")
        except ScheduleError:
            left -= 1
            continue
        known.add(whole)
        text = text_of(unit, target, item)
        seen.add(item, target, whole, text)
        hashes.append(hashlib.sha256(text.encode()).hexdigest()[:_DIGITS])
        if len(hashes) == wanted:
            break
    return f"{item.name} | {label} | {' '.join(hashes)}"


# Configs of an item, the default one included: of exact sizes, and size-generic ones.
_CONFIGS = {
    "forms": (1 + SAMPLED, 3),
    "benchmarks": (1 + SAMPLED, 2),
    "catalog": (1 + SAMPLED, 2),
    "examples": (2, 1),
    "small": (2, 1),
    "gradient": (3, 1),
    "training": (2, 1),
}


def _configs_of(item: Item, target: Target) -> int:
    """Return how many configs are tried of an item: all where the net is to be dense."""
    exact, generic = _CONFIGS[item.name.split(" ")[0]]
    return exact if target.exact else generic


def labels_of(item: Item) -> Iterable[str]:
    """Return the targets that an item is tried for."""
    return TARGETS if item.name.startswith("small ") else MAIN


def part_lines(part: str) -> tuple[list[str], Seen]:
    """Return the lines of a part, and what was seen."""
    seen = Seen()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [line_of(x, label, seen) for x in items_of(part) for label in labels_of(x)], seen


def default_configs(names: Iterable[str]) -> str:
    """Return the default configs of items by name and target, as JSON: stores hold the like."""
    by_name = {name: item(name) for name in names}
    found = {
        name: {
            label: dict(
                compiler.default_config(
                    by_name[name].program,
                    spec_of(by_name[name], target),
                    target.machine,
                    by_name[name].sizes,
                ).items
            )
            for label, target in MAIN.items()
        }
        for name in by_name
    }
    return json.dumps(found, indent=1) + "\n"


# ---- what the tests ask for

FORMS = {
    "c": {x.name for x in registered.CPU},
    "cuda": {x.name for x in gpu_forms.GPU},
}
SAMPLE = (  # what every run holds, one unit of every form: item, target, configs
    ("benchmarks layers MATMUL", "c exact", 1),
    ("benchmarks layers CONV", "c exact", 1),
    ("catalog test_tc/test_conv_with_backward_2kernels.convolution_wgrad", "c exact", 1),
    ("forms written up to the diagonal", "c exact", 1),
    ("forms padded pool", "c exact", 1),
    ("forms window weights", "c exact", 1),
    ("small row", "c exact", 1),
    ("small column_sum", "c exact", 1),
    ("small softmax", "c exact", 1),
    ("forms rows and folds across them", "c exact", 1),
    ("forms arg of rows", "c exact", 1),
    ("forms winner of columns", "c exact", 1),
    ("examples scans cumulative_sum", "c exact", 1),
    ("forms gather of rows", "c exact", 1),
    ("forms scatter of integers", "c exact", 1),
    ("small lowest", "c exact", 1),
    ("small concatenate", "c exact", 1),
    ("small fcrelu", "c exact", 1),
    ("small sum", "c generic", 1),
    ("forms strided convolution", "c generic", 1),
    ("catalog test_tc/test_conv_with_backward_2kernels.convolution_wgrad", "c generic", 1),
    ("benchmarks layers MATMUL", "cuda exact", 1),
    ("benchmarks peers HALF", "cuda exact", 1),
    ("benchmarks layers TRANSPOSE", "cuda exact", 1),
    ("small row", "cuda exact", 1),
    ("small column_sum", "cuda exact", 1),
    ("small softmax", "cuda exact", 1),
    ("forms scatter of integers", "cuda exact", 1),
    ("small fcrelu", "cuda generic", 1),
)
TUNED = (
    "benchmarks layers MATMUL", "benchmarks layers BATCHED", "benchmarks layers FCRELU",
    "benchmarks layers CONV", "benchmarks layers SOFTMAX", "benchmarks layers LAYERNORM",
    "benchmarks layers TRANSPOSE", "benchmarks layers TOTAL", "benchmarks layers GELU",
    "benchmarks rows BATCHNORM", "benchmarks scatter EMBEDDING", "benchmarks gradients LSTM",
    "benchmarks peers HALF", "catalog 4fcrelu/func_4fcrelu", "catalog 2lut/func_2lut",
    "catalog test_tc/test_conv_with_backward_2kernels.convolution_wgrad",
    "examples positions best", "examples recurrent gru", "forms half convolution",
    "forms gather of rows",
)  # fmt: skip
