"""Transforms: they change the tools of every source before names are settled, and their handles undo it."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import attrs
import pytest

from pegboard import (
    Always,
    Concurrency,
    Limits,
    Origin,
    Permissions,
    ReadonlyContext,
    Reshape,
    StaticToolset,
    Tool,
    ToolAnnotations,
    ToolRegistry,
    ToolsetBase,
    ToolSpec,
    hookimpl,
    register_plugin,
    tool,
)
from pegboard.errors import RegistrationError, ToolsetError
from pegboard.permissions import Rule
from toolsets.samples import make_tool, object_schema

ANN = ReadonlyContext(user="ann", session="s1")


@tool
def search(words: str) -> str:
    """Searches pages."""
    return f"pages about {words}"


def rename(old, new, *, of=None):
    return lambda tools: tools if of not in (None, tools.name) else tools.renamed({old: new})


@pytest.fixture
def registry():
    return ToolRegistry()


def with_plugin(registry, name, **members):
    """A registered plugin object with these hooks."""
    record = register_plugin(
        registry, type(name, (), {key: staticmethod(hookimpl(each)) for key, each in members.items()}), name
    )
    assert record.status == "loaded", record.cause


def with_tools(registry, name, *tools):
    def pegboard_register_tools(register):
        register(*tools)

    with_plugin(registry, name, pegboard_register_tools=pegboard_register_tools)


def with_transform(registry, name, transform):
    def pegboard_register_transforms(register):
        register(f"of {name}", transform)

    with_plugin(registry, name, pegboard_register_transforms=pegboard_register_transforms)


async def names(registry, **options):
    return (await registry.resolve(ANN, **options)).names


@pytest.mark.parametrize("thing", [search, StaticToolset("web", [search])], ids=["static", "of a toolset"])
async def test_a_tool_is_offered_and_called_as_transformed_until_the_handle_is_disposed(registry, thing):
    registry.register(thing)
    with registry.add(
        "transforms", "plain", lambda tools: tools.renamed({"search": "find"}).described({"find": "Finds pages."})
    ):
        resolved = await registry.resolve(ANN)
        assert [(each.name, each.spec.description) for each in resolved] == [("find", "Finds pages.")]
        assert (await registry.call("find", {"words": "pegs"}, ANN)).text == "pages about pegs"
        assert (await registry.call("search", {"words": "pegs"}, ANN)).kind in ("unknown_tool", "not_offered")
    assert await names(registry) == ("search",)
    assert (await registry.call("search", {"words": "pegs"}, ANN)).text == "pages about pegs"


async def test_the_explanation_of_an_old_name_names_the_tool_that_had_it(registry):
    registry.register(search, make_tool("searcher"))
    registry.add("transforms", "x", rename("search", "find"))
    assert (await registry.resolve(ANN)).explain("search").near == ("find",)


async def test_a_transform_applies_to_tools_that_come_later(registry):
    registry.add("transforms", "all", lambda tools: tools.prefixed("my"))
    registry.register(search)
    registry.register(StaticToolset("web", [make_tool("fetch")]))
    assert await names(registry) == ("my_fetch", "my_search")


async def test_plugins_transforms_come_first_in_load_order_and_then_the_hosts(registry):
    registry.register(search)
    registry.add("transforms", "host", lambda tools: tools.prefixed("host"))
    for name in ("one", "two"):
        with_transform(registry, name, lambda tools, name=name: tools.prefixed(name))
    assert await names(registry) == ("host_two_one_search",)


async def test_a_name_that_only_one_source_has_is_not_noted_for_the_others(registry):
    registry.register(search, StaticToolset("web", [make_tool("fetch")]))
    registry.add("transforms", "x", rename("search", "find"))
    assert (await registry.resolve()).problems == ()


async def test_a_source_is_named_by_its_plugin_its_toolset_or_the_host(registry):
    seen = []
    registry.register(search, StaticToolset("web", [make_tool("fetch")]))
    with_tools(registry, "pages", make_tool("open"))
    registry.add("transforms", "look", lambda tools: seen.append(tools.name) or tools)
    await registry.resolve(ANN)
    await registry.resolve(ANN)
    assert sorted(seen) == ["host", "pages", "web"]  # each once


async def test_a_transform_that_reads_the_context_decides_for_each_request(registry):
    registry.register(search)
    registry.add("transforms", "hide", lambda tools: tools.filtered("not (name:search and model:small*)"))
    offered = {model: (await registry.resolve(ReadonlyContext(model=model))) for model in ("small-1", "large-1")}
    assert {model: tools.names for model, tools in offered.items()} == {"small-1": (), "large-1": ("search",)}
    assert offered["large-1"].depends_on_context
    assert "excluded by the toolset's filter" in str(offered["small-1"].explain("search"))


# Name conflicts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("renamed", ["one", "two"])
async def test_two_plugins_tools_of_one_name_are_both_offered_once_one_is_renamed(registry, renamed):
    with_tools(registry, "one", make_tool("same"))
    with_tools(registry, "two", make_tool("same"))
    assert await names(registry) == ("same",)
    with registry.add("transforms", "apart", rename("same", "other", of=renamed)):
        resolved = await registry.resolve(ANN)
        assert {each.name: each.origin.plugin for each in resolved} == {
            "other": renamed,
            "same": "two" if renamed == "one" else "one",
        }
    assert await names(registry) == ("same",)


async def test_a_plugins_tool_gets_its_name_once_the_hosts_is_renamed_but_not_once_it_is_hidden(registry):
    with_tools(registry, "pages", make_tool("search"))
    registry.register(search)
    with registry.add("transforms", "apart", rename("search", "find", of="host")):
        assert await names(registry) == ("find", "search")
    hides = lambda tools: tools.filtered("not name:search") if tools.name == "host" else tools  # noqa: E731
    registry.add("transforms", "hide", hides)
    assert await names(registry) == ()


@pytest.mark.parametrize("transform", [lambda tools: tools.filtered("not name:search"), lambda tools: 1 / 0])
@pytest.mark.parametrize(("owner", "offered"), [("host", ()), ("pages", ("search",))])
async def test_a_static_tool_that_a_transform_hides_or_loses_keeps_its_name(registry, transform, owner, offered):
    if owner == "host":
        registry.register(search)
    else:
        with_tools(registry, "pages", make_tool("search"))
    registry.register(StaticToolset("web", [make_tool("search")]))
    registry.add("transforms", "x", lambda tools: transform(tools) if tools.name == owner else tools)
    resolved = await registry.resolve(ANN)
    assert resolved.names == offered  # the host may take the name of a plugin's tool
    assert ("the host has the name" in str(resolved.explain("search"))) is not bool(offered)


async def test_no_plugin_takes_the_name_of_a_hidden_tool(registry):
    with_tools(registry, "pages", make_tool("search"))
    with_tools(registry, "other", make_tool("find"))
    registry.add("transforms", "hide", lambda tools: tools.filtered("not plugin:pages"))
    assert await names(registry) == ("find",)
    registry.add("transforms", "take", rename("find", "search"))
    resolved = await registry.resolve(ANN)
    assert resolved.names == ()
    assert "plugin 'pages' has the name" in str(resolved.explain("search"))


async def test_two_distributions_tools_renamed_to_one_name_are_both_held_back(registry):
    for name in ("one", "two"):
        registry.register(make_tool(name), origin=Origin(name, f"dist-{name}", "1.0"))
    registry.add("transforms", "meet", lambda tools: tools.renamed({"one": "met", "two": "met2"}))
    assert await names(registry) == ("met", "met2")
    registry.add("transforms", "clash", rename("met2", "met"))
    resolved = await registry.resolve(ANN)
    assert resolved.names == ()
    assert [problem.tool for problem in resolved.problems] == ["met", "met"]


async def test_predicates_see_the_transformed_tools(registry):
    registry.register(search)
    registry.add("transforms", "x", rename("search", "find"))
    assert await names(registry, where="name:find") == ("find",)
    assert await names(registry, where="not name:find") == ()
    assert await names(registry, active=["find"]) == ("find",)


# Rules, grants, requests, observers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("action", ["ask", "deny"])
async def test_rules_for_the_old_name_still_hold(action):
    registry = ToolRegistry(permissions=Permissions([Rule("search", "*", action)]))
    registry.register(search)
    registry.add("transforms", "x", rename("search", "find"))
    assert (await registry.decide("find", {"words": "pegs"}, ANN)).action == action


async def test_a_rule_for_the_new_name_holds_and_is_not_reported_as_unknown(caplog):
    registry = ToolRegistry(permissions=Permissions([Rule("find", "*", "ask")]))
    registry.register(search)
    registry.add("transforms", "x", rename("search", "find"))
    assert (await registry.decide("find", {"words": "pegs"}, ANN)).action == "ask"
    assert not caplog.text


async def test_a_grant_for_the_old_name_allows_nothing_under_the_new():
    asked = []

    async def approve(request, context):
        asked.append(request.call.name)
        return Always()

    registry = ToolRegistry(permissions=Permissions([Rule("search", "*", "ask")]), approver=approve)
    registry.register(search)
    for _ in range(2):
        await registry.call("search", {"words": "pegs"}, ANN)
    registry.add("transforms", "x", rename("search", "find"))
    await registry.call("find", {"words": "pegs"}, ANN)
    assert asked == ["search", "find"]


async def test_a_request_made_before_keeps_what_it_was_offered(registry):
    registry.register(search)
    before = await registry.resolve(ANN)
    registry.add("transforms", "x", rename("search", "find"))
    assert (await registry.call("search", {"words": "pegs"}, ANN, resolved=before)).text == "pages about pegs"
    assert (await registry.call("find", {"words": "pegs"}, ANN, resolved=before)).is_error


def test_subscribers_are_told_of_a_transform_that_comes_and_goes(registry):
    calls = []
    registry.contributions.on_change(lambda: calls.append(1))
    handle = registry.add("transforms", "x", lambda tools: tools)
    assert calls == [1]
    handle.dispose()
    assert calls == [1, 1]


async def test_a_handle_that_is_stale_leaves_the_transform_that_another_has_registered(registry):
    stale = registry.add("transforms", "x", lambda tools: tools.prefixed("old"), origin=Origin("one"))
    registry.contributions.change(lambda catalogue: catalogue.without_plugin("one"))
    registry.add("transforms", "x", rename("search", "find"))
    registry.register(search)
    stale.dispose()
    assert await names(registry) == ("find",)


async def test_subscribers_are_told_of_a_tool_that_only_transforms_make_available(registry):
    registry.register(search)
    registry.add("transforms", "x", rename("search", "find", of="host"))
    calls = []
    registry.contributions.on_change(lambda: calls.append(1))
    with_tools(registry, "pages", make_tool("search"))
    assert await names(registry) == ("find", "search")
    assert calls == [1]


# A plugin's transforms only tighten -----------------------------------------------------------------------------------


def annotated(hints):
    return lambda tools: tools.with_annotations(
        ToolAnnotations(**{f"{name}_hint": hint for name, hint in hints.items()})
    )


@pytest.mark.parametrize(
    ("own", "given", "by_plugin"),
    [
        ({"read_only": True}, {"read_only": False}, {"read_only": False}),
        ({"read_only": False}, {"read_only": True}, {"read_only": False}),
        ({}, {"read_only": True}, {"read_only": None}),
        ({}, {"destructive": True}, {"destructive": True}),
        ({"destructive": True}, {"destructive": False}, {"destructive": True}),
        ({"open_world": True, "edit": True}, {"open_world": False, "edit": False}, {"open_world": True, "edit": True}),
        ({"idempotent": True}, {"idempotent": False}, {"idempotent": False}),
    ],
)
async def test_the_annotations_of_a_plugins_transform_only_tighten_and_the_hosts_replace(own, given, by_plugin):
    def hints_of(tools):
        return {name: getattr(tools.get("a").spec.annotations, f"{name}_hint") for name in by_plugin}

    first, second = ToolRegistry(), ToolRegistry()
    first.register(make_tool("a", hints=own))
    second.register(make_tool("a", hints=own))
    with_transform(first, "hints", annotated(given))
    second.add("transforms", "hints", annotated(given))
    assert hints_of(await first.resolve()) == by_plugin
    assert hints_of(await second.resolve()) == given


def changed(change):
    """A transform that changes each tool by a function."""
    return lambda tools: tools.prepared(lambda context, own: [change(each) for each in own])


async def test_a_plugins_transform_keeps_what_rules_and_other_calls_go_by():
    registry = ToolRegistry(permissions=Permissions([Rule("notes", "*", "ask"), Rule("write", "secret*", "deny")]))
    facts = {"permission": "notes", "permission_arguments": {"path": "text"}, "requires_confirmation": True}
    written = make_tool("write", input_schema=object_schema(path={"type": "string"}), **facts)
    registry.register(written, origin=Origin("mcp", trusted=False))

    def forget(each):
        spec = each.spec.evolve(name="note", permission=None, permission_arguments={}, requires_confirmation=False)
        return attrs.evolve(each, spec=spec, origin=Origin(), former_names=(), former_permissions=())

    with_transform(registry, "forget", changed(forget))
    (offered,) = await registry.resolve()
    assert (offered.name, offered.former_names) == ("note", ("write",))
    assert (offered.origin.plugin, offered.origin.trusted) == ("mcp", False)
    assert {name: getattr(offered.spec, name) for name in facts} == facts
    assert (await registry.decide("note", {"path": "secret.txt"}, ANN)).action == "deny"
    assert (await registry.decide("note", {"path": "list.txt"}, ANN)).action == "ask"


async def test_a_plugins_transform_takes_no_tag_away():
    registry = ToolRegistry(where="not tag:network")
    registry.register(make_tool("fetch", tags=["network"]), make_tool("size", tags=["files"]))
    with_transform(registry, "tags", changed(lambda each: each.with_spec(tags=["read"])))
    assert [(each.name, each.spec.tags) for each in await registry.resolve()] == [("size", ("files", "read"))]


@pytest.mark.parametrize(("own", "given", "offered"), [("shared", "exclusive", "exclusive"), ("key", "shared", "key")])
async def test_a_plugins_transform_lets_no_more_calls_run_at_once(registry, own, given, offered):
    registry.register(make_tool("a", concurrency=Concurrency(own, ("path",) if own == "key" else ())))
    with_transform(registry, "x", changed(lambda each: each.with_spec(concurrency=Concurrency(given))))
    assert (await registry.resolve()).get("a").spec.concurrency.mode == offered


@pytest.mark.parametrize(
    ("own", "given", "asks"),
    [
        (lambda arguments: arguments["n"] > 1, lambda arguments, context: context.user != "ann", [2]),
        (lambda arguments: arguments["n"] > 1, lambda arguments: arguments["n"] < 1, [0, 2]),
        (lambda arguments: arguments["n"] > 1, None, [2]),
        (None, lambda arguments: arguments["n"] < 1, [0]),
        (lambda arguments: False, lambda arguments: "unclear", [0, 1, 2]),
        (True, lambda arguments: False, [0, 1, 2]),
    ],
    ids=["never", "others", "removed", "more", "unclear", "always"],
)
async def test_a_call_asks_if_its_tool_or_a_plugins_transform_says_so(registry, own, given, asks):
    @tool(requires_confirmation=own or False)
    def count(n: int) -> str:
        """Counts."""
        return str(n)

    def replace(each):
        return attrs.evolve(each, confirms=given, spec=each.spec.evolve(requires_confirmation=False))

    registry.register(count)
    with_transform(registry, "x", changed(replace))
    decisions = {n: (await registry.decide("count", {"n": n}, ANN)).action for n in range(3)}
    assert [n for n, action in decisions.items() if action == "ask"] == asks


async def test_a_function_that_says_what_only_reads_is_not_replaced_by_a_laxer_one():
    @tool(read_only=lambda arguments: not arguments["force"])
    def show(*, force: bool) -> str:
        """Shows."""
        return "shown"

    registry = ToolRegistry(permissions=Permissions(mode="plan"))
    registry.register(show)
    with_transform(registry, "x", changed(lambda each: each.evolve(by_arguments={"read_only": lambda arguments: True})))
    decisions = [(await registry.decide("show", {"force": force}, ANN)).action for force in (False, True)]
    assert decisions == ["allow", "deny"]


async def test_the_functions_of_a_tool_that_a_plugin_reshapes_get_its_own_arguments(registry):
    def check(arguments):
        return [] if arguments["path"] != "bad" else ["path: is bad"]

    @tool(requires_confirmation=lambda arguments: arguments["path"] == "a" and arguments["mode"] == "w", check=check)
    def write(path: str, mode: str) -> str:
        """Writes."""
        return f"{path} {mode}"

    registry.register(write)
    reshape = Reshape(rename={"path": "file"}, hide={"mode": "w"})
    with_transform(registry, "x", lambda tools: tools.reshaped({"write": reshape}))
    assert (await registry.call("write", {"file": "b"}, ANN)).text == "b w"
    assert (await registry.decide("write", {"file": "a"}, ANN)).action == "ask"
    assert "file: is bad" in (await registry.call("write", {"file": "bad"}, ANN)).text


async def test_a_hint_that_depends_on_the_arguments_stays_unless_a_plugin_makes_it_strict_for_all(registry):
    @tool(destructive=lambda arguments: arguments["force"])
    def push(*, force: bool) -> str:
        """Pushes."""
        return "pushed"

    registry.register(push)
    with_transform(registry, "relax", annotated({"destructive": False}))
    (offered,) = await registry.resolve()
    assert offered.by_arguments["destructive"]({"force": True})
    with_transform(registry, "tighten", annotated({"destructive": True}))
    (offered,) = await registry.resolve()
    assert (offered.by_arguments, offered.spec.annotations.destructive_hint) == ({}, True)


async def test_a_plugins_transform_brings_no_tools(registry):
    registry.register(search)
    with_transform(registry, "more", lambda tools: tools.prepared(lambda context, own: [*own, Tool(ToolSpec("extra"))]))
    resolved = await registry.resolve()
    assert resolved.names == ("search",)
    (problem,) = resolved.problems
    assert "'extra' can't be transformed: a plugin's transform only changes tools" in problem.cause


async def test_a_tool_that_a_plugin_leaves_as_it_is_stays_compiled(registry):
    registry.register(search, make_tool("other"))
    with_transform(registry, "some", rename("other", "another"))
    one, other = await registry.resolve(), await registry.resolve()
    assert one.get("search") is other.get("search")
    assert one.get("another") is other.get("another")


# Once ---------------------------------------------------------------------------------------------------------------


async def test_resolutions_at_once_call_a_transform_once_for_each_source(registry):
    calls, both = [], threading.Barrier(2)

    def slow(tools):
        calls.append(tools.name)
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(0.2)  # as long as another call would take to begin
        return tools

    registry.register(search)
    registry.add("transforms", "slow", slow)
    first, second = await asyncio.gather(registry.resolve(ANN), registry.resolve(ANN))
    assert (calls, first.names, second.names) == (["host"], ("search",), ("search",))


async def test_a_change_of_the_catalogue_calls_a_transform_for_what_is_new_only(registry):
    seen = []
    registry.add("transforms", "look", lambda tools: seen.append(tools.name) or tools.prefixed("my"))
    registry.register(search, StaticToolset("web", [make_tool("fetch")]))
    before = await registry.resolve(ANN)
    registry.register(StaticToolset("mail", [make_tool("send")]))
    registry.add_callback("before_tool", lambda: None)
    after = await registry.resolve(ANN)
    assert (sorted(seen[:2]), seen[2:]) == (["host", "web"], ["mail"])
    assert all(after.get(name) is before.get(name) for name in before.names)
    registry.add("transforms", "more", lambda tools: tools)
    await registry.resolve(ANN)
    assert sorted(seen[3:]) == ["host", "mail", "web"]


# Names that nothing has -----------------------------------------------------------------------------------------------


async def test_a_name_that_no_source_has_is_noted_once(registry):
    registry.register(search, StaticToolset("web", [make_tool("fetch")]))
    registry.add("transforms", "x", lambda tools: tools.renamed({"serach": "find"}).described({"fetch": "Fetches."}))
    (note,) = (await registry.resolve()).problems
    assert note.note
    assert "no tool is called 'serach', which was to be renamed. Did you mean 'search'?" in note.cause


async def test_a_name_that_a_source_had_or_may_have_is_not_noted(registry):
    class Sometimes(ToolsetBase):
        name = "sometimes"

        async def tools(self, context):
            if context.user == "bob":
                raise ValueError
            return [make_tool("fetch")] if context.user == "ann" else []

    registry.register(search, Sometimes())
    registry.add("transforms", "x", rename("fetch", "get"))
    assert [each.note for each in (await registry.resolve(ReadonlyContext(user="bob"))).problems] == [False]
    assert (await registry.resolve(ANN)).problems == ()
    assert (await registry.resolve(ReadonlyContext(user="eve"))).problems == ()
    assert (await registry.resolve(toolsets=[])).problems == ()


async def test_the_notes_of_a_toolset_itself_stay(registry):
    registry.register(search, StaticToolset("web", [make_tool("fetch")]).renamed({"search": "find"}))
    registry.add("transforms", "x", lambda tools: tools)
    (note,) = (await registry.resolve()).problems
    assert "no tool is called 'search', which was to be renamed" in note.cause


async def test_a_tool_that_a_transform_makes_available_is_no_longer_explained_as_held_back(registry):
    with_tools(registry, "one", make_tool("same"))
    with_tools(registry, "two", make_tool("same"))
    assert "is held back" in str((await registry.resolve(ANN)).explain("same"))
    registry.add("transforms", "apart", rename("same", "other", of="two"))
    assert "is held back" not in str((await registry.resolve(ANN)).explain("same"))


# Failures -------------------------------------------------------------------------------------------------------------


def fails(tools):
    raise KeyError(tools.name)


@pytest.mark.parametrize(
    ("transform", "cause"),
    [(fails, "KeyError: 'web'"), (lambda tools: None, "TypeError: it has to return a toolset, not NoneType")],
    ids=["raises", "no toolset"],
)
async def test_the_tools_of_a_source_whose_transform_fails_are_not_offered(registry, transform, cause):
    registry.register(search, StaticToolset("web", [make_tool("fetch")]))
    registry.add("transforms", "bad", lambda tools: transform(tools) if tools.name == "web" else tools)
    resolved = await registry.resolve()
    assert resolved.names == ("search",)
    (problem,) = resolved.problems
    assert f"transform 'bad' of the host failed, so these tools aren't offered: {cause}" in str(problem)
    with pytest.raises(ToolsetError, match="transform 'bad'") as caught:
        await registry.resolve(on_toolset_error="fail")
    assert caught.value.toolset == "web"


async def test_a_transform_of_the_static_tools_that_fails_is_raised_with_the_name_of_its_source(registry):
    registry.register(search)
    registry.add("transforms", "bad", fails)
    assert await names(registry) == ()
    with pytest.raises(ToolsetError) as caught:
        await registry.resolve(on_toolset_error="fail")
    assert caught.value.toolset == "host"


async def test_a_transform_that_hangs_loses_the_tools_of_its_source_only():
    registry, end = ToolRegistry(limits=Limits(toolset_timeout=0.2)), threading.Event()
    registry.register(search, StaticToolset("web", [make_tool("fetch")]))
    registry.add("transforms", "slow", lambda tools: (tools.name == "web" and end.wait(60), tools)[1])
    resolved = await registry.resolve()
    end.set()
    assert resolved.names == ("search",)
    assert "no answer within 0.2 s" in str(resolved.problems[0])


@pytest.mark.parametrize("thing", [5, "text", fails.__code__])
def test_a_transform_has_to_be_a_function(registry, thing):
    with pytest.raises(RegistrationError, match="transform 'bad' has to be a plain function"):
        registry.add("transforms", "bad", thing)


def test_a_transform_has_to_be_plain(registry):
    async def bad(tools):
        return tools

    with pytest.raises(RegistrationError, match="plain function"):
        registry.add("transforms", "bad", bad)
