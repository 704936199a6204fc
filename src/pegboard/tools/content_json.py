"""Content and results as JSON data, both ways."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeGuard, cast, get_args

from pegboard.tools.content import (
    AudioContent,
    Content,
    ErrorKind,
    FileContent,
    ImageContent,
    LinkContent,
    TextContent,
    ToolResult,
)
from pegboard.typing import JsonMapping, JsonObject

_KINDS: Final = frozenset(get_args(ErrorKind))
_MOST_UNSAYABLE: Final = 1_000


def content_from_json(data: object, path: str = "content") -> Content:
    """One content, as its `to_json` writes it and as MCP has it; annotations and what else isn't known are left out.

    Args:
        data: A JSON object with a `"type"`.
        path: Where it stands, for errors.

    Raises:
        ValueError: It is no content.
    """
    if not _is_object(data):
        raise _wrong(path, "an object", data)
    read = _READERS.get(data["type"]) if isinstance(data.get("type"), str) else None
    if read is None:
        kind: object = data.get("type")
        found = repr(kind)[:80] if isinstance(kind, str | None) else type(kind).__name__
        raise ValueError(f"{path}.type: must be one of {', '.join(_READERS)}, got {found}")
    return read(data, path)


def result_from_json(data: object) -> ToolResult:
    """Reads MCP's `{"content", "structuredContent", "isError"}`.

    Raises:
        ValueError: It is no result.
    """
    if not _is_object(data):
        raise _wrong("(root)", "an object", data)
    is_error = data.get("isError", False)
    if not isinstance(is_error, bool):
        raise _wrong("isError", "a boolean", is_error)
    return ToolResult(
        _contents(data, "content"), data.get("structuredContent"), is_error, "tool_failure" if is_error else None
    )


def result_from_data(data: object) -> ToolResult:
    """Reads what `result_to_data` writes.

    Raises:
        ValueError: It is no result.
    """
    result = result_from_json(data)
    facts = cast("JsonMapping", data)
    kind = facts.get("kind")
    if kind is not None and not (isinstance(kind, str) and kind in _KINDS):
        raise ValueError(f"kind: {kind!r:.80} is no kind of error")
    metadata = facts.get("metadata", {})
    if not _is_object(metadata):
        raise _wrong("metadata", "an object", metadata)
    return ToolResult(
        result.content,
        result.structured_content,
        result.is_error,
        cast("ErrorKind | None", kind),
        _optional_text(facts, "display"),
        _optional_text(facts, "title"),
        metadata,
        _optional_text(facts, "detail"),
        _contents(facts, "attachments"),
        facts.get("details"),
    )


def result_to_data(result: ToolResult) -> JsonObject:
    """Everything that a result says; what JSON can't say is written as text. Never raises."""
    data = result.to_json()
    data["structuredContent"] = _sayable(result.structured_content)
    for name in ("kind", "display", "title", "detail"):
        if (fact := getattr(result, name)) is not None:
            data[name] = fact
    if result.metadata:
        data["metadata"] = {_text_of(name): _sayable(fact) for name, fact in result.metadata.items()}
    if result.attachments:
        data["attachments"] = [item.to_json() for item in result.attachments]
    if result.details is not None:
        data["details"] = _sayable(result.details)
    return data


def _sayable(value: Any) -> Any:
    from pegboard.schema.dump import to_json_data

    try:
        return to_json_data(value)
    except Exception:  # noqa: BLE001  (whatever a value of the tool's own makes of being written)
        return _text_of(value)


def _text_of(value: object) -> str:
    try:
        return value if type(value) is str else repr(value)[:_MOST_UNSAYABLE]
    except Exception:  # noqa: BLE001  (likewise)
        return f"<{type(value).__name__}>"


def _wrong(path: str, wanted: str, found: object) -> ValueError:
    return ValueError(f"{path}: must be {wanted}, got {type(found).__name__}")


def _is_object(data: object) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(data, Mapping)


def _contents(data: JsonMapping, key: str) -> tuple[Content, ...]:
    items = data.get(key, ())
    if not isinstance(items, list | tuple):
        raise _wrong(key, "an array", items)
    listed = cast("list[Any]", items)
    return tuple(content_from_json(item, f"{key}[{place}]") for place, item in enumerate(listed))


def _text(data: JsonMapping, key: str, path: str) -> str:
    text = data.get(key)
    if not isinstance(text, str):
        raise _wrong(f"{path}.{key}", "a string", text)
    return text


def _optional_text(data: JsonMapping, key: str, path: str = "") -> str | None:
    text = data.get(key)
    if text is not None and not isinstance(text, str):
        raise _wrong(f"{path}.{key}" if path else key, "a string", text)
    return text


def _bytes(data: JsonMapping, key: str, path: str) -> bytes:
    text = _text(data, key, path)
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise ValueError(f"{path}.{key}: not base64") from error


def _read_text(data: JsonMapping, path: str) -> TextContent:
    return TextContent(_text(data, "text", path))


def _read_image(data: JsonMapping, path: str) -> ImageContent:
    return ImageContent(_bytes(data, "data", path), _text(data, "mimeType", path))


def _read_audio(data: JsonMapping, path: str) -> AudioContent:
    return AudioContent(_bytes(data, "data", path), _text(data, "mimeType", path))


def _read_file(data: JsonMapping, path: str) -> FileContent:
    resource = data.get("resource")
    path = f"{path}.resource"
    if not _is_object(resource):
        raise _wrong(path, "an object", resource)
    content = _text(resource, "text", path) if "text" in resource else _bytes(resource, "blob", path)
    return FileContent(_text(resource, "uri", path), content, _optional_text(resource, "mimeType", path))


def _read_link(data: JsonMapping, path: str) -> LinkContent:
    return LinkContent(_text(data, "uri", path), _text(data, "name", path), _optional_text(data, "mimeType", path))


_READERS: Final[Mapping[str, Callable[[JsonMapping, str], Content]]] = {
    "text": _read_text,
    "image": _read_image,
    "audio": _read_audio,
    "resource": _read_file,
    "resource_link": _read_link,
}


__all__ = ["content_from_json", "result_from_data", "result_from_json", "result_to_data"]
