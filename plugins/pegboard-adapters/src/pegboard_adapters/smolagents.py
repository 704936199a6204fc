"""smolagents: its tools in pegboard, and pegboard's tools in its agents."""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from keyword import iskeyword
from typing import Any, Final

from pegboard import ReadonlyContext, ResolvedTools, Tool, ToolError, ToolResult
from pegboard.tools import Content, mapped_name
from pegboard.typing import JsonObject, JsonSchema
from pegboard_adapters.content import content_of, media_of, text_of
from pegboard_adapters.incoming import ForeignToolset, Trust
from pegboard_adapters.outgoing import offer_each, run_call_sync, without_references
from pegboard_adapters.peers import check_peer

check_peer("smolagents")

from PIL import Image
from smolagents import AgentError, Tool as SmolTool
from smolagents.agent_types import AgentType

_TYPES: Final = {"string", "boolean", "integer", "number", "array", "object", "null"}  # that smolagents takes
_MEDIA: Final = ("image", "audio")  # whose inputs are paths or URLs, for a model

# pegboard's tools in smolagents ---------------------------------------------------------------------------------------


def to_smolagents(
    resolved: ResolvedTools, *, context: ReadonlyContext | Callable[[], ReadonlyContext] = ReadonlyContext
) -> list[SmolTool]:
    """Pegboard's tools as tools of smolagents: `ToolCallingAgent(tools=to_smolagents(resolved), model=model)`.

    They work in a `CodeAgent`, too, if its executor is the local one. smolagents can't ask a person, so a call that
    asks is denied, unless the registry has an approver. A tool that smolagents refuses is left out, with an entry in
    the log.

    Args:
        resolved: The tools to offer, of `await registry.resolve()`.
        context: The user and the session of the agent, as it knows neither; or a function that returns them.

    Raises:
        ValueError: No registry has resolved these tools.
    """
    names: set[str] = set()

    def offer(tool: Tool) -> SmolTool:
        offered = _PegboardTool(tool, resolved, context if callable(context) else lambda: context)
        if offered.name in names:
            raise ValueError(f"another tool is {offered.name}, too")
        names.add(offered.name)
        return offered

    return offer_each(resolved, offer, "smolagents")


class _PegboardTool(SmolTool):
    """A tool of pegboard; its name is a Python identifier, as the code of a `CodeAgent` calls it."""

    skip_forward_signature_validation = True

    def __init__(self, tool: Tool, resolved: ResolvedTools, context: Callable[[], ReadonlyContext]) -> None:
        super().__init__()
        spec = tool.spec
        name = re.sub(r"\W", "_", spec.name)
        self.name = f"{name}_" if iskeyword(name) else name
        self.description = spec.description or spec.name
        self.inputs = _inputs_of(spec.input_schema)
        self.output_type = "any" if spec.output_schema is None else "object"
        self.output_schema = None if spec.output_schema is None else dict(without_references(spec.output_schema))
        self._own_name, self._resolved, self._context = spec.name, resolved, context

    def forward(self, *args: Any, **arguments: Any) -> Any:
        """Runs a call; code may give arguments by their positions.

        Raises:
            ToolError: It failed; smolagents shows the model the text.
        """
        if len(args) > len(self.inputs):
            raise ToolError(f"{self.name} takes {len(self.inputs)} arguments, not {len(args)}.")
        given = {**dict(zip(self.inputs, args, strict=False)), **arguments}
        given = {key: value for key, value in given.items() if value is not None or self._takes_null(key)}
        result = run_call_sync(self._resolved, self._own_name, given, self._context())
        if result.is_error:
            raise ToolError(result.text)
        return _value_of(result)

    def _takes_null(self, name: str) -> bool:
        """Whether null is a value of an argument, not smolagents' word for one that isn't given."""
        rule: Any = self.inputs.get(name, {})
        return not rule.get("nullable") or "null" in rule["type"] or rule["type"] == "any"


def _inputs_of(schema: JsonSchema) -> dict[str, Any]:
    """The properties of a schema as smolagents' inputs, without references, each with a type and a description."""
    flat = without_references(schema)
    required = flat.get("required", ())
    return {name: _input_of(name, rule, name in required) for name, rule in flat.get("properties", {}).items()}


