"""A toolset whose tools have to be found."""

from __future__ import annotations

import asyncio

import pytest

from pegboard import (
    CombinedToolset,
    ExpressionError,
    InvalidNameError,
    ReadonlyContext,
    StaticToolset,
    Tool,
    ToolCall,
    ToolContext,
    ToolRegistry,
    ToolSpec,
    searchable,
    wrap,
)
from pegboard.toolsets.predicates import tagged
from pegboard.toolsets.search import _FOUND_TOOLS
from toolsets.samples import Closing, PlainToolset, called, late_tool, make_tool, names, offered

MAIL = make_tool("send_mail", description="Sends a mail.", tags=["net"])
READ = make_tool("read_file", description="Reads a file.")
USER = make_tool("current_user", description="Tells the user.", deferred=True)
INNER = PlainToolset("inner", [MAIL, READ, USER])


def state_of(*found):
    return ReadonlyContext(state={_FOUND_TOOLS: list(found)})


def deferred(offer):
    return [tool.name for tool in offer if tool.spec.deferred]


def turn(registry, context, *calls):
    async def run():
        resolved = await registry.resolve(context)
        return resolved, await registry.dispatch([ToolCall(*call) for call in calls], resolved, context)

    return asyncio.run(run())


def test_a_search_tool_and_the_others_deferred():
    offer = offered(searchable(INNER))
    assert names(offer) == ["search_tools", "send_mail", "read_file", "current_user"]
    assert deferred(offer) == ["send_mail", "read_file", "current_user"]
    assert offer.problems == ()


def test_what_was_found_is_not_deferred_any_more():
    toolset = searchable(INNER)
    assert deferred(offered(toolset, state_of("read_file", "no_such_tool"))) == ["send_mail", "current_user"]
    assert deferred(offered(toolset)) == ["send_mail", "read_file", "current_user"]


@pytest.mark.parametrize("kept", ["read_file", {"read_file": 1}, [["read_file"], 3, None], None])
def test_a_state_that_makes_no_sense_finds_nothing(kept):
    offer = offered(searchable(INNER), ReadonlyContext(state={_FOUND_TOOLS: kept}))
    assert len(deferred(offer)) == 3


@pytest.mark.parametrize(
    "always",
    [
        ["send_mail"],
        ("send_mail", "no_such_tool"),
        "tag:net",
        tagged("net"),
        lambda tool, context: tool.name == "send_mail",
    ],
)
def test_always_is_never_deferred(always):
    assert deferred(offered(searchable(INNER, always=always))) == ["read_file", "current_user"]


def test_always_shows_what_its_author_defers():
    assert "current_user" not in deferred(offered(searchable(INNER, always=["current_user"])))


def test_where_always_fails_the_tool_is_deferred_and_a_note_says_so():
    offer = offered(searchable(INNER, always=lambda tool, context: {"send_mail": True}[tool.name]))
    assert deferred(offer) == ["read_file", "current_user"]
    assert "is deferred, as 'always' failed: KeyError" in str(offer.problems[0])
    assert not offer.has_failed


def test_with_nothing_to_find_there_is_no_search_tool():
    assert names(offered(searchable(PlainToolset("empty")))) == []
    everything = offered(searchable(INNER, always="name:*"))
    assert (names(everything), deferred(everything)) == (["send_mail", "read_file", "current_user"], [])


def test_what_only_processes_requests_is_left_alone():
    silent = make_tool("memory").evolve(offered=False)
    assert deferred(offered(searchable(PlainToolset("inner", [silent, READ])))) == ["read_file"]
    assert names(offered(searchable(PlainToolset("inner", [silent])))) == ["memory"]


def test_with_everything_found_the_search_tool_stays():
    """What is offered changes as little as may be from request to request."""
    offer = offered(searchable(INNER), state_of("send_mail", "read_file", "current_user"))
    assert (names(offer)[0], deferred(offer)) == ("search_tools", [])


def test_the_same_tools_come_out_each_time():
    toolset = searchable(INNER)
    for context in (state_of(), state_of("read_file")):
        first, second = offered(toolset, context), offered(toolset, context)
        assert [a is b for a, b in zip(first, second, strict=True)] == [True] * 4


def test_a_tool_that_has_the_search_tools_name_is_held_back():
    inner = PlainToolset("inner", [make_tool("search_tools", description="Mine."), READ])
    offer = offered(searchable(inner))
    assert (names(offer), [each.name for each in offer.dropped]) == (["search_tools", "read_file"], ["search_tools"])
    assert "give it another, searchable(..., name=...)" in str(offer.problems[0])
    assert names(offered(searchable(inner, name="find"))) == ["find", "search_tools", "read_file"]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"name": "no name"}, InvalidNameError),
        ({"limit": 0}, ValueError),
        ({"limit": 21}, ValueError),
        ({"always": "tag:"}, ExpressionError),
    ],
)
def test_wrong_options_are_refused_at_once(options, error):
    with pytest.raises(error):
        searchable(INNER, **options)


def test_found_tools_run_as_before():
    (tool,) = [tool for tool in offered(searchable(INNER), state_of("read_file")) if tool.name == "read_file"]
    assert called(tool, {}) == {}


