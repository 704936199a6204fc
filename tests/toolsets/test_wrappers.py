from __future__ import annotations

import asyncio
import inspect
import threading

import pytest
from hypothesis import given, strategies as st

from pegboard import (
    CombinedToolset,
    Concurrency,
    Problem,
    ReadonlyContext,
    Reshape,
    Tool,
    ToolAnnotations,
    ToolContext,
    ToolsetResult,
    ToolSpec,
    wrap,
)
from pegboard.errors import DefinitionError, InvalidNameError, RegistrationError, SchemaError
from pegboard.json import StructureError
from pegboard.tools import EMPTY_CONTEXT, Handler, is_valid_name
from pegboard.toolsets import CachedToolset, wrappers as module
from pegboard.toolsets.predicates import Matches, read_only
from pegboard.toolsets.wrappers import _reshape_tool, prefixed_name
from toolsets.samples import (
    CallingToolset,
    PlainToolset,
    called,
    late_tool,
    make_tool,
    names,
    object_schema,
    offered,
)

INNER = PlainToolset("inner", [make_tool("a", tags=["net"]), make_tool("b"), make_tool("c", tags=["net"])])


@pytest.mark.parametrize("predicate", [Matches("tag", "net"), "tag:net", lambda tool, context: "net" in tool.spec.tags])
def test_filtered_keeps_matching_tools(predicate):
    assert names(offered(wrap(INNER).filtered(predicate))) == ["a", "c"]


def test_filtered_reports_dropped_tools_with_their_reason():
    offer = offered(wrap(INNER).filtered("tag:net and not name:a"))
    assert [(each.tool, each.step, each.text) for each in offer.dropped] == [
        ("a", "filtered", "not name:a (name: a)"),
        ("b", "filtered", "tag:net (tag: none)"),
    ]


def fails(tool, context):
    raise KeyError(tool.name)


READ = ToolAnnotations(read_only_hint=True)


@pytest.mark.parametrize(
    ("change", "step"),
    [
        (lambda toolset: toolset.filtered(fails), "filtered"),
        (lambda toolset: toolset.with_annotations(READ, fails), "annotated"),
    ],
)
def test_where_a_predicate_raises_the_tool_is_out_and_a_problem_reported(change, step):
    offer = offered(change(wrap(INNER)))
    assert (names(offer), [each.step for each in offer.dropped]) == ([], [step] * 3)
    assert str(offer.problems[0]) == f"toolset 'inner': tool 'a' can't be {step}: KeyError: 'a'"


tool_names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", fullmatch=True)
prefixes = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,15}", fullmatch=True)


@given(prefixes, tool_names)
def test_prefixed_names_are_valid_and_contain_prefix_and_name(prefix, name):
    prefixed = prefixed_name(prefix, name)
    assert is_valid_name(prefixed)
    if len(prefix) + len(name) < 64:
        assert prefixed.startswith(prefix)
        assert prefixed.endswith(name)


@given(prefixes, tool_names, tool_names)
def test_prefixing_keeps_names_distinct(prefix, first, second):
    assert (prefixed_name(prefix, first) == prefixed_name(prefix, second)) is (first == second)


@pytest.mark.parametrize(("prefix", "name"), [("git", "git_push"), ("git_", "git_push"), ("git-", "git-push")])
def test_prefix_and_name_are_separated(prefix, name):
    assert prefixed_name(prefix, "push") == name


def test_a_call_reaches_the_toolset_under_its_own_name():
    toolset = CallingToolset(tools=[Tool(ToolSpec("push", "", {"type": "object"}))])
    (tool,) = offered(wrap(wrap(toolset).prefixed("git")).prefixed("my"))
    assert tool.name == "my_git_push"
    assert called(tool, {"x": 1}) == {"ran": "push"}


