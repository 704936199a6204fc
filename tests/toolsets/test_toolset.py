from __future__ import annotations

import asyncio
import collections
import gc
import weakref

import pytest
from attrs import evolve

from pegboard import (
    CombinedToolset,
    Origin,
    Predicate,
    Problem,
    ReadonlyContext,
    StaticToolset,
    Tool,
    ToolAnnotations,
    ToolContext,
    Toolset,
    ToolsetFunction,
    ToolsetResult,
    ToolSpec,
    wrap,
)
from pegboard.callbacks import CallableKind
from pegboard.contributions import is_toolset
from pegboard.errors import DefinitionError, SchemaError
from pegboard.json import JsonText
from pegboard.schema import validator
from pegboard.tools import EMPTY_CONTEXT
from pegboard.toolsets import ToolMapper, check_tool_schemas, error_text, toolset as module
from pegboard.toolsets.filters import explain_filter, filter_now
from pegboard.toolsets.predicates import Custom, Matches, edit, everything
from pegboard.toolsets.toolset import (
    OwnedToolset,
    Reason,
    ToolChange,
    WrapperToolset,
    _close,
    ask_all,
    check_result,
    toolset_name,
    toolsets_with_instructions,
)
from toolsets.samples import (
    BOMB,
    CallingToolset,
    Closing,
    Hanging,
    PlainToolset,
    called,
    late_tool,
    make_tool,
    names,
    offered,
)


class Nameless:
    name = None

    async def tools(self, context):
        return []


class Unnamed:
    @property
    def name(self):
        raise RuntimeError("no name today")


@pytest.mark.parametrize("thing", [PlainToolset(), StaticToolset("s", [])])
def test_an_object_with_a_name_and_tools_is_a_toolset(thing):
    assert is_toolset(thing)
    assert isinstance(thing, Toolset)


@pytest.mark.parametrize("thing", [make_tool(), PlainToolset, Nameless(), "name", None, print])
def test_without_a_name_or_tools_it_isnt_a_toolset(thing):
    assert not is_toolset(thing)


def test_without_a_name_of_its_own_it_is_named_by_its_class():
    assert (toolset_name(PlainToolset("a")), toolset_name(Nameless()), toolset_name(Unnamed())) == (
        "a",
        "Nameless",
        "Unnamed",
    )


def test_close_may_be_plain_async_or_missing():
    for toolset in (PlainToolset(), Closing()):
        asyncio.run(_close(toolset))
        assert toolset.closed == 1
    asyncio.run(_close(Nameless()))


class Instructing(PlainToolset):
    def __init__(self, instructions, *inner):
        super().__init__()
        self.instructions = instructions
        self.inner_toolsets = inner


class Raising(PlainToolset):
    @property
    def instructions(self):
        raise RuntimeError("not today")


def test_instructions_are_the_toolsets_or_else_those_of_inner_ones():
    a, b, raising = Instructing("a"), Instructing(["b"]), Raising()
    assert list(toolsets_with_instructions(PlainToolset())) == []
    outer = Instructing(None, a, PlainToolset(), Instructing(None, b), raising)
    assert list(toolsets_with_instructions(outer)) == [a, b, raising]
    outer = Instructing("outer", a)
    assert list(toolsets_with_instructions(outer)) == [outer]


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"input_schema": BOMB}, "input_schema is refused: it expands to more than 100000 schemas"),
        ({"output_schema": BOMB}, "output_schema is refused: it expands to more than 100000 schemas"),
        ({"input_schema": {"type": "string"}}, "input_schema is refused: its root must be"),
        ({"input_schema": JsonText("nonsense")}, "input_schema is refused: it isn't JSON"),
        ({"input_schema": {"type": "object", "patternProperties": 5}}, "input_schema is refused: patternProperties"),
        ({"input_schema": {"type": "object", "$ref": "http://x"}}, "input_schema is refused: its reference 'http://x'"),
    ],
)
def test_an_invalid_schema_is_refused(facts, reason):
    for _ in range(2):
        with pytest.raises(SchemaError) as caught:
            check_tool_schemas(make_tool("bad", **facts))
        assert str(caught.value).startswith(f"tool 'bad': {reason}")


