"""The decorators of classes."""

from __future__ import annotations

import attrs
import pytest
from attrs import field

from pegboard import typing


def texts(frozen, define) -> list[str]:
    """The texts of objects of classes that these decorators make."""

    @frozen
    class Base:
        plain: int
        worded: int = field(default=2, repr=lambda value: f"<{value}>")
        hidden: int = field(default=3, repr=False)
        unset: int = field(init=False)

    @define(eq=False)
    class Below(Base):
        items: list[object] = field(factory=list, kw_only=True)

    @frozen
    class Named:
        def __repr__(self) -> str:
            return "its own"

    @frozen
    class BelowNamed(Named):
        text: str = "x"

    @frozen
    class Failing:
        value: object = field(default=None, repr=lambda value: 1 / value)

    cyclic, failing = Below(1), Failing(0)
    cyclic.items.append(cyclic)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            repr(failing)
    return [repr(each) for each in (Base(1), cyclic, Named(), BelowNamed(), type("Derived", (BelowNamed,), {})())]


def test_objects_have_the_texts_that_attrs_gives_them() -> None:
    """Of attributes that are hidden, unset or have a text of their own; of cycles, subclasses and failures."""
    assert texts(typing.frozen, typing.define) == texts(attrs.frozen, attrs.define)


def test_a_decorator_that_asks_for_no_text_adds_none() -> None:
    """Then the base's stays."""
    made = typing.define(type("Made", (), {"__annotations__": {"a": int}}), repr=False)
    assert "__repr__" not in vars(made)


@pytest.mark.parametrize("decorators", [(typing.frozen, typing.define), (attrs.frozen, attrs.define)])
def test_objects_are_compared_and_hashed_as_by_attrs(decorators) -> None:
    frozen, define = decorators

    @frozen
    class Frozen:
        seen: int
        unseen: int = field(default=0, eq=False)

    @define
    class Changeable(Frozen):
        pass

    @define(eq=False)
    class Unique:
        seen: int

    assert {Frozen(1), Frozen(1, 2), Frozen(2)} == {Frozen(1), Frozen(2)}
    assert Changeable(1) == Changeable(1, 2) != Changeable(2)
    assert Changeable(1) != Frozen(1) != 1
    assert Unique(1) != Unique(1)
    assert len({Changeable(1), Changeable(1, 2)}) == 1
    assert Unique.__hash__ is object.__hash__
