"""The search tool: its results and the found names in the state; searchable toolsets."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import asyncio

import pytest

import pegboard
from pegboard import (
    CombinedToolset,
    Concurrency,
    Config,
    ModelRequest,
    ReadonlyContext,
    StaticToolset,
    Tool,
    ToolCall,
    ToolRegistry,
    ToolSpec,
)
from pegboard.errors import ExpressionError, InvalidNameError
from pegboard.toolsets.predicates import Matches
from pegboard_search import search_tool, searchable
from toolsets.samples import PlainToolset, late_tool, make_tool, names, offered

FOUND = "pegboard:found_tools"
MAIL = make_tool("send_mail", description="Sends a mail.", deferred=True, tags=["net"])
POST = make_tool("send_post", description="Sends a letter.", deferred=True)
FAX = make_tool("send_fax", description="Sends a fax.")
READ = make_tool("read_file", description="Reads a file.")
INNER = PlainToolset("inner", [MAIL.with_spec(deferred=False), READ, make_tool("current_user", deferred=True)])


def with_search(*things, **options):
    registry = ToolRegistry()
    registry.register(search_tool(**options), *things)
    return registry


def with_toolset(*toolsets):
    registry = ToolRegistry()
    registry.register(*toolsets)
    return registry


def state_of(*found):
    return ReadonlyContext(state={FOUND: list(found)})


def deferred(tools):
    return [tool.name for tool in tools if tool.spec.deferred]


def searched(registry, *queries, context=None, name="search_tools", where=None, **arguments):
    """The outcome of the searches of one answer."""
    context = context or ReadonlyContext(state={})

    async def turn():
        resolved = await registry.resolve(context, where=where)
        calls = [ToolCall(name, {"query": query, **arguments}, query) for query in queries]
        return await registry.dispatch(calls, resolved, context)

    return asyncio.run(turn())


def found(outcome):
    return [name for result in outcome.results for name in result.metadata["found"]]


def test_the_spec_of_the_search_tool():
    spec = search_tool("find", limit=3).spec
    assert (spec.name, spec.input_schema["properties"]["limit"]["default"]) == ("find", 3)
    assert (spec.annotations.read_only_hint, spec.deferred, spec.concurrency) == (True, False, Concurrency("key"))


def test_deferred_tools_are_found_and_added_to_the_state():
    outcome = searched(with_search(MAIL, POST, FAX), "mail")
    (result,) = outcome.results
    assert result.text.startswith("Found 1 tool.")
    assert "send_mail: Sends a mail." in result.text
    assert (result.is_error, result.title, result.metadata) == (False, "Tools for mail", {"found": ["send_mail"]})
    assert outcome.actions.state_delta == {FOUND: ["send_mail"]}


def test_a_call_without_resolved_tools_finds_toolsets_tools_too():
    result = asyncio.run(with_search(PlainToolset("inner", [MAIL])).call("search_tools", {"query": "mail"}))
    assert result.metadata == {"found": []}
    result = asyncio.run(with_toolset(searchable(INNER)).call("search_tools", {"query": "mail"}))
    assert result.metadata == {"found": ["send_mail"]}


def test_tools_that_were_found_before_are_found_again():
    assert found(searched(with_search(FAX), "fax", context=state_of("send_fax"))) == ["send_fax"]


def test_tools_that_the_request_excludes_arent_found():
    assert found(searched(with_search(MAIL, POST), "send", where="not name:send_mail")) == ["send_post"]


def test_the_limit_is_the_models_or_else_the_hosts():
    registry = with_search(*(make_tool(f"send_{n}", deferred=True) for n in range(9)), limit=2)
    assert len(found(searched(registry, "send"))) == 2
    assert len(found(searched(registry, "send", limit=4))) == 4
    assert len(found(searched(registry, "send", limit=3.0))) == 3
    assert searched(registry, "send", limit=99).results[0].kind == "invalid_arguments"


@pytest.mark.parametrize("query", ["zzzz", "", '"', "NEAR(", "*", "\x00", "天气", "a" * 100_000])
def test_nothing_found_is_no_error_and_leaves_the_state_alone(query):
    outcome = searched(with_search(MAIL), query)
    assert not outcome.results[0].is_error
    assert outcome.results[0].text.startswith("No tool matches ")
    assert outcome.actions.state_delta == {}


SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "limit": {"type": ["integer", "null"]}, "any": {}, "all": True},
    "required": ["path", "any"],
}
SPECS = [
    (ToolSpec("dig_a", "Does\n\nthis.", SCHEMA), "dig_a: Does this."),
    (ToolSpec("dig_b", title="That"), "dig_b: That"),
    (ToolSpec("dig_c", kind="freeform"), "dig_c"),
    (ToolSpec("dig_d", input_schema={"type": "object", "properties": {"b": {}, "c": {}}, "required": ["c"]}), "dig_d"),
]
ARGUMENTS = [
    "path (string, required), limit (integer or null), any (required), all",
    "none",
    "free text",
    "b, c (required)",
]


def test_the_text_of_a_result():
    registry = with_search(*(Tool(spec.evolve(deferred=True)) for spec, _ in SPECS))
    (result,) = searched(registry, "dig").results
    expected = {f"{head}\n  arguments: {each}" for (_, head), each in zip(SPECS, ARGUMENTS, strict=True)}
    first, *others = result.text.split("\n\n")
    assert first == "Found 4 tools. You can call them in your next response."
    assert set(others) == expected


def test_near_misses_are_reported_as_such():
    assert (
        searched(with_search(MAIL), "mial")
        .results[0]
        .text.startswith("No tool matches 'mial'. These tools have similar names.\nFound 1 tool.")
    )


def test_the_result_is_bounded():
    schema = {"type": "object", "properties": {f"{n}{'p' * 500}": {"type": "string"} for n in range(300)}}
    tools = [make_tool(f"t{n}", description="x" * 10_000, input_schema=schema, deferred=True) for n in range(5)]
    (result,) = searched(with_search(*tools), "t0 t1 t2 t3 t4 " + "q" * 100_000).results
    assert "and 280 more" in result.text
    assert len(result.text) < 5 * (400 + 20 * 100 + 100)


def test_several_searches_of_one_answer_add_up():
    """They don't see each other's changes, and the host stores the last one's."""
    outcome = searched(with_search(MAIL, POST), "mail", "letter", context=state_of("old"))
    assert outcome.actions.state_delta == {FOUND: ["old", "send_mail", "send_post"]}