def test_a_tool_is_checked_once(monkeypatch):
    tool = make_tool("a", input_schema={"type": "object", "title": "once"})
    check_tool_schemas(tool)
    monkeypatch.setattr(validator, "check_schema", None)
    check_tool_schemas(tool)


def test_the_check_doesnt_keep_a_tool_alive():
    before = len(module._checked)
    check_tool_schemas(make_tool())
    gc.collect()
    assert len(module._checked) <= before


OWNER = Origin(plugin="mcp", distribution="pegboard-mcp", version="1.0", trusted=False)


def test_a_plugins_tools_have_its_origin():
    inner = PlainToolset("server", [make_tool("a", plugin="files", distribution="pegboard-files")])
    (tool,) = offered(OwnedToolset(inner, OWNER))
    assert tool.origin == Origin("mcp", "pegboard-mcp", "1.0", "server", trusted=False)


def test_a_tool_keeps_its_source_under_its_owners_origin():
    inner = PlainToolset("server", [make_tool("a", plugin="files", source="llm-tools-sqlite"), make_tool("b")])
    with_source, without = offered(OwnedToolset(inner, OWNER))
    assert without.origin == evolve(OWNER, toolset="server")
    assert with_source.origin == evolve(without.origin, source="llm-tools-sqlite")
    assert offered(OwnedToolset(inner))[0].origin == Origin("files", toolset="server", source="llm-tools-sqlite")
    owner = evolve(OWNER, source="all-of-it")
    assert [tool.origin.source for tool in offered(OwnedToolset(inner, owner))] == ["llm-tools-sqlite", "all-of-it"]


def test_the_hosts_toolset_may_pass_on_a_plugins_tools():
    (tool,) = offered(OwnedToolset(PlainToolset("mine", [make_tool("a", plugin="files", trusted=False)])))
    assert tool.origin == Origin("files", toolset="mine", trusted=False)


def test_problems_have_the_origin_of_their_toolset():
    (problem,) = offered(OwnedToolset(PlainToolset("server", [None]), OWNER)).problems
    facts = (problem.subject, problem.plugin, problem.distribution)
    assert facts == ("toolset 'server'", OWNER.plugin, OWNER.distribution)


def test_an_invalid_tool_of_a_foreign_offer_costs_only_itself():
    inner = PlainToolset("t", ToolsetResult([make_tool("bad", input_schema=BOMB), make_tool("good")]))
    offer = offered(OwnedToolset(inner))
    assert ([tool.name for tool in offer], [each.tool for each in offer.problems]) == (["good"], ["bad"])


def upper(tool):
    return tool.with_spec(name=tool.name.upper())


def test_a_lazy_tool_is_changed_once_it_is_loaded():
    late, loads = late_tool(make_tool("a", description="loaded"))
    changed = ToolMapper(upper).one(late)
    assert (changed.name, loads.count) == ("A", 0)
    loaded = changed.handler.load()
    assert (loaded.name, loaded.spec.description, loads.count) == ("A", "loaded", 1)


def test_tools_no_longer_offered_are_dropped_from_the_cache():
    mapper = ToolMapper(upper)
    gone = [weakref.ref(mapper.one(make_tool(f"t{index}"))) for index in range(300)]
    still_offered = make_tool("still_offered")
    first = mapper.one(still_offered)
    mapper.trim([still_offered])
    gc.collect()
    assert not any(reference() for reference in gone)
    assert mapper.one(still_offered) is first


@pytest.mark.parametrize("kind", [list, tuple, collections.UserList])
def test_any_sequence_of_tools_is_accepted(kind):
    tool = make_tool()
    assert [*check_result(kind([tool]))] == [tool]


