"""Tools that have to do with requests: `process_request`, `instructions`, `offered`."""

from __future__ import annotations

import pytest

from pegboard.errors import DefinitionError, InvalidNameError
from pegboard.tools.tool import Tool, tool
from pegboard.tools.typed import tool_of


def remember(request):
    """Adds what is remembered.

    And more.
    """


def test_one_that_only_processes_requests_has_no_handler_and_is_never_offered():
    made = Tool.processor("memory", remember, tags=["memory"])
    assert (made.name, made.handler, made.offered, made.process_request) == ("memory", None, False, remember)
    assert made.spec.description == "Adds what is remembered.\n\nAnd more."
    assert made.spec.tags == ("memory",)


def test_it_may_be_described_and_speak():
    made = Tool.processor("memory", remember, description="Remembers.", instructions="You remember.")
    assert (made.spec.description, made.instructions) == ("Remembers.", "You remember.")


@pytest.mark.parametrize(
    ("name", "function", "error"),
    [("memory", 5, DefinitionError), ("memory", None, DefinitionError), ("a b", remember, InvalidNameError)],
)
def test_what_is_none_is_refused(name, function, error):
    with pytest.raises(error):
        Tool.processor(name, function)


def test_what_it_has_to_do_with_requests_is_no_part_of_what_is_approved():
    """A tool's digest is over its spec."""
    plain = Tool.from_schema("a", {"type": "object"})
    made = Tool.from_schema("a", {"type": "object"}, process_request=remember, instructions="x", offered=False)
    assert (made.process_request, made.instructions, made.offered) == (remember, "x", False)
    assert made.spec.digest == plain.spec.digest
    assert (plain.process_request, plain.instructions, plain.offered) == (None, None, True)


def test_functions_say_it_as_options():
    @tool(process_request=remember, instructions="Add with me.", offered=True)
    def add(a: int) -> int:
        return a

    made = tool_of(add)
    assert (made.process_request, made.instructions, made.offered) == (remember, "Add with me.", True)


@pytest.mark.parametrize("option", [{"instructions": 5}, {"offered": "no"}, {"process_request": "no"}])
def test_options_of_the_wrong_form_are_refused_by_name(option):
    with pytest.raises(DefinitionError, match=next(iter(option))):
        Tool.from_schema("a", {"type": "object"}, **option)
