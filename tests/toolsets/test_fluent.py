from __future__ import annotations

import asyncio

import pytest

from pegboard.tools.context import NOBODY
from pegboard.tools.spec import ToolAnnotations
from pegboard.toolsets.predicates import named, read_only, tagged
from pegboard.toolsets.toolset import is_toolset
from pegboard.toolsets.toolsets import ToolsetBase, wrap
from pegboard.toolsets.wrappers import Reshape
from toolsets.samples import PlainToolset, called, make_tool, names, object_schema, offered

TOOLS = [make_tool("push", tags=["net"], input_schema=object_schema(branch={"type": "string"})), make_tool("log")]


class Git(ToolsetBase):
    """What a user writes."""

    def __init__(self):
        self.name = "git"
        self.asked = 0

    async def tools(self, context):
        self.asked += 1
        return TOOLS


def test_every_wrapper_is_a_method_and_they_chain():
    toolset = (
        Git()
        .cached(60)
        .reshaped({"push": Reshape(hide={"branch": "main"})})
        .with_annotations(ToolAnnotations(read_only_hint=True), named("log"))
        .requiring_approval(tagged("net"))
        .renamed({"log": "history"})
        .prefixed("git")
        .prepared(lambda context, tools: sorted(tools, key=lambda tool: tool.name))
        .filtered("name:git_*")
    )
    history, push = offered(toolset)
    assert (toolset.name, history.name, push.name) == ("git", "git_history", "git_push")
    assert (history.spec.requires_confirmation, push.spec.requires_confirmation) == (False, True)
    assert (read_only(history, NOBODY), read_only(push, NOBODY)) == (True, False)
    assert called(push, {}) == {"branch": "main"}


def test_wrapping_again_gives_the_same_tools():
    """What is compiled for a tool is compiled once, however deep it is wrapped."""
    toolset = Git().renamed({"log": "history"}).prefixed("git").requiring_approval()
    assert [a is b for a, b in zip(offered(toolset), offered(toolset), strict=True)] == [True, True]


def test_a_class_of_the_users_own_gets_the_methods_by_wrap():
    inner = PlainToolset("mine", TOOLS)
    toolset = wrap(inner).filtered(tagged("net"))
    assert is_toolset(toolset)
    assert (toolset.name, names(offered(toolset))) == ("mine", ["push"])
    asyncio.run(toolset.close())
    assert inner.closed == 1


def test_a_cached_toolset_can_be_cleared():
    git = Git()
    toolset = git.cached(60)
    for _ in range(2):
        offered(toolset)
    toolset.clear()
    offered(toolset)
    assert git.asked == 2


def test_a_base_without_tools_cannot_be_made():
    with pytest.raises(TypeError, match="tools"):
        ToolsetBase()
