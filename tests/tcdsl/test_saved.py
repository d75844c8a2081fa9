"""Kernels travel as text: pickle, copy, spawned processes, subclasses."""

from __future__ import annotations

import base64
import copy
import multiprocessing
import pickle
import pickletools
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.calls.bindings.settings import Settings
from tcdsl.codegen.machine.config import Config
from tcdsl.grammar.text.format import format_def
from tcdsl.kernel import Kernel
from tcdsl.reverse_mode import CheckpointPolicy, WithGradient
from tests.tiers import sampled

pytestmark = pytest.mark.cc

T = TypeVar("T")

TEXT = """
# what stands in a comment is part of the text
def moments(float(B,N) X) -> (m, v) {
  m(b) +=! X(b, n) / N
  v(b) +=! (X(b, n) - m(b)) * (X(b, n) - m(b)) / N
}
def normalize(float(B,N) X) -> (Y) {
  m, v = moments(X)
  Y(b, n) = (X(b, n) - m(b)) * rsqrt(v(b) + {eps})
}
def every<S=2, T>(T(N) A) -> (B) { B(i) = A(S * i) }
"""
ADD = "def add<T>(T(...) A, T(...) B) -> (C) { C(...) = A(...) + B(...) }"
SCAN = """
def scan(double(T,N) X, double(N) w) -> (H) {
  H(0, n) = w(n)
  for t in 0:T { H(t + 1, n) = tanh(H(t, n) * w(n) + X(t, n)) }
}"""


def again(value: T) -> T:
    made: T = pickle.loads(pickle.dumps(value))
    assert type(made) is type(value)
    return made


def defined(text: str = TEXT, **options: Any) -> Any:
    options = {"constants": {"eps": 1e-5}, "source": "layers/norm.tc", **options}
    return tc.define(text, **options)


def normal(*shape: int, dtype: type = np.float32) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


class Layer(Kernel):
    """A kernel with something of its own."""

    scale = 1.0

    def derive(self, session: Any, definition: Any) -> Layer:
        made = super().derive(session, definition)
        made.scale = self.scale
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return *super().__reduce__(), {"scale": self.scale}


def layer(text: str, name: str | None = None) -> Layer:
    plain: Kernel = defined(text, name=name, tune="off")
    made = Layer(plain.session, plain.definition)
    made.scale = 3.0
    return made


def test_a_kernel_comes_back_with_its_text_and_its_settings() -> None:
    k = defined(name="normalize", tune="off", threads=1, deterministic=True, check="sync")
    x = normal(5, 7)
    wanted = k(x)
    back = again(k)
    assert back.session.settings == k.session.settings
    assert back.session.program == k.session.program
    assert back(x).tobytes() == wanted.tobytes()
    with pytest.raises(tc.TCError, match=r"layers/norm\.tc:11:"):  # the places are the file's
        again(defined(name="every")).variant(S=2)


def test_settings_of_a_later_version_are_refused_and_of_an_earlier_one_read() -> None:
    assert Settings.from_json("") == Settings.from_json("{}") == Settings()
    settings = Settings("off", Path("a.db"), 1.5, 3, 4, 2, "sync", deterministic=True)
    assert Settings.from_json(settings.to_json()) == settings
    numbers = np.float32(2.5), np.int64(3), np.uint8(4), np.int32(2)
    like = Settings("off", None, *numbers)  # type: ignore[arg-type]
    assert again(like) == like == Settings("off", None, 2.5, 3, 4, 2)
    with pytest.raises(tc.TCTypeError, match="have 'knobs', which this version"):
        Settings.from_json('{"knobs": 1}')
    with pytest.raises(tc.TCTypeError, match="tune is 'no'; expected"):
        Settings.from_json('{"tune": "no"}')
    for text in ("[]", "{", '{"configs": "{}"}', "[" * 100_000):
        with pytest.raises(tc.TCTypeError, match="what was saved are no settings of a kernel"):
            Settings.from_json(text)
    with pytest.raises(tc.TCTypeError, match="configs is 3; expected what a file was read into"):
        Settings(configs=3)  # type: ignore[arg-type]
    sized = Settings(sizes=(("M", 3), ("N", 2**40)))
    assert again(sized) == sized != Settings()
    for wrong in (3, (3,), (("M", 1.5),), ((1, 2),)):
        with pytest.raises(tc.TCTypeError, match="expected pairs of a name and an int"):
            Settings(sizes=wrong)  # type: ignore[arg-type]


