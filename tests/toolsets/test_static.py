from __future__ import annotations

import pytest

from pegboard.errors import DefinitionError, DuplicateToolError
from pegboard.tools.spec import ToolSpec
from pegboard.toolsets.toolsets import StaticToolset
from toolsets.samples import make_tool, names, offered


def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


def test_it_gives_its_tools_in_the_order_given():
    toolset = StaticToolset("s", (make_tool(name) for name in "ba"))
    assert (toolset.name, names(offered(toolset))) == ("s", ["b", "a"])
    assert offered(toolset)[0] is offered(toolset)[0]


def test_what_can_become_a_tool_becomes_one():
    spec_only, added = offered(StaticToolset("s", [ToolSpec("web"), add]))
    assert (spec_only.handler, added.name, added.spec.description) == (None, "add", "Adds.")


def test_what_cannot_is_refused():
    with pytest.raises(DefinitionError):
        StaticToolset("s", [3])


def test_two_tools_of_one_name_are_refused():
    with pytest.raises(DuplicateToolError, match="toolset 's'"):
        StaticToolset("s", [make_tool("a"), make_tool("a")])


def test_it_speaks_to_the_model_where_it_is_told_to():
    """As long as a request has one of its tools; see `request.processors.instructions`."""
    assert StaticToolset("s", [], instructions=["a", "b"]).instructions == ["a", "b"]
    assert StaticToolset("s", []).instructions is None
