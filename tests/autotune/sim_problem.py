"""Problems on the simulated device, some of whose candidates are told to go wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tcdsl.autotune.search.space import Branch, SearchSpace
from tcdsl.autotune.targets.cuda.problem import CudaProblem
from tcdsl.autotune.worker.emitted import Emitted
from tcdsl.codegen.choose import compiler
from tcdsl.codegen.loops.loopir import Const, Unit
from tcdsl.codegen.machine.config import Config, Knob
from tcdsl.codegen.machine.spec import Spec
from tests.autotune.programs import checked, spec_of
from tests.autotune.sim_gpu import SimDevice

SCALE = "def scale(float(N) x) -> (y) { y(n) = 2 * x(n) }"
OTHER = "def scale(float(N) x) -> (y) { y(n) = 2 * x(n) + 1 }"
# It adds zero 2^40 times.
ENDLESS = """
def scale(float(N) x) -> (y) {
  y(n) +=! x(n) * x(n) where k in 0:1099511627776
}"""


def simulated(text: str, sizes: Mapping[str, int]) -> CudaProblem:
    """Return a definition with operands in C order as a problem for the simulated device."""
    definition = checked(text)
    return CudaProblem(definition, spec_of(definition, sizes, 0), device=SimDevice(0))


@dataclass(frozen=True)
class Faulty(CudaProblem):
    """`y(n) = 2 x(n)`, and kernels of other texts or sizes in its place; the knob says which."""

    kinds: tuple[str, ...] = ("right", "wrong", "outside", "endless", "spills", "too large")

    @property
    def space(self) -> SearchSpace:
        return SearchSpace((Branch((), (Knob("kind", self.kinds),)),), kind("right"), lambda _: 1.0)

    def emit(self, config: Config) -> Emitted:
        wanted = config.get("kind")
        text = {"wrong": OTHER, "endless": ENDLESS}.get(str(wanted), SCALE)
        size = self.sizes["N"] + (4096 if wanted == "outside" else 0)  # beyond the margins too
        problem = simulated(text, {"N": size})
        spec: Spec = problem.spec
        unit = compiler.lower(problem.program, spec, Config(), self.gpu, problem.sizes, "candidate")
        if wanted == "spills":
            return Emitted("candidate", spilling(compiler.emit_cuda(unit)), unit)
        if wanted == "too large":
            unit = too_large(unit)
        return Emitted("candidate", compiler.emit_cuda(unit), unit)


def kind(name: str) -> Config:
    return Config.of({"kind": name})


def faulty() -> Faulty:
    definition = checked(SCALE)
    return Faulty(definition, spec_of(definition, {"N": 300}, 0), device=SimDevice(0))


def spilling(text: str) -> str:
    """Return the text with a kernel before it that holds more than its registers do."""
    sums = "\n".join(f"  float a{i} = x[{i}];" for i in range(96))
    turns = " ".join(f"a{i} = a{i} * a{(i + 7) % 96} + 1.0f;" for i in range(96))
    total = " + ".join(f"a{i}" for i in range(96))
    kernel = f"""
extern "C" __global__ void __launch_bounds__(1024, 2) greedy(const float *x, float *y) {{
{sums}
  for (int i = 0; i < 100; i++) {{ {turns} }}
  y[0] = {total};
}}
"""
    return text + kernel


def too_large(unit: Unit) -> Unit:
    """Return a unit whose kernels want more shared memory than a block can have."""
    launches = tuple(
        replace(x, shared_bytes=replace(x.shared_bytes, value=300 << 10))
        for x in unit.launches
        if isinstance(x.shared_bytes, Const)
    )
    return replace(unit, launches=launches)