@pytest.mark.parametrize("prefix", ["", "1", "a b", "é", "a."])
def test_a_prefix_with_which_no_name_can_start_is_refused(prefix):
    with pytest.raises(InvalidNameError):
        wrap(PlainToolset()).prefixed(prefix)


TWO = PlainToolset("inner", [make_tool("a"), make_tool("b")])


def test_only_what_is_named_is_renamed():
    tools = offered(wrap(TWO).renamed({"a": "alpha", "absent": "x"}))
    assert (names(tools), tools.has_failed) == (["alpha", "b"], False)
    assert tools[1] is TWO.answer[1]
    assert called(tools[0], {}) == {}


@pytest.mark.parametrize(
    ("toolset", "offered_names", "without", "left_out"),
    [
        (wrap(TWO).renamed({"a": "b", "b": "a"}), ["b", "a"], [], []),
        (wrap(TWO).renamed({"b": "a"}), ["a"], ["a"], []),  # a name that is taken stays with the first
        (wrap(TWO).filtered("edit").renamed({"a": "alpha"}), [], [], ["alpha", "b"]),
        (wrap(TWO).filtered("edit").prefixed("git"), [], [], ["git_a", "git_b"]),
    ],
)
def test_problems_and_dropped_tools_have_the_new_names(toolset, offered_names, without, left_out):
    offer = offered(toolset)
    assert names(offer) == offered_names
    assert [problem.tool for problem in offer.problems] == without
    assert [each.tool for each in offer.dropped] == left_out


def test_an_invalid_new_name_is_refused():
    with pytest.raises(InvalidNameError):
        wrap(TWO).renamed({"a": "al pha"})


def test_two_tools_cannot_get_one_name():
    with pytest.raises(RegistrationError, match="'a' and 'b' can't both be renamed to 'c'"):
        wrap(TWO).renamed({"a": "c", "b": "c"})


def test_an_unknown_name_is_noted():
    offer = offered(wrap(TWO).renamed({"bb": "x"}))
    assert [(each.cause, each.note) for each in offer.problems] == [
        ("no tool is called 'bb', which was to be renamed. Did you mean 'b'?", True)
    ]
    assert (names(offer), offer.has_failed) == (["a", "b"], False)


def test_a_tool_that_was_there_before_or_is_filtered_out_is_not_noted():
    inner = PlainToolset("inner", [make_tool("a")])
    toolset = wrap(inner).renamed({"a": "alpha"})
    offered(toolset)
    inner.answer = []
    assert offered(toolset).problems == ()
    assert offered(wrap(TWO).filtered("edit").renamed({"a": "alpha"})).problems == ()


def test_unknown_names_arent_noted_where_a_toolset_failed():
    broken = CombinedToolset("both", [PlainToolset("down", error=OSError("down"))])
    (problem,) = offered(wrap(broken).renamed({"a": "alpha"})).problems
    assert problem.subject == "toolset 'down'"


def test_many_unknown_names_are_noted_without_near_misses():
    offer = offered(wrap(TWO).renamed({f"a{n}": f"x{n}" for n in range(30)}))
    assert len(offer.problems) == 20
    assert "Did you mean" not in str(offer.problems[0])


def test_given_hints_replace_and_unset_ones_leave():
    inner = PlainToolset(tools=[make_tool("a", hints={"read_only": False, "open_world": True})])
    (tool,) = offered(wrap(inner).with_annotations(READ))
    assert tool.spec.annotations == ToolAnnotations(read_only_hint=True, open_world_hint=True)


def test_a_predicate_picks_the_tools():
    inner = PlainToolset(tools=[make_tool("get_x"), make_tool("set_x")])
    tools = offered(wrap(inner).with_annotations(READ, Matches("name", "get_*")))
    assert [read_only(tool, EMPTY_CONTEXT) for tool in tools] == [True, False]
    assert tools[1] is inner.answer[1]


