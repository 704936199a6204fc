from __future__ import annotations

import threading

import pytest

from pegboard.dispatch.find import MOST_LISTED, not_offered, unknown
from pegboard.errors import PluginError, StaleSpecError
from pegboard.tools.handler import LateHandler


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
    names = [f"t{number:03}" for number in range(MOST_LISTED + 7)]
    assert unknown("nothing_like_it", names).text.endswith("t049 and 7 more.")
    assert unknown("x", []).text == "No tool is called 'x'. Available: none."


def test_a_long_name_is_cut():
    assert len(unknown("x" * 100_000, ["read"]).text) < 200


def test_not_offered_says_so_and_what_is():
    error = not_offered("erase", ["read", "list"])
    assert (error.kind, error.text) == (
        "not_offered",
        "erase is not available for this request. Available: read, list.",
    )
    assert not_offered("erase", []).text.endswith("Available: none.")


def test_a_late_handler_is_loaded_off_the_loop_and_its_tool_runs(make, send):
    where = []

    def load():
        where.append(threading.current_thread())
        return make(lambda: "found late")

    work = send(make(None).evolve(handler=LateHandler(load)))
    assert work.result.text == "found late"
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
