"""Dataclasses whose methods are compiled at their first use are those of the standard library."""

import copy
import dataclasses
import inspect
import pickle
import threading
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

import tcdsl.grammar.text.dataclass as ours

Kinds = tuple[type[Any], type[Any]]


def both(make: Callable[[Any], type[Any]]) -> Kinds:
    """Return a class as the standard library makes it, and as we do."""
    return make(dataclasses.dataclass), make(ours.dataclass)


def plain(dataclass: Any) -> type[Any]:
    @dataclass
    class Point:
        x: int
        y: int = 2
        seen: list[int] = dataclasses.field(default_factory=list)
        hidden: int = dataclasses.field(default=5, repr=False, compare=False)
        named: int = dataclasses.field(default=7, kw_only=True)
        made: int = dataclasses.field(default=9, init=False)
        kind: ClassVar[str] = "point"

    return Point


def frozen(dataclass: Any) -> type[Any]:
    @dataclass(frozen=True, slots=True)
    class Point:
        x: int
        y: int = 2
        hidden: int = dataclasses.field(default=5, repr=False, compare=False)
        named: int = dataclasses.field(default=7, kw_only=True)

    return Point


def derived(dataclass: Any) -> type[Any]:
    base: Any = frozen(dataclass)

    @dataclass(frozen=True, slots=True)
    class Derived(base):  # type: ignore[misc]
        z: int = 3
        w: int = dataclasses.field(init=False, default=0)

        def __post_init__(self) -> None:
            object.__setattr__(self, "w", self.x + self.z)

    return Derived


def mutable(dataclass: Any) -> type[Any]:
    @dataclass(slots=True)
    class Mutable:
        x: int
        y: int = 2

    return Mutable


def by_identity(dataclass: Any) -> type[Any]:
    @dataclass(frozen=True, eq=False)
    class ByIdentity:
        x: int
        y: int = 2

    return ByIdentity


def own(dataclass: Any) -> type[Any]:
    @dataclass(frozen=True, slots=True)
    class Own:
        x: int
        y: int = 2

        def __eq__(self, other: object) -> bool:
            return isinstance(other, type(self)) and self.x == other.x

        def __repr__(self) -> str:
            return f"own {self.x}"

    return Own


def described(dataclass: Any) -> type[Any]:
    @dataclass(frozen=True, slots=True)
    class Point:
        """A point."""

        x: int
        y: "int" = 2
        hidden: "int | None" = dataclasses.field(default=5, repr=False, compare=False)
        named: int = dataclasses.field(default=7, kw_only=True)
        made: int = dataclasses.field(default=9, init=False)
        seen: "tuple[int, ...]" = dataclasses.field(default_factory=tuple)

        def moved(self) -> Any:
            return type(self)(self.x + 1)

    return Point


def derived_described(dataclass: Any) -> type[Any]:
    base: Any = described(dataclass)

    class Middle(base):  # type: ignore[misc]
        __slots__ = ("z",)

    @dataclass(frozen=True, slots=True)
    class Derived(Middle):
        """A point that is derived."""

        y: int = 3
        made: int = 1
        z: "int" = 4

        def __hash__(self) -> int:
            return 3

    return Derived


KINDS = pytest.mark.parametrize(
    "make",
    [plain, frozen, derived, mutable, by_identity, own, described, derived_described],
)


@KINDS
@pytest.mark.parametrize("often", [0, ours.OFTEN])
def test_it_is_made_shown_compared_and_hashed_as_in_the_standard_library(
    monkeypatch: pytest.MonkeyPatch, make: Any, often: int
) -> None:
    monkeypatch.setattr(ours, "OFTEN", often)
    seen = []
    for kind in both(make):
        a, b, c = kind(1), kind(1, y=2), kind(1, 3)
        is_hashed = kind.__hash__ is not None and "__hash__" in vars(kind)
        seen.append(
            (
                repr(a), a == b, a == c, a != b, a == 1,
                hash(a) == hash(b) if is_hashed else kind.__hash__ is None,
                hash(a) if is_hashed else None,
                kind.__match_args__,
                [(f.name, f.default, f.init, f.kw_only) for f in dataclasses.fields(kind)],
                dataclasses.asdict(a), dataclasses.replace(a, y=8).y, copy.copy(a) == a,
                copy.deepcopy(a) == a, getattr(kind, "__slots__", None), "__dict__" in dir(a),
                [refusal(lambda: call(kind)) for call in CALLS],  # noqa: B023
                kind.__init__.__qualname__, kind.__init__.__module__,
                str(inspect.signature(kind)),
                [refusal(lambda: call(kind)) for call in CALLS],  # noqa: B023
            )
        )  # fmt: skip
    assert seen[0] == seen[1]


