from __future__ import annotations

from pegboard.tools.context import NOBODY
from pegboard.tools.spec import ToolAnnotations
from pegboard.toolsets.predicates import named, read_only
from pegboard.toolsets.wrappers import AnnotatedToolset
from toolsets.samples import PlainToolset, make_tool, names, offered

READ = ToolAnnotations(read_only_hint=True)


def test_given_hints_replace_and_unset_ones_leave():
    inner = PlainToolset(tools=[make_tool("a", hints={"read_only": False, "open_world": True})])
    (tool,) = offered(AnnotatedToolset(inner, READ))
    assert tool.spec.annotations == ToolAnnotations(read_only_hint=True, open_world_hint=True)


def test_a_predicate_picks_the_tools():
    inner = PlainToolset(tools=[make_tool("get_x"), make_tool("set_x")])
    tools = offered(AnnotatedToolset(inner, READ, named("get_*")))
    assert [read_only(tool, NOBODY) for tool in tools] == [True, False]
    assert tools[1] is inner.answer[1]


def test_of_an_untrusted_tool_only_caution_stays_beside_what_is_vouched_for():
    claims = {"read_only": True, "idempotent": True, "destructive": False, "open_world": True, "edit": True}
    inner = PlainToolset(tools=[make_tool("a", hints=claims, trusted=False)])
    (tool,) = offered(AnnotatedToolset(inner, ToolAnnotations(idempotent_hint=True)))
    assert tool.spec.annotations == ToolAnnotations(idempotent_hint=True, open_world_hint=True, edit_hint=True)
    assert tool.origin.trusted


def fails(tool, context):
    raise OSError(tool.name)


def test_where_the_predicate_raises_the_tool_is_out():
    offer = offered(AnnotatedToolset(PlainToolset("t", [make_tool("a")]), READ, fails))
    assert names(offer) == []
    assert str(offer.problems[0]) == "toolset 't': tool 'a' can't be annotated: OSError: a"
    assert [(each.name, each.step) for each in offer.dropped] == [("a", "annotated")]
