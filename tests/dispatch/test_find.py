from __future__ import annotations

import asyncio
import threading
from difflib import get_close_matches

import pytest
from hypothesis import given, strategies as st

from pegboard import ToolRegistry
from pegboard.dispatch.find import _MOST_LISTED, find, meant_name, not_offered, unknown
from pegboard.dispatch.stages import run_stages
from pegboard.errors import PluginError, StaleSpecError, suggest
from pegboard.tools.call import CallError, CallFault, ToolCall
from pegboard.tools.tool import LateHandler


def test_an_unknown_name_lists_what_there_is_and_the_near_misses():
    error = unknown("read_fil", ["read_file", "read_files", "write_file", "zip"])
    assert error.kind == "unknown_tool"
    assert error.text == (
        "No tool is called 'read_fil'. Did you mean 'read_file' or 'read_files' or 'write_file'? "
        "Available: read_file, read_files, write_file, zip."
    )


def test_near_misses_do_not_depend_on_the_order_of_the_tools():
    names = [f"tool_{letter}" for letter in "abcdefgh"]
    texts = {unknown("tool_x", order).text.partition("?")[0] for order in (names, names[::-1], sorted(names, key=hash))}
    assert texts == {"No tool is called 'tool_x'. Did you mean 'tool_h' or 'tool_g' or 'tool_f'"}


def test_a_name_that_differs_only_in_case_is_the_nearest():
    assert "Did you mean 'Get'?" in unknown("get", ["Get", "other"]).text


def test_the_list_is_capped():
    names = [f"t{number:03}" for number in range(_MOST_LISTED + 7)]
    assert unknown("nothing_like_it", names).text.endswith("t049 and 7 more.")
    assert unknown("x", []).text == "No tool is called 'x'. Available: none."


def test_a_long_name_is_cut():
    assert len(unknown("x" * 100_000, ["read"]).text) < 200


@pytest.mark.parametrize(
    "name", ["get", "constructor", "__class__", "__init__", "toString", "prototype", "None", "self"]
)
def test_every_name_is_an_ordinary_name(make, name):
    """Where a tool has it, it is found; where none has, it is unknown."""
    registry = ToolRegistry()
    assert registry.call_sync(name).kind == "unknown_tool"
    registry.register(make(lambda: "found", name=name))
    assert registry.call_sync(name).text == "found"


@pytest.mark.parametrize("name", [None, 3, b"probe", ["probe"], {}])
def test_a_name_that_is_no_text_is_an_unknown_one(make, prepare, name):
    state = prepare(make(print))
    state.call = ToolCall(name)
    with pytest.raises(CallError, match="its name is no text") as caught:
        find(state)
    assert caught.value.kind == "unknown_tool"


@pytest.mark.parametrize("name", ["", "\ud800", "\u202e", "a\nb", "no such" * 10_000])
def test_any_text_may_be_asked_for(name):
    error = unknown(name, ["read_file"])
    assert (error.kind, error.available) == ("unknown_tool", ["read_file"])
    assert error.text.isprintable()


def test_among_very_many_names_the_near_misses_are_the_same_as_among_few():
    """Only those that look alike at all are compared in full."""
    verbs, nouns = ("get", "list", "read", "write", "delete", "find"), ("file", "user", "order", "page", "issue", "row")
    names = [
        f"{verb}_{one}_{other}_{number}" for verb in verbs for one in nouns for other in nouns for number in range(9)
    ]
    for wrong in ("get_usr_file_3", "list_issue", "raed_page_row_1", "find_row_row_77", "zzz"):
        exact = get_close_matches(wrong, sorted(names), n=3, cutoff=0.6)
        assert list(suggest(wrong, names)) == exact


def test_not_offered_says_so_and_what_is():
    error = not_offered("erase", ["read", "list"])
    assert (error.kind, error.text) == (
        "not_offered",
        "erase is not available for this request. Available: read, list.",
    )
    assert not_offered("erase", []).text.endswith("Available: none.")
    many = [f"t{number:03}" for number in range(_MOST_LISTED + 7)]
    assert not_offered("erase", many).text.endswith("t049 and 7 more.")


def test_a_call_that_the_provider_has_executed_is_never_run(make, prepare):
    state = prepare(make(lambda: pytest.fail("it ran")))
    state.call = ToolCall("probe", provider_executed=True)
    asyncio.run(run_stages(state))
    assert (state.result.kind, state.result.text) == (
        "not_executed",
        "probe was not run here: the model's provider has executed it.",
    )


def test_a_call_marked_invalid_is_answered_with_its_mark(make, prepare):
    state = prepare(make(lambda: pytest.fail("it ran")))
    state.call = ToolCall("probe", error=CallFault("cut_off", "The answer was cut off."))
    asyncio.run(run_stages(state))
    assert (state.result.kind, state.result.text) == ("cut_off", "The answer was cut off.")


def test_what_is_wrong_with_a_marked_call_can_be_read_by_repairers(make, prepare):
    state = prepare(make(print))
    state.call = ToolCall("probe", error=CallFault("invalid_arguments", "Wrong.", ("a: wrong",)))
    with pytest.raises(CallError) as caught:
        find(state)
    assert (caught.value.kind, caught.value.problems) == ("invalid_arguments", ("a: wrong",))


def test_a_late_handler_is_loaded_off_the_loop_and_its_tool_runs(make, send):
    where = []

    def load():
        where.append(threading.current_thread())
        return make(lambda: "found late")

    state = send(make(None).evolve(handler=LateHandler(load)))
    assert state.result.text == "found late"
    assert where[0] is not threading.main_thread()


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (StaleSpecError("files", "probe differs"), "probe has changed since it was listed and was not run."),
        (PluginError("files", "ImportError: no module x"), "probe can't be run: what brings it failed to load."),
        (RuntimeError("no module x"), "probe failed: RuntimeError."),
    ],
)
def test_a_plugin_that_fails_late_costs_the_call_and_is_told_to_the_operator(make, send, error, text):
    def load():
        raise error

    result = send(make(None).evolve(handler=LateHandler(load))).result
    assert (result.kind, result.text) == ("tool_failure", text)
    assert str(error) in result.detail


# Near name ------------------------------------------------------------------------------------------------------------


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
    """A second name that is as near makes it unsure."""
    meant = meant_name(written, tools)
    if meant is not None:
        assert meant_name(written, [*tools, meant.swapcase() + "_"]) in (meant, None)