def test_bad_items_and_repeated_names_are_left_out_with_a_problem_each():
    first, second, bad = make_tool("a"), make_tool("a"), make_tool("bad", input_schema=BOMB)
    offer = check_result(["x", first, second, None, first, bad])
    assert [*offer] == [first]
    *others, refused = offer.problems
    advice = "for a function that @tool decorates, return tool_of(function)"
    assert [(str(each), each.tool) for each in others] == [
        (f"item 0 isn't a Tool but str; {advice}", None),
        ("it has two tools called 'a'; the first is offered", "a"),
        (f"item 3 isn't a Tool but NoneType; {advice}", None),
    ]
    assert (refused.tool, type(refused.error)) == ("bad", SchemaError)
    assert str(refused).startswith("tool 'bad': input_schema is refused: it expands to more than")


def reported(*problems, tools=(), wrapped=lambda toolset: toolset):
    """What a host sees of what a plugin's toolset reports."""
    inner = PlainToolset("t", ToolsetResult(tools, problems))
    return offered(OwnedToolset(wrapped(wrap(inner)), OWNER)).problems


def test_a_reported_problem_names_its_tool_and_its_toolset():
    problems = reported(
        Problem("its schema is empty", "get_pet", fix="mend it"), Problem("tool 'b' is new", "b"), Problem("no key")
    )
    assert [(str(each), each.tool, each.fix) for each in problems] == [
        ("toolset 't': tool 'get_pet': its schema is empty", "get_pet", "mend it"),
        ("toolset 't': tool 'b' is new", "b", None),
        ("toolset 't': no key", None, None),
    ]


def test_a_toolset_cant_report_in_the_name_of_another():
    claims = {"plugin": "files", "distribution": "x", "offers": frozenset({("models", "m")})}
    (problem,) = reported(Problem("down", subject="toolset 'files'", **claims))
    assert (str(problem), problem.plugin, problem.distribution, problem.offers) == (
        "toolset 't': toolset 'files': down",
        OWNER.plugin,
        OWNER.distribution,
        frozenset(),
    )


def test_reported_problems_are_bounded_with_hidden_characters_visible():
    *_, last, more = problems = reported(*(Problem(f"a\u202e\nb{'x' * 10**6}", fix="y" * 10**6) for _ in range(50)))
    assert (len(problems), more.cause) == (21, "and 30 more problems of this kind")
    assert last.cause.startswith(r"a\u{202e} bxxx")
    assert len(last.cause) < 1_100 > len(last.fix)


def test_what_isnt_a_problem_is_refused():
    with pytest.raises(TypeError, match="problems must be of type Problem, got 'broken'"):
        ToolsetResult([], ["broken"])
    with pytest.raises(TypeError, match="problems must be a collection of Problem, got 'broken'"):
        ToolsetResult([], "broken")


@pytest.mark.parametrize("facts", [{"tool": 3}, {"error": "text"}, {"note": "yes"}, {"fix": 3}])
def test_facts_of_another_type_dont_get_far(facts):
    (problem,) = reported(Problem(ValueError("no"), **facts))
    assert "no" in problem.cause
    assert (problem.note, problem.error) == (False, None)
    assert problem.to_json()


@pytest.mark.parametrize(
    ("wrapped", "tool"),
    [
        (lambda toolset: toolset.prefixed("p"), "p_gone"),
        (lambda toolset: toolset.renamed({"gone": "lost"}), "lost"),
        (lambda toolset: toolset.filtered("name:none"), "gone"),
        (lambda toolset: toolset.prepared(lambda context, tools: tools), "gone"),
        (lambda toolset: toolset.prepared(lambda context, tools: ToolsetResult(tools, [])), "gone"),
        (lambda toolset: toolset.requiring_approval().with_annotations(ToolAnnotations()), "gone"),
        (lambda toolset: toolset.cached(60), "gone"),
        (lambda toolset: CombinedToolset("all", [toolset]), "gone"),
        (lambda toolset: toolset.cached(60).prefixed("p").cached(60), "p_gone"),
    ],
)
def test_wrappers_keep_what_is_reported(wrapped, tool):
    (problem,) = reported(Problem("no schema", "gone"), tools=[make_tool("a")], wrapped=wrapped)
    assert (problem.subject, problem.cause, problem.tool) == ("toolset 't'", "tool 'gone': no schema", tool)