def test_of_an_untrusted_tools_hints_only_those_that_add_caution_stay():
    claims = {"read_only": True, "idempotent": True, "destructive": False, "open_world": True, "edit": True}
    inner = PlainToolset(tools=[make_tool("a", hints=claims, trusted=False)])
    (tool,) = offered(wrap(inner).with_annotations(ToolAnnotations(idempotent_hint=True)))
    assert tool.spec.annotations == ToolAnnotations(idempotent_hint=True, open_world_hint=True, edit_hint=True)
    assert tool.origin.trusted


def needs(tool):
    return tool.spec.requires_confirmation


def test_every_call_is_confirmed_even_where_the_tool_picks_its_own():
    picky = make_tool("a").evolve(confirms=lambda arguments: False)
    (tool,) = offered(wrap(PlainToolset(tools=[picky])).requiring_approval())
    assert (needs(tool), tool.confirms) == (True, None)


def test_a_predicate_picks_the_tools_for_each_context():
    inner = PlainToolset(tools=[make_tool("a"), make_tool("b")])
    toolset = wrap(inner).requiring_approval(Matches("name", "a") & Matches("user", "guest"))
    assert [needs(tool) for tool in offered(toolset, ReadonlyContext(user="guest"))] == [True, False]
    assert [needs(tool) for tool in offered(toolset, ReadonlyContext(user="root"))] == [False, False]


def for_users_only(context, tools):
    return [tool for tool in tools if context.user or tool.name == "a"]


async def with_one_more(context, tools):
    return (*tools, make_tool("c"))


def test_the_function_makes_the_tools_for_each_context():
    toolset = wrap(TWO).prepared(for_users_only)
    assert names(offered(toolset, ReadonlyContext(user="ann"))) == ["a", "b"]
    offer = offered(toolset)
    assert (names(offer), [(each.tool, each.step) for each in offer.dropped]) == (["a"], [("b", "prepared")])


def test_it_may_be_async_and_add_tools():
    assert names(offered(wrap(TWO).prepared(with_one_more))) == ["a", "b", "c"]


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def counting(*tools, **options):
    inner = PlainToolset("inner", list(tools) or [make_tool("a")])
    clock = Clock()
    return inner, clock, CachedToolset(inner, 60, clock, **options)


def test_a_cached_toolset_is_queried_once_within_its_ttl():
    inner, clock, toolset = counting()
    first = offered(toolset)
    clock.now += 59.9
    assert offered(toolset) is first
    assert len(inner.contexts) == 1
    clock.now += 0.1
    assert names(offered(toolset)) == ["a"]
    assert len(inner.contexts) == 2
    toolset.clear()
    offered(toolset)
    assert len(inner.contexts) == 3


@pytest.mark.parametrize("part", ["user", "agent", "model", "provider", "session"])
def test_each_identity_has_its_own_cache_entry(part):
    inner, _, toolset = counting()
    for value in ("a", "b", "a"):
        offered(toolset, ReadonlyContext(**{part: value}))
    assert [getattr(context, part) for context in inner.contexts] == ["a", "b"]


def test_the_key_can_be_chosen():
    inner, _, toolset = counting(key=lambda context: context.state.get("plan"))
    for user, plan in (("ann", "pro"), ("bob", "pro"), ("ann", "free")):
        offered(toolset, ReadonlyContext(user=user, state={"plan": plan}))
    assert [context.state["plan"] for context in inner.contexts] == ["pro", "free"]


def test_the_oldest_entry_is_dropped_from_a_full_cache(monkeypatch):
    monkeypatch.setattr(module, "MOST_KEPT", 2)
    inner, _, toolset = counting()
    for user in ("a", "b", "c", "b", "a"):
        offered(toolset, ReadonlyContext(user=user))
    assert [context.user for context in inner.contexts] == ["a", "b", "c", "a"]


@pytest.mark.parametrize("ttl", [0, -1, float("nan")])
def test_the_ttl_has_to_be_above_zero(ttl):
    with pytest.raises(ValueError, match="more than 0 seconds"):
        CachedToolset(PlainToolset(), ttl)


