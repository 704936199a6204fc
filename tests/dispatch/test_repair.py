from __future__ import annotations

import asyncio
import threading
from functools import partial

import pytest

from pegboard import ToolRegistry
from pegboard.callbacks import Callback
from pegboard.dispatch.arguments import parse, validate
from pegboard.dispatch.find import find, not_offered, unknown
from pegboard.dispatch.repair import RepairRequest, repair
from pegboard.dispatch.state import Callbacks, CallServices, CallState
from pegboard.tools.call import CallError, CallFault, ToolCall
from pegboard.tools.context import ReadonlyContext, ToolContext
from pegboard.tools.spec import Limits, ToolAnnotations
from pegboard.tools.tool import LateHandler

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False}


@pytest.fixture
def board(make, threads):
    """Makes the work of one call, over some tools and repairers."""

    def board(call, *tools, repairers=(), limits=None, observe=None, offered=None, **facts):
        known = {tool.name: tool for tool in tools or (make(print, name="read_file", schema=SCHEMA),)}

        def look(name):
            if name not in known:
                raise unknown(name, sorted(known))
            return known[name]

        callbacks = Callbacks(repair=tuple(Callback(each, f"plugin {place}") for place, each in enumerate(repairers)))
        services = CallServices(look, threads, callbacks, limits or Limits(), observe, **facts)
        context = ToolContext(ReadonlyContext(messages=["hello"]), offered=tuple(known.values()))
        return CallState(call, context, services)

    return board


def travel(state):
    """What `travel` does with these stages: at most one repair, then once again. Gives the error that is left."""

    async def go():
        while True:
            state.error = None
            try:
                for stage in (find, parse, validate):
                    pending = stage(state)
                    if pending is not None:
                        await pending
            except CallError as error:
                state.error = error
                pending = repair(state)
                if pending is not None:
                    await pending
                continue
            return

    try:
        asyncio.run(go())
    except CallError as error:
        return error
    return None


# Built in ------------------------------------------------------------------------------------------------------------


def test_a_name_in_another_case_is_mended_and_said(board):
    state = board(ToolCall("Read_File", {"a": 1}, "7"))
    assert travel(state) is None
    assert state.call == ToolCall("read_file", {"a": 1}, "7")
    assert (state.tool.name, state.context.tool) == ("read_file", "read_file")
    assert state.repaired == "the name 'Read_File' was taken for 'read_file'"


@pytest.mark.parametrize(
    ("call", "repairers", "told"),
    [
        (ToolCall("Read_File", {}, "7"), [], "the name 'Read_File' was taken for 'read_file'"),
        (ToolCall("read_file", {"a": "1"}, "7"), [lambda _: {}], "by plugin 0: other arguments"),
    ],
)
def test_a_repair_is_told_as_an_event_and_with_the_result(board, call, repairers, told):
    events = []
    state = board(call, repairers=repairers, events=events.append)
    assert travel(state) is None
    (event,) = events
    assert (event.call_id, event.name, event.note) == ("7", call.name, f"repaired: {told}")
    assert state.context.actions.facts == {"repaired": [told]}


def test_one_near_miss_is_mended(board):
    assert travel(state := board(ToolCall("raed_file"))) is None
    assert state.call.name == "read_file"


def test_add_is_not_run_for_and(board, make):
    error = travel(board(ToolCall("and"), make(print, name="add")))
    assert (error.kind, "Did you mean 'add'?" in error.text) == ("unknown_tool", True)


def test_it_can_be_turned_off(board):
    state = board(ToolCall("Read_File"), limits=Limits(repair=False))
    assert travel(state).kind == "unknown_tool"
    assert state.repaired is None


@pytest.mark.parametrize(
    "facts",
    [
        {"spec": {"annotations": ToolAnnotations(destructive_hint=True)}},
        {"spec": {"requires_confirmation": True}},
        {"spec": {"permission": "edit"}},
        {"confirms": lambda arguments: False},
    ],
    ids=["destructive", "confirmed", "permitted", "confirmed by a predicate"],
)
def test_no_guess_runs_a_tool_that_may_destroy_or_would_ask(board, make, facts):
    spec = facts.pop("spec", {})
    tool = make(print, name="erase_all", **facts).with_spec(**spec)
    assert travel(board(ToolCall("Erase_All"), tool)).kind == "unknown_tool"


def test_a_tool_whose_plugin_is_not_loaded_yet_is_found_as_ever(board, make):
    tool = make(print, name="read_file")
    late = tool.evolve(handler=LateHandler(lambda: tool))
    assert travel(state := board(ToolCall("READ_FILE"), late)) is None
    assert state.tool is tool


