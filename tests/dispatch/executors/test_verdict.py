from __future__ import annotations

import pytest

from pegboard.dispatch.executors.conversation import Ended, Ending
from pegboard.dispatch.executors.request import ExecutionRequest
from pegboard.dispatch.executors.verdict import how_it_ended, response_for


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (None, "hung up and had to be killed"),
        (0, "ended with exit code 0"),
        (-9, "was ended by signal 9 (SIGKILL)"),
        (-200, "was ended by signal 200"),
    ],
)
def test_how_a_child_ended_is_said_in_words(code, words):
    assert how_it_ended(code) == words


def test_one_that_did_not_start_has_not_run_anything():
    response = response_for(Ended(Ending.NOT_STARTED), ExecutionRequest(tool="add"), 1, "no module")
    assert (response.kind, response.error) == ("crashed", "add was not run: its process could not be started.")
    assert response.detail == "the child process ended with exit code 1.\nIt printed last:\nno module"


def test_one_with_other_code_has_not_run_anything():
    response = response_for(Ended(Ending.STALE, reason="it is new"), ExecutionRequest(tool="add"), 0, "")
    assert (response.kind, response.error) == ("tool_failure", "add has changed since it was loaded and was not run.")
    assert response.detail == "it is new; start the program again"
