from __future__ import annotations

import asyncio
import threading

import attrs
import pytest
from hypothesis import given, strategies as st

from message_strategies import MESSAGES
from pegboard import (
    BudgetTools,
    CallFault,
    CombinedToolset,
    ImageContent,
    LimitResults,
    ModelRequest,
    NamedTool,
    Origin,
    ReadonlyContext,
    StaticToolset,
    TextContent,
    Tool,
    ToolCall,
    ToolResult,
    ToolSpec,
)
from pegboard.callbacks import nonblocking
from pegboard.messages import CallPart, HostedPart, Message, ResultPart, TextPart
from pegboard.request.pipeline import Runner
from pegboard.request.processors import (
    _MOST_CHARACTERS,
    DEFAULT_PIPELINE,
    LEAST,
    _estimate_tokens,
    _instructions,
    _pack_tools,
    _rebuilt,
    _repair_history,
    _shorten,
    _tool_requests,
)
from pegboard.tools import EMPTY_CONTEXT
from pegboard.toolsets import resolve_tools
from pegboard.toolsets.toolset import OwnedToolset
from toolsets.samples import PlainToolset, make_tool


def test_steps_that_add_come_first_and_repairs_last():
    assert DEFAULT_PIPELINE.names == (
        "tool_requests",
        "instructions",
        "repair_history",
        "limit_results",
        "budget_tools",
        "pack_tools",
    )


def test_every_step_is_built_in_and_has_a_summary():
    assert all(step.built_in and step.summary.endswith(".") for step in DEFAULT_PIPELINE)


def test_none_of_them_leaves_the_loop():
    """A request of a host without plugins costs no thread."""
    assert not any(step.link.blocking for step in DEFAULT_PIPELINE)


FILES = Origin("files")


def speaking(given, name="t", tools=None):
    """A toolset of a user's own that has instructions."""
    toolset = PlainToolset(name, [make_tool(f"{name}_tool")] if tools is None else tools)
    toolset.instructions = given
    return toolset


def asked(*toolsets, static=(), context=EMPTY_CONTEXT, where=None, **facts):
    tools = asyncio.run(resolve_tools(static, toolsets, context, where=where))
    request = ModelRequest("a", tools=tools, **facts)
    return asyncio.run(_instructions(request, context, Runner()))


@nonblocking
def on_the_loop(context):
    assert threading.current_thread() is threading.main_thread()
    return f"for {context.user}"


def off_the_loop(context):
    assert threading.current_thread() is not threading.main_thread()
    return [f"for {context.user}", "more"]


async def later():
    return "later"


@pytest.mark.parametrize(
    ("given", "texts"),
    [
        ("a", ("a",)),
        (["a", "b"], ("a", "b")),
        (("a",), ("a",)),
        ([], ()),
        (None, ()),
        (on_the_loop, ("for ann",)),
        (off_the_loop, ("for ann", "more")),
        (later, ("later",)),
        (lambda: None, ()),
        ("\ud800", ("\\u{d800}",)),
        ("a\u202eb\nc\u200b", ("a\\u{202e}b\nc\\u{200b}",)),
    ],
)
def test_instructions_of_a_toolset_are_texts_or_functions(given, texts):
    made = asked(speaking(given), context=ReadonlyContext(user="ann"))
    assert (made.instructions, made.problems) == (texts, ())


def test_instructions_are_of_toolsets_first_then_tools_without_duplicates():
    static = [make_tool("a").evolve(instructions="tool"), make_tool("b").evolve(instructions="mine")]
    made = asked(speaking("set"), speaking("set", "u"), static=static, instructions="mine")
    assert made.instructions == ("mine", "set", "tool")


def test_hidden_characters_are_escaped_except_the_hosts():
    own = make_tool("a").evolve(instructions="a\u202eb")
    assert asked(static=[own, make_tool("b", plugin="files").evolve(instructions="c\u202eb")]).instructions == (
        "a\u202eb",
        "c\\u{202e}b",
    )


def test_a_toolset_without_a_tool_in_the_request_adds_no_instructions():
    from pegboard.toolsets.predicates import Matches

    assert asked(speaking("a"), where=Matches("name", "nosuch")).instructions == ()
    assert asked(speaking("a", tools=[])).instructions == ()


