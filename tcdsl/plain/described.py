"""What a kernel says of itself without being called: its text, its results' forms, its work."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tcdsl.calls.bindings.session import Session
from tcdsl.calls.bindings.sizes import check_sizes
from tcdsl.calls.bindings.targets import gpu_named
from tcdsl.calls.bindings.variant import Variant, spec_for
from tcdsl.calls.operands.abstract import AbstractArray
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.machine.spec import Spec
from tcdsl.codegen.program.dtypes import numpy_dtype
from tcdsl.codegen.runtime import Launcher
from tcdsl.grammar.text import nodes
from tcdsl.grammar.text.cached import cached_property
from tcdsl.grammar.text.heads import has_any_rank
from tcdsl.plain import inferred
from tcdsl.text.signature import PerKernel, doc, head, html, signature, source

if TYPE_CHECKING:
    from tcdsl.codegen.device.standalone import Standalone
    from tcdsl.grammar.types.typed import CheckedDef

_MODEL_SIZE = 256  # what the analytic schedule of a size-generic text assumes


class Described(Launcher):
    """A definition and its session: all of `Kernel` that neither compiles nor calls."""

    session: Session
    definition: nodes.Def

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.__doc__ = PerKernel(_doc, "__doc__", cls.__doc__)  # type: ignore[assignment] # a kernel's own

    __signature__ = PerKernel(lambda k: signature(k.definition), "__signature__")

    def __repr__(self) -> str:
        return f"<tcdsl kernel {head(self.definition)}>"

    def _repr_html_(self) -> str:
        return html(self.session.program, self.definition)

    @cached_property
    def source(self) -> str:
        """The text of the definition and of what it calls; `define` makes the same kernel of it.

        As it was written, constants filled in; printed where it was not written (a gradient).
        """
        return source(self.session.program, self.definition)

    @property
    def has_any_rank(self) -> bool:
        """Whether `...` lets the rank of a parameter differ between calls."""
        return any(map(has_any_rank, self.definition.params))

    # ---- results of a call that is not made

    def output_shapes(self, /, *args: Any, **named: Any) -> dict[str, tuple[int, ...]]:
        """Return the shape of each result, without compiling or running anything.

        Parameters
        ----------
        *args : arrays, shapes and numbers
            One per parameter; of arrays only shape and type are read.
        **named
            Without args: the value of each size. Generics in any case, types too ("float32").

        Raises
        ------
        TCError
            If these are none of a call.

        Examples
        --------
        >>> import tcdsl as tc
        >>> text = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }"
        >>> mm = tc.define(text)
        >>> mm.output_shapes(M=2, K=3, N=4)
        {'C': (2, 4)}
        >>> mm.output_shapes((2, 3), (3, 4))
        {'C': (2, 4)}
        """
        variant, sizes = self._at(args, named)
        returns = variant.signature.returns
        return {t.name: tuple(n.evaluate(sizes) for n in t.shape) for t in returns}

    def output_dtypes(self, /, *args: Any, **named: Any) -> dict[str, np.dtype[Any]]:
        """Return the type of each result as NumPy's (bfloat16 is that of `ml_dtypes`).

        The parameters are those of `output_shapes`. Without args generics are enough: sizes may
        be named, but do not matter.
        """
        if args:
            variant, _ = self._at(args, named)
        else:
            known = {g.name for g in self.definition.generics}
            generics = {n: v for n, v in named.items() if n in known}
            shapes = self.session.shapes_of_any_rank(self.definition, generics)
            variant = self.session.variant(self.definition, generics, None, shapes)
        return {t.name: numpy_dtype(t.dtype) for t in variant.signature.returns}

    def flops(self, /, *args: Any, **named: Any) -> int:
        """Return the arithmetic operations of a call, counted in the text.

        Every operator and builtin on numbers counts one per point, comparisons and choices too,
        and so does the combining of a reduction; subscripts and conversions count nothing. The
        parameters are those of `output_shapes`.

        Examples
        --------
        >>> import tcdsl as tc
        >>> text = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }"
        >>> mm = tc.define(text)
        >>> mm.flops(M=2, K=3, N=4), mm.bytes(M=2, K=3, N=4)
        (48, 104)
        """
        from tcdsl.codegen.program.work import flops_of  # on use: it needs the program

        variant, sizes = self._at(args, named)
        return flops_of(variant.program, sizes)

    def bytes(self, /, *args: Any, **named: Any) -> int:
        """Return the least traffic of a call: bytes that it reads of arguments, and results.

        The parameters are those of `output_shapes`.
        """
        from tcdsl.codegen.program.work import bytes_of  # on use: it needs the program

        variant, sizes = self._at(args, named)
        return bytes_of(variant.program, sizes)

    def infer(
        self,
        given: Sequence[Any],
        generics: Mapping[str, Any] | None = None,
        *,
        least: Callable[..., Any] = min,
        most: Callable[..., Any] = max,
    ) -> tuple[AbstractArray, ...]:
        """Return the forms of the results of a call; nothing is compiled or run.

        For tracers, which have no elements, and extents that may be symbols.

        Parameters
        ----------
        given : sequence of `tcdsl.forms.AbstractArray`, arrays, shapes, numbers
            One per parameter, on whatever device. Extents may be ints, or what stands for them
            and has ``+ - * // %`` and comparisons (`torch.SymInt`): the extents of the results
            are computed of them, and what calls check is asked of them.
        generics : mapping, optional
        least, most : callable
            Take several extents and give the least or the greatest: `torch.sym_min` instead of
            `min`, so that nothing has to be known of symbols.

        Returns
        -------
        tuple of AbstractArray
            Shape, type (`DType`) and strides (in elements: fresh results have C order) of each.

        Raises
        ------
        TCError
            As the call would.

        Examples
        --------
        >>> import tcdsl as tc
        >>> from tcdsl.forms import AbstractArray
        >>> from tcdsl.grammar.types.dtypes import FLOAT32
        >>> text = "def pool(float(N) A) -> (B) { B(i) max=! A(2 * i + k) where k in 0:2 }"
        >>> pool = tc.define(text)
        >>> (b,) = pool.infer([AbstractArray((7,), FLOAT32)])
        >>> b.shape, b.dtype.name, b.strides
        ((3,), 'float32', (1,))
        """
        return inferred.outputs(self.session, self.definition, given, generics or {}, least, most)

    def _at(self, args: Sequence[Any], named: Mapping[str, Any]) -> tuple[Variant, dict[str, int]]:
        return inferred.at(self.session, self.definition, args, named)

    # ---- its code

    def variant(self, /, **generics: Any) -> Variant:
        """Return the definition bound to generics: what can be shown, emitted and tuned."""
        return self.session.variant(self.definition, generics)

    def text(
        self,
        sizes: Mapping[str, int] | None = None,
        *,
        target: str = "cpu",
        tuned: bool = False,
        **generics: Any,
    ) -> str:
        """Return the C or CUDA text that first calls with operands in C order run.

        But untuned calls of a pointwise definition on the CPU go by texts that all its ranks share.

        Parameters
        ----------
        sizes : mapping of str to int, optional
            Baked in, but for the number of images of an untuned convolution, which the text's
            header has as `any`; without them the text is the one that takes any size (for a GPU:
            any whose addresses fit 32 bits).
        target : "cpu", "cuda" or "cuda:sm_90", default "cpu"
            Without an architecture that of the GPU at hand, or a usual one.
        tuned : bool, default False
            Use the tuned config of these sizes, if there is one.
        """
        variant, spec, config, model = self._emitted(sizes, target, tuned, generics)
        return variant.text(spec, config, model)

    def standalone(
        self,
        sizes: Mapping[str, int] | None = None,
        *,
        target: str = "cuda",
        tuned: bool = False,
        **generics: Any,
    ) -> Standalone:
        """Return CUDA text that compiles alone, and a C header that says how to start it.

        The parameters are those of `text`; target is a GPU.
        """
        variant, spec, config, model = self._emitted(sizes, target, tuned, generics)
        return variant.standalone(spec, config, model)

    def _emitted(
        self,
        sizes: Mapping[str, int] | None,
        target: str,
        tuned: bool,
        generics: Mapping[str, Any],
    ) -> tuple[Variant, Spec, Config, Mapping[str, int]]:
        """Return what a text is lowered from."""
        gpu = gpu_named(target)
        shapes = None if sizes is None else self.session.ranks.shapes_named(self.definition, sizes)
        variant = self.session.variant(self.definition, generics, gpu, shapes)
        if sizes is None:
            model: Mapping[str, int] = dict.fromkeys(variant.checked.sizes, _MODEL_SIZE)
            spec = replace(spec_for(variant, model), sizes=None, is_small=variant.is_for_gpu)
        else:
            model = check_sizes(variant.checked, sizes)
            spec = spec_for(variant, model)
        found = self.session.tuned(variant)(spec) if tuned else None
        if found is None and sizes is not None:
            return variant, *variant.choice_of_first(spec, model), model
        return variant, spec, found or variant.default_config(spec, model), model


def _doc(kernel: Described) -> str:
    def checked() -> CheckedDef | None:
        definition = kernel.definition
        if kernel.has_any_rank or any(g.default is None for g in definition.generics):
            return None
        return kernel.session.variant(definition, {}).checked

    return doc(kernel.session.program, kernel.definition, checked)