class Gated(PlainToolset):
    """Answers when the gate opens; counts queries and cancellations."""

    def __init__(self, error=None):
        super().__init__("gated", [make_tool("a")], error)
        self.gate = asyncio.Event()
        self.begun = 0
        self.cancelled = 0

    async def tools(self, context):
        self.begun += 1
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return await super().tools(context)


def waiting(toolset, count):
    return [asyncio.ensure_future(toolset.tools(EMPTY_CONTEXT)) for _ in range(count)]


async def until(condition):
    while not condition():  # noqa: ASYNC110  there is no event to wait for
        await asyncio.sleep(0)


async def test_concurrent_resolutions_share_one_query():
    inner = Gated()
    tasks = waiting(CachedToolset(inner, 60), 5)
    await until(lambda: inner.begun)
    inner.gate.set()
    answers = await asyncio.gather(*tasks)
    assert (inner.begun, len(set(map(id, answers)))) == (1, 1)


@pytest.mark.parametrize("error", [OSError("down"), SystemExit(3)])
async def test_failures_arent_cached(error):
    inner = Gated(error)
    toolset = CachedToolset(inner, 60)
    inner.gate.set()
    for _ in range(2):
        with pytest.raises(type(error)):
            await toolset.tools(EMPTY_CONTEXT)
    inner.error = None
    inner.answer = [make_tool("a"), None]  # an answer with problems isn't cached either
    assert ([names(await toolset.tools(EMPTY_CONTEXT)) for _ in range(2)], inner.begun) == ([["a"], ["a"]], 4)


async def test_an_answer_with_problems_of_single_tools_is_cached():
    inner = Gated()
    inner.gate.set()
    inner.answer = ToolsetResult([make_tool("a")], [Problem("no schema", "b")])
    toolset = CachedToolset(inner, 60)
    first, second = [await toolset.tools(EMPTY_CONTEXT) for _ in range(2)]
    assert (first is second, [each.tool for each in second.problems], inner.begun) == (True, ["b"], 1)


async def test_after_a_cancellation_the_next_waiter_queries():
    inner = Gated()
    toolset = CachedToolset(inner, 60)
    first, second, third = waiting(toolset, 3)
    await until(lambda: inner.begun)
    first.cancel()
    await until(lambda: inner.begun == 2)
    inner.gate.set()
    assert (await second is await third, inner.begun, inner.cancelled) == (True, 2, 1)


async def test_a_query_begun_before_clear_isnt_cached():
    inner = Gated()
    toolset = CachedToolset(inner, 60)
    (before,) = waiting(toolset, 1)
    await until(lambda: inner.begun)
    toolset.clear()
    (after,) = waiting(toolset, 1)
    await until(lambda: inner.begun == 2)
    inner.gate.set()
    assert (await before is await after, await toolset.tools(EMPTY_CONTEXT) is await after) == (False, True)


def test_each_event_loop_has_its_own_query():
    """A lock of one loop can't be awaited in another."""
    inner, _, toolset = counting()
    inner.error = OSError("down")
    for _ in range(2):
        with pytest.raises(OSError, match="down"):
            asyncio.run(toolset.tools(EMPTY_CONTEXT))
    assert len(inner.contexts) == 2


SCHEMA = object_schema(
    required=["q", "limit"],
    q={"type": "string", "description": "Query."},
    limit={"type": "integer"},
    deep=True,
    lang={"enum": ["en", "de"]},
)


def test_a_reshape_changes_the_shown_schema():
    reshape = Reshape(
        rename={"q": "query", "deep": "thorough"},
        hide={"lang": "en"},
        default={"limit": 5, "deep": False},
        retype={"q": {"type": "string", "maxLength": 9}},
        describe={"q": "What to look for."},
    )
    assert reshape.reshape_schema(SCHEMA) == object_schema(
        required=["query"],
        query={"type": "string", "maxLength": 9, "description": "What to look for."},
        limit={"type": "integer", "default": 5},
        thorough={"default": False},
    )
    assert list(reshape.reshape_schema(SCHEMA)["properties"]) == ["query", "limit", "thorough"]