def test_deferred_tools_add_no_instructions_until_they_are_found():
    late = make_tool("late", deferred=True).evolve(instructions="late")
    toolset = speaking("set", tools=[make_tool("x", deferred=True)])
    assert asked(toolset, static=[late]).instructions == ()
    assert asked(toolset, static=[late], loads_deferred=True).instructions == ("set", "late")


def test_a_tool_that_isnt_offered_may_add_instructions():
    assert asked(static=[make_tool("a").evolve(offered=False, instructions="a")]).instructions == ("a",)


def test_nested_toolsets_add_their_own_instructions():
    inner = [StaticToolset(name, [make_tool(name)], instructions=name) for name in "ab"]
    both = CombinedToolset("both", [inner[0].prefixed("x_"), inner[1].filtered("not destructive")])
    assert asked(OwnedToolset(both, FILES)).instructions == ("a", "b")


def test_instructions_of_a_wrapper_replace_the_inner_ones():
    wrapper = speaking("outer")
    wrapper.inner_toolsets = [speaking("inner")]
    assert asked(wrapper).instructions == ("outer",)


def test_the_hosts_toolset_may_pass_on_tools_of_plugins():
    passed_on = speaking("a", tools=[make_tool("x", plugin="files")])
    assert asked(passed_on).instructions == ("a",)


def raises():
    raise ValueError("no luck")


class Unwilling(PlainToolset):
    @property
    def instructions(self):
        raise RuntimeError("not today")


@pytest.mark.parametrize("origin", [Origin(), FILES])
@pytest.mark.parametrize(
    ("toolset", "cause"),
    [
        (speaking(raises), "toolset 't': ValueError: no luck"),
        (speaking(lambda nosuch: None), "has a parameter 'nosuch'; it may have context"),
        (speaking(5), "toolset 't': TypeError: instructions must be a text or a list of texts, got int"),
        (speaking(["a", 5]), "toolset 't': TypeError: instructions must be a text or a list of texts, got list"),
        (speaking("x" * (_MOST_CHARACTERS + 1)), "instructions may have 100,000 characters, got 100,001"),
        (Unwilling("t", [make_tool("t_tool")]), "toolset 't': RuntimeError: not today"),
    ],
)
def test_a_toolset_with_failing_instructions_is_skipped(toolset, cause, origin):
    made = asked(OwnedToolset(toolset, origin), speaking("other", "u"))
    assert made.instructions == ("other",)
    (problem,) = made.problems
    assert cause in problem.cause
    assert problem.subject == f"request processor 'instructions' of {origin}"


def test_a_tool_with_invalid_instructions_is_skipped():
    made = asked(static=[make_tool("a").evolve(instructions=5), make_tool("b").evolve(instructions="b")])
    assert made.instructions == ("b",)
    assert [(problem.tool, problem.error.__class__) for problem in made.problems] == [("a", TypeError)]


def test_a_request_without_tools_or_instructions_is_unchanged():
    request = ModelRequest("a")
    assert asyncio.run(_instructions(request, EMPTY_CONTEXT, Runner())) is request
    made = asked(static=[make_tool("a")])
    assert made.instructions == ()


ANN = ReadonlyContext(user="ann")


def says(text):
    return nonblocking(lambda request: request.with_instructions(text))


def processed(*tools, context=EMPTY_CONTEXT, **facts):
    request = ModelRequest("a", tools=asyncio.run(resolve_tools(tools)), **facts)
    return asyncio.run(_tool_requests(request, context, Runner()))


def test_tools_process_the_request_in_their_order():
    made = processed(make_tool("b").evolve(process_request=says("b")), make_tool("c"), Tool.processor("a", says("a")))
    assert made.instructions == ("b", "a")
    assert made.tools.names == ("b", "c", "a")


def test_a_tool_may_be_plain_or_async_and_gets_what_it_asks_for():
    async def later(request, context):
        return request.with_instructions(f"for {context.user}")

    def plain(context, request):
        return request.with_messages(f"{context.user} speaks")

    made = processed(Tool.processor("a", later), Tool.processor("b", plain), context=ANN)
    assert made.instructions == ("for ann",)
    assert made.messages[1] == Message.user("ann speaks")


