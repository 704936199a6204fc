from __future__ import annotations

import asyncio
import collections
import gc
import weakref

import pytest

from pegboard.callbacks import Flavour
from pegboard.errors import DefinitionError, SchemaError
from pegboard.schema import validator
from pegboard.schema.json import JsonText
from pegboard.tools.context import EMPTY_CONTEXT, ReadonlyContext, ToolContext
from pegboard.tools.spec import Origin, ToolSpec
from pegboard.tools.tool import Tool
from pegboard.toolsets import toolset as module
from pegboard.toolsets.predicates import Custom, Matches, Predicate, edit, everything
from pegboard.toolsets.toolset import (
    Offer,
    OwnedToolset,
    Step,
    ToolMapper,
    Toolset,
    WrapperToolset,
    _close,
    ask_all,
    check_once,
    check_tools,
    error_text,
    explain_filter,
    filter_tools,
    is_toolset,
    map_tool,
    toolset_name,
    with_instructions,
)
from pegboard.toolsets.toolsets import StaticToolset
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
def test_what_has_a_name_and_tools_is_a_toolset(thing):
    assert is_toolset(thing)
    assert isinstance(thing, Toolset)


@pytest.mark.parametrize("thing", [make_tool(), PlainToolset, Nameless(), "name", None, print])
def test_what_has_not_is_none(thing):
    assert not is_toolset(thing)


def test_a_name_that_cannot_be_had_is_the_classs():
    assert (toolset_name(PlainToolset("a")), toolset_name(Nameless()), toolset_name(Unnamed())) == (
        "a",
        "Nameless",
        "Unnamed",
    )


def test_closing_takes_plain_and_async_and_none():
    for toolset in (PlainToolset(), Closing()):
        asyncio.run(_close(toolset))
        assert toolset.closed == 1
    asyncio.run(_close(Nameless()))


class Speaking(PlainToolset):
    def __init__(self, given, *inner):
        super().__init__()
        self.instructions = given
        self.inner_toolsets = inner


class Unwilling(PlainToolset):
    @property
    def instructions(self):
        raise RuntimeError("not today")


def test_those_speak_that_have_instructions_or_else_those_inside():
    a, b, unwilling = Speaking("a"), Speaking(["b"]), Unwilling()
    assert list(with_instructions(PlainToolset())) == []
    assert list(with_instructions(Speaking(None, a, PlainToolset(), Speaking(None, b), unwilling))) == [a, b, unwilling]
    outer = Speaking("outer", a)
    assert list(with_instructions(outer)) == [outer]


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"input_schema": BOMB}, "input_schema is refused: it expands to more than 100000 schemas"),
        ({"output_schema": BOMB}, "output_schema is refused: it expands to more than 100000 schemas"),
        ({"input_schema": {"type": "string"}}, "input_schema is refused: its root must be"),
        ({"input_schema": JsonText("nonsense")}, "input_schema is refused: it isn't JSON"),
        ({"input_schema": {"type": "object", "patternProperties": 5}}, "input_schema is refused: patternProperties"),
        ({"input_schema": {"type": "object", "$ref": "http://x"}}, "input_schema is refused: its reference 'http://x'"),
    ],
)
def test_a_schema_that_cannot_judge_is_refused(facts, said):
    for _ in range(2):
        with pytest.raises(SchemaError) as caught:
            check_once(make_tool("bad", **facts))
        assert str(caught.value).startswith(f"tool 'bad': {said}")


def test_a_tool_is_checked_once(monkeypatch):
    tool = make_tool("a", input_schema={"type": "object", "title": "once"})
    check_once(tool)
    monkeypatch.setattr(validator, "check_schema", None)
    check_once(tool)


def test_a_tool_is_not_kept_alive():
    before = len(module._checked)
    check_once(make_tool())
    gc.collect()
    assert len(module._checked) <= before


OWNER = Origin(plugin="mcp", distribution="pegboard-mcp", version="1.0", trusted=False)


def test_a_plugins_tools_carry_its_name_whatever_they_say():
    inner = PlainToolset("server", [make_tool("a", plugin="files", distribution="pegboard-files")])
    (tool,) = offered(OwnedToolset(inner, OWNER))
    assert tool.origin == Origin("mcp", "pegboard-mcp", "1.0", "server", trusted=False)