def test_names_found_again_come_last_and_the_oldest_are_dropped():
    old = [f"t{n}" for n in range(128)]
    outcome = searched(with_search(MAIL), "mail", context=state_of("send_mail", *old[1:]))
    assert outcome.actions.state_delta == {FOUND: [*old[1:], "send_mail"]}
    outcome = searched(with_search(MAIL), "mail", context=state_of(*old))
    assert outcome.actions.state_delta == {FOUND: [*old[1:], "send_mail"]}


def test_names_that_the_host_has_dropped_stay_dropped():
    """A host may reuse one context whose state changes."""
    registry, state = with_search(MAIL, POST, FAX.with_spec(deferred=True)), {}
    context = ReadonlyContext(session="s", state=state)
    searched(registry, "mail", context=context)
    state[FOUND] = ["send_mail"]
    searched(registry, "letter", context=context)
    state[FOUND] = ["send_post"]
    assert searched(registry, "fax", context=context).actions.state_delta == {FOUND: ["send_post", "send_fax"]}


def test_calls_without_a_context_share_nothing():
    registry = with_search(MAIL, POST)
    for query, name in (("mail", "send_mail"), ("letter", "send_post")):
        outcome = asyncio.run(registry.dispatch([ToolCall("search_tools", {"query": query}, "1")]))
        assert outcome.actions.state_delta == {FOUND: [name]}


def test_what_was_found_is_offered_by_the_next_request():
    registry = with_search(MAIL, POST, FAX)

    def processed(context):
        return [tool.name for tool in asyncio.run(registry.process(ModelRequest(), context)).offered]

    assert processed(ReadonlyContext()) == ["search_tools", "send_fax"]
    later = ReadonlyContext(state=searched(registry, "mail").actions.state_delta)
    assert processed(later) == ["search_tools", "send_fax", "send_mail"]
    assert processed(state_of("gone")) == ["search_tools", "send_fax"]


def test_deferred_tools_can_be_found_but_not_called():
    registry, context = with_search(MAIL, FAX), ReadonlyContext(state={})

    async def turn():
        request = await registry.process(ModelRequest(), context)
        calls = [ToolCall("search_tools", {"query": "mail"}, "1"), ToolCall("send_mail", {}, "2")]
        return await registry.dispatch(calls, request.tools, context)

    search, call = asyncio.run(turn()).results
    assert search.metadata == {"found": ["send_mail"]}
    assert call.kind == "not_offered"


def test_a_searchable_toolset_is_a_search_tool_and_the_others_deferred():
    toolset = searchable(INNER)
    offer = offered(toolset)
    assert names(offer) == ["search_tools", "send_mail", "read_file", "current_user"]
    assert deferred(offer) == ["send_mail", "read_file", "current_user"]
    assert offer.problems == ()
    assert [a is b for a, b in zip(offer, offered(toolset), strict=True)] == [True] * 4