def test_a_tool_that_returns_none_changes_nothing():
    request = processed(Tool.processor("a", lambda: None))
    assert (request.instructions, request.problems) == ((), ())


def test_a_request_without_tools_is_unchanged():
    request = ModelRequest("a")
    assert asyncio.run(_tool_requests(request, EMPTY_CONTEXT, Runner())) is request


@pytest.mark.parametrize(("loads_deferred", "texts"), [(False, ()), (True, ("late",))])
def test_a_deferred_tool_processes_the_request_once_it_is_found(loads_deferred, texts):
    late = make_tool("late", deferred=True).evolve(process_request=says("late"))
    assert processed(late, loads_deferred=loads_deferred).instructions == texts


def test_a_removed_tool_doesnt_process_the_request():
    without = nonblocking(lambda request: request.evolve(tools=request.tools.without("mine", {"b": "not today"})))
    made = processed(Tool.processor("a", without), Tool.processor("b", says("b")))
    assert (made.instructions, made.tools.names) == ((), ("a",))


def test_a_tool_may_add_others():
    brings = nonblocking(lambda request: request.evolve(tools=request.tools.with_tools(make_tool("x"))))
    assert processed(Tool.processor("a", brings)).tools.names == ("a", "x")


async def ends():
    raise SystemExit(3)


@pytest.mark.parametrize("plugin", [None, "files"])
@pytest.mark.parametrize(
    ("function", "cause"),
    [
        (raises, "ValueError: no luck"),
        (ends, "SystemExit: 3"),
        (lambda: "text", "TypeError: returned str; it must return a ModelRequest or None"),
        (lambda nosuch: None, "has a parameter 'nosuch'; it may have request, context"),
    ],
)
def test_a_tool_that_fails_is_skipped(function, cause, plugin):
    bad = make_tool("bad", plugin=plugin).evolve(process_request=function)
    made = processed(Tool.processor("a", says("a")), bad, Tool.processor("c", says("c")))
    assert made.instructions == ("a", "c")
    (problem,) = made.problems
    assert (problem.tool, problem.plugin) == ("bad", plugin)
    assert problem.subject == f"request processor 'tool_requests', tool 'bad' of {bad.origin}"
    assert cause in problem.cause


def test_problems_survive_a_request_that_a_tool_builds_anew():
    anew = nonblocking(lambda request: ModelRequest("new", tools=request.tools))
    made = processed(Tool.processor("a", raises), Tool.processor("b", anew))
    assert (made.messages, [problem.tool for problem in made.problems]) == ((Message.user("new"),), ["a"])


def sized(name, tokens, **facts):
    """A tool that takes so many tokens."""
    empty = _estimate_tokens(ToolSpec(name))
    tool = make_tool(name, description="x" * 4 * (tokens - empty), **facts)
    assert _estimate_tokens(tool.spec) == tokens
    return tool


def asks(*tools, **facts):
    return ModelRequest("a", tools=asyncio.run(resolve_tools(tools)), **facts)


def kept(step, *tools, **facts):
    request = asks(*tools, **facts)
    return (step(request) or request).tools.names


A, B, C, D = (sized(name, tokens) for name, tokens in (("a", 100), ("b", 50), ("c", 200), ("d", 50)))


@pytest.mark.parametrize(
    ("tokens", "names"),
    [(None, "abcd"), (400, "abcd"), (399, "abc"), (210, "abd"), (200, "abd"), (100, "a"), (99, "b"), (10, ""), (0, "")],
)
def test_tools_within_the_budget_stay_in_order(tokens, names):
    assert kept(BudgetTools(tokens), A, B, C, D) == tuple(names)


def test_it_is_off_by_default():
    assert BudgetTools()(asks(A)) is None
    assert BudgetTools(1)(ModelRequest("a")) is None
    assert BudgetTools(100)(asks(A)) is None


def test_the_highest_ranks_are_kept_in_order():
    by_size = BudgetTools(260, rank=lambda tool: _estimate_tokens(tool.spec))
    assert kept(by_size, A, B, C, D) == ("b", "c")
    same = BudgetTools(160, rank=lambda tool: 0)
    assert kept(same, A, B, C, D) == ("a", "b")


