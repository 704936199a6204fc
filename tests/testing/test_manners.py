"""What a tool says of itself."""

from __future__ import annotations

from pegboard import ToolAnnotations, ToolSpec
from pegboard.testing.manners import check_spec
from pegboard.testing.notebook import Notebook


def read(**facts) -> Notebook:
    notebook = Notebook("demo")
    check_spec(ToolSpec("demo", **{"description": "Does.", **facts}), notebook)
    return notebook


def of(properties: dict, **more) -> dict:
    return {"type": "object", "properties": properties, **more}


def test_a_tool_without_a_description_is_found() -> None:
    notebook = read(description=" \n")
    assert "has no description" in notebook.findings[0]


def test_a_providers_tool_is_described_by_its_provider() -> None:
    notebook = read(description="", kind="provider", provider_id="demo.search")
    assert notebook.findings == []


def test_contradicting_marks_are_found() -> None:
    notebook = read(annotations=ToolAnnotations(read_only_hint=True, destructive_hint=True))
    assert "both read-only and destructive" in notebook.findings[0]


def test_parameters_that_say_nothing_of_themselves_are_one_warning() -> None:
    properties = {
        "a": {"type": "string"},
        "b": {"type": "string", "description": "Where."},
        "c": {"enum": ["x", "y"]},
        "d": {"const": None},
        "e": {"$ref": "#/$defs/e"},
        "f": {"$ref": "#/$defs/f"},
        "g": True,
    }
    schema = of(properties, **{"$defs": {"e": {"description": "An e."}, "f": {"type": "string"}}})
    notebook = read(input_schema=schema)
    (warning,) = notebook.warnings
    assert "no description for 'a', 'f';" in warning
