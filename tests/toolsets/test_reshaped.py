from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from pegboard.errors import DefinitionError, SchemaError
from pegboard.schema.problems import StructureError
from pegboard.tools.context import ToolContext
from pegboard.tools.handler import Handler
from pegboard.tools.spec import Concurrency, ToolSpec
from pegboard.tools.tool import Tool
from pegboard.toolsets.wrappers import Reshape, ReshapedToolset, _reshaped
from toolsets.samples import CallingToolset, PlainToolset, called, late_tool, make_tool, names, object_schema, offered

SCHEMA = object_schema(
    required=["q", "limit"], q={"type": "string"}, limit={"type": "integer", "maximum": 10}, lang={"enum": ["en", "de"]}
)


def search(*, checks=None, **facts):
    return make_tool("search", input_schema=SCHEMA, **facts).evolve(checks=checks)


def test_what_is_listed_and_what_is_called_change_together():
    reshape = Reshape(rename={"q": "query"}, hide={"lang": "en"}, default={"limit": 3})
    (tool,) = offered(ReshapedToolset(PlainToolset(tools=[search()]), {"search": reshape}))
    assert list(tool.spec.input_schema["properties"]) == ["query", "limit"]
    assert called(tool, {"query": "a"}) == {"q": "a", "limit": 3, "lang": "en"}
    assert called(tool, {"query": "a", "limit": 9}) == {"q": "a", "limit": 9, "lang": "en"}
    assert not tool.validator.accepts({"q": "a"})
    assert not tool.validator.accepts({"query": "a", "lang": "de"})


def test_only_what_is_named_is_reshaped():
    other = make_tool("other")
    tools = offered(ReshapedToolset(PlainToolset(tools=[search(), other]), {"search": Reshape(), "absent": Reshape()}))
    assert tools[1] is other


@given(
    st.fixed_dictionaries(
        {"q": st.text(max_size=3), "limit": st.integers(-1, 12)}, optional={"lang": st.sampled_from(("en", "fr"))}
    ),
    st.permutations(["q", "limit", "lang", "x"]).map(
        lambda names: dict(zip(("q", "limit", "lang"), names, strict=False))
    ),
)
def test_a_renamed_tool_takes_exactly_what_the_tool_takes(arguments, rename):
    tool = search()
    renamed = _reshaped(tool, Reshape(rename=rename))
    shown = {rename[name]: value for name, value in arguments.items()}
    assert renamed.validator.accepts(shown) is tool.validator.accepts(arguments)
    if tool.validator.accepts(arguments):
        assert called(renamed, shown) == arguments


def test_a_wider_type_lets_nothing_through_that_the_tool_refuses():
    tool = _reshaped(search(), Reshape(rename={"limit": "most"}, retype={"limit": {"type": ["integer", "string"]}}))
    assert called(tool, {"q": "a", "most": 5}) == {"q": "a", "limit": 5}
    bad = {"q": "a", "most": "ten"}
    assert tool.validator.accepts(bad)
    (problem,) = tool.checks(bad)
    assert problem.startswith("most: ")
    with pytest.raises(StructureError, match="most"):
        tool.bind(ToolContext(), bad)
    assert "most" in tool.check(bad)[0]


def test_a_hidden_value_that_the_tool_refuses_is_the_hosts_mistake():
    """The model could do nothing about it."""
    tool = _reshaped(search(checks=lambda arguments: ["limit: too much"]), Reshape(hide={"limit": 5}))
    with pytest.raises(DefinitionError, match="'limit': the value that it is hidden with is refused"):
        tool.checks({"q": "a"})


def test_hidden_arguments_cannot_be_reached_by_name():
    open_schema = {"type": "object", "properties": {"q": {}, "root": {}}}
    tool = _reshaped(make_tool(input_schema=open_schema), Reshape(rename={"q": "query"}, hide={"root": "/safe"}))
    assert called(tool, {"query": 1, "extra": 2}) == {"q": 1, "extra": 2, "root": "/safe"}
    for name in ("root", "q"):
        assert tool.checks({name: "/"}) == (f"{name}: there is no such argument",)
        with pytest.raises(StructureError):
            tool.bind(ToolContext(), {name: "/"})


def picky(path):
    def make_binder():
        def bind(context, arguments):
            raise StructureError("is no date", path)

        return bind

    return search().evolve(handler=Handler(print, make_binder=make_binder))


@pytest.mark.parametrize(("path", "shown"), [(("q", 0), ("query", 0)), (("limit",), ("limit",)), ((), ())])
def test_what_structuring_refuses_is_told_by_the_new_name(path, shown):
    tool = _reshaped(picky(path), Reshape(rename={"q": "query"}))
    with pytest.raises(StructureError) as caught:
        tool.bind(ToolContext(), {"query": "a", "limit": 1})
    assert (caught.value.path, caught.value.reason) == (shown, "is no date")