def test_pinned_tools_always_stay():
    assert kept(BudgetTools(10, pinned=["c"]), A, B, C) == ("c",)
    assert kept(BudgetTools(260, pinned=["c"]), A, B, C, D) == ("b", "c")
    assert kept(BudgetTools(10), A, B, tool_choice=NamedTool("b")) == ("b",)


def test_tools_that_arent_sent_arent_counted():
    """Tools that aren't sent, and deferred ones, which their provider loads."""
    hidden = sized("h", 500).evolve(offered=False)
    deferred = sized("z", 500, deferred=True)
    assert BudgetTools(100)(asks(A, hidden, deferred)) is None
    assert BudgetTools(100)(asks(A, hidden, deferred, loads_deferred=True)) is None


def test_each_tool_beyond_the_budget_has_a_reason():
    tools = BudgetTools(120)(asks(A, B)).tools
    assert str(tools.explain("b")) == (
        "b: not offered\n  + offered: by the host\n  - budget: it takes about 50 tokens, and 20 of 120 are left"
    )
    assert "+ budget: not removed" in str(tools.explain("a"))


@given(
    st.lists(st.integers(32, 90), max_size=8),
    st.integers(0, 400),
    st.sets(st.integers(0, 7)),
    st.sampled_from([None, lambda tool: tool.name, lambda tool: -len(tool.spec.description)]),
)
def test_the_budget_is_kept_and_the_same_request_gives_the_same(sizes, tokens, pinned, rank):
    tools = [sized(f"t{number}", size) for number, size in enumerate(sizes)]
    step = BudgetTools(tokens, pinned=[f"t{number}" for number in pinned], rank=rank)
    request = asks(*tools)
    made = step(request) or request
    fixed = sum(size for number, size in enumerate(sizes) if number in pinned)
    assert sum(_estimate_tokens(tool.spec) for tool in made.offered) <= max(tokens, fixed)
    assert {f"t{number}" for number in pinned if number < len(sizes)} <= set(made.tools.names)
    assert (step(request) or request).tools.names == made.tools.names
    assert step(made) is None or fixed > tokens
    assert list(made.tools.names) == [tool.name for tool in tools if tool.name in made.tools]


def test_the_estimate_is_of_bytes():
    plain, wide = ToolSpec("a", "x" * 400), ToolSpec("a", "\N{CJK UNIFIED IDEOGRAPH-5B57}" * 400)
    assert _estimate_tokens(wide) - _estimate_tokens(plain) == 200
    assert _estimate_tokens(plain) == _estimate_tokens(ToolSpec("a", "x" * 400))
    with_examples = plain.evolve(examples=({"a": "x" * 40},))
    assert _estimate_tokens(with_examples) > _estimate_tokens(plain)


LONG = "x" * 1_000
EVERY = LimitResults(keep=0, most=300, stride=1)


def rounds(count, result=None):
    """A conversation of so many rounds, each with a long result."""
    messages = [Message.user("go")]
    for number in range(count):
        call = ToolCall("read", id=f"c{number}")
        messages += [Message.assistant(call), Message.tool([(call, result or ToolResult(LONG))])]
    return ModelRequest(messages)


def cut(request):
    """Which rounds were cut, counted from 0."""
    texts = [part.result.text for message in request.messages for part in message.results]
    return [number for number, text in enumerate(texts) if len(text) < len(LONG)]


@pytest.mark.parametrize(
    ("count", "keep", "stride", "old"),
    [(3, 2, 1, 1), (2, 2, 1, 0), (3, 0, 1, 3), (12, 2, 5, 10), (11, 2, 5, 5), (7, 2, 5, 5), (6, 2, 5, 0), (0, 0, 1, 0)],
)
def test_the_newest_rounds_keep_theirs_whole(count, keep, stride, old):
    step = LimitResults(keep=keep, most=300, stride=stride)
    assert cut(step(rounds(count)) or rounds(count)) == list(range(old))


def test_by_default_only_long_conversations_are_touched():
    assert LimitResults()(rounds(29, ToolResult("x" * 9_000))) is None
    assert LimitResults()(rounds(30, ToolResult("x" * 9_000))) is not None
    assert LimitResults()(rounds(200)) is None