def test_a_call_that_was_marked_unknown_when_it_was_parsed_is_mended_too(board):
    fault = CallFault("unknown_tool", "No tool is called 'READ_FILE'.")
    assert travel(board(ToolCall("READ_FILE", error=fault))) is None


def test_the_tools_of_the_request_are_those_that_count(board, make):
    """What a mark left out: only what the request offers is looked through."""
    fault = CallFault("unknown_tool", "No tool is called 'READ_FILE'.")
    assert travel(board(ToolCall("READ_FILE", error=fault), tools=())).kind == "unknown_tool"


@pytest.mark.parametrize("name", ["", None, 3])
def test_no_name_means_no_tool(board, name):
    assert travel(board(ToolCall(name))).kind == "unknown_tool"


def test_invalid_arguments_are_nothing_that_it_mends(board):
    error = travel(board(ToolCall("read_file", {"a": "1"})))
    assert (error.kind, error.problems) == ("invalid_arguments", ('a: must be an integer, got string "1"',))


# Callbacks -----------------------------------------------------------------------------------------------------------


def test_a_repairer_gets_all_that_is_known(board):
    seen = []
    call = ToolCall("read_file", {"a": "1"}, "7")
    state = board(call, repairers=[seen.append], instructions="Be brief.")
    travel(state)
    assert seen == [
        RepairRequest(
            call,
            state.context.offered,
            SCHEMA,
            "Be brief.",
            ["hello"],
            CallFault(
                "invalid_arguments",
                'Invalid arguments for read_file:\n- a: must be an integer, got string "1"\n'
                "Correct them and call the tool again.",
                ('a: must be an integer, got string "1"',),
            ),
            state.context.request,
        )
    ]


def test_it_gets_the_tools_of_the_request_and_no_schema_for_an_unknown_name(board, make):
    seen = []
    tools = (make(print, name="one"),)
    travel(board(ToolCall("two"), *tools, repairers=[seen.append], tools=tools))
    assert (seen[0].tools, seen[0].schema) == (tools, None)


async def coroutine(request):
    await asyncio.sleep(0)
    return {"a": 1}


def plain(request):
    return coroutine(request)


@pytest.mark.parametrize(
    "repairer",
    [
        coroutine,
        lambda request: {"a": 1},
        plain,
        partial(coroutine),
        lambda request: ToolCall("read_file", '{"a": 1}'),
        lambda request: ToolCall("read_file", {"a": 1}, "another id", error=request.error),
    ],
    ids=["async", "arguments", "a plain function round an async one", "a partial", "a call", "a call with another id"],
)
def test_a_repairers_call_or_arguments_are_validated_and_taken(board, repairer):
    state = board(ToolCall("read_file", {"a": "1"}, "7", provider_metadata="opaque"), repairers=[repairer])
    assert travel(state) is None
    assert (state.arguments, state.call.id, state.call.provider_metadata) == ({"a": 1}, "7", "opaque")
    assert state.repaired == "by plugin 0: other arguments"


def test_a_repairer_may_name_another_tool(board):
    state = board(ToolCall("cat", {"a": 1}), repairers=[lambda request: ToolCall("read_file", request.call.arguments)])
    assert travel(state) is None
    assert (state.tool.name, state.repaired) == ("read_file", "by plugin 0: 'read_file' for 'cat'")


def test_a_plain_repairer_runs_off_the_loop(board):
    where = []
    travel(board(ToolCall("x"), repairers=[lambda _: where.append(threading.current_thread())]))
    assert where[0] is not threading.main_thread()


def test_the_first_answer_counts(board):
    asked = []

    def answering(answer):
        def repairer(request):
            asked.append(answer)
            return answer

        return repairer

    state = board(ToolCall("read_file", {"a": "1"}), repairers=[answering(None), answering({}), answering({"a": 2})])
    assert travel(state) is None
    assert (asked, state.arguments) == ([None, {}], {})


def test_nothing_returned_keeps_the_first_error(board):
    state = board(ToolCall("read_file", {"a": "1"}), repairers=[lambda *_: None])
    assert travel(state) is state.error
    assert state.error.kind == "invalid_arguments"
    assert state.repaired is None


def test_where_no_callback_answers_the_name_is_still_mended(board):
    assert travel(board(ToolCall("READ_FILE"), repairers=[lambda *_: None])) is None


def failing(error):
    def repairer(request):
        raise error

    return repairer


@pytest.mark.parametrize("error", [ValueError("secret"), SystemExit(3), asyncio.CancelledError("secret")])
def test_a_repairer_that_raises_gives_an_error_with_both(board, error):
    seen = []
    state = board(
        ToolCall("read_file", {"a": "1"}),
        repairers=[failing(error)],
        observe=lambda who, failed: seen.append((who, failed)),
    )
    left = travel(state)
    assert (left.kind, left.text, left.problems) == ("invalid_arguments", state.error.text, state.error.problems)
    assert type(error).__name__ in left.detail
    assert "It was to mend: Invalid arguments for read_file" in left.detail
    assert seen == [("repairer of plugin 0", error)]


