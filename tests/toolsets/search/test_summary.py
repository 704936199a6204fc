"""What the model reads of the tools that were found."""

from __future__ import annotations

import pytest

from pegboard.tools.spec import ToolSpec
from pegboard.toolsets.search import _MOST_ARGUMENTS, _arguments_text, _found_text

SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "limit": {"type": ["integer", "null"]}, "any": {}, "all": True},
    "required": ["path", "any"],
}


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (ToolSpec("a", input_schema=SCHEMA), "path (string, required), limit (integer or null), any (required), all"),
        (ToolSpec("a"), "none"),
        (ToolSpec("a", input_schema={"type": "object", "properties": 5, "required": 5}), "none"),
        (ToolSpec("a", input_schema={"properties": {"b": {"type": 5}}, "required": 5}), "b"),
        (ToolSpec("a", kind="freeform"), "free text"),
    ],
)
def test_arguments_stand_in_one_line(spec, text):
    assert _arguments_text(spec) == text


def test_the_whole_answer():
    specs = [ToolSpec("a", "Does\n\nthis.", SCHEMA), ToolSpec("b", title="That"), ToolSpec("c")]
    assert _found_text("q", specs) == (
        "3 tools were found. They can be called from your next answer on.\n\n"
        "a: Does this.\n  arguments: path (string, required), limit (integer or null), any (required), all\n\n"
        "b: That\n  arguments: none\n\n"
        "c\n  arguments: none"
    )


def test_what_is_only_near_is_told_so():
    text = _found_text("wether", [ToolSpec("weather")], near=True)
    assert text.startswith("No tool speaks of 'wether'; these have names that are near.\n1 tool was found. It can")


def test_nothing_found_says_what_to_try():
    assert _found_text("x" * 500, []).startswith("No tool fits '" + "x" * 79 + "…'. Try other words")


def test_it_is_bounded_whatever_a_tool_says():
    schema = {"type": "object", "properties": {f"{n}{'p' * 5_000}": {"type": "string"} for n in range(300)}}
    specs = [ToolSpec(f"t{n}", "x" * 100_000, schema) for n in range(20)]
    assert f"and {300 - _MOST_ARGUMENTS} more" in _arguments_text(specs[0])
    assert len(_found_text("q" * 100_000, specs)) < 60_000