@pytest.mark.parametrize(
    "always",
    [
        ["send_mail"],
        ("send_mail", "no_such_tool"),
        "tag:net",
        Matches("tag", "net"),
        lambda tool, context: tool.name == "send_mail",
        lambda tool, context: {"send_mail": True}[tool.name],
    ],
)
def test_always_excludes_tools_from_deferring(always):
    assert deferred(offered(searchable(INNER, always=always))) == ["read_file", "current_user"]


def test_with_nothing_to_find_there_is_no_search_tool():
    assert names(offered(searchable(PlainToolset("empty")))) == []
    everything = offered(searchable(INNER, always="name:*"))
    assert (names(everything), deferred(everything)) == (["send_mail", "read_file", "current_user"], [])


def test_tools_that_only_process_requests_arent_deferred():
    silent = make_tool("memory").evolve(offered=False)
    assert deferred(offered(searchable(PlainToolset("inner", [silent, READ])))) == ["read_file"]
    assert names(offered(searchable(PlainToolset("inner", [silent])))) == ["memory"]


def test_a_tool_that_has_the_search_tools_name_is_held_back():
    inner = PlainToolset("inner", [make_tool("search_tools", description="Mine."), READ])
    offer = offered(searchable(inner))
    assert (names(offer), [each.tool for each in offer.problems]) == (["search_tools", "read_file"], ["search_tools"])
    assert offer[0].spec.description != "Mine."
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


def test_tools_that_are_loaded_late_and_those_that_the_host_runs_are_deferred_too():
    late, _ = late_tool(READ)
    bare = Tool(ToolSpec("bare", "Runs elsewhere."))
    assert deferred(offered(searchable(PlainToolset("inner", [late, bare])))) == ["read_file", "bare"]


@pytest.mark.parametrize(
    "outside",
    [
        lambda toolset: toolset,
        lambda toolset: toolset.prefixed("my"),
        lambda toolset: toolset.renamed({"send_mail": "post"}),
        lambda toolset: toolset.prefixed("my").renamed({"my_send_mail": "post"}).prefixed("x" * 62),
    ],
)
def test_a_found_tool_is_listed_and_called_by_its_new_name(outside):
    registry = with_toolset(outside(searchable(INNER, name="seek")))
    (seek,) = [tool.name for tool in asyncio.run(registry.resolve()) if not tool.spec.deferred]
    outcome = searched(registry, "sends a mail", name=seek)
    (name,) = found(outcome)
    context = ReadonlyContext(state=outcome.actions.state_delta)
    resolved = asyncio.run(registry.resolve(context))
    assert name not in deferred(resolved)
    assert len(deferred(resolved)) == 2
    outcome = asyncio.run(registry.dispatch([ToolCall(name, {}, "2")], resolved, context))
    assert not outcome.results[0].is_error


def test_two_searchable_toolsets_share_the_search_tool_that_is_left():
    registry = with_toolset(searchable(PlainToolset("mail", [MAIL])), searchable(PlainToolset("files", [READ])))
    assert [problem.tool for problem in asyncio.run(registry.resolve()).problems] == ["search_tools"]
    outcome = searched(registry, "mail", "file")
    assert outcome.actions.state_delta == {FOUND: ["send_mail", "read_file"]}
    assert deferred(asyncio.run(registry.resolve(ReadonlyContext(state=outcome.actions.state_delta)))) == []


def test_several_toolsets_are_searched_as_one():
    toolset = searchable(CombinedToolset("all", [PlainToolset("a", [MAIL]), PlainToolset("b", [READ])]))
    assert names(offered(toolset)) == ["search_tools", "send_mail", "read_file"]


def test_users_find_only_what_they_are_offered():
    registry = with_toolset(searchable(StaticToolset("all", [MAIL, READ]).filtered("not user:bob or name:read_file")))
    for user, expected in (("ann", ["send_mail"]), ("bob", []), ("ann", ["send_mail"])):
        assert found(searched(registry, "mail", context=ReadonlyContext(user=user))) == expected


def test_the_plugins_tool_is_offered_where_it_has_something_to_find():
    registry = pegboard.load(config=Config(enable=("search",)))

    def offers(*things):
        with registry.register(*things):
            return names(asyncio.run(registry.process(ModelRequest())).offered)

    assert offers(FAX) == ["send_fax"]
    assert offers(FAX, MAIL) == ["find_tools", "send_fax"]
    assert offers(MAIL, search_tool()) == ["search_tools"]
    with registry.register(MAIL):
        assert found(searched(registry, "mail", name="find_tools")) == ["send_mail"]