def test_it_can_be_switched_off():
    assert LimitResults(keep=0, most=None)(rounds(50)) is None


def test_messages_that_nothing_is_cut_in_stay_the_same():
    request = rounds(3, ToolResult("short")).with_messages(*rounds(1).messages)
    made = EVERY(request)
    assert all(new is old for new, old in zip(made.messages[:-1], request.messages[:-1], strict=True))


def test_only_texts_are_cut_and_the_data_that_says_the_same_goes():
    picture = ImageContent(b"png")
    result = ToolResult([picture, LONG, LONG], {"long": LONG}, title="Long", is_error=True, kind="tool_failure")
    made = EVERY(rounds(1, result)).messages[2].results[0].result
    assert [type(item) for item in made.content] == [TextContent, ImageContent]
    assert len(made.text) <= 300
    assert (made.structured_content, made.title, made.is_error, made.kind) == (None, "Long", True, "tool_failure")


def test_a_note_says_how_much_is_left_out_and_what_to_do():
    text = _shorten("a" * 500 + "b" * 500, 400, "read")
    assert text.startswith("aaa")
    assert text.endswith("bbb")
    assert "characters of this old result are omitted; call read again to see them" in text


@given(st.text(min_size=LEAST + 1, max_size=2_000), st.integers(LEAST, 400), st.text(max_size=100))
def test_what_is_cut_fits_keeps_its_ends_and_counts_right(text, most, name):
    if len(text) <= most:
        return
    made = _shorten(text, most, name)
    assert len(made) <= most
    head, _, rest = made.partition("\n[... ")
    note, _, tail = rest.rpartition(" ...]\n")
    assert text.startswith(head)
    assert text.endswith(tail)
    if "\n[... " not in text:
        assert int(note.split()[0].replace(",", "")) == len(text) - len(head) - len(tail)


def test_cutting_twice_changes_nothing():
    once = EVERY(rounds(3))
    assert EVERY(once) is None


def test_messages_of_the_user_are_never_cut():
    request = ModelRequest([LONG, Message("user", [ResultPart("a", "a", ToolResult(LONG))]), *rounds(1).messages])
    assert EVERY(request).messages[:2] == request.messages[:2]


