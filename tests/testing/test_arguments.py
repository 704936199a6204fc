"""What a tool's check says to arguments that fit its schema, and to those that don't."""

from __future__ import annotations

from typing import Annotated

import attrs
import pytest
from annotated_types import Ge

from pegboard import Grammar, Tool, ToolSpec, tool
from pegboard.testing.arguments import check_arguments
from pegboard.testing.notebook import Notebook
from pegboard.tools.collection import tool_of


def checked(thing: object) -> Notebook:
    notebook = Notebook("demo")
    subject = thing if isinstance(thing, Tool) else tool_of(thing)
    check_arguments(subject, notebook)
    return notebook


def raw(properties: dict, **more) -> Tool:
    schema = {"type": "object", "properties": properties, **more}
    return Tool.from_schema("raw", schema, lambda arguments: None, description="Does.")


def test_a_tool_whose_schema_says_what_it_takes_passes() -> None:
    @tool
    def add(a: int, b: Annotated[int, Ge(0)] = 0) -> int:
        """Adds."""
        raise AssertionError("never run")

    notebook = checked(add)
    assert notebook.findings == notebook.warnings == notebook.notes == []
    assert notebook.tried > 15


def test_a_rule_that_the_named_draft_doesnt_know_is_found() -> None:
    """Draft 4 has no "const": it stands there, and nobody reads it."""
    tool = raw({"unit": {"const": "C"}}, **{"$schema": "http://json-schema.org/draft-04/schema#"})
    (finding,) = checked(tool).findings
    assert 'takes what its input schema forbids: unit: string "no such option"' in finding
    assert "write the schema as JSON Schema 2020-12" in finding


def test_an_example_that_the_check_refuses_is_found() -> None:
    @tool(examples=[{"n": 1}, {"n": 2}], check=lambda arguments: ["n: must be odd"] if arguments["n"] % 2 == 0 else [])
    def odd(n: int) -> int:
        """Takes odd numbers."""
        return n

    (finding,) = checked(odd).findings
    assert "its own example 2 is refused (n: must be odd)" in finding


def test_a_check_that_refuses_some_of_what_fits_is_a_warning() -> None:
    @tool(check=lambda arguments: ["n: too small"] if arguments["n"] < 0 else [])
    def root(n: int) -> int:
        """Takes a root."""
        return n

    notebook = checked(root)
    assert notebook.findings == []
    (warning,) = notebook.warnings
    assert "n: too small" in warning
    assert "say it in the schema" in warning


def test_a_check_that_refuses_all_that_fits_is_found() -> None:
    @tool(check=lambda arguments: ["n: must be a prime above 100"])
    def prime(n: int) -> int:
        """Takes a prime."""
        return n

    (finding,) = checked(prime).findings
    assert "declare an example" in finding


def test_a_type_that_refuses_what_the_schema_takes_is_a_warning() -> None:
    """A validator that JSON Schema can't say."""

    def even(_instance, _attribute, value) -> None:
        if value % 2:
            raise ValueError("must be even")

    @attrs.define
    class Pair:
        n: int = attrs.field(validator=even)

    @tool
    def halve(pair: Pair, other: int = 0) -> int:
        """Halves."""
        return pair.n // 2

    notebook = checked(halve)
    assert notebook.findings == []
    assert "must be even" in notebook.warnings[0]


def test_a_check_that_crashes_is_found_once() -> None:
    @tool(check=lambda arguments: arguments["nosuch"])
    def crash(n: int) -> int:
        """Crashes."""
        return n

    notebook = checked(crash)
    assert all("raised KeyError" in finding for finding in notebook.findings)


@pytest.mark.parametrize(
    ("write", "told"),
    [
        (lambda problems: problems[99], "its format_validation_error raised IndexError"),
        (lambda problems: None, "its format_validation_error gave None"),
    ],
)
def test_a_wording_of_refusals_that_fails_is_found(write, told) -> None:
    @tool(format_validation_error=write)
    def add(a: int) -> int:
        """Adds."""
        return a

    (finding,) = checked(add).findings
    assert told in finding


def test_a_wording_of_refusals_that_works_is_fine() -> None:
    @tool(format_validation_error=" and ".join)
    def add(a: int) -> int:
        """Adds."""
        return a

    assert checked(add).findings == []


def test_a_schema_that_nothing_fits_is_noted() -> None:
    (note,) = checked(raw({"a": False}, required=["a"])).notes
    assert "no arguments were found that its input schema takes" in note


def test_rules_are_broken_round_an_example_where_no_sample_is_found() -> None:
    pattern = "^(?:a{2}|b)[^\\x00-\\x7f]$"
    spec = ToolSpec(
        "odd",
        "Takes odd text.",
        input_schema={"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}, "required": ["a"]},
        examples=[{"a": "b\u00e9"}],
    )
    notebook = checked(Tool(spec))
    assert notebook.findings == []
    assert notebook.tried > 5


def test_a_property_without_a_sample_is_noted() -> None:
    (note,) = checked(raw({"a": {"type": "string", "pattern": "^[^\\x00-\\x7f]$"}})).notes
    assert "no value was found for 'a'" in note


def test_freeform_and_provider_tools_are_tried_by_their_schemas() -> None:
    free = Tool.freeform("free", lambda text: text, grammar=Grammar("regex", "a+"), description="Takes text.")
    assert checked(free).findings == []
    assert checked(Tool.provider("search", "demo.search")).findings == []


def test_arguments_are_shown_cut_short() -> None:
    @tool(check=lambda arguments: ["text: too long"] if len(arguments["text"]) > 500 else [])
    def echo(text: str) -> str:
        """Echoes."""
        return text

    (warning,) = checked(echo).warnings
    assert "aaa..." in warning
    assert len(warning) < 600