def test_what_structuring_refuses_of_a_hidden_value_is_the_hosts_mistake():
    tool = _reshaped(picky(("q",)), Reshape(hide={"q": "a"}))
    with pytest.raises(DefinitionError, match="'q'"):
        tool.bind(ToolContext(), {"limit": 1})


def test_the_tools_own_parts_see_its_own_names():
    seen = []

    def see(arguments):
        seen.append(dict(arguments))
        return ["q: is empty", "query: stays", "(root): odd", "qq: stays"]

    tool = search().evolve(preview=see, confirms=see, checks=see)
    shown = _reshaped(tool, Reshape(rename={"q": "query"}, hide={"lang": "en"}))
    arguments = {"query": "", "limit": 1}
    assert shown.checks(arguments) == ["query: is empty", "query: stays", "(root): odd", "qq: stays"]
    shown.preview(arguments)
    shown.confirms(arguments)
    assert seen == [{"q": "", "limit": 1, "lang": "en"}] * 3


def test_a_tool_without_such_parts_gets_none():
    shown = _reshaped(search(), Reshape())
    assert (shown.preview, shown.confirms) == (None, None)


def test_examples_follow_and_those_that_may_be_invalid_go():
    tool = search(examples=[{"q": "a", "limit": 1, "lang": "en"}, {"q": "b", "limit": 2}])
    shown = _reshaped(tool, Reshape(rename={"q": "query"}, hide={"lang": "de"}))
    assert shown.spec.examples == ({"query": "a", "limit": 1}, {"query": "b", "limit": 2})
    assert _reshaped(tool, Reshape(retype={"lang": {"const": "de"}})).spec.examples == ({"q": "b", "limit": 2},)


def test_the_key_of_concurrency_follows_or_becomes_exclusive():
    tool = search(concurrency=Concurrency("key", ("q", "lang"), "read"))
    assert _reshaped(tool, Reshape(rename={"q": "x"})).spec.concurrency == Concurrency("key", ("x", "lang"), "read")
    assert _reshaped(tool, Reshape(hide={"lang": "en"})).spec.concurrency == Concurrency("exclusive")
    assert _reshaped(tool, Reshape(default={"q": "a"})).spec.concurrency == Concurrency("exclusive")


def test_a_tool_found_late_is_reshaped_once_it_is_found():
    late, loads = late_tool(search())
    inner = PlainToolset(tools=[late])
    (tool,) = offered(ReshapedToolset(inner, {"search": Reshape(rename={"q": "query"})}))
    assert ("query" in tool.spec.input_schema["properties"], loads.count) == (True, 0)
    assert called(tool.handler.load(), {"query": "a", "limit": 1}) == {"q": "a", "limit": 1}


def test_a_toolsets_own_tools_are_called_by_their_own_arguments():
    toolset = CallingToolset(tools=[Tool(ToolSpec("search", "", SCHEMA))])
    (tool,) = offered(ReshapedToolset(toolset, {"search": Reshape(rename={"q": "query"})}))
    called(tool, {"query": "a", "limit": 1})
    assert toolset.calls == [("search", {"q": "a", "limit": 1}, None)]


@pytest.mark.parametrize("tool", [make_tool("t", kind="freeform"), Tool(ToolSpec("t"))])
def test_only_functions_with_a_handler_can_be_reshaped(tool):
    with pytest.raises(DefinitionError, match="only function tools"):
        _reshaped(tool, Reshape())


def test_a_tool_that_cannot_be_reshaped_costs_only_itself():
    inner = PlainToolset("t", [search(), make_tool("other")])
    offer = offered(ReshapedToolset(inner, {"search": Reshape(rename={"limits": "x"})}))
    assert names(offer) == ["other"]
    assert "tool 'search' can't be reshaped: 'limits': there is no such argument" in str(offer.problems[0])
    assert [(each.name, each.step) for each in offer.dropped] == [("search", "reshaped")]


@pytest.mark.parametrize("wishes", [{"hide": {"limit": "many"}}, {"default": {"limit": "many"}}])
def test_a_value_that_the_argument_does_not_take_costs_the_tool(wishes):
    inner = PlainToolset("t", [search(), make_tool("other")])
    offer = offered(ReshapedToolset(inner, {"search": Reshape(**wishes)}))
    assert names(offer) == ["other"]
    assert "doesn't fit: (root): must be an integer" in str(offer.problems[0])


def test_a_schema_that_only_becomes_unsound_by_its_place_is_refused():
    """In the schema that is shown, a reference leads somewhere else."""
    retype = {"$defs": {"A": {"type": "string"}}, "$ref": "#/$defs/A"}
    with pytest.raises(SchemaError, match="points to nothing in it"):
        _reshaped(search(), Reshape(retype={"q": retype}))


def test_a_tool_that_nobody_has_is_noted():
    offer = offered(ReshapedToolset(PlainToolset(tools=[search()]), {"serch": Reshape()}))
    assert [str(each) for each in offer.problems] == [
        "toolset 'plain': no tool is called 'serch', which was to be reshaped. Did you mean 'search'?"
    ]
