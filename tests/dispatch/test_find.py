from __future__ import annotations

import asyncio
import threading
from difflib import get_close_matches
from functools import partial

import pytest
from hypothesis import given, strategies as st

from pegboard import (
    CallError,
    CallFault,
    Limits,
    Origin,
    Permissions,
    ReadonlyContext,
    RepairRequest,
    Rule,
    ToolAnnotations,
    ToolCall,
    ToolContext,
    ToolRegistry,
)
from pegboard.callbacks import Callback
from pegboard.dispatch.arguments import parse, validate
from pegboard.dispatch.find import find, meant_name, not_offered_error, repair, unknown_tool_error
from pegboard.dispatch.stages import run_call
from pegboard.dispatch.state import CallSnapshot, CallState, CurrentPermissions, Runtime, Settings
from pegboard.errors import PluginError, StaleSpecError, suggest
from pegboard.tools.handler import LazyHandler


def test_an_unknown_name_lists_what_there_is_and_the_near_misses():
    error = unknown_tool_error("read_fil", ["read_file", "read_files", "write_file", "zip"])
    assert error.kind == "unknown_tool"
    assert error.text == (
        "No tool is called 'read_fil'. Did you mean 'read_file' or 'read_files' or 'write_file'? "
        "Available: read_file, read_files, write_file, zip."
    )


def test_near_misses_do_not_depend_on_the_order_of_the_tools():
    names = [f"tool_{letter}" for letter in "abcdefgh"]
    texts = {
        unknown_tool_error("tool_x", order).text.partition("?")[0]
        for order in (names, names[::-1], sorted(names, key=hash))
    }
    assert texts == {"No tool is called 'tool_x'. Did you mean 'tool_h' or 'tool_g' or 'tool_f'"}


def test_a_name_that_differs_only_in_case_is_the_nearest():
    assert "Did you mean 'Get'?" in unknown_tool_error("get", ["Get", "other"]).text


def test_the_list_is_capped():
    names = [f"t{number:03}" for number in range(50 + 7)]
    assert unknown_tool_error("nothing_like_it", names).text.endswith("t049 and 7 more.")
    assert unknown_tool_error("x", []).text == "No tool is called 'x'. Available: none."


def test_a_long_name_is_cut():
    assert len(unknown_tool_error("x" * 100_000, ["read"]).text) < 200


@pytest.mark.parametrize(
    "name", ["get", "constructor", "__class__", "__init__", "toString", "prototype", "None", "self"]
)
def test_every_name_is_an_ordinary_name(make, name):
    """It is found if a tool has it, and unknown otherwise."""
    registry = ToolRegistry()
    assert registry.call_sync(name).kind == "unknown_tool"
    registry.register(make(lambda: "found", name=name))
    assert registry.call_sync(name).text == "found"


@pytest.mark.parametrize("name", [None, 3, b"probe", ["probe"], {}])
def test_a_name_that_is_not_a_string_is_unknown(name, make):
    registry = ToolRegistry()
    registry.register(make(lambda: "found"))
    (_, unnamed), (_, found) = asyncio.run(registry.dispatch([ToolCall(name), ToolCall("probe")]))
    assert (unnamed.kind, found.text, "its name isn't a string" in unnamed.text) == ("unknown_tool", "found", True)


@pytest.mark.parametrize("name", ["", "\ud800", "\u202e", "a\nb", "no such" * 10_000])
def test_any_text_may_be_asked_for(name):
    error = unknown_tool_error(name, ["read_file"])
    assert error.kind == "unknown_tool"
    assert error.text.isprintable()


def test_among_very_many_names_the_near_misses_are_the_same_as_among_few():
    """A filter excludes dissimilar names from the full comparison."""
    verbs, nouns = ("get", "list", "read", "write", "delete", "find"), ("file", "user", "order", "page", "issue", "row")
    names = [
        f"{verb}_{one}_{other}_{number}" for verb in verbs for one in nouns for other in nouns for number in range(9)
    ]
    for wrong in ("get_usr_file_3", "list_issue", "raed_page_row_1", "find_row_row_77", "zzz"):
        exact = get_close_matches(wrong, sorted(names), n=3, cutoff=0.6)
        assert list(suggest(wrong, names)) == exact


def test_not_offered_lists_the_offered_tools():
    error = not_offered_error("erase", ["read", "list"])
    assert (error.kind, error.text) == (
        "not_offered",
        "erase is not available for this request. Available: read, list.",
    )
    assert not_offered_error("erase", []).text.endswith("Available: none.")


def test_a_call_marked_invalid_is_answered_with_its_mark(make, prepare):
    state = prepare(make(lambda: pytest.fail("it ran")))
    state.replace(ToolCall("probe", error=CallFault("cut_off", "The answer was cut off.")))
    asyncio.run(run_call(state))
    assert (state.result.kind, state.result.text) == ("cut_off", "The answer was cut off.")