def test_the_hosts_toolset_may_pass_on_a_plugins_tools():
    (tool,) = offered(OwnedToolset(PlainToolset("mine", [make_tool("a", plugin="files", trusted=False)])))
    assert tool.origin == Origin("files", toolset="mine", trusted=False)


def test_problems_are_the_owners():
    (problem,) = offered(OwnedToolset(PlainToolset("server", [None]), OWNER)).problems
    assert (problem.toolset, problem.origin) == ("server", OWNER)


def test_an_unsound_tool_of_a_made_up_offer_costs_only_itself():
    inner = PlainToolset("t", Offer([make_tool("bad", input_schema=BOMB), make_tool("good")]))
    offer = offered(OwnedToolset(inner))
    assert ([tool.name for tool in offer], [each.tool for each in offer.problems]) == (["good"], ["bad"])


def shout(tool):
    return tool.with_spec(name=tool.name.upper())


def test_a_tool_found_late_is_changed_once_it_is_found():
    late, loads = late_tool(make_tool("a", description="loaded"))
    changed = map_tool(late, shout)
    assert (changed.name, loads.count) == ("A", 0)
    loaded = changed.handler.load()
    assert (loaded.name, loaded.spec.description, loads.count) == ("A", "loaded", 1)


def test_the_same_tool_gives_the_same_tool():
    mapper, tool = ToolMapper(shout), make_tool("a")
    assert mapper.one(tool) is mapper.one(tool)
    assert mapper.one(make_tool("a")) is not mapper.one(tool)


def test_tools_that_are_no_longer_offered_are_forgotten():
    mapper = ToolMapper(shout)
    gone = [weakref.ref(mapper.one(make_tool(f"t{index}"))) for index in range(300)]
    kept = make_tool("kept")
    first = mapper.one(kept)
    mapper.trim([kept])
    gc.collect()
    assert not any(reference() for reference in gone)
    assert mapper.one(kept) is first


@pytest.mark.parametrize("kind", [list, tuple, collections.UserList])
def test_any_sequence_of_tools_will_do(kind):
    tool = make_tool()
    assert check_tools("t", kind([tool])) == ([tool], [])


def test_what_is_no_tool_costs_only_itself():
    tool = make_tool()
    tools, problems = check_tools("t", ["x", tool, None])
    assert tools == [tool]
    assert [str(problem) for problem in problems] == [
        "toolset 't': item 0 isn't a Tool but str; for a function that @tool decorates, return tool_of(function)",
        "toolset 't': item 2 isn't a Tool but NoneType; for a function that @tool decorates, return tool_of(function)",
    ]


def test_a_second_tool_of_a_name_costs_only_itself():
    first, second = make_tool("a"), make_tool("a")
    tools, problems = check_tools("t", [first, second, first])
    assert tools == [first]
    assert [(problem.tool, "two tools called 'a'" in problem.cause) for problem in problems] == [("a", True)]


def test_many_problems_are_cut_short():
    _, problems = check_tools("t", [None] * 50)
    assert len(problems) == 21
    assert problems[-1].cause == "and 30 more problems of this kind"


def test_a_list_without_end_is_refused(monkeypatch):
    monkeypatch.setattr(module, "_MOST_TOOLS", 3)
    with pytest.raises(ValueError, match="at most 3 tools"):
        check_tools("t", [None] * 4)


class SpeechlessError(Exception):
    def __str__(self):
        raise self.args[0]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("a\n b"), "ValueError: a b"),
        (ValueError(), "ValueError"),
        (SpeechlessError(RuntimeError), "SpeechlessError"),
        (SpeechlessError(KeyboardInterrupt), "SpeechlessError"),
        (DefinitionError("no such argument", parameter="x"), "'x': no such argument"),
        (ValueError("x" * 5000), "ValueError: " + "x" * 500),
    ],
)
def test_an_error_in_one_short_line(error, text):
    assert error_text(error) == text