def test_a_hidden_value_never_reaches_the_schema():
    schema = {**SCHEMA, "examples": [{"q": "s3cret"}], "default": {"q": "s3cret"}}
    assert "s3cret" not in str(Reshape(hide={"q": "s3cret"}).reshape_schema(schema))


def test_a_value_is_fresh_for_every_call():
    reshape = Reshape(hide={"lang": ["en"]}, default={"deep": {}})
    first = reshape.original_arguments({})
    first["lang"].append("de")
    first["deep"]["x"] = 1
    assert reshape.original_arguments({}) == {"lang": ["en"], "deep": {}}


@pytest.mark.parametrize(
    "other", [{"rename": {"a": "b"}}, {"default": {"a": 1}}, {"retype": {"a": {}}}, {"describe": {"a": "x"}}]
)
def test_a_reshape_that_contradicts_itself_is_refused(other):
    with pytest.raises(DefinitionError, match="hidden"):
        Reshape(hide={"a": 1}, **other)


@pytest.mark.parametrize(
    ("reshape", "schema", "reason"),
    [
        ({"rename": {"limits": "x"}}, SCHEMA, "no such argument. Did you mean 'limit'"),
        ({"hide": {"zzz": 1}}, {"type": "object"}, "There are none"),
        ({"rename": {"q": "limit"}}, SCHEMA, "two arguments would be called 'limit'"),
        ({"rename": {"q": "x", "limit": "x"}}, SCHEMA, "two arguments would be called 'x'"),
        ({"rename": {"q": "x"}}, {**SCHEMA, "dependentRequired": {"q": ["limit"]}}, "'dependentRequired' at its root"),
        ({"rename": {"q": "x"}}, {**SCHEMA, "allOf": []}, "'allOf' at its root"),
        ({"rename": {"q": "x"}}, {**SCHEMA, "not": {"$ref": "#"}}, "'not' at its root"),
        ({"rename": {"q": "x"}}, object_schema(q={"$ref": "#"}), "reference '#'"),
        (
            {"rename": {"q": "x"}},
            object_schema(q={"items": [{"$ref": "#/properties/y"}]}),
            "reference '#/properties/y'",
        ),
    ],
)
def test_a_schema_that_cannot_be_reshaped_safely_is_refused(reshape, schema, reason):
    with pytest.raises(DefinitionError, match=reason):
        Reshape(**reshape).reshape_schema(schema)


def test_references_to_definitions_and_extensions_stay():
    schema = {**object_schema(q={"$ref": "#/$defs/Q"}), "$defs": {"Q": {"type": "string"}}, "x-order": 1}
    shown = Reshape(rename={"q": "x"}).reshape_schema(schema)
    assert (shown["properties"], shown["$defs"], shown["x-order"]) == ({"x": {"$ref": "#/$defs/Q"}}, schema["$defs"], 1)


def test_an_invalid_hidden_value_isnt_shown_in_the_error():
    """It may be a secret."""
    with pytest.raises(DefinitionError, match="'limit': its hidden value doesn't fit") as caught:
        Reshape(hide={"limit": "s3cret"}).reshape_schema(SCHEMA)
    assert "s3cret" not in str(caught.value)


def test_an_invalid_default_is_shown_in_the_error():
    with pytest.raises(DefinitionError) as caught:
        Reshape(default={"limit": "no"}).reshape_schema(SCHEMA)
    assert str(caught.value) == """'limit': its default doesn't fit: (root): must be an integer, got string "no\""""


