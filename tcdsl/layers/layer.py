"""`nn.TC`: a text as a module, some of whose arguments are parameters and buffers.

One layer for the modules of each library of tensors: `tcdsl.nn.TC` and `tcdsl.torch.nn.TC` are
this class beside the library's Module, and say what of the library it asks for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar

from tcdsl.calls.bindings.settings import Tune
from tcdsl.grammar.text.defaults import number_of
from tcdsl.grammar.text.errors import TCTypeError
from tcdsl.grammar.text.format import head_pieces
from tcdsl.grammar.text.heads import type_variables
from tcdsl.kernel import Kernel
from tcdsl.layers import text as layer_text
from tcdsl.layers.configs import Keeper
from tcdsl.layers.sizes import Shape, Sizes
from tcdsl.layers.tuned import Tuned, autotune
from tcdsl.layers.weights import Init, Role, fill, role_in
from tcdsl.text.instead import instead
from tcdsl.text.names import generic_values

if TYPE_CHECKING:
    from tcdsl.autotune.store.shipped import Shipped


class TextLayer(Keeper):
    """A layer that is a text: some of its arguments are parameters, the rest are `forward`'s.

    Parameters
    ----------
    text : str, path or Kernel
        One definition, or several of which name is the layer's; a kernel that `define` gave,
        for settings beside those below. A subclass may have it as an attribute instead.
    name : str, optional
        Of the definition.
    parameters : mapping of str to shape, or names
        Which arguments are parameters: ``{"W": (100, 128), "b": (100,)}``, with sizes by name
        ``{"W": ("N", "M")}``, or only ``["W", "b"]``, which have the shapes of the text. A tensor
        in place of a shape is the first value, an `nn.Parameter` is shared.
    sizes : mapping of str to int, optional
        Sizes of the text: ``{"N": 100, "M": 128}``.
    init : callable, str, number, Tensor, or mapping of these by name, optional
        A function that fills a tensor in place or returns one of its shape, the name of one in
        `nn.init` ("kaiming_uniform", "zeros"), or values; one for all, or by parameter.
        Without it, and for names that it does not have: uniform in +-1/sqrt(n), as `nn.Linear` and
        `nn.Conv2d` do, for n the number of weights that the text sums up in one element (whatever
        their dimensions are called; without such a sum that of a row); of parameters of rank 0
        and 1 that are not summed 1 where the text multiplies or divides by them, else 0, as
        `nn.LayerNorm` does.
    buffers : mapping of str to Tensor, optional
        Arguments that are no parameters, but go where the module goes. They are saved with it
        unless they come as ``nn.Buffer(t, persistent=False)``.
    constants : mapping, optional
        Values for `{name}` in the text.
    backward : str, optional
        The definition that is the way back; see `define`.
    device, dtype : optional
        Of the parameters. dtype is for those whose type is a type variable of the text; by default
        `get_default_dtype()`. A type that the text names stays.
    tune, cache, configs, threads, deterministic, source
        As for `define`.
    **fixed
        Generics and arguments of rank 0 that are the same at each call: ``SH=2``, ``eps=1e-5``.

    Attributes
    ----------
    tc : Kernel
        The kernel of the text, in which the integer generics that are fixed are constants. What is
        compiled for it is the layer's own, or that of layers of the same text and `sizes`.
    sizes : dict of str to int
        The sizes that are known.

    Raises
    ------
    TCError
        If the text is wrong, or arguments, shapes or values do not fit it.

    Notes
    -----
    `forward` takes the remaining arguments in the order of the text, or by name, and gives what the
    kernel gives: a tensor, or a named tuple of them. What is random takes its seed as an argument:
    ``layer(x, seed)`` with a fresh one in training; a text has no state and no mode.

    Examples
    --------
    >>> import torch
    >>> from tcdsl.torch.nn import TC  # or, as a script of tcdsl's own: torch.nn.TC
    >>> layer = TC(
    ...     '''def fcrelu(float(B,M) I, float(N,M) W, float(N) b) -> (O) {
    ...          O(b_, n) +=! I(b_, m) * W(n, m)
    ...          O(b_, n)  = fmax(O(b_, n) + b(n), 0)
    ...        }''',
    ...     parameters={"W": (10, 4), "b": (10,)},
    ... )
    >>> layer
    TC(
      fcrelu(float(B, M) I, float(N, M) W, float(N) b) -> (O)
      forward(I) with W (10, 4), b (10,)
    )
    >>> layer(torch.randn(3, 4)).shape
    torch.Size([3, 10])
    """

    text: ClassVar[str | PathLike[str] | Kernel | None] = None
    tc: Kernel

    def __init__(
        self,
        text: str | PathLike[str] | Kernel | None = None,
        name: str | None = None,
        parameters: Mapping[str, Shape | Any] | Iterable[str] = (),
        *,
        sizes: Mapping[str, int] | None = None,
        init: Init | Mapping[str, Init] | None = None,
        buffers: Mapping[str, Any] | None = None,
        constants: Mapping[str, int | float | str] | None = None,
        backward: str | None = None,
        device: Any = None,
        dtype: Any = None,
        tune: Tune = "cached",
        cache: str | PathLike[str] | None = None,
        configs: str | PathLike[str] | Shipped | None = None,
        threads: int | None = None,
        deterministic: bool = False,
        source: str = "<text>",
        **fixed: Any,
    ) -> None:
        super().__init__()
        settings = {
            "constants": constants,
            "backward": backward,
            "tune": None if tune == "cached" else tune,
            "cache": cache,
            "configs": configs,
            "threads": threads,
            "deterministic": deterministic or None,
            "source": source if source != "<text>" else None,
        }
        self.tc = self._written = layer_text.kernel_of(
            self.texts, type(self).text if text is None else text, name, settings
        )
        definition = self.tc.definition
        own = parameters if isinstance(parameters, Mapping) else dict.fromkeys(_names(parameters))
        buffers = {} if buffers is None else buffers
        if not isinstance(buffers, Mapping):
            raise TCTypeError(
                f"{definition.name}: expected buffers as a dict of tensors by name, got "
                f"{type(buffers).__name__}\n"
                '  give their first values, as in buffers={"mean": torch.zeros(3)}'
            )
        layer_text.check_names(definition, self, TextLayer.__init__, own, buffers, fixed)
        for key in init if isinstance(init, Mapping) else ():
            if key not in own:
                raise TCTypeError(
                    f"{definition.name} has no parameter '{key}' for init{instead(key, own)}"
                )
        names = {g.name for g in definition.generics}
        self._generics = {n: v for n, v in fixed.items() if n in names}
        known = Sizes(definition, sizes or {}, self._generics)
        for key, value in (*own.items(), *buffers.items()):
            if value is not None:
                shape = value.shape if self._is_tensor(value) else value
                known.learn(layer_text.param(definition, key), shape)
        self.sizes = known.values
        if dtype is None:
            tensors: list[Any] = [v for v in own.values() if self._is_tensor(v)]
            dtype = tensors[0].dtype if tensors else self.library.default_dtype()
        self._init = init
        self._roles = self._find_roles([n for n, v in own.items() if not self._is_tensor(v)], dtype)
        for key, value in own.items():
            self.register_parameter(key, self._parameter(key, value, known, device, dtype))
        for key, tensor in buffers.items():
            layer_text.check_type(definition, key, self._generics, tensor.dtype)
            is_persistent = getattr(tensor, "persistent", True)
            placed = tensor if device is None else tensor.to(device=device)
            self.register_buffer(key, placed, persistent=is_persistent)
        # what stands between the inputs: place, and an attribute's name or (name "") the value
        self._filled = tuple(
            (i, "" if p in fixed else p, fixed.get(p))
            for i, p in enumerate(self.tc.params)
            if p in own or p in buffers or p in fixed
        )
        filled = {i for i, _, _ in self._filled}
        numbers = ((p.name, number_of(p)) for p in definition.params)
        self._defaults = {name: number for name, number in numbers if number is not None}
        self._inputs = tuple(p for i, p in enumerate(self.tc.params) if i not in filled)
        self.reset_parameters()
        types = type_variables(definition)
        integers = {n: v for n, v in self._generics.items() if n not in types}
        made = self._written.with_generics(generic_values(definition, integers))
        self.tc = made.with_sizes(self.sizes)
        self._types = {n: v for n, v in self._generics.items() if n in types}

    # ---- parameters

    def reset_parameters(self) -> None:
        """Give every parameter its first values again; those that came as tensors stay."""
        for name, role in self._roles.items():
            init = self._init
            chosen = init.get(name) if isinstance(init, Mapping) else init
            fill(self.library, getattr(self, name), f"{self.tc.name}.{name}", chosen, role)

    def _find_roles(self, names: Sequence[str], dtype: Any) -> dict[str, Role]:
        """Return what the text does with parameters."""
        if self.tc.has_any_rank or not names:  # nothing is known of the ranks of inputs
            return {n: Role() for n in names}
        types = type_variables(self.tc.definition)
        generics: dict[str, Any] = {
            g.name: layer_text.language_type(dtype) if g.name in types else 1
            for g in self.tc.definition.generics
            if g.default is None
        }
        checked = self.tc.variant(**(generics | self._generics)).checked
        return {n: role_in(checked, n) for n in names}

    def _parameter(
        self,
        name: str,
        value: Any,
        known: Sizes,
        device: Any,
        dtype: Any,
    ) -> Any:
        """Return a parameter: the one given, of the values given, or one that is yet to fill."""
        definition, library = self.tc.definition, self.library
        kind = layer_text.type_of(definition, name, self._generics)
        kind = kind or layer_text.language_type(dtype)
        if not kind.is_float:
            raise TCTypeError(
                f"{self.tc.name}: {name} is of type {kind}, and only floats are learnt\n"
                f'  give it as a buffer: buffers={{"{name}": tensor}}'
            )
        if self._is_tensor(value):
            layer_text.check_type(definition, name, self._generics, value.dtype)
            if isinstance(value, library.parameter):
                return value
            return library.parameter(value if device is None else value.to(device=device))
        shape = known.shape(layer_text.param(definition, name), value)
        return library.parameter(library.empty(shape, device=device, dtype=library.dtype(kind)))

    # ---- calls

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """Call the kernel with the inputs and what the layer has.

        Parameters
        ----------
        *inputs
            The arguments that are no parameters, buffers or fixed numbers, in the text's order.
        **named
            The same by name; generics that are not fixed.
        """
        if named or len(inputs) != len(self._inputs):
            inputs, named = layer_text.told_apart(
                self._written, self._inputs, self._generics, inputs, named, self._defaults
            )
        values, own = [*inputs], self._parameters
        for place, name, value in self._filled:
            if name:  # parametrizations and buffers are attributes only
                value = own.get(name)
                if value is None:
                    value = getattr(self, name)
            values.insert(place, value)
        if self._types or named:
            return self.tc(*values, **self._types, **named)
        return self.tc(*values)

    # ---- tuning

    def autotune(
        self,
        *inputs: Any,
        training: bool = True,
        seconds: float | None = None,
        trials: int | None = None,
        seed: int = 0,
        cache: str | PathLike[str] | None = None,
        quiet: bool = False,
        again: bool = True,
    ) -> Tuned:
        """Tune the layer for these inputs: the forward pass, and what training runs.

        Float inputs get a gradient, as in the middle of a model; `autotune(model, ...)` tunes
        what each layer of a model needs.

        Parameters
        ----------
        *inputs
            As for `forward`.
        training, seconds, trials, seed, cache, quiet, again
            See `autotune`.
        """
        given = [
            v.detach().requires_grad_()
            if training and self._is_tensor(v) and v.is_floating_point()
            else v
            for v in inputs
        ]
        return autotune(
            self.library,
            self,
            given,
            training=training,
            seconds=seconds,
            trials=trials,
            seed=seed,
            cache=cache,
            quiet=quiet,
            again=again,
        )

    # ---- what a module is

    def extra_repr(self) -> str:
        """Return the head of the text, and what of it the layer has."""
        head = "".join(head_pieces(self._written.definition)).removeprefix("def ")
        own = [
            f"{name} {tuple(getattr(self, name).shape)}"
            if name
            else f"{self.tc.params[place]}={value}"
            for place, name, value in self._filled
        ]
        own += [f"{n}={v}" for n, v in self._generics.items()]
        having = f" with {', '.join(own)}" if own else ""
        return f"{head}\nforward({', '.join(self._inputs)}){having}"

    def _apply(self, fn: Any, *args: Any, **named: Any) -> Any:
        for name, tensor in (*self._parameters.items(), *self._buffers.items()):
            # others are a subclass's own, or a parametrization's
            if tensor is not None and name in self.tc.params:
                like = self.library.empty((0,), dtype=tensor.dtype, device=tensor.device)
                kind = fn(like).dtype
                if kind != tensor.dtype:
                    layer_text.check_type(self.tc.definition, name, self._generics, kind)
        return super()._apply(fn, *args, **named)

    def _is_tensor(self, value: object) -> bool:
        return isinstance(value, self.library.tensor)


def _names(parameters: Iterable[str]) -> Iterable[str]:
    return (parameters,) if isinstance(parameters, str) else parameters
