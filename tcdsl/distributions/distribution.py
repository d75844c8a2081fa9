"""What every distribution has: shapes, parameters, samples of any number, refusals."""

from __future__ import annotations

import copy
from typing import Any, ClassVar

from tcdsl import library as tc
from tcdsl.autograd import modes
from tcdsl.core import Size, Tensor
from tcdsl.distributions.constraints import is_dependent

__all__ = ["Distribution", "broadcast_all"]


def broadcast_all(*values: Any) -> list[Any]:
    """Return numbers and tensors as tensors of one shape; numbers in the type of the tensors."""
    if not all(isinstance(v, Tensor | int | float) for v in values):
        raise ValueError(
            "Input arguments must all be instances of Number, torch.Tensor or objects implementing "
            "__torch_function__."
        )
    like = next((v for v in values if isinstance(v, Tensor)), None)
    dtype = tc.get_default_dtype() if like is None else like.dtype
    made = [v if isinstance(v, Tensor) else tc.tensor(v, dtype=dtype) for v in values]
    return list(tc.broadcast_tensors(*made))


class Distribution:
    """Numbers of chance: a batch of distributions, each of numbers, vectors or matrices.

    Attributes
    ----------
    arg_constraints : dict of str to Constraint
        What parameters may be; those that an object has are its attributes.
    support : Constraint
        What samples are.
    has_rsample : bool
        Whether gradients go through `rsample`.
    batch_shape, event_shape : Size
        Of the distributions, and of a sample of one.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}
    support: Any = None
    has_rsample = False
    has_enumerate_support = False
    _shown = True  # PyTorch shows no parameters that it keeps in a distribution within
    batch_shape = Size(())
    event_shape = Size(())
    _validate_args = __debug__

    def __init__(
        self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None
    ) -> None:
        """Take the shapes of a distribution of the caller's, and look at its parameters."""
        self.batch_shape, self.event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check(self.arg_constraints)

    _batch_shape = property(lambda self: self.batch_shape)
    _event_shape = property(lambda self: self.event_shape)

    def _check(self, names: Any) -> None:
        """Refuse parameters that are no such; those that follow from others are not asked for."""
        for name in names:
            constraint, value = self.arg_constraints.get(name), vars(self).get(name)
            if constraint is None or value is None or is_dependent(constraint):
                continue
            if not constraint.check(value).all().item():
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape "
                    f"{tuple(value.shape)}) of distribution {self!r} to satisfy the constraint "
                    f"{constraint!r}, but found invalid values:\n{value}"
                )

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Say whether parameters and values are looked at where nothing is said."""
        if value not in (True, False):
            raise ValueError(f"expected True or False, got {value}")
        Distribution._validate_args = value

    def _have(self, validate_args: bool | None, event_dim: int = 0, **parameters: Any) -> None:
        """Take parameters of one shape; the last dimensions of the first are a sample's."""
        if validate_args is not None:
            self._validate_args = validate_args
        for name, value in parameters.items():
            setattr(self, name, value)
        name, first = next(iter(parameters.items()))
        kept = first.ndim - self._event_dim_of(name)
        self.batch_shape = Size(first.shape[:kept])
        self.event_shape = Size(first.shape[first.ndim - event_dim :] if event_dim else ())
        if self._validate_args:
            self._check(parameters)

    def _event_dim_of(self, name: str) -> int:
        constraint = self.arg_constraints.get(name)
        return 0 if constraint is None else constraint.event_dim

    def expand(self, batch_shape: Any) -> Any:
        """Return these distributions in another batch, without copies of their parameters."""
        made = copy.copy(self)
        made.batch_shape = Size(tuple(batch_shape))
        for name in self.arg_constraints:
            value = vars(self).get(name)
            if isinstance(value, Tensor):
                kept = value.ndim - self._event_dim_of(name)
                setattr(made, name, value.expand((*made.batch_shape, *value.shape[kept:])))
        return made

    @property
    def mean(self) -> Any:
        """The mean."""
        raise NotImplementedError

    @property
    def variance(self) -> Any:
        """The variance."""
        raise NotImplementedError

    @property
    def stddev(self) -> Any:
        """The root of the variance."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = ()) -> Any:
        """Draw samples of a shape, through which no gradient goes."""
        with modes.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Draw samples of a shape, with gradients by the parameters."""
        raise NotImplementedError

    def sample_n(self, n: int) -> Any:
        """Draw n samples."""
        return self.sample((n,))

    def log_prob(self, value: Any) -> Any:
        """Return the logarithm of the density, or of the probability, of values."""
        raise NotImplementedError

    def cdf(self, value: Any) -> Any:
        """Return the probability of a sample that is at most a value."""
        raise NotImplementedError

    def icdf(self, value: Any) -> Any:
        """Return the value that samples are at most with a probability."""
        raise NotImplementedError

    def entropy(self) -> Any:
        """Return the entropy, in nats."""
        raise NotImplementedError

    def perplexity(self) -> Any:
        """Return exp of the entropy."""
        return self.entropy().exp()

    def enumerate_support(self, expand: bool = True) -> Any:
        """Return all values, along a new first dimension."""
        raise NotImplementedError

    def _extended_shape(self, sample_shape: Any = ()) -> Size:
        """Return the shape of samples, as distributions of callers ask for it."""
        return Size(self._shape(sample_shape))

    def _validate_sample(self, value: Any) -> None:
        """Refuse what no sample may be, as distributions of callers do."""
        self._checked(value)

    def _get_checked_instance(self, cls: Any, _instance: Any = None) -> Any:
        """Return an object to fill in `expand`, as distributions of callers ask for it."""
        if _instance is None and type(self).__init__ != cls.__init__:
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ "
                "method must also define a custom .expand() method."
            )
        return self.__new__(type(self)) if _instance is None else _instance

    def _shape(self, sample_shape: Any = ()) -> tuple[int, ...]:
        return (*sample_shape, *self.batch_shape, *self.event_shape)

    def _checked(self, value: Any) -> Any:
        """Return values that a sample may have; refuse others."""
        if not self._validate_args:
            return value
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        own = (*self.batch_shape, *self.event_shape)
        for given, wanted in zip(reversed(value.shape), reversed(own), strict=False):
            if given != wanted and 1 not in (given, wanted):
                raise ValueError(
                    f"Value is not broadcastable with batch_shape+event_shape: "
                    f"{tuple(value.shape)} vs {own}."
                )
        support = self.support
        if support is None or is_dependent(support):
            return value
        if not support.check(value).all().item():
            raise ValueError(
                f"Expected value argument (Tensor of shape {tuple(value.shape)}) to be within the "
                f"support ({support!r}) of the distribution {self!r}, but found invalid "
                f"values:\n{value}"
            )
        return value

    def __repr__(self) -> str:
        names = self.arg_constraints if self._shown else ()
        held = {n: vars(self)[n] for n in names if isinstance(vars(self).get(n), Tensor)}
        parts = [f"{n}: {v if v.numel() == 1 else v.size()}" for n, v in held.items()]
        return f"{type(self).__name__}({', '.join(parts)})"