def test_what_is_wrong_with_a_marked_call_can_be_read_by_repairers(make, prepare):
    state = prepare(make(print))
    state.replace(ToolCall("probe", error=CallFault("invalid_arguments", "Wrong.", ("a: wrong",))))
    with pytest.raises(CallError) as caught:
        asyncio.run(find(state))
    assert (caught.value.kind, caught.value.problems) == ("invalid_arguments", ("a: wrong",))


def test_a_late_handler_is_loaded_off_the_loop_and_its_tool_runs(make, send):
    where = []

    def load():
        where.append(threading.current_thread())
        return make(lambda: "found late")

    state = send(make(None).evolve(handler=LazyHandler(load)))
    assert state.result.text == "found late"
    assert where[0] is not threading.main_thread()


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (StaleSpecError("files", "probe differs"), "probe was not run: it has changed since it was listed."),
        (PluginError("files", "ImportError: no module x"), "probe was not run: its plugin failed to load."),
        (RuntimeError("no module x"), "probe failed: RuntimeError."),
    ],
)
def test_a_plugin_that_fails_late_costs_the_call_and_the_operator_learns_why(make, send, error, text):
    def load():
        raise error

    result = send(make(None).evolve(handler=LazyHandler(load))).result
    assert (result.kind, result.text) == ("tool_failure", text)
    assert str(error) in result.detail


names = st.from_regex(r"\A[a-z_][a-z0-9_-]{0,12}\Z")


@pytest.mark.parametrize(
    ("written", "tools", "meant"),
    [
        ("Read_File", ["read_file", "read"], "read_file"),
        ("ADD", ["add"], "add"),
        ("readFile", ["read_file"], "read_file"),
        ("read.file", ["read-file"], "read-file"),
        ("v1-2", ["v1_2"], "v1_2"),
        ("read_fil", ["read_file", "write_file"], "read_file"),
        ("read_filee", ["read_file"], "read_file"),
        ("raed_file", ["read_file"], "read_file"),
        ("read_file", ["read_files"], "read_files"),
        ("search_wbe", ["search_web"], "search_web"),
        ("functions.add", ["add"], "add"),
        ("functions.add:0", ["add"], "add"),
        ("default_api.readFile", ["read_file"], "read_file"),
        ("add<|channel|>commentary", ["add"], "add"),
        ("assistant<|channel|>commentary to=functions.add<|message|>", ["add"], "add"),
        ("functions.add", ["functions_add", "sub"], "functions_add"),
    ],
)
def test_a_slip_has_one_meaning(written, tools, meant):
    assert meant_name(written, tools) == meant


@pytest.mark.parametrize(
    ("written", "tools"),
    [
        ("and", ["add"]),
        ("adn", ["and"]),
        ("get_user", ["set_user"]),
        ("lock_door", ["block_door"]),
        ("charge_card", ["change_card"]),
        ("page_1", ["page_12"]),
        ("page_21", ["page_12"]),
        ("version_1", ["version_2"]),
        ("v1_2", ["v12"]),
        ("read_fl", ["read_file"]),
        ("READ", ["read", "Read"]),
        ("readfile", ["read_file", "read-file"]),
        ("read_fils", ["read_files", "read_file"]),
        ("read_file", ["raed_file", "read_flie"]),
        ("", ["_"]),
        ("___", ["_"]),
        ("\u212aill_it", ["kill_it"]),
        ("read_file" * 100, ["read_file"]),
        ("nothing_like_it", ["read_file"]),
        ("anything", []),
        ("functions.add", ["functions_add", "add"]),
        ("other.add", ["add"]),
        ("functions.add", ["sub"]),
    ],
)
def test_what_could_be_another_word_means_nothing(written, tools):
    assert meant_name(written, tools) is None


@given(names, st.lists(names, unique=True, max_size=6))
def test_the_order_of_the_tools_does_not_matter(written, tools):
    meant = meant_name(written, tools)
    assert meant is None or meant in tools
    assert meant == meant_name(written, tools[::-1])


@given(names, st.lists(names, unique=True, max_size=6))
def test_more_tools_never_change_what_is_meant_to_something_else_but_the_nearer(written, tools):
    """A second name at the same distance makes it ambiguous."""
    meant = meant_name(written, tools)
    if meant is not None:
        assert meant_name(written, [*tools, meant.swapcase() + "_"]) in (meant, None)


SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False}


