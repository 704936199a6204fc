from __future__ import annotations

import pytest

from pegboard.toolsets import predicates
from pegboard.toolsets.predicate import Predicate


def test_what_is_public_is_there():
    assert all(hasattr(predicates, name) for name in predicates.__all__)


@pytest.mark.parametrize(
    ("predicate", "text"),
    [
        (predicates.named("a"), "name:a"),
        (predicates.tagged("a"), "tag:a"),
        (predicates.kind("function"), "kind:function"),
        (predicates.from_plugin("a"), "plugin:a"),
        (predicates.from_toolset("a"), "toolset:a"),
        (predicates.from_distribution("a"), "distribution:a"),
        (predicates.has_property("a"), "property:a"),
        (predicates.for_user("a"), "user:a"),
        (predicates.for_agent("a"), "agent:a"),
        (predicates.for_model("a"), "model:a"),
        (predicates.for_provider("a"), "provider:a"),
        (predicates.state("k", "a"), "state.k:a"),
        (predicates.everything, "name:*"),
        (predicates.nothing, "not name:*"),
    ],
)
def test_each_prints_itself(predicate, text):
    assert str(predicate) == text
    assert isinstance(predicate, Predicate)