def test_definitions_come_back_with_one_session() -> None:
    both = again(defined())
    assert [k.name for k in both] == ["moments", "normalize", "every"]
    assert len({id(k.session) for k in both}) == 1
    assert both.every(np.arange(7), S=3).tolist() == [0, 3, 6]
    assert both.moments(normal(3, 4)).v.shape == (3,)


def test_generics_and_ranks_come_back() -> None:
    k = again(tc.define(ADD))
    assert k(normal(3, 4), normal(4)).shape == (3, 4)
    fixed = tc.define(ADD).with_rank(2)
    back = again(fixed)
    assert not back.has_any_rank
    assert back.definition == fixed.definition
    a, b = normal(3, 5), normal(1, 5)
    assert back(a, a).tobytes() == fixed(a, a).tobytes() == (a + a).tobytes()
    with pytest.raises(tc.TCError, match="expected B of shape"):
        back(a, b)
    tuned = again(fixed.with_tune("off"))
    assert tuned.session.settings.tune == "off"


@sampled("further", [False, True], keep=1)
def test_gradients_come_back_the_kept_values_and_all(further: bool) -> None:
    k = defined(SCAN)
    x, w = normal(4, 3, dtype=np.float64), normal(3, dtype=np.float64)
    y, pull = k.vjp(x, w)
    wanted = pull(np.ones_like(y))
    slope = tc.grad(k)
    for made in (slope, slope.whole, *((tc.grad(slope),) if further else ())):
        back = again(made)
        assert back.session.origin == made.session.origin
        assert format_def(back.definition) == format_def(made.definition)
    found = again(slope.whole)(x, w, np.ones_like(y))
    for a, b in zip(found, slope.whole(x, w, np.ones_like(y)), strict=True):
        assert a.tobytes() == b.tobytes()
    with pytest.raises(tc.TCError, match="expected d_H of the shape of 'H'"):
        again(slope.whole)(x, w, np.ones((9, 3)))  # what its text does not say
    for b, c in zip(again(pull)(np.ones_like(y)), wanted, strict=True):
        assert b.tobytes() == c.tobytes()
    if not further:
        return
    _, along = again(k.with_tangents())((x, w), (None, w))
    np.testing.assert_array_equal(along, k.jvp((x, w), (None, w))[1])
    by_w = again(k.with_grad(wrt="w"))
    np.testing.assert_array_equal(by_w(x, w)[1](np.ones_like(y)), k.vjp(x, w, wrt="w")[1](y**0))
    batched = again(k.batched("w", out_dims=1))
    assert batched.out_dims == k.batched("w", out_dims=1).out_dims == (1,)
    assert batched(x, np.stack([w, w])).shape == (5, 2, 3)
    with_gradient = again(WithGradient(k, CheckpointPolicy(2), copy=False))
    y2, pull2 = with_gradient(x, w)
    np.testing.assert_array_equal(y2, y)
    for a, c in zip(again(pull2)(np.ones_like(y)), wanted, strict=True):
        np.testing.assert_allclose(a, c, atol=1e-12)


def test_a_pickle_holds_no_machine_code_whatever_ran_before() -> None:
    k = defined(name="normalize")
    fresh = pickle.dumps(k)
    x = normal(5, 7)
    k(x)
    k(normal(6, 8))
    k.vjp(x)
    _ = k.whole
    assert pickle.dumps(k) == fresh
    names = {a for op, a, _ in pickletools.genops(fresh) if "UNICODE" in op.name}
    assert {n for n in names if str(n).startswith("tcdsl")} == {"tcdsl.kernel", "tcdsl.session"}