@pytest.fixture
def state_of(make, threads):
    """Creates the state of a call, with some tools and repairers."""

    def state_of(call, *tools, repairers=(), limits=None, offered=None, **facts):
        known = {tool.name: tool for tool in tools or (make(print, name="read_file", schema=SCHEMA),)}

        def look(name):
            if name not in known:
                raise unknown_tool_error(name, sorted(known))
            return known[name]

        links = tuple(Callback(each, f"plugin {place}") for place, each in enumerate(repairers))
        callbacks = {"repair_call": links} if links else {}
        offered = tuple(known.values()) if offered is None else offered
        snapshot = CallSnapshot(Runtime(), look, offered, callbacks=callbacks)
        vars(snapshot.runtime).update(threads=threads, tool_threads=threads)
        context, settings = ToolContext(ReadonlyContext(messages=["hello"])), Settings(limits or Limits(), **facts)
        state = CallState(call.name, call.arguments, call.id, context, snapshot, settings)
        state.replace(call)
        return state

    return state_of


def prepare_call(state):
    """Runs the first stages, with at most one repair, as `run_call` does; returns the remaining error."""

    async def go():
        while True:
            try:
                state.tool = await find(state)
                arguments = parse(state.raw, state.settings.limits)
                state.arguments = await validate(state, state.tool, arguments)
            except CallError as error:
                await repair(state, error)
            else:
                return

    try:
        asyncio.run(go())
    except CallError as error:
        return error
    return None


def test_a_name_in_another_case_is_mended_with_a_note(state_of):
    state = state_of(ToolCall("Read_File", {"a": 1}, "7"))
    assert prepare_call(state) is None
    assert state.call == ToolCall("read_file", {"a": 1}, "7")
    assert (state.tool.name, state.context.tool) == ("read_file", "read_file")
    assert state.repaired == "the name 'Read_File' was taken for 'read_file'"


@pytest.mark.parametrize(
    ("call", "repairers", "note"),
    [
        (ToolCall("raed_file", {}, "7"), [], "the name 'raed_file' was taken for 'read_file'"),
        (ToolCall("read_file", {"a": "1"}, "7"), [lambda _: {}], "by plugin 0: other arguments"),
    ],
)
def test_a_repair_is_an_event_and_with_the_result(state_of, call, repairers, note):
    events = []
    state = state_of(call, repairers=repairers, emit=events.append)
    assert prepare_call(state) is None
    (event,) = events
    assert (event.call_id, event.name, event.note) == ("7", call.name, f"repaired: {note}")
    assert state.context.actions.facts == {"repaired": [note]}


def test_it_can_be_turned_off(state_of):
    state = state_of(ToolCall("Read_File"), limits=Limits(repair=False))
    assert prepare_call(state).kind == "unknown_tool"
    assert state.repaired is None


@pytest.mark.parametrize(
    "facts",
    [
        {"spec": {"annotations": ToolAnnotations(destructive_hint=True)}},
        {"spec": {"requires_confirmation": True}},
        {"spec": {"permission": "edit"}},
        {"confirms": lambda arguments: False},
        {"by_arguments": {"destructive": lambda arguments: False}},
        {"origin": Origin(trusted=False)},
        {"rules": ["ask"]},
    ],
)
def test_no_guess_runs_a_tool_that_may_destroy_or_would_ask(state_of, make, facts):
    spec, rules = facts.pop("spec", {}), facts.pop("rules", [])
    tool = make(print, name="erase_all", **facts).with_spec(**spec)
    current = CurrentPermissions(Permissions([Rule("erase_all", "*", each) for each in rules]))
    for name in ("Erase_All", "functions.erase_all"):
        assert prepare_call(state_of(ToolCall(name), tool, current=current)).kind == "unknown_tool"


def test_a_tool_whose_plugin_is_not_loaded_yet_is_found_as_ever(state_of, make):
    tool = make(print, name="read_file")
    late = tool.evolve(handler=LazyHandler(lambda: tool))
    assert prepare_call(state := state_of(ToolCall("READ_FILE"), late)) is None
    assert state.tool is tool


def test_a_call_that_was_marked_unknown_when_it_was_parsed_is_mended_too(state_of):
    fault = CallFault("unknown_tool", "No tool is called 'READ_FILE'.")
    assert prepare_call(state_of(ToolCall("READ_FILE", error=fault))) is None


def test_the_tools_of_the_request_are_those_that_count(state_of, make):
    """A call marked as unknown is repaired only to a tool that the request offers."""
    fault = CallFault("unknown_tool", "No tool is called 'READ_FILE'.")
    assert prepare_call(state_of(ToolCall("READ_FILE", error=fault), offered=())).kind == "unknown_tool"


def test_the_built_in_repair_leaves_invalid_arguments(state_of):
    error = prepare_call(state_of(ToolCall("read_file", {"a": "1"})))
    assert (error.kind, error.problems) == ("invalid_arguments", ('a: must be an integer, got string "1"',))


