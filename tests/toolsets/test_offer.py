from __future__ import annotations

import collections

import pytest

from pegboard.errors import DefinitionError, SchemaError
from pegboard.tools.policy import HOST, Origin
from pegboard.toolsets import toolset as module
from pegboard.toolsets.toolset import Offer, ToolsetProblem, checked, described, failed
from toolsets.samples import BOMB, make_tool


def test_an_offer_is_its_tools():
    tool = make_tool()
    offer = Offer([tool], [ToolsetProblem("t", "x")])
    assert (list(offer), len(offer), offer.problems[0].cause, offer.dropped) == ([tool], 1, "x", ())


@pytest.mark.parametrize("kind", [list, tuple, collections.UserList])
def test_any_sequence_of_tools_will_do(kind):
    tool = make_tool()
    assert checked("t", kind([tool])) == ([tool], [])


@pytest.mark.parametrize("answer", [None, "tools", b"", {"a": 1}, {1}, iter([]), (tool for tool in ()), 7, make_tool()])
def test_what_is_no_list_is_refused(answer):
    with pytest.raises(TypeError, match="list of tools"):
        checked("t", answer)


def test_what_is_no_tool_costs_only_itself():
    tool = make_tool()
    tools, problems = checked("t", ["x", tool, None])
    assert tools == [tool]
    assert [str(problem) for problem in problems] == [
        "toolset 't': item 0 is no Tool but str",
        "toolset 't': item 2 is no Tool but NoneType",
    ]


def test_a_second_tool_of_a_name_costs_only_itself():
    first, second = make_tool("a"), make_tool("a")
    tools, problems = checked("t", [first, second, first])
    assert tools == [first]
    assert [(problem.tool, "two tools called 'a'" in problem.cause) for problem in problems] == [("a", True)]


def test_many_problems_are_cut_short():
    _, problems = checked("t", [None] * 50)
    assert len(problems) == 21
    assert problems[-1].cause == "and 30 more problems of this kind"


def test_a_list_without_end_is_refused(monkeypatch):
    monkeypatch.setattr(module, "_MOST_TOOLS", 3)
    with pytest.raises(ValueError, match="3 tools, and gave more"):
        checked("t", [None] * 4)


class SpeechlessError(Exception):
    def __str__(self):
        raise RuntimeError


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("a\n b"), "ValueError: a b"),
        (ValueError(), "ValueError"),
        (SpeechlessError(), "SpeechlessError"),
        (DefinitionError("no such argument", parameter="x"), "'x': no such argument"),
        (ValueError("x" * 5000), "ValueError: " + "x" * 500),
    ],
)
def test_an_error_in_one_short_line(error, text):
    assert described(error) == text


def test_the_offer_of_a_toolset_that_failed():
    error = OSError("down")
    (problem,) = failed("t", error).problems
    assert (problem.toolset, problem.cause, problem.error) == ("t", "OSError: down", error)


def test_problems_get_an_owner():
    origin = Origin(plugin="p")
    assert failed("t", OSError()).owned_by(origin).problems[0].origin == origin
    whole = failed("t", OSError())
    assert whole.owned_by(HOST) is whole


def test_a_problem_without_a_toolset_prints_its_cause():
    assert str(ToolsetProblem("", "no tool is called 'x'")) == "no tool is called 'x'"


def test_an_unsound_tool_costs_only_itself():
    good, bad = make_tool("good"), make_tool("bad", input_schema=BOMB)
    tools, problems = checked("t", [bad, good])
    assert tools == [good]
    assert [(each.tool, type(each.error)) for each in problems] == [("bad", SchemaError)]
    assert str(problems[0]).startswith("toolset 't': tool 'bad': input_schema is refused: it comes to more than")


def test_an_interrupt_while_an_error_is_described_passes_on():
    class RudeError(Exception):
        def __str__(self):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        described(RudeError())


def test_notes_are_no_failures():
    assert not Offer((), [ToolsetProblem("t", "x", note=True)]).has_failed
    assert Offer((), [ToolsetProblem("t", "x", note=True), ToolsetProblem("t", "x")]).has_failed