@pytest.mark.parametrize("settings", [{"keep": -1}, {"most": LEAST - 1}, {"stride": 0}])
def test_invalid_settings_are_refused(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        LimitResults(**settings)


A_PACK_TOOLS, LATE = make_tool("a"), make_tool("late", deferred=True)
HIDDEN = make_tool("hidden").evolve(offered=False)


def test_only_sent_tools_are_left():
    made = _pack_tools(asks(A_PACK_TOOLS, LATE, HIDDEN))
    assert made.tools.names == ("a",)
    assert made.tools.findable == (LATE,)
    assert [tool.name for tool in made.offered] == ["a"]


def test_deferred_tools_are_sent_where_the_provider_loads_them():
    made = _pack_tools(asks(A_PACK_TOOLS, LATE, HIDDEN, loads_deferred=True))
    assert (made.tools.names, made.tools.findable) == (("a", "late"), ())


def test_the_search_tool_is_left_out_if_the_provider_searches():
    search = make_tool("search_tools", meta={"pegboard/searches": True})
    made = _pack_tools(asks(A_PACK_TOOLS, LATE, search, loads_deferred=True))
    assert made.tools.names == ("a", "late")
    assert "the provider searches the deferred tools itself" in str(made.tools.explain("search_tools"))
    assert _pack_tools(asks(A_PACK_TOOLS, search, loads_deferred=True)).tools.names == ("a", "search_tools")


def test_each_unsent_tool_has_a_reason():
    tools = _pack_tools(asks(A_PACK_TOOLS, HIDDEN, LATE)).tools
    assert "- pack: it only processes requests; no model is offered it" in str(tools.explain("hidden"))
    assert "- pack: it is deferred: offered once a search has found it (pip install" in str(tools.explain("late"))
    assert str(tools.explain("a")) == (
        "a: offered\n  + offered: by the host\n  + pack: not removed\n  + pack: not removed\n  + order: 1 of 1"
    )


def test_packed_out_tools_count_as_held_back():
    tools = _pack_tools(asks(A_PACK_TOOLS, HIDDEN, LATE)).tools
    assert [tools.was_held_back(name) for name in ("a", "hidden", "late", "nosuch")] == [False, True, True, False]


def test_of_two_tools_with_one_name_the_first_is_sent_and_the_other_is_a_problem():
    other = make_tool("a", plugin="files", description="another")
    request = asks(A_PACK_TOOLS)
    request = request.evolve(tools=attrs.evolve(request.tools, tools=(A_PACK_TOOLS, other)))
    made = _pack_tools(request)
    assert made.tools.tools == (A_PACK_TOOLS,)
    assert [(problem.tool, problem.plugin) for problem in made.tools.problems] == [("a", "files")]
    assert "tool 'a' is held back: the host has the name" in str(made.tools.problems[0])


def test_packing_is_idempotent():
    request = asks(A_PACK_TOOLS)
    assert _pack_tools(request) is request
    made = _pack_tools(asks(A_PACK_TOOLS, LATE, HIDDEN))
    assert _pack_tools(made) is made
    without = ModelRequest("x")
    assert _pack_tools(without) is without


@pytest.mark.parametrize(
    ("choice", "tools", "cause"),
    [
        (
            NamedTool("late"),
            (A_PACK_TOOLS, LATE),
            "tool_choice names 'late', which isn't offered; 'auto' is used instead",
        ),
        (
            NamedTool("nosuch"),
            (A_PACK_TOOLS,),
            "tool_choice names 'nosuch', which isn't offered; 'auto' is used instead",
        ),
        ("required", (HIDDEN,), "tool_choice is 'required', and no tool is offered; 'auto' is used instead"),
    ],
)
def test_an_unmet_tool_choice_becomes_auto_with_a_problem(choice, tools, cause):
    made = _pack_tools(asks(*tools, tool_choice=choice))
    assert (made.tool_choice, [problem.cause for problem in made.problems]) == ("auto", [cause])


@pytest.mark.parametrize("choice", ["auto", "none", "required", NamedTool("a")])
def test_a_tool_choice_that_can_be_met_is_unchanged(choice):
    made = _pack_tools(asks(A_PACK_TOOLS, tool_choice=choice))
    assert (made.tool_choice, made.problems) == (choice, ())


OK = ToolResult("ok")

SOUND = (
    Message.user("go"),
    Message.assistant("so", ToolCall("add", id="a"), ToolCall("read", id="b")),
    Message.tool([(ToolCall("add", id="a"), OK), (ToolCall("read", id="b"), OK)]),
    Message.assistant("done"),
)


def calls(*ids, **facts):
    return Message.assistant(*(ToolCall(name, id=name, **facts) for name in ids))


def results(*answers):
    """A message of results: `"a"`, or an id and a text."""
    pairs = [(each, "ok") if isinstance(each, str) else each for each in answers]
    return Message("tool", [ResultPart(name, name, ToolResult(text)) for name, text in pairs])


def shape(messages):
    """Each message in short: its role, the ids of its calls, and its results with their texts or kinds."""
    return [
        (
            message.role[0],
            *(call.id for call in message.calls),
            *(f"{part.call_id}={part.result.kind or part.result.text}" for part in message.results),
        )
        for message in messages
    ]


def repaired(messages):
    request = ModelRequest(tuple(messages))
    return (_repair_history(request) or request).messages


def mended(*messages):
    return shape(repaired(messages))


def own_calls(message):
    """The calls in a message that are for us to answer."""
    return [call for call in message.calls if message.role == "assistant" and not call.provider_executed]


@given(st.lists(MESSAGES, max_size=6))
def test_every_call_has_exactly_one_result_right_after_it(messages):
    """What every provider wants of a conversation, whatever it was before."""
    history = repaired(messages)
    hosted = {call.id for message in history for call in message.calls if call.provider_executed}
    ids = [call.id for message in history for call in own_calls(message)]
    assert len(set(ids)) == len(ids)
    assert not hosted & set(ids)
    assert "" not in ids
    for message, after in zip(history, (*history, Message("user"))[1:], strict=True):
        assert message.parts
        wanted = [(call.id, call.name) for call in own_calls(message)]
        if wanted:
            assert after.role == "tool"
            assert [(part.call_id, part.name) for part in after.results] == wanted
    for before, message in zip((Message("user"), *history), history, strict=False):
        if message.role == "tool":
            assert own_calls(before)
            assert len(message.parts) == len(message.results)


@given(st.lists(MESSAGES, max_size=6))
def test_repairing_is_idempotent(messages):
    history = repaired(messages)
    for again in (repaired(history), _rebuilt(history)):
        assert len(again) == len(history)
        assert all(new is old for new, old in zip(again, history, strict=True))


@given(st.lists(MESSAGES, max_size=6))
def test_texts_and_calls_are_never_lost(messages):
    def contents(history):
        texts = [part for message in history for part in message.parts if isinstance(part, TextPart | HostedPart)]
        names = [call.name for message in history if message.role == "assistant" for call in message.calls]
        return texts, names

    assert contents(repaired(messages)) == contents(messages)


def test_a_valid_history_is_unchanged():
    assert _repair_history(ModelRequest(SOUND)) is None
    assert _repair_history(ModelRequest(())) is None


_LOST = ("a_2=not_executed", "a_3=not_executed")


@pytest.mark.parametrize(
    ("messages", "shaped"),
    [
        # a call without a result gets an error result
        ([calls("a"), Message.user("b")], [("a", "a"), ("t", "a=not_executed"), ("u",)]),
        ([calls("a", "b"), results("b")], [("a", "a", "b"), ("t", "a=not_executed", "b=ok")]),
        # one of an answer that was cut off says so
        (
            [calls("a", "b").evolve(metadata={"complete": False}), results("b")],
            [("a", "a", "b"), ("t", "a=cut_off", "b=ok")],
        ),
        ([calls("a").evolve(metadata={"complete": True})], [("a", "a"), ("t", "a=not_executed")]),
        # one that is marked invalid says why
        (
            [calls("a", error=CallFault("unknown_tool", "none")).evolve(metadata={})],
            [("a", "a"), ("t", "a=unknown_tool")],
        ),
        # results without a call are dropped, those before it too
        ([Message.user("x"), results("a")], [("u",)]),
        ([results("a"), calls("a")], [("a", "a"), ("t", "a=not_executed")]),
        # the last of several is the one: a long-running tool's replaces the pending one
        (
            [calls("a"), results(("a", "pending")), Message.user("x"), results(("a", "done"))],
            [("a", "a"), ("t", "a=done"), ("u",)],
        ),
        # they stand right behind their answer, in call order, in one message
        (
            [calls("a", "b"), results("b"), Message.user("x"), results("a")],
            [("a", "a", "b"), ("t", "a=ok", "b=ok"), ("u",)],
        ),
        ([calls("a"), results("a", ("a", "twice"))], [("a", "a"), ("t", "a=twice")]),
        # ids are made distinct, within an answer and from one to the next
        (
            [calls("a", "a"), results(("a", "first"), ("a", "second"))],
            [("a", "a", "a_2"), ("t", "a=first", "a_2=second")],
        ),
        (
            [calls("a"), results(("a", "1")), calls("a"), results(("a", "2")), calls("a")],
            [("a", "a"), ("t", "a=1"), ("a", "a_2"), ("t", "a_2=2"), ("a", "a_3"), ("t", "a_3=not_executed")],
        ),
        ([calls("a", "a_2", "a"), results("a")], [("a", "a", "a_2", "a_3"), ("t", "a=ok", *_LOST)]),
        # messages with nothing in them go
        ([Message("user"), Message("assistant"), Message("tool"), Message.user("x")], [("u",)]),
        # a call in another's mouth is none
        ([Message("user", [ToolCall("a", id="a"), "x"]), results("a")], [("u",)]),
        # what a provider has executed needs no result of ours
        ([calls("a", provider_executed=True), results("a")], [("a", "a")]),
        (
            [calls("a"), results("a"), calls("a", provider_executed=True), results(("a", "late"))],
            [("a", "a_2"), ("t", "a_2=ok"), ("a", "a")],
        ),
    ],
)
def test_each_fault_is_repaired(messages, shaped):
    assert mended(*messages) == shaped


def test_calls_without_ids_get_ids_and_results_match_by_name():
    asked = Message.assistant(ToolCall("add"), ToolCall("read"), ToolCall("add"))
    texts = (("read", "1"), ("add", "2"), ("add", "3"))
    answered = Message("tool", [ResultPart("", name, ToolResult(text)) for name, text in texts])
    assert mended(asked, answered) == [
        ("a", "call_1", "call_2", "call_3"),
        ("t", "call_1=2", "call_2=1", "call_3=3"),
    ]


def test_calls_that_share_an_id_are_answered_in_order_and_the_last_again():
    """One of the name goes first; what comes when all are answered is for the last of its name, or the last at all."""
    asked = Message.assistant(*(ToolCall(name, id="a") for name in ("add", "read", "add")))

    def answered(*texts):
        made = Message("tool", [ResultPart("a", name, ToolResult(text)) for name, text in texts])
        return [part.result.text for part in repaired([asked, made])[1].results]

    first = (("other", "1"), ("add", "2"), ("add", "3"))
    assert answered(*first) == ["1", "3", "2"]
    assert answered(*first, ("read", "4")) == ["1", "4", "2"]
    assert answered(*first, ("other", "4")) == ["1", "3", "4"]
    assert answered(*first, ("add", "4"), ("add", "5")) == ["1", "3", "5"]


def test_a_result_takes_the_name_that_its_call_has():
    """Gemini wants the names to match."""
    answered = Message("tool", [ResultPart("a", "other", OK, {"gemini": 1})])
    _, made = repaired([calls("a"), answered])
    assert made.parts == (ResultPart("a", "a", OK, {"gemini": 1}),)


def test_a_result_within_an_answer_moves_after_it():
    answer = Message.assistant("so", ToolCall("a", id="a")).evolve(
        parts=["so", ToolCall("a", id="a"), ResultPart("a", "a", OK), "on"]
    )
    first, second = repaired([answer])
    assert (first.text, shape([first, second])) == ("soon", [("a", "a"), ("t", "a=ok")])


def test_the_result_of_what_a_provider_has_executed_stays_in_its_answer():
    hosted = CallPart(ToolCall("search", id="s", provider_executed=True))
    answer = Message("assistant", [hosted, ResultPart("s", "search", OK), HostedPart("p", {})])
    assert _repair_history(ModelRequest([answer])) is None


def test_other_parts_of_a_results_message_become_the_users():
    mixed = Message("tool", [ResultPart("a", "a", OK), "look"], "m1")
    made = repaired([calls("a"), mixed])
    assert shape(made) == [("a", "a"), ("t", "a=ok"), ("u",)]
    assert made[2].text == "look"


def test_a_message_of_results_stays_the_same_message():
    """With its id and what the host keeps with it."""
    answered = Message("tool", results("b", "a").parts, "m2", {}, {"host": 1})
    _, made = repaired([calls("a", "b"), answered])
    assert (made.id, made.metadata) == ("m2", {"host": 1})


def test_generated_results_tell_the_model_what_to_do():
    _, made = repaired([calls("a")])
    assert made.results[0].result.text == "a was not run, or its result was lost. Call it again if it is still needed."
    _, made = repaired([calls("a").evolve(metadata={"complete": False})])
    assert made.results[0].result.text == "a was not run: your message was cut off after this call."


def test_long_histories_take_no_longer_for_their_length():
    """Ids that are all the same: no step looks back over all of them."""
    messages = [message for _ in range(3_000) for message in (calls("a"), results("a"))]
    made = repaired(messages)
    assert made[-1].results[0].call_id == "a_3000"


@pytest.mark.parametrize("name", ["a", "other"])
def test_many_calls_of_one_id_take_no_longer_for_their_number(name):
    """Each finds its result without a look at all the others, whatever name the results have."""
    asked = Message.assistant(*(ToolCall("a", id="a") for _ in range(5_000)))
    answered = Message("tool", [ResultPart("a", name, ToolResult(str(place))) for place in range(5_001)])
    _, made = repaired([asked, answered])
    assert [part.result.text for part in made.results[::4_999]] == ["0", "5000"]