def test_functions_of_toolsets_and_of_wrappers_may_report():
    one = ToolsetFunction("f", lambda: ToolsetResult([make_tool("a"), make_tool("a")], [Problem("no schema", "b")]))
    more = one.prepared(lambda context, tools: ToolsetResult(tools, [Problem("too long", "c")]))
    assert [each.tool for each in offered(OwnedToolset(more)).problems] == ["b", "a", "c"]


def test_the_tools_of_a_result_are_checked_and_run_by_their_toolset():
    inner = CallingToolset(tools=ToolsetResult([bare("a"), bare("a"), 3]))
    (tool,) = offer = offered(OwnedToolset(inner))
    assert called(tool, {}) == {"ran": "a"}
    assert len(offer.problems) == 2


def test_only_reasons_are_kept_of_what_was_left_out():
    reason = Reason("mine", "out", "why", "a")
    assert offered(OwnedToolset(PlainToolset("t", ToolsetResult([], dropped=["x", reason])))).dropped == (reason,)


def test_the_number_of_problems_is_bounded():
    problems = check_result([None] * 50).problems
    assert len(problems) == 21
    assert problems[-1].cause == "and 30 more problems of this kind"


def test_too_many_tools_are_refused(monkeypatch):
    monkeypatch.setattr(module, "_MOST_TOOLS", 3)
    with pytest.raises(ValueError, match="at most 3 tools"):
        check_result([None] * 4)


def test_pegboards_own_errors_are_shown_without_their_type():
    assert error_text(ValueError("a\n b")) == "ValueError: a b"
    assert error_text(DefinitionError("no such argument", parameter="x")) == "'x': no such argument"


TOOLS = [make_tool(name) for name in ("b", "a", "c")]


def fails_for_a(tool, context):
    if tool.name == "a":
        raise KeyError("owner")
    return True


def test_where_a_predicate_raises_the_tool_is_out_even_if_negated():
    for predicate in (Custom(fails_for_a), ~~Custom(fails_for_a), ~(~Custom(fails_for_a) & everything)):
        kept, faults = filter_now(TOOLS, predicate, EMPTY_CONTEXT)
        assert (names(kept), faults) == (["b", "c"], {"a": "KeyError: 'owner'"})
    kept, faults = filter_now(TOOLS, ~Custom(fails_for_a), EMPTY_CONTEXT)
    assert (names(kept), list(faults)) == ([], ["a"])


class Broken(dict):
    def __contains__(self, key):
        raise OSError("no state")


def test_where_a_predicate_cant_be_bound_every_tool_is_out():
    kept, faults = filter_now(TOOLS, Matches("state.a", "b") | everything, ReadonlyContext(state=Broken()))
    assert (kept, faults) == ([], dict.fromkeys("bac", "OSError: no state"))
    assert "failed: " in explain_filter(Matches("state.a", "b"), TOOLS[0], ReadonlyContext(state=Broken()), {})


def test_an_explanation_names_the_deciding_part_and_its_facts():
    tool = make_tool("a", tags=["x", "y z"])
    assert (
        explain_filter(Matches("name", "a") & Matches("tag", "net"), tool, EMPTY_CONTEXT, {})
        == 'tag:net (tag: x, "y z")'
    )
    assert (
        explain_filter(Matches("name", "a") & ~Matches("tag", "x"), tool, EMPTY_CONTEXT, {})
        == 'not tag:x (tag: x, "y z")'
    )
    assert explain_filter(edit | Matches("name", "a"), tool, EMPTY_CONTEXT, {}) == "name:a (name: a)"
    assert explain_filter(edit, tool, EMPTY_CONTEXT, {}) == "edit"
    assert explain_filter(Custom(exits), tool, EMPTY_CONTEXT, {}) == "<custom>"