def test_an_unsound_tool_costs_only_itself():
    good, bad = make_tool("good"), make_tool("bad", input_schema=BOMB)
    tools, problems = check_tools("t", [bad, good])
    assert tools == [good]
    assert [(each.tool, type(each.error)) for each in problems] == [("bad", SchemaError)]
    assert str(problems[0]).startswith("toolset 't': tool 'bad': input_schema is refused: it expands to more than")


def filter_now(tools, predicate, context):
    return asyncio.run(filter_tools(tools, predicate, context, None))


TOOLS = [make_tool(name) for name in ("b", "a", "c")]


def fails_for_a(tool, context):
    if tool.name == "a":
        raise KeyError("owner")
    return True


def test_where_it_raises_that_tool_is_out_even_behind_a_not():
    for predicate in (Custom(fails_for_a), ~~Custom(fails_for_a), ~(~Custom(fails_for_a) & everything)):
        kept, faults = filter_now(TOOLS, predicate, EMPTY_CONTEXT)
        assert (names(kept), faults) == (["b", "c"], {"a": "KeyError: 'owner'"})
    kept, faults = filter_now(TOOLS, ~Custom(fails_for_a), EMPTY_CONTEXT)
    assert (names(kept), list(faults)) == ([], ["a"])


class Broken(dict):
    def __contains__(self, key):
        raise OSError("no state")


def test_where_it_cannot_even_be_bound_every_tool_is_out():
    kept, faults = filter_now(TOOLS, Matches("state.a", "b") | everything, ReadonlyContext(state=Broken()))
    assert (kept, faults) == ([], dict.fromkeys("bac", "OSError: no state"))
    assert "failed: " in explain_filter(
        Matches("state.a", "b"), TOOLS[0], ReadonlyContext(state=Broken()), {}, passed=False
    )


def test_why_names_the_part_and_what_the_tool_says():
    tool = make_tool("a", tags=["x", "y z"])
    assert (
        explain_filter(Matches("name", "a") & Matches("tag", "net"), tool, EMPTY_CONTEXT, {}, passed=False)
        == 'tag:net is not so (tag: x, "y z")'
    )
    assert (
        explain_filter(Matches("name", "a") & ~Matches("tag", "x"), tool, EMPTY_CONTEXT, {}, passed=False)
        == 'tag:x is so (tag: x, "y z")'
    )
    assert (
        explain_filter(edit | Matches("name", "a"), tool, EMPTY_CONTEXT, {}, passed=False) == "name:a is so (name: a)"
    )
    assert explain_filter(edit, tool, EMPTY_CONTEXT, {}, passed=False) == "edit is not so"
    assert explain_filter(Custom(exits), tool, EMPTY_CONTEXT, {}, passed=False) == "<custom> is not so"


def odd(error):
    def predicate(tool, context):
        raise error

    return Custom(predicate)


@pytest.mark.parametrize("error", [GeneratorExit(), SystemExit()])
def test_whatever_a_predicate_raises_costs_only_the_tool(error):
    assert filter_now(TOOLS[:1], odd(error), EMPTY_CONTEXT) == ([], {"b": type(error).__name__})


def test_an_interrupt_passes_on():
    with pytest.raises(KeyboardInterrupt):
        filter_now(TOOLS, odd(KeyboardInterrupt()), EMPTY_CONTEXT)
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


def test_a_plain_call_runs_where_plain_functions_run():
    (tool,) = asyncio.run(WrapperToolset(Plain(tools=[bare("a")])).tools(EMPTY_CONTEXT))
    assert (tool.handler.flavour, tool.handler.blocking) == (Flavour.PLAIN, True)
    assert called(tool, {}) == "a"


def test_the_same_tool_is_served_by_the_same_tool():
    """What is compiled for it is compiled once."""
    source = WrapperToolset(CallingToolset(tools=[bare("a")]))
    first, second = (asyncio.run(source.tools(EMPTY_CONTEXT)) for _ in range(2))
    assert first[0] is second[0]