def test_a_repairer_gets_all_that_is_known(state_of):
    seen = []
    call = ToolCall("read_file", {"a": "1"}, "7")
    state = state_of(call, repairers=[seen.append], instructions="Be brief.")
    prepare_call(state)
    assert seen == [
        RepairRequest(
            call,
            state.snapshot.tools,
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


def test_it_gets_the_tools_of_the_request_and_no_schema_for_an_unknown_name(state_of, make):
    seen = []
    tools = (make(print, name="one"),)
    prepare_call(state_of(ToolCall("two"), *tools, repairers=[seen.append], offered=tools))
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
def test_a_repairers_call_or_arguments_are_validated_and_taken(state_of, repairer):
    state = state_of(ToolCall("read_file", {"a": "1"}, "7", provider_metadata="opaque"), repairers=[repairer])
    assert prepare_call(state) is None
    assert (state.arguments, state.call.id, state.call.provider_metadata) == ({"a": 1}, "7", "opaque")
    assert state.repaired == "by plugin 0: other arguments"


def test_a_repairer_may_name_another_tool(state_of):
    state = state_of(
        ToolCall("cat", {"a": 1}), repairers=[lambda request: ToolCall("read_file", request.call.arguments)]
    )
    assert prepare_call(state) is None
    assert (state.tool.name, state.repaired) == ("read_file", "by plugin 0: 'read_file' for 'cat'")


def test_nothing_returned_keeps_the_first_error(state_of):
    state = state_of(ToolCall("read_file", {"a": "1"}), repairers=[lambda *_: None])
    assert prepare_call(state).kind == "invalid_arguments"
    assert state.repaired is None


def test_where_no_callback_answers_the_name_is_still_mended(state_of):
    assert prepare_call(state_of(ToolCall("READ_FILE"), repairers=[lambda *_: None])) is None


def failing(error):
    def repairer(request):
        raise error

    return repairer


@pytest.mark.parametrize("error", [ValueError("a"), SystemExit(3), TimeoutError("a"), asyncio.CancelledError("a")])
def test_a_repairer_that_raises_gives_an_error_with_both(state_of, logged, error):
    state = state_of(
        ToolCall("read_file", {"a": "1"}),
        repairers=[failing(error)],
    )
    left = prepare_call(state)
    assert (left.kind, left.problems) == ("invalid_arguments", ('a: must be an integer, got string "1"',))
    assert type(error).__name__ in left.detail
    assert "It was to repair: Invalid arguments for read_file" in left.detail
    assert logged() == [("repairer of plugin 0", error)]


@pytest.mark.parametrize("answer", [3, "{}", [], True], ids=str)
def test_nonsense_is_the_repairers_error(state_of, answer):
    left = prepare_call(state_of(ToolCall("read_file", {"a": "1"}), repairers=[lambda *_: answer]))
    assert left.kind == "invalid_arguments"
    assert f"answered {type(answer).__name__}; it may answer ToolCall" in left.detail


def test_a_call_is_repaired_once(state_of):
    """The result has the error of the repaired call; its detail for the operator, the repair."""
    asked = []

    def repairer(request):
        asked.append(request)
        return {"a": "still wrong"}

    left = prepare_call(state_of(ToolCall("read_file", {"a": "1"}), repairers=[repairer]))
    assert len(asked) == 1
    assert left.problems == ('a: must be an integer, got string "still wrong"',)
    assert "the call was repaired: by plugin 0: other arguments" in left.detail


def test_a_mended_name_is_validated(state_of):
    left = prepare_call(state := state_of(ToolCall("Read_File", {"a": "1"})))
    assert (left.kind, left.text.splitlines()[0]) == ("invalid_arguments", "Invalid arguments for read_file:")
    assert state.repaired is not None


def test_a_repaired_call_to_an_unknown_tool_fails(state_of):
    left = prepare_call(state_of(ToolCall("x"), repairers=[lambda *_: ToolCall(3)]))
    assert (left.kind, left.text) == ("unknown_tool", "The call has no tool name: its name isn't a string.")


@pytest.mark.parametrize("error", [not_offered_error("read_file", []), CallError("denied", "No.")])
def test_repairers_are_not_called_for_other_errors(state_of, error):
    state = state_of(ToolCall("read_file"), repairers=[failing(AssertionError("asked"))])
    with pytest.raises(type(error)) as caught:
        asyncio.run(repair(state, error))
    assert caught.value is error


def test_a_repair_resets_the_state(state_of):
    state = state_of(ToolCall("READ_FILE", {"a": 1}, "7"))
    state.coercions = ("a: 1",)
    asyncio.run(repair(state, unknown_tool_error("READ_FILE", ["read_file"])))
    assert (state.name, state.raw, state.id, state.coercions) == ("read_file", {"a": 1}, "7", ())