@pytest.mark.parametrize("answer", [3, "{}", [], True], ids=str)
def test_nonsense_is_the_repairers_error(board, answer):
    left = travel(board(ToolCall("read_file", {"a": "1"}), repairers=[lambda *_: answer]))
    assert left.kind == "invalid_arguments"
    assert f"answered {type(answer).__name__}; it may answer ToolCall" in left.detail


def test_a_repairer_has_the_time_of_a_callback(board):
    async def hanging(request):
        await asyncio.Event().wait()

    state = board(ToolCall("read_file", {"a": "1"}), repairers=[hanging], limits=Limits(callback_timeout=0.01))
    assert "it gave no answer within 0.01 s" in travel(state).detail


def test_its_own_time_limit_is_its_own(board):
    left = travel(board(ToolCall("x"), repairers=[failing(TimeoutError("the model did not answer"))]))
    assert "the model did not answer" in left.detail


async def test_whoever_waits_may_be_cancelled_meanwhile(board):
    began = asyncio.Event()

    async def hanging(request):
        began.set()
        await asyncio.Event().wait()

    state = board(ToolCall("x"), repairers=[hanging])
    state.error = unknown("x", [])
    task = asyncio.ensure_future(repair(state))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


# Once, and only for these --------------------------------------------------------------------------------------------


def test_a_call_is_repaired_once(board):
    """What is wrong with the repaired call is told; how it came to be, to the operator."""
    asked = []

    def repairer(request):
        asked.append(request)
        return {"a": "still wrong"}

    left = travel(board(ToolCall("read_file", {"a": "1"}), repairers=[repairer]))
    assert len(asked) == 1
    assert left.problems == ('a: must be an integer, got string "still wrong"',)
    assert "the call was repaired: by plugin 0: other arguments" in left.detail


def test_a_mended_name_is_validated(board):
    left = travel(state := board(ToolCall("Read_File", {"a": "1"})))
    assert (left.kind, left.text.splitlines()[0]) == ("invalid_arguments", "Invalid arguments for read_file:")
    assert state.repaired is not None


def test_a_repairer_that_names_what_there_is_not_is_no_way_round(board):
    left = travel(board(ToolCall("x"), repairers=[lambda *_: ToolCall(3)]))
    assert (left.kind, left.text) == ("unknown_tool", "The call names no tool: its name is no text.")


@pytest.mark.parametrize("error", [not_offered("read_file", []), CallError("denied", "No."), RuntimeError("no")])
def test_other_errors_are_no_affair_of_repairers(board, error):
    state = board(ToolCall("read_file"), repairers=[failing(AssertionError("asked"))])
    state.error = error
    with pytest.raises(type(error)) as caught:
        repair(state)
    assert caught.value is error


def test_what_the_first_try_left_is_gone(board):
    state = board(ToolCall("read_file", {"a": "1"}))
    state.tool, state.arguments, state.parsed, state.coercions = object(), {"a": "1"}, True, ("a: 1",)
    state.error = unknown("READ_FILE", ["read_file"])
    state.call = ToolCall("READ_FILE")
    repair(state)
    assert (state.tool, dict(state.arguments), state.parsed, state.coercions, state.error) == (
        None,
        {},
        False,
        (),
        None,
    )


# On a board ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def registry(make):
    def registry(**options):
        made = ToolRegistry(**options)
        made.register(make(lambda a=0: f"ran with {a}", name="read_file", schema=SCHEMA))
        return made

    return registry


def test_a_call_of_a_board_is_mended(registry):
    result = registry().call_sync("Read_File", {"a": 1})
    assert (result.text, list(result.metadata)) == ("ran with 1", ["repaired"])
    assert registry(limits=Limits(repair=False)).call_sync("Read_File", {"a": 1}).kind == "unknown_tool"


def test_a_hosts_repairer_is_asked_once_a_call(registry):
    asked = []

    def repairer(request):
        asked.append(request.call.arguments)
        return {"a": 2} if len(asked) == 1 else {"a": "wrong"}

    board = registry()
    board.add_callback("repair_call", repairer)
    assert board.call_sync("read_file", {"a": "1"}).text == "ran with 2"
    assert board.call_sync("read_file", {"a": "1"}).kind == "invalid_arguments"
    assert board.call_sync("read_file", {"a": 3}).text == "ran with 3"
    assert asked == [{"a": "1"}, {"a": "1"}]