def test_a_copy_of_what_nobody_can_change_is_itself() -> None:
    both = defined()
    k = both.normalize
    for value in (both, k, tc.grad(k), k.with_grad(), k.with_grad(wrt="X"), k.with_tangents()):
        assert copy.copy(value) is value
        assert copy.deepcopy(value) is value
        assert copy.deepcopy([value])[0] is value


def test_a_deep_copy_of_a_way_back_has_arrays_of_its_own() -> None:
    k = tc.define("def square(double(N) x) -> (y) { y(i) = x(i) * x(i) }")
    x = np.array([1.0, 2.0])
    _, pull = k.with_grad(copy=False)(x)
    other = copy.deepcopy(pull)
    x[:] = 5
    assert other(np.ones(2)).tolist() == [2, 4]
    assert copy.copy(pull)(np.ones(2)).tolist() == [10, 10]


def test_what_is_made_of_a_kernel_is_of_its_class() -> None:
    k = layer(TEXT, "normalize")
    scan = layer(SCAN)
    made = {
        "ranks": layer(ADD).with_rank(1),
        "shapes": layer(ADD).with_shapes((3, 4), (4,)),
        "tune": k.with_tune("cached"),
        "gradient": tc.grad(scan),
        "whole": tc.grad(scan).whole,
        "second": tc.grad(tc.grad(scan)),
        "forward": scan.with_grad().of(scan.variant()).forward,
        "backward": scan.with_grad().of(scan.variant()).backward,
        "by the way back": scan.with_grad(checkpoint=2).of(scan.variant()).whole,
        "pickled": again(k),
        "batched": scan.batched(),
        "wrt": tc.grad(scan, wrt="w"),
        "tangents": tc.jvp(scan),
    }
    assert {n: (type(m), getattr(m, "scale", None)) for n, m in made.items()} == dict.fromkeys(
        made, (Layer, 3.0)
    )


# of version 0.1.0, when all modules lay in one folder
EARLIER = """
gASV0AAAAAAAAACMDHRjZHNsLmtlcm5lbJSMCHJlc3RvcmVklJOUaACMBktlcm5lbJSTlIwNdGNkc2wuc2Vzc2lvbpSMCF9z
ZXNzaW9ulJOUKIwwZGVmIHR3aWNlKGZsb2F0KE4pIEEpIC0+IChCKSB7IEIoaSkgPSAyICogQShpKSB9lIwGPHRleHQ+lGgF
jBJTZXR0aW5ncy5mcm9tX2pzb26Uk5SMGnsic2VlZCI6IDMsICJ0dW5lIjogIm9mZiJ9lIWUUpROTnSUUpSMBXR3aWNllIeU
UpQu"""


def test_a_pickle_of_an_earlier_version_is_read() -> None:
    twice = pickle.loads(base64.b64decode(EARLIER))
    assert type(twice) is Kernel
    assert twice.session.settings == Settings(tune="off", seed=3)
    assert twice(np.array([1, 2], np.float32)).tolist() == [2, 4]


@pytest.mark.wide
def test_a_kernel_from_a_pickle_finds_what_was_tuned(tmp_path: Path) -> None:
    k = defined(name="every", cache=tmp_path / "tuned.db")
    config = k.autotune(N=64, T="float32", trials=2, quiet=True)
    assert isinstance(config, Config)
    assert again(k).tuned_config(normal(64)) == k.tuned_config(normal(64)) == config
    fixed = tc.define(ADD, cache=tmp_path / "tuned.db").with_rank(1)
    config = fixed.autotune(D0=64, T="float32", trials=2, quiet=True)
    assert again(fixed).tuned_config(normal(64), normal(64)) == config


def _call(task: tuple[Kernel, tc.Definitions, Any]) -> tuple[Any, Any]:
    k, both, x = task
    return k(x), both.moments(x).v


@pytest.mark.wide
def test_kernels_go_to_spawned_processes() -> None:
    k, both, x = defined(name="normalize"), defined(), normal(5, 7)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        ((y, v),) = pool.map(_call, [(k, both, x)])
    assert y.tobytes() == k(x).tobytes()
    assert v.tobytes() == both.moments(x).v.tobytes()