def test_tools_that_are_loaded_late_stay_deferred_once_they_are_loaded():
    late, _ = late_tool(READ)
    (_, tool) = offered(searchable(PlainToolset("late", [late])))
    assert tool.spec.deferred
    assert tool.handler.load().spec.deferred


def test_tools_that_the_host_runs_are_deferred_and_found_too():
    inner = PlainToolset("inner", [Tool(ToolSpec("bare", "Runs elsewhere."))])
    assert deferred(offered(searchable(inner))) == ["bare"]
    assert deferred(offered(searchable(inner), state_of("bare"))) == []


def test_closing_closes_the_inner_toolset():
    inner = Closing()
    asyncio.run(searchable(inner).close())
    assert inner.closed == 1


def test_the_limit_is_what_a_search_finds_at_most():
    registry = ToolRegistry()
    registry.register(searchable(PlainToolset("many", [make_tool(f"send_{n}") for n in range(9)]), limit=2))
    _, outcome = turn(registry, ReadonlyContext(), ("search_tools", {"query": "send"}, "1"))
    assert len(outcome.results[0].metadata["found"]) == 2


class TestOnABoard:
    def test_what_is_found_is_offered_by_the_next_resolution(self):
        registry = ToolRegistry()
        registry.register(searchable(INNER))
        resolved, outcome = turn(registry, ReadonlyContext(), ("search_tools", {"query": "mail"}, "1"))
        assert resolved.get("send_mail").spec.deferred
        later = ReadonlyContext(state=outcome.actions.state_delta)
        resolved, outcome = turn(registry, later, ("send_mail", {}, "2"))
        assert not resolved.get("send_mail").spec.deferred
        assert not outcome.results[0].is_error

    @pytest.mark.parametrize(
        "outside",
        [
            lambda toolset: toolset.prefixed("my"),
            lambda toolset: toolset.renamed({"send_mail": "post"}),
            lambda toolset: toolset.prefixed("my").renamed({"my_send_mail": "post"}).prefixed("x" * 62),
        ],
    )
    def test_tools_that_are_renamed_further_out_are_found_by_either_name(self, outside):
        registry = ToolRegistry()
        registry.register(outside(searchable(INNER, name="seek")))
        resolved = asyncio.run(registry.resolve())
        (seek,) = [tool.name for tool in resolved if not tool.spec.deferred]
        _, outcome = turn(registry, ReadonlyContext(), (seek, {"query": "sends a mail"}, "1"))
        (name,) = outcome.results[0].metadata["found"]
        assert resolved.get(name).spec.description == "Sends a mail."
        after = asyncio.run(registry.resolve(ReadonlyContext(state=outcome.actions.state_delta)))
        assert not after.get(name).spec.deferred
        assert len(deferred(after)) == 2

    def test_two_searchable_toolsets_share_the_search_tool_that_is_left(self):
        registry = ToolRegistry()
        mail, files = PlainToolset("mail", [MAIL]), PlainToolset("files", [READ])
        registry.register(searchable(mail), searchable(files))
        calls = [("search_tools", {"query": query}, query) for query in ("mail", "file")]
        resolved, outcome = turn(registry, ReadonlyContext(), *calls)
        assert [problem.tool for problem in resolved.problems] == ["search_tools"]
        assert outcome.actions.state_delta == {_FOUND_TOOLS: ["send_mail", "read_file"]}
        after = asyncio.run(registry.resolve(ReadonlyContext(state=outcome.actions.state_delta)))
        assert deferred(after) == []

    def test_with_names_of_their_own_nothing_clashes(self):
        registry = ToolRegistry()
        registry.register(
            searchable(PlainToolset("mail", [MAIL]), name="find_mail_tools"),
            searchable(PlainToolset("files", [READ]), name="find_file_tools"),
        )
        resolved = asyncio.run(registry.resolve())
        assert resolved.problems == ()
        assert resolved.names == ("find_file_tools", "find_mail_tools", "read_file", "send_mail")

    def test_several_toolsets_are_searched_as_one(self):
        toolset = searchable(CombinedToolset("all", [PlainToolset("a", [MAIL]), PlainToolset("b", [READ])]))
        assert names(offered(toolset)) == ["search_tools", "send_mail", "read_file"]

    def test_users_find_only_what_they_are_offered(self):
        registry = ToolRegistry()
        inner = StaticToolset("all", [MAIL, READ]).filtered("not user:bob or name:read_file")
        registry.register(inner.searchable())
        for user, found in (("ann", {"send_mail"}), ("bob", set()), ("ann", {"send_mail"})):
            context = ReadonlyContext(user=user)
            _, outcome = turn(registry, context, ("search_tools", {"query": "mail"}, "1"))
            assert set(outcome.results[0].metadata["found"]) == found


def test_a_call_outside_of_any_request_searches_what_the_toolset_offers_now():
    (search, *_) = offered(wrap(INNER).searchable())
    call = ToolContext(ReadonlyContext(user="ann"))
    result = asyncio.run(search.handler.function({"query": "file"}, call))
    assert result.metadata == {"found": ["read_file"]}
    assert call.state[_FOUND_TOOLS] == ["read_file"]
    assert INNER.contexts[-1] is call.request
