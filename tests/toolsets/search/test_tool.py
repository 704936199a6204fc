"""The tool by which a model finds tools that it isn't shown."""

from __future__ import annotations

import asyncio

import pytest

from pegboard import Concurrency, InvalidNameError, ReadonlyContext, ToolCall, ToolContext, ToolRegistry, ToolSpec
from pegboard.request.model_request import ModelRequest
from pegboard.tools.tool import Tool
from pegboard.toolsets.search import _FOUND_TOOLS, _MOST_RESULTS, search_tool
from toolsets.samples import make_tool

MAIL = make_tool("send_mail", description="Sends a mail.", deferred=True)
POST = make_tool("send_post", description="Sends a letter.", deferred=True)
SHOWN = make_tool("send_fax", description="Sends a fax.")


def board(*tools, **options):
    registry = ToolRegistry()
    registry.register(search_tool(**options), *tools)
    return registry


def searched(registry, *queries, context=None, name="search_tools", **arguments):
    """What a turn of searches gives."""
    context = context or ReadonlyContext(state={})

    async def turn():
        resolved = await registry.resolve(context)
        calls = [ToolCall(name, {"query": query, **arguments}, query) for query in queries]
        return await registry.dispatch(calls, resolved, context)

    return asyncio.run(turn())


def test_what_the_model_is_told_of_it():
    spec = search_tool("find", limit=3).spec
    assert spec.name == "find"
    assert spec.input_schema["properties"]["limit"]["default"] == 3
    assert spec.annotations.read_only_hint
    assert not spec.deferred
    assert spec.concurrency == Concurrency("key")


@pytest.mark.parametrize("limit", [0, -1, _MOST_RESULTS + 1])
def test_a_limit_outside_of_its_bounds_is_refused(limit):
    with pytest.raises(ValueError, match="from 1 to 20"):
        search_tool(limit=limit)


def test_a_name_that_no_tool_may_have_is_refused():
    with pytest.raises(InvalidNameError):
        search_tool("no name")


def test_deferred_tools_of_the_request_are_found_and_noted():
    outcome = searched(board(MAIL, POST, SHOWN), "mail")
    (result,) = outcome.results
    assert result.text.startswith("1 tool was found.")
    assert "send_mail: Sends a mail." in result.text
    assert (result.is_error, result.title, result.metadata) == (False, "Tools for mail", {"found": ["send_mail"]})
    assert outcome.actions.state_delta == {_FOUND_TOOLS: ["send_mail"]}


def test_tools_that_are_shown_anyway_are_not_found():
    assert searched(board(MAIL, SHOWN), "fax").results[0].metadata == {"found": []}


def test_tools_that_were_found_before_are_found_again():
    context = ReadonlyContext(state={_FOUND_TOOLS: ["send_fax"]})
    assert searched(board(SHOWN), "fax", context=context).results[0].metadata == {"found": ["send_fax"]}


def test_what_the_request_does_not_offer_is_not_found():
    registry = board(MAIL, POST)

    async def turn():
        resolved = await registry.resolve(where="not name:send_mail")
        return await registry.dispatch([ToolCall("search_tools", {"query": "send"}, "1")], resolved)

    assert asyncio.run(turn()).results[0].metadata == {"found": ["send_post"]}


def test_several_searches_of_one_answer_add_up():
    outcome = searched(board(MAIL, POST), "mail", "letter", "nothing like it")
    assert outcome.actions.state_delta == {_FOUND_TOOLS: ["send_mail", "send_post"]}


def test_the_limit_is_the_models_or_else_the_hosts():
    registry = board(*(make_tool(f"send_{n}", deferred=True) for n in range(9)), limit=2)
    assert len(searched(registry, "send").results[0].metadata["found"]) == 2
    assert len(searched(registry, "send", limit=4).results[0].metadata["found"]) == 4
    assert searched(registry, "send", limit=99).results[0].kind == "invalid_arguments"


def test_near_names_are_told_as_such():
    assert "near" in searched(board(MAIL), "sned_mial").results[0].text


def test_nothing_found_is_no_error_and_leaves_the_state_alone():
    outcome = searched(board(MAIL), "zzzz")
    assert not outcome.results[0].is_error
    assert outcome.actions.state_delta == {}


@pytest.mark.parametrize("query", ["", '"', "NEAR(", "*", "\x00", "天气", "a" * 100_000])
def test_no_query_fails(query):
    assert not searched(board(MAIL), query).results[0].is_error


def test_tools_without_a_handler_are_found_too():
    bare = Tool(ToolSpec("bare", deferred=True))
    assert searched(board(bare), "bare").actions.state_delta == {_FOUND_TOOLS: ["bare"]}


def test_a_call_outside_of_any_request_finds_nothing():
    function = search_tool().handler.function
    result = asyncio.run(function({"query": "mail"}, ToolContext()))
    assert result.text.startswith("No tool fits 'mail'.")


def processed(registry, context):
    """The names of the tools that a request offers once it has been made ready."""
    request = asyncio.run(registry.process(ModelRequest(), context))
    return [tool.name for tool in request.offered]


def test_what_was_found_is_offered_by_the_next_request_whoever_deferred_it():
    registry = board(MAIL, POST, SHOWN)
    assert processed(registry, ReadonlyContext()) == ["search_tools", "send_fax"]
    found = ReadonlyContext(state=searched(registry, "mail").actions.state_delta)
    assert processed(registry, found) == ["search_tools", "send_fax", "send_mail"]
    assert processed(registry, ReadonlyContext(state={_FOUND_TOOLS: ["gone"]})) == ["search_tools", "send_fax"]


def test_a_request_that_leaves_deferred_tools_out_lets_them_be_found_and_none_be_called():
    registry, context = board(MAIL, SHOWN), ReadonlyContext(state={})

    async def turn():
        request = await registry.process(ModelRequest(), context)
        calls = [ToolCall("search_tools", {"query": "mail"}, "1"), ToolCall("send_mail", {}, "2")]
        return await registry.dispatch(calls, request.tools, context)

    search, call = asyncio.run(turn()).results
    assert search.metadata == {"found": ["send_mail"]}
    assert call.kind == "not_offered"


def test_a_request_without_tools_stays_as_it_is():
    assert search_tool().process_request(ModelRequest(), ReadonlyContext(state={_FOUND_TOOLS: ["a"]})) is None


def test_tools_that_only_process_requests_are_not_found():
    silent = make_tool("send_silently", deferred=True).evolve(offered=False)
    assert searched(board(silent, MAIL), "send").results[0].metadata == {"found": ["send_mail"]}