def test_values_are_validated_with_the_definitions_of_the_root():
    schema = {**object_schema(q={"$ref": "#/$defs/Q"}), "$defs": {"Q": {"type": "string"}}}
    assert Reshape(hide={"q": "a"}).reshape_schema(schema)["properties"] == {}
    with pytest.raises(DefinitionError, match="its hidden value"):
        Reshape(hide={"q": 5}).reshape_schema(schema)


SCHEMA_RESHAPED = object_schema(
    required=["q", "limit"], q={"type": "string"}, limit={"type": "integer", "maximum": 10}, lang={"enum": ["en", "de"]}
)


def search(*, checks=None, **facts):
    return make_tool("search", input_schema=SCHEMA_RESHAPED, **facts).evolve(checks=checks)


def test_what_is_listed_and_what_is_called_change_together():
    reshape = Reshape(rename={"q": "query"}, hide={"lang": "en"}, default={"limit": 3})
    (tool,) = offered(wrap(PlainToolset(tools=[search()])).reshaped({"search": reshape}))
    assert list(tool.spec.input_schema["properties"]) == ["query", "limit"]
    assert called(tool, {"query": "a"}) == {"q": "a", "limit": 3, "lang": "en"}
    assert called(tool, {"query": "a", "limit": 9}) == {"q": "a", "limit": 9, "lang": "en"}
    assert not tool.validator.accepts({"q": "a"})
    assert not tool.validator.accepts({"query": "a", "lang": "de"})


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
    renamed = _reshape_tool(tool, Reshape(rename=rename))
    shown = {rename[name]: value for name, value in arguments.items()}
    assert renamed.validator.accepts(shown) is tool.validator.accepts(arguments)
    if tool.validator.accepts(arguments):
        assert called(renamed, shown) == arguments


def test_a_wider_type_is_still_validated_by_the_tools_schema():
    tool = _reshape_tool(search(), Reshape(rename={"limit": "most"}, retype={"limit": {"type": ["integer", "string"]}}))
    assert called(tool, {"q": "a", "most": 5}) == {"q": "a", "limit": 5}
    bad = {"q": "a", "most": "ten"}
    assert tool.validator.accepts(bad)
    (problem,) = tool.checks(bad)
    assert problem.startswith("most: ")
    assert "most" in tool.check(bad)[0]


def test_one_text_of_the_tools_own_check_is_one_problem():
    tool = _reshape_tool(search(checks=lambda arguments: "q: is empty"), Reshape(rename={"q": "query"}))
    assert tool.check({"query": "", "limit": 1}) == ("query: is empty",)


def test_a_hidden_value_that_the_tool_refuses_raises_a_definition_error():
    """The model couldn't correct it."""
    tool = _reshape_tool(search(checks=lambda arguments: ["limit: too much"]), Reshape(hide={"limit": 5}))
    with pytest.raises(DefinitionError, match="'limit': its hidden value is refused"):
        tool.checks({"q": "a"})


def test_hidden_arguments_cannot_be_reached_by_name():
    open_schema = {"type": "object", "properties": {"q": {}, "root": {}}}
    tool = _reshape_tool(make_tool(input_schema=open_schema), Reshape(rename={"q": "query"}, hide={"root": "/safe"}))
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
def test_structuring_errors_have_the_new_name(path, shown):
    tool = _reshape_tool(picky(path), Reshape(rename={"q": "query"}))
    with pytest.raises(StructureError) as caught:
        tool.bind(ToolContext(), {"query": "a", "limit": 1})
    assert (caught.value.path, caught.value.reason) == (shown, "is no date")


def test_structuring_errors_of_a_hidden_value_raise_a_definition_error():
    tool = _reshape_tool(picky(("q",)), Reshape(hide={"q": "a"}))
    with pytest.raises(DefinitionError, match="'q'"):
        tool.bind(ToolContext(), {"limit": 1})