CALLS: tuple[Callable[[type[Any]], object], ...] = (
    lambda kind: kind(),
    lambda kind: kind(1, nothing=2),
    lambda kind: kind(1, x=2),
    lambda kind: kind(y=2, hidden=3),
    lambda kind: kind(*range(9)),
)


def refusal(call: Callable[[], object]) -> tuple[type[BaseException], str]:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - which one is compared
        call()
    return caught.type, str(caught.value)


@KINDS
def test_what_may_not_be_changed_is_refused_in_the_same_words(make: Any) -> None:
    seen = []
    for kind in both(make):
        one = kind(1)
        said: list[object] = []
        for change in (("__setattr__", "x", 5), ("__delattr__", "x")):
            try:
                getattr(one, change[0])(*change[1:])
            except (AttributeError, TypeError) as error:
                said.append((type(error), str(error).replace(kind.__name__, "")))
            else:
                said.append("done")
        seen.append((said, kind.__dataclass_params__.frozen))
    assert seen[0] == seen[1]


@pytest.mark.parametrize("is_frozen", [False, True])
def test_frozen_ones_are_derived_from_frozen_ones_only(is_frozen: bool) -> None:
    said = []
    for dataclass in (dataclasses.dataclass, ours.dataclass):
        base: Any = dataclass(frozen=is_frozen)(type("Base", (), {"__annotations__": {"x": int}}))
        with pytest.raises(TypeError) as caught:
            dataclass(frozen=not is_frozen)(type("Derived", (base,), {}))
        said.append(str(caught.value))
        assert base.__dataclass_params__.frozen is is_frozen
    assert said[0] == said[1]


def test_plain_ones_are_made_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    by_library: list[type[Any]] = []
    real = ours._by_library

    def seen(given: type[Any], *others: Any) -> type[Any]:
        by_library.append(given)
        return real(given, *others)

    monkeypatch.setattr(ours, "_by_library", seen)
    assert described(ours.dataclass)(1).moved().x == 2
    assert derived_described(ours.dataclass)(1).z == 4
    assert not by_library
    frozen(ours.dataclass)
    assert len(by_library) == 1, "one without a text"


def with_a_list() -> type[Any]:
    class Wrong:
        """Its default is shared."""

        x: list = []  # type: ignore[type-arg]  # noqa: RUF012 - it is refused

    return Wrong


def without_a_type() -> type[Any]:
    class Wrong:
        """A field of no type."""

        y: int
        x = dataclasses.field(default=3)

    return Wrong


def with_slots() -> type[Any]:
    class Wrong:
        """What has slots gets none."""

        __slots__ = ("y",)
        x: int

    return Wrong


@pytest.mark.parametrize("make", [with_a_list, without_a_type, with_slots])
def test_what_the_library_refuses_is_refused_in_its_words(make: Any) -> None:
    said = [
        refusal(lambda: dataclass(frozen=True, slots=True)(make()))  # noqa: B023
        for dataclass in (dataclasses.dataclass, ours.dataclass)
    ]
    assert said[0] == said[1]
    assert issubclass(said[0][0], TypeError | ValueError)


def test_frozen_ones_take_no_further_attribute() -> None:
    for make in (frozen, by_identity):
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'new'"):
            make(ours.dataclass)(1).new = 5


@ours.dataclass(frozen=True, slots=True)
class Kept:
    """A class that a pickle finds."""

    x: int
    y: tuple[int, ...] = ()


def test_frozen_ones_with_slots_go_through_pickles() -> None:
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(Kept(1, (2, 3)), protocol)) == Kept(1, (2, 3))


def test_one_that_shows_itself_ends() -> None:
    @ours.dataclass
    class Loop:
        inside: object = None

    one = Loop()
    one.inside = one
    assert repr(one).endswith("Loop(inside=...)")


def test_classes_that_share_the_text_of_a_method_keep_their_names() -> None:
    @ours.dataclass(frozen=True, slots=True)
    class Turned:
        f1: int
        f0: int = 2

    @ours.dataclass(frozen=True, slots=True)
    class Other:
        a: int
        other: int = 3

    assert (Turned(f0=5, f1=4), Other(7)) == (Turned(4, 5), Other(a=7, other=3))
    assert [Turned(1).f1, Turned(1).f0, Other(1).other] == [1, 2, 3]
    assert Turned(4, 5) != Turned(5, 4)
    assert repr(Turned(4)).endswith("Turned(f1=4, f0=2)")
    with pytest.raises(TypeError, match=r"missing 1 required positional argument: 'f1'"):
        Turned()  # type: ignore[call-arg]  # what it is about


