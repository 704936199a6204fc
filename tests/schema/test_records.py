"""Our own values from JSON data that isn't trusted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import pytest
from attrs import Factory, field, frozen

from pegboard.schema.records import Count, UnreadError, json_key, read_below, read_by, read_record, tagged


@frozen
class Leaf:
    size: Count = 0


@frozen
class Branch:
    leaves: tuple[Leaf, ...]
    note: str | None = None


@frozen
class Money:
    cents: int


@frozen
class Tree:
    name: str
    kind: Literal["oak", "elm"] = "oak"
    old: bool = False
    facts: Mapping[str, Any] = field(factory=dict)
    price: Money | None = None
    part: Leaf | Branch = field(default=Factory(Leaf), metadata=json_key("mainPart"))
    secret: object = field(default="kept", metadata=json_key(""))


def money(data: Mapping[str, Any]) -> Money:
    if not isinstance(data.get("cents"), int):
        raise ValueError("cents: no money")  # noqa: TRY004  (as readers of data do)
    return Money(data["cents"])


read_by(Leaf | Branch, tagged({"leaf": Leaf, "branch": Branch}))
read_by(Money, read_below(money))


def test_what_is_missing_or_null_takes_its_default_and_other_keys_are_passed_over():
    assert read_record(Tree, {"name": "a"}, "tree") == Tree("a")
    assert read_record(Tree, {"name": "a", "kind": None, "facts": None, "x": 1, "secret": "y"}, "tree") == Tree("a")


def test_values_are_read_by_their_types():
    data = {
        "name": "a",
        "kind": "elm",
        "old": True,
        "facts": {"b": [1]},
        "price": {"cents": 5},
        "mainPart": {"type": "branch", "leaves": [{"size": 1}, {}], "note": "n"},
    }
    branch = Branch((Leaf(1), Leaf()), "n")
    assert read_record(Tree, data, "tree") == Tree("a", "elm", True, {"b": [1]}, Money(5), branch)  # noqa: FBT003


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (None, "tree: must be an object, got NoneType"),
        ([], "tree: must be an object, got list"),
        ({}, "name: missing"),
        ({"name": 1}, "name: must be a text, got int"),
        ({"name": "a", "kind": "ash"}, "kind: must be one of oak, elm, got 'ash'"),
        ({"name": "a", "kind": []}, "kind: must be a text, got list"),
        ({"name": "a", "old": 1}, "old: must be a boolean, got int"),
        ({"name": "a", "facts": []}, "facts: must be an object, got list"),
        ({"name": "a", "price": 5}, "price: must be an object, got int"),
        ({"name": "a", "price": {}}, "price.cents: no money"),
        ({"name": "a", "mainPart": {}}, "mainPart.type: missing"),
        ({"name": "a", "mainPart": {"type": 1}}, "mainPart.type: must be a text, got int"),
        ({"name": "a", "mainPart": {"type": "root"}}, "mainPart.type: must be one of leaf, branch, got 'root'"),
        ({"name": "a", "mainPart": {"type": "leaf", "size": -1}}, "mainPart.size: must be 0 or above, got -1"),
        ({"name": "a", "mainPart": {"type": "leaf", "size": True}}, "mainPart.size: must be a whole number, got bool"),
        ({"name": "a", "mainPart": {"type": "branch"}}, "mainPart.leaves: missing"),
        ({"name": "a", "mainPart": {"type": "branch", "leaves": "ab"}}, "mainPart.leaves: must be an array, got str"),
        (
            {"name": "a", "mainPart": {"type": "branch", "leaves": [{}, {"size": "1"}]}},
            "mainPart.leaves[1].size: must be a whole number, got str",
        ),
    ],
)
def test_what_is_wrong_is_named_by_its_path(data, says):
    with pytest.raises(ValueError, match=":") as caught:
        read_record(Tree, data, "tree")
    assert str(caught.value) == says
    assert not isinstance(caught.value, UnreadError)