def test_the_tools_functions_get_its_own_names():
    seen = []

    def see(arguments):
        seen.append(dict(arguments))
        return ["q: is empty", "query: stays", "(root): odd", "qq: stays"]

    tool = search().evolve(preview=see, confirms=see, checks=see, by_arguments={"destructive": see})
    shown = _reshape_tool(tool, Reshape(rename={"q": "query"}, hide={"lang": "en"}))
    arguments = {"query": "", "limit": 1}
    assert shown.checks(arguments) == ["query: is empty", "query: stays", "(root): odd", "qq: stays"]
    assert "context" not in inspect.signature(shown.confirms).parameters
    shown.preview(arguments)
    shown.confirms(arguments)
    shown.by_arguments["destructive"](arguments)
    assert seen == [{"q": "", "limit": 1, "lang": "en"}] * 4


def test_examples_are_reshaped_or_dropped():
    tool = search(examples=[{"q": "a", "limit": 1, "lang": "en"}, {"q": "b", "limit": 2}])
    shown = _reshape_tool(tool, Reshape(rename={"q": "query"}, hide={"lang": "de"}))
    assert shown.spec.examples == ({"query": "a", "limit": 1}, {"query": "b", "limit": 2})
    assert _reshape_tool(tool, Reshape(retype={"lang": {"const": "de"}})).spec.examples == ({"q": "b", "limit": 2},)


def test_the_concurrency_key_is_renamed_or_becomes_exclusive():
    tool = search(concurrency=Concurrency("key", ("q", "lang"), "read"))
    assert _reshape_tool(tool, Reshape(rename={"q": "x"})).spec.concurrency == Concurrency("key", ("x", "lang"), "read")
    assert _reshape_tool(tool, Reshape(hide={"lang": "en"})).spec.concurrency == Concurrency("exclusive")
    assert _reshape_tool(tool, Reshape(default={"q": "a"})).spec.concurrency == Concurrency("exclusive")


def test_a_lazy_tool_is_reshaped_once_it_is_loaded():
    late, loads = late_tool(search())
    inner = PlainToolset(tools=[late])
    (tool,) = offered(wrap(inner).reshaped({"search": Reshape(rename={"q": "query"})}))
    assert ("query" in tool.spec.input_schema["properties"], loads.count) == (True, 0)
    assert called(tool.handler.load(), {"query": "a", "limit": 1}) == {"q": "a", "limit": 1}


@pytest.mark.parametrize("tool", [make_tool("t", kind="freeform"), Tool(ToolSpec("t"))])
def test_only_functions_with_a_handler_can_be_reshaped(tool):
    with pytest.raises(DefinitionError, match="only function tools"):
        _reshape_tool(tool, Reshape())


def test_a_tool_that_cannot_be_reshaped_costs_only_itself():
    inner = PlainToolset("t", [search(), make_tool("other")])
    offer = offered(wrap(inner).reshaped({"search": Reshape(rename={"limits": "x"})}))
    assert names(offer) == ["other"]
    assert "tool 'search' can't be reshaped: 'limits': there is no such argument" in str(offer.problems[0])
    assert [(each.tool, each.step) for each in offer.dropped] == [("search", "reshaped")]


@pytest.mark.parametrize(
    ("retype", "reason"),
    [
        ({"type": "text"}, "properties.q"),
        # In the shown schema, the reference points to something else.
        ({"$defs": {"A": {"type": "string"}}, "$ref": "#/$defs/A"}, "points to nothing in it"),
    ],
)
def test_an_invalid_retyped_schema_is_refused(retype, reason):
    with pytest.raises(SchemaError, match=reason):
        _reshape_tool(search(), Reshape(retype={"q": retype}))


def test_a_predicate_function_runs_off_the_event_loop():
    threads = []
    inner = PlainToolset("t", [make_tool("a")])
    asked = wrap(inner).filtered(lambda tool, context: threads.append(threading.current_thread()) is None)
    assert names(offered(asked)) == ["a"]
    assert threads[0] is not threading.main_thread()