def _input_of(name: str, rule: Any, is_required: bool) -> JsonObject:
    schema: JsonObject = dict(rule) if isinstance(rule, dict) else {}
    options = schema.pop("anyOf", None) or []  # which smolagents reads in part only
    others = [option for option in options if isinstance(option, dict) and option.get("type") != "null"]
    if len(others) == 1:
        schema = {**others[0], **schema}
    kinds = _types_of(schema) if len(others) < 2 else [kind for option in others for kind in _types_of(option)]
    if len(others) < len(options) and kinds:
        kinds.append("null")
    is_known = bool(kinds) and _TYPES.issuperset(kinds)
    kinds = [*dict.fromkeys([*kinds, "integer"] if "number" in kinds and len(kinds) > 1 else kinds)]
    schema["type"] = "any" if not is_known else kinds[0] if len(kinds) == 1 else kinds
    schema["description"] = str(schema.get("description") or name)
    if not is_required:
        schema["nullable"] = True
    return schema


def _types_of(schema: JsonObject) -> list[str]:
    kinds = schema.get("type", "any")
    return [kinds] if isinstance(kinds, str) else [*kinds]


def _value_of(result: ToolResult) -> Any:
    """A result as Python data: its structured data, its text, or several parts where it has media."""
    if result.structured_content is not None:
        return result.structured_content
    parts = [_part(item) for item in result.content]
    if all(isinstance(part, str) for part in parts):
        return "\n".join(parts)
    return parts[0] if len(parts) == 1 else parts


def _part(item: Content) -> Any:
    if (text := text_of(item)) is not None:
        return text
    data, mime_type = media_of(item)
    if mime_type.startswith("image/"):
        with suppress(Exception):  # what Pillow can't read is only named
            return Image.open(io.BytesIO(data))
    return f"[{mime_type}, {len(data):,} bytes]"


# smolagents' tools in pegboard ----------------------------------------------------------------------------------------


def from_smolagents(
    tools: Iterable[object] | SmolTool, *, name: str = "smolagents", trust: Trust = False
) -> ForeignToolset:
    """Tools of smolagents as a toolset, for `registry.register`.

    Each is set up in its first call. An input of the type image or audio is a path or a URL here.

    Args:
        tools: Such as those of `@tool`, or a `ToolCollection`.
        name: The toolset's name.
        trust: Whether they run unasked where they declare no harm; or the names of tools and packages that do.
    """
    items = [tools] if isinstance(tools, SmolTool) else getattr(tools, "tools", tools)
    return ForeignToolset(name, items, _tool_of, trust=trust)


def _tool_of(tool: Any) -> Tool:
    if not isinstance(tool, SmolTool):
        raise TypeError(f"it is no tool of smolagents, but of type {type(tool).__name__}")
    setting_up = threading.Lock()

    def run(arguments: JsonObject) -> ToolResult:
        with setting_up:
            if not tool.is_initialized:
                tool.setup()
                tool.is_initialized = True
        try:
            return ToolResult(tuple(content_of(_blocks(tool(**arguments)))))
        except AgentError as error:  # the other exceptions are crashes
            raise ToolError(error.message) from error

    inputs: dict[str, Any] = tool.inputs
    schema: JsonObject = {
        "type": "object",
        "properties": {key: _schema_of(rule) for key, rule in inputs.items()},
        "required": [key for key, rule in inputs.items() if not rule.get("nullable")],
        "additionalProperties": False,
    }
    return Tool.from_schema(mapped_name(tool.name), schema, run, description=tool.description, skip_patterns=True)


def _schema_of(rule: JsonObject) -> JsonObject:
    """The JSON Schema of an input; `any` has no type, and media are texts."""
    schema = {key: value for key, value in rule.items() if key not in ("type", "nullable")}
    kinds = ["string" if kind in _MEDIA else kind for kind in _types_of(rule)]
    if "any" in kinds:
        return schema
    return {**schema, "type": [*dict.fromkeys([*kinds, *(["null"] if rule.get("nullable") else [])])]}


def _blocks(value: Any) -> Any:
    """Smolagents' images as blocks; anything else unchanged."""
    value = value.to_raw() if isinstance(value, AgentType) else value
    if isinstance(value, list | tuple):
        return [_blocks(item) for item in value] if any(isinstance(item, Image.Image) for item in value) else [value]
    if isinstance(value, Image.Image):
        written = io.BytesIO()
        value.save(written, "PNG")
        return {"type": "image", "data": written.getvalue(), "mime_type": "image/png"}
    return value if isinstance(value, str) else [value]