def raising(error):
    def predicate(tool, context):
        raise error

    return Custom(predicate)


@pytest.mark.parametrize("error", [GeneratorExit(), SystemExit()])
def test_whatever_a_predicate_raises_costs_only_the_tool(error):
    assert filter_now(TOOLS[:1], raising(error), EMPTY_CONTEXT) == ([], {"b": type(error).__name__})


def test_an_interrupt_in_the_main_thread_is_raised():
    with pytest.raises(KeyboardInterrupt):
        filter_now(TOOLS, raising(KeyboardInterrupt()), EMPTY_CONTEXT)
    with pytest.raises(KeyboardInterrupt):
        filter_now(TOOLS, Interrupted(), EMPTY_CONTEXT)


class Interrupted(Predicate):
    def bound(self, context):
        raise KeyboardInterrupt

    def to_json(self): ...

    def __str__(self): ...


def bare(name="bare", **facts):
    return Tool(ToolSpec(name, "", {"type": "object"}, **facts))


def test_a_tool_without_a_handler_is_run_by_its_toolset():
    toolset = CallingToolset(tools=[bare("a")])
    (tool,) = asyncio.run(WrapperToolset(toolset).tools(EMPTY_CONTEXT))
    assert called(tool, {"x": 1}, ToolContext(ReadonlyContext(user="ann"))) == {"ran": "a"}
    assert toolset.calls == [("a", {"x": 1}, "ann")]


class Plain(PlainToolset):
    def call(self, name, arguments, context):
        return name


def test_a_plain_call_method_runs_in_a_thread():
    (tool,) = asyncio.run(WrapperToolset(Plain(tools=[bare("a")])).tools(EMPTY_CONTEXT))
    assert (tool.handler.flavour, tool.handler.blocking) == (CallableKind.PLAIN, True)
    assert called(tool, {}) == "a"


def test_the_same_tool_is_offered_for_the_same_tool():
    """What is compiled for it is compiled once."""
    source = WrapperToolset(CallingToolset(tools=[bare("a")]))
    first, second = (asyncio.run(source.tools(EMPTY_CONTEXT)) for _ in range(2))
    assert first[0] is second[0]


def changing(error):
    def change(tool):
        if tool.name == "a":
            raise error
        return tool

    return WrapperToolset(PlainToolset("t", [make_tool("a"), make_tool("b")]), ToolChange("changed", change))


@pytest.mark.parametrize("error", [ValueError("no"), GeneratorExit("no"), SystemExit("no"), KeyboardInterrupt("no")])
def test_whatever_a_change_raises_costs_only_the_tool(error):
    offer = offered(changing(error))
    kind = type(error).__name__
    assert (names(offer), [each.cause for each in offer.problems]) == (
        ["b"],
        [f"tool 'a' can't be changed: {kind}: no"],
    )


def asked(*toolsets, timeout=30):
    return asyncio.run(ask_all([WrapperToolset(toolset) for toolset in toolsets], EMPTY_CONTEXT, timeout))


def causes(offer):
    return [problem.cause for problem in offer.problems]


class Meeting(PlainToolset):
    """Answers only once all of several are being queried."""

    def __init__(self, name, barrier):
        super().__init__(name, [make_tool(name)])
        self.barrier = barrier

    async def tools(self, context):
        await self.barrier.wait()
        return self.answer


def test_toolsets_are_queried_concurrently():
    barrier = asyncio.Barrier(3)
    offers = asked(*(Meeting(name, barrier) for name in "abc"))
    assert [[tool.name for tool in offer] for offer in offers] == [["a"], ["b"], ["c"]]


