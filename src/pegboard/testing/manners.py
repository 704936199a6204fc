"""What a tool says of itself: whether a model can act on it."""

from __future__ import annotations

from collections.abc import Iterator

from pegboard.schema.json import is_object
from pegboard.schema.references import References
from pegboard.testing.notebook import Notebook
from pegboard.tools.spec import ToolSpec
from pegboard.typing import JsonSchema


def check_spec(spec: ToolSpec, notebook: Notebook) -> None:
    """Reads a tool's description, its marks and what it says of its parameters.

    Args:
        spec: What the tool says of itself; its schemas were judged when it was registered.
        notebook: Gets the findings.
    """
    called = f"tool {spec.name!r}"
    if not spec.description.strip() and spec.kind != "provider":
        notebook.finding(f"{called} has no description: a model can't tell what it is for; give it a docstring")
    if spec.annotations.read_only_hint and spec.annotations.destructive_hint:
        notebook.finding(f"{called} is marked both read-only and destructive: take one of the marks off")
    undescribed = list(_undescribed(spec.input_schema)) if spec.kind == "function" else []
    if undescribed:
        notebook.warn(
            f"{called}: no description for {', '.join(map(repr, undescribed))}; give one in the docstring (Args:), "
            "or as Annotated[..., 'text']"
        )


def _undescribed(schema: JsonSchema) -> Iterator[str]:
    """The parameters that neither a description nor a list of options speaks for."""
    references = References(schema)
    for name, rule in schema.get("properties", {}).items():
        if is_object(rule) and not _speaks(rule, references):
            yield name


def _speaks(rule: JsonSchema, references: References) -> bool:
    spoken = any(rule.get(keyword) for keyword in ("description", "title", "enum")) or "const" in rule
    return spoken or any(is_object(target) and "description" in target for target in references.targets(rule))
