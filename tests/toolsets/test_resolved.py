from __future__ import annotations

import asyncio

import pytest

from pegboard.schema.json import digest_of
from pegboard.toolsets.predicates import named, tagged
from pegboard.toolsets.resolve import Explanation, _Reason, resolve_tools
from pegboard.toolsets.toolsets import StaticToolset
from toolsets.samples import PlainToolset, make_tool

STATIC = [make_tool("a", tags=["x"]), make_tool("b"), make_tool("c", tags=["x"])]


def resolved(static=STATIC, toolsets=(), **options):
    return asyncio.run(resolve_tools(static, toolsets, **options))


def test_it_is_a_collection_of_tools():
    tools = resolved(where=tagged("x"))
    assert (len(tools), list(tools), tools.names) == (2, [STATIC[0], STATIC[2]], ("a", "c"))
    assert ("a" in tools, "b" in tools, STATIC[0] in tools) == (True, False, False)
    assert (tools.get("a"), tools.get("b")) == (STATIC[0], None)


def test_it_keeps_the_tools_themselves():
    """A request runs exactly the tools that it was offered."""
    static = list(STATIC)
    tools = resolved(static)
    static.clear()
    assert tools.tools == tuple(STATIC)


def test_held_back_is_what_exists_and_isnt_offered():
    toolset = StaticToolset("t", [make_tool("e")]).filtered("edit")
    tools = resolved(toolsets=[toolset], where=tagged("x"))
    assert [tools.was_held_back(name) for name in ("a", "b", "e", "zzz")] == [False, True, True, False]
    assert tools.considered == {"a", "b", "c", "e"}


def test_its_digest_is_over_the_digests_of_its_tools_in_order():
    tools = resolved()
    assert tools.digest == digest_of([tool.spec.digest for tool in STATIC])
    assert tools.digest == tools.digest
    assert resolved(order=["c"]).digest != tools.digest


@pytest.mark.parametrize(
    ("name", "options", "text"),
    [
        ("a", {}, "a: offered\n  + offered: by the host\n  + order: place 1 of 3"),
        (
            "c",
            {"default": named("?"), "where": tagged("x"), "active": ["c", "a"], "order": ["a"]},
            (
                "c: offered\n  + offered: by the host\n  + default: name:? is so (name: c)\n"
                "  + where: tag:x is so (tag: x)\n  + active: among the active names\n  + order: place 2 of 2"
            ),
        ),
        (
            "b",
            {"where": named("?") & tagged("x")},
            "b: not offered\n  + offered: by the host\n  - where: tag:x is not so (tag: none)",
        ),
        (
            "b",
            {"default": tagged("x"), "where": named("z")},
            "b: not offered\n  + offered: by the host\n  - default: tag:x is not so (tag: none)",
        ),
        ("b", {"active": ["a"]}, "b: not offered\n  + offered: by the host\n  - active: not among the active names"),
        ("bb", {}, "bb: nothing brings a tool of this name. Did you mean 'b'?"),
    ],
)
def test_an_explanation_tells_each_step(name, options, text):
    assert str(resolved(**options).explain(name)) == text


def test_an_explanation_tells_who_was_held_back():
    toolset = PlainToolset("t", [make_tool("a")])
    explanation = resolved(toolsets=[toolset]).explain("a")
    assert str(explanation) == (
        "a: offered\n  + offered: by the host\n"
        "  - name: the tool of the host, toolset 't' is held back: the host has the name\n  + order: place 1 of 3"
    )


def test_an_explanation_tells_what_a_toolset_dropped():
    toolset = StaticToolset("t", [make_tool("push")]).filtered("edit").prefixed("git")
    explanation = resolved(toolsets=[toolset]).explain("git_push")
    assert str(explanation) == "git_push: not offered\n  - filtered: edit is not so"


def test_an_explanation_names_toolsets_that_failed():
    """They might have had it."""
    tools = resolved(toolsets=[PlainToolset("down", error=OSError("gone"))])
    assert tools.explain("zzz") == Explanation(
        "zzz", offered=False, reasons=(), notes=("toolset 'down': OSError: gone",)
    )
    assert "note: toolset 'down': OSError: gone" in str(tools.explain("zzz"))
    assert tools.explain("a").notes == ()


def test_the_reasons_of_all_are_those_of_each():
    tools = resolved(toolsets=[PlainToolset("t", [make_tool("a")])], where=tagged("x"), active=["c"])
    assert list(tools.reasons) == ["a", "b", "c"]
    assert tools.reasons == {name: tools.explain(name).reasons for name in "abc"}
    assert tools.reasons["a"][-1] == _Reason("active", "out", "not among the active names")