def changing(error):
    def change(tool):
        if tool.name == "a":
            raise error
        return tool

    return WrapperToolset(PlainToolset("t", [make_tool("a"), make_tool("b")]), Step("changed", change))


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
    """Answers only when all of a party are being asked."""

    def __init__(self, name, party):
        super().__init__(name, [make_tool(name)])
        self.party = party

    async def tools(self, context):
        await self.party.wait()
        return self.answer


def test_all_are_asked_at_the_same_time():
    party = asyncio.Barrier(3)
    offers = asked(*(Meeting(name, party) for name in "abc"))
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
    assert [problem.toolset for problem in broken.problems] == ["broken"]
    assert type(error).__name__ in causes(broken)[0]
    assert (len(broken), [tool.name for tool in whole], whole.problems) == (0, ["a"], ())


@pytest.mark.parametrize("answer", [None, "abc", {}, 3])
def test_one_that_lies_costs_only_its_own(answer):
    liar, whole = asked(PlainToolset("liar", answer), PlainToolset("whole", [make_tool("a")]))
    assert "list of tools" in causes(liar)[0]
    assert [tool.name for tool in whole] == ["a"]


def test_one_that_hangs_is_cancelled_and_costs_only_its_own():
    hanging = Hanging()
    offer, whole = asked(hanging, PlainToolset("whole", [make_tool("a")]), timeout=0.01)
    assert causes(offer) == ["TimeoutError: no answer within 0.01 s (toolset_timeout)"]
    assert hanging.cancelled == 1
    assert [tool.name for tool in whole] == ["a"]


def test_one_that_hangs_may_say_what_to_do():
    class Told(Hanging):
        async def tools(self, context):
            try:
                return await super().tools(context)
            except BaseException as error:
                error.add_note("wait longer")
                raise

    (offer,) = asked(Told(), timeout=0.01)
    assert causes(offer) == ["TimeoutError: no answer within 0.01 s (toolset_timeout); wait longer"]


def test_one_that_ignores_its_cancellation_is_closed():
    stubborn = Hanging(stubborn=True)
    (offer,) = asked(stubborn, timeout=0.01)
    assert causes(offer) == ["TimeoutError: no answer within 0.01 s (toolset_timeout)"]
    assert stubborn.cancelled == 1


class Suicidal(PlainToolset):
    async def tools(self, context):
        asyncio.current_task().cancel()
        await asyncio.sleep(0)


def test_one_that_cancels_its_own_task_costs_only_its_own():
    (offer,) = asked(Suicidal("odd"))
    assert "CancelledError" in causes(offer)[0]


async def test_whoever_gives_up_waiting_takes_the_toolsets_with_it():
    hanging = Hanging()
    waiting = asyncio.ensure_future(ask_all([WrapperToolset(hanging)], EMPTY_CONTEXT, 30))
    await hanging.asked.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await asyncio.sleep(0)
    assert hanging.cancelled == 1


class OddError(BaseException):
    """Neither an `Exception` nor an end of the program."""


@pytest.mark.parametrize("slow", [False, True])
def test_an_interrupt_costs_only_its_own_and_asyncio_has_nothing_to_complain_of(caplog, slow):
    hanging = [Hanging()] if slow else []
    *_, offer = asked(*hanging, PlainToolset("interrupted", error=KeyboardInterrupt()), timeout=0.01)
    assert causes(offer) == ["KeyboardInterrupt"]
    gc.collect()
    assert caplog.messages == []


class Dying(Hanging):
    """Raises when it is cancelled."""

    async def tools(self, context):
        try:
            await super().tools(context)
        finally:
            raise OddError


async def test_what_one_raises_that_was_given_up_is_looked_at(caplog):
    offers = await ask_all([WrapperToolset(Dying())], EMPTY_CONTEXT, 0.01)
    await asyncio.sleep(0)
    (offer,) = offers
    gc.collect()
    assert (causes(offer), caplog.messages) == (["OddError"], [])


def exits(tool, context):
    raise SystemExit(2)


def test_what_has_a_handler_keeps_it():
    late, _ = late_tool(make_tool("late"))
    tools = [make_tool("a"), late, bare("web", kind="provider", provider_id="openai.web_search")]
    assert list(asyncio.run(WrapperToolset(CallingToolset(tools=tools)).tools(EMPTY_CONTEXT))) == tools