def test_nothing_is_compiled_before_it_is_used_often(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[object] = []
    real = ours._made

    def seen(*given: Any) -> Any:
        compiled.append(given)
        return real(*given)

    monkeypatch.setattr(ours, "_made", seen)
    kind = frozen(ours.dataclass)
    made = [kind(1, y=n) for n in range(ours.OFTEN - 1)]
    assert [one.y for one in made] == [*range(ours.OFTEN - 1)]
    assert made[0] != made[1]
    assert hash(made[0]) == hash(kind(1, 0))
    assert len(compiled) == 1
    for _ in range(ours.OFTEN):
        assert made[0] == kind(1, 0)
        assert hash(made[0]) != hash(made[1])
        assert len({repr(made[0]), repr(made[1])}) == 2
    assert len(compiled) == 3


@pytest.mark.parametrize("is_frozen", [False, True])
def test_fields_are_set_as_the_class_sets_them(is_frozen: bool) -> None:
    def noting(dataclass: Any) -> type[Any]:
        class Noting:
            def __setattr__(self, name: str, value: object) -> None:
                noted.append((name, value))
                object.__setattr__(self, name, value)

        base = Noting if not is_frozen else object

        @dataclass(frozen=is_frozen)
        class Point(base):  # type: ignore[misc, valid-type]
            x: int
            y: int = 2

        return Point

    seen = []
    for kind in both(noting):
        noted: list[tuple[str, object]] = []
        seen.append((kind(1).x, [*noted]))
    assert seen[0] == seen[1]


def test_threads_that_use_a_class_first_at_once_get_the_same() -> None:
    for _ in range(20):
        kind = frozen(ours.dataclass)
        made: list[Any] = []
        threads = [threading.Thread(target=lambda: made.append(kind(1))) for _ in range(4)]  # noqa: B023
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert made == [kind(1)] * 4
        assert len({*made}) == 1


def test_an_object_is_equal_to_itself_and_to_no_other_nan() -> None:
    @ours.dataclass(frozen=True)
    class Held:
        x: float

    nan = float("nan")
    one = Held(nan)
    assert one == one
    assert one == Held(nan)  # the same object inside, as in tuples
    assert one != Held(float("nan"))


@pytest.mark.parametrize("count", [0, 1, 2, 7, 13, 14, 20])
@pytest.mark.parametrize("by_name", [0, 1, 2])
def test_methods_of_any_number_of_fields_are_those_of_the_standard_library(
    monkeypatch: pytest.MonkeyPatch, count: int, by_name: int
) -> None:
    """Names that the known code has itself are among those of the fields."""
    monkeypatch.setattr(ours, "OFTEN", 0)
    names = ["y", "x", "s0", "hash", "f0", "other", *(f"g{n}" for n in range(count))][:count]
    seen = []
    for dataclass in (dataclasses.dataclass, ours.dataclass):
        given: dict[str, Any] = {"__doc__": "Many.", "__annotations__": dict.fromkeys(names, int)}
        for n, name in enumerate(names):
            if n < by_name:  # the first ones, whose parameters come last
                given[name] = dataclasses.field(kw_only=True, default=n)
            elif n == count - 1:
                given[name] = 5
        kind: Any = dataclass(frozen=True, slots=True)(type("Many", (), given))
        one, like, other = (
            kind(**{name: k + n for n, name in enumerate(names)}) for k in (3, 3, 4)
        )
        least = [*range(max(0, count - by_name - 1))]
        by_default = kind(*least)
        seen.append(
            (
                repr(one), one == like, one == other, one == 1, hash(one) == hash(like), hash(one),
                repr(by_default), str(inspect.signature(kind)), kind.__init__.__annotations__,
                refusal(lambda: kind(*range(count + 1))),  # noqa: B023
                refusal(lambda: kind(nothing=1)),  # noqa: B023
            )
        )  # fmt: skip
    assert seen[0] == seen[1]


def test_plain_ones_compile_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(text: str) -> Any:
        raise AssertionError(text)

    monkeypatch.setattr(ours, "_compiled", refuse)
    monkeypatch.setattr(ours, "OFTEN", 0)
    one, like = (frozen(ours.dataclass)(1) for _ in range(2))
    assert one != like, "of another class"
    assert (one == type(one)(1, named=7), hash(one)) == (True, hash(like))
    with pytest.raises(AssertionError, match="f0"):
        derived(ours.dataclass)(1)  # which does more than to set what it is given
