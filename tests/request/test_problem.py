from __future__ import annotations

from pegboard.request.model_request import ProcessorProblem
from pegboard.tools.policy import Origin

FILES = Origin("files", "pegboard-files", "0.1.0")


def test_it_says_who_and_what():
    assert str(ProcessorProblem("memory", "it rains", FILES)) == (
        "request processor 'memory' of plugin 'files' (pegboard-files 0.1.0): it rains"
    )
    assert str(ProcessorProblem("tool_requests", "it rains", tool="today")) == (
        "request processor 'tool_requests', tool 'today' of the host: it rains"
    )


def test_two_that_say_the_same_are_the_same_whatever_was_raised():
    assert ProcessorProblem("a", "b", error=ValueError()) == ProcessorProblem("a", "b", error=ValueError())