@pytest.mark.parametrize(
    "error",
    [
        OSError("down"),
        SystemExit(3),
        KeyboardInterrupt(),
        asyncio.CancelledError("odd"),
        RecursionError("deep"),
        TimeoutError("slow"),
    ],
)
def test_one_that_raises_costs_only_its_own(error):
    broken, whole = asked(PlainToolset("broken", error=error), PlainToolset("whole", [make_tool("a")]))
    assert [problem.subject for problem in broken.problems] == ["toolset 'broken'"]
    assert type(error).__name__ in causes(broken)[0]
    assert (len(broken), [tool.name for tool in whole], whole.problems) == (0, ["a"], ())


@pytest.mark.parametrize("answer", [None, "abc", {}, 3])
def test_an_answer_of_another_type_costs_only_its_own_tools(answer):
    wrong, whole = asked(PlainToolset("wrong", answer), PlainToolset("whole", [make_tool("a")]))
    assert "list of tools" in causes(wrong)[0]
    assert [tool.name for tool in whole] == ["a"]


def test_toolsets_that_hang_are_cancelled_and_may_add_advice():
    """Even one that ignores its cancellation."""

    class Advising(Hanging):
        async def tools(self, context):
            try:
                return await super().tools(context)
            except BaseException as error:
                error.add_note("wait longer")
                raise

    hanging = [Hanging(), Hanging(stubborn=True), Advising()]
    *offers, whole = asked(*hanging, PlainToolset("whole", [make_tool("a")]), timeout=0.01)
    late = "TimeoutError: no answer within 0.01 s (toolset_timeout)"
    assert [causes(offer) for offer in offers] == [[late], [late], [f"{late}; wait longer"]]
    assert [each.cancelled for each in hanging] == [1, 1, 1]
    assert [tool.name for tool in whole] == ["a"]


class SelfCancelling(PlainToolset):
    async def tools(self, context):
        asyncio.current_task().cancel()
        await asyncio.sleep(0)


def test_one_that_cancels_its_own_task_costs_only_its_own_tools():
    (offer,) = asked(SelfCancelling("odd"))
    assert "CancelledError" in causes(offer)[0]


async def test_cancelling_a_resolution_cancels_its_toolsets():
    hanging = Hanging()
    waiting = asyncio.ensure_future(ask_all([WrapperToolset(hanging)], EMPTY_CONTEXT, 30))
    await hanging.asked.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await asyncio.sleep(0)
    assert hanging.cancelled == 1


class OddError(BaseException):
    """Neither an `Exception` nor a program exit."""


@pytest.mark.parametrize("slow", [False, True])
def test_an_interrupt_costs_only_its_own_tools_and_asyncio_logs_nothing(caplog, slow):
    hanging = [Hanging()] if slow else []
    *_, offer = asked(*hanging, PlainToolset("interrupted", error=KeyboardInterrupt()), timeout=0.01)
    assert causes(offer) == ["KeyboardInterrupt"]
    gc.collect()
    assert caplog.messages == []


class RaisingAtCancellation(Hanging):
    """Raises another error when it is cancelled."""

    async def tools(self, context):
        try:
            await super().tools(context)
        finally:
            raise OddError


async def test_an_error_raised_at_cancellation_is_retrieved(caplog):
    offers = await ask_all([WrapperToolset(RaisingAtCancellation())], EMPTY_CONTEXT, 0.01)
    await asyncio.sleep(0)
    (offer,) = offers
    gc.collect()
    assert (causes(offer), caplog.messages) == (["OddError"], [])


def exits(tool, context):
    raise SystemExit(2)


def test_existing_handlers_stay():
    late, _ = late_tool(make_tool("late"))
    tools = [make_tool("a"), late, bare("web", kind="provider", provider_id="openai.web_search")]
    assert list(asyncio.run(WrapperToolset(CallingToolset(tools=tools)).tools(EMPTY_CONTEXT))) == tools
