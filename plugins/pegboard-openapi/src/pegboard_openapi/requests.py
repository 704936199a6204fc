"""Requests of operations: arguments in the path, query, headers, cookies and body, by OpenAPI's styles."""

from __future__ import annotations

import json
import mimetypes
import os
from collections.abc import Iterator, Mapping
from errno import EFBIG
from typing import Any, Final
from urllib.parse import quote

from attrs import define, field

from pegboard import ToolContext, ToolError
from pegboard.files import os_error_text, read_bounded
from pegboard.json import is_array, is_object, size_text
from pegboard_openapi.operations import Body, Operation, Parameter

MOST_UPLOAD: Final = 64 << 20
"""Bytes of all files in a body."""

_UNRESERVED_TOO: Final = ":/?[]@!$'()*,;"  # without those that would begin another part of the URL
_SEPARATORS: Final = {"form": ",", "cookie": ",", "spaceDelimited": "%20", "pipeDelimited": "%7C"}


@define(eq=False)
class Draft:
    """A request without credentials.

    Attributes:
        method: In upper case.
        url: The address with path and query.
        headers: By name.
        cookies: `name=value`, each.
        content: The body, if it isn't multipart.
        parts: The parts of a multipart body, as httpx2 takes them.
    """

    method: str
    url: str
    headers: dict[str, str] = field(factory=dict[str, str])
    cookies: list[str] = field(factory=list[str])
    content: bytes | None = None
    parts: list[tuple[str, Any]] | None = None


def draft_of(operation: Operation, arguments: Mapping[str, Any], files: Mapping[str, bytes] | None = None) -> Draft:
    """The request of a call.

    Args:
        operation: The operation.
        arguments: Valid by its schema.
        files: The content of the files that they name, by path; `None` leaves the body out.

    Raises:
        ToolError: An argument can't be in its place.
    """
    path, query = operation.path, list[str]()
    draft = Draft(operation.method, "")
    for parameter in operation.parameters:
        value = arguments.get(parameter.argument)
        if value is None and parameter.place != "path":
            continue
        if parameter.place == "path":
            path = path.replace("{" + parameter.name + "}", _in_path(parameter, value))
        elif parameter.place in ("query", "querystring"):
            query += _in_query(parameter, value)
        elif parameter.place == "cookie":
            draft.cookies += _in_query(parameter, value)
        else:
            draft.headers[parameter.name] = _in_header(parameter, value)
    draft.url = operation.server.partition("#")[0].rstrip("/") + (path if path.startswith("/") else f"/{path}")
    if query:
        draft.url += ("&" if "?" in draft.url else "?") + "&".join(query)
    body = operation.body
    if files is not None and body is not None and (value := arguments.get(body.argument)) is not None:
        _add_body(draft, body, value, files)
    return draft


# Parameters -------------------------------------------------------------------------------------------------------


def text_of(value: Any) -> str:
    """A value as the text in a parameter or a form: lists and objects in it as JSON."""
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)


def _quote(value: Any, *, reserved: bool = False) -> str:
    return quote(text_of(value), safe=_UNRESERVED_TOO if reserved else "", errors="replace")


def _in_path(parameter: Parameter, value: Any) -> str:
    if parameter.media is not None:
        text = _quote(json.dumps(value, ensure_ascii=False))
    else:
        name, style, explode = quote(parameter.name, safe=""), parameter.style, parameter.explode
        begin = {"simple": "", "label": ".", "matrix": f";{name}="}[style]
        items = _items(value, explode=explode, reserved=False)  # "/" and "?" would make it another path
        if style == "matrix" and explode and _is_many(value):  # each item has its own name
            begin, items = ";", items if is_object(value) else [f"{name}={each}" for each in items]
        between = {"label": ".", "matrix": ";"}.get(style, ",") if explode else ","
        text = begin + between.join(items)
    if text in ("", ".", ".."):
        raise ToolError(f"{parameter.argument}: {text_of(value)!r:.80} can't be in a path. Send another value.")
    return text


def _is_many(value: Any) -> bool:
    return isinstance(value, list | dict)


def _items(value: Any, *, explode: bool, reserved: bool) -> list[str]:
    """The encoded items of a value: of an object, `name=value` each, or names and values in turn."""
    if is_object(value):
        pairs = [(_quote(key), _quote(each, reserved=reserved)) for key, each in value.items() if each is not None]
        return [f"{key}={each}" for key, each in pairs] if explode else [part for pair in pairs for part in pair]
    return [_quote(each, reserved=reserved) for each in (value if is_array(value) else (value,))]


def _in_query(parameter: Parameter, value: Any) -> list[str]:
    """The parts `name=value` of a query, or of a cookie header."""
    if parameter.place == "querystring":
        if parameter.media == "application/x-www-form-urlencoded" and is_object(value):
            return [part for key, each in value.items() for part in _pairs(_quote(key), each, "form")]
        return [_quote(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))]
    if parameter.media is not None:
        return [f"{_quote(parameter.name)}={_quote(json.dumps(value, ensure_ascii=False))}"]
    return _pairs(
        _quote(parameter.name), value, parameter.style, explode=parameter.explode, reserved=parameter.reserved
    )


def _pairs(name: str, value: Any, style: str, *, explode: bool = True, reserved: bool = False) -> list[str]:
    """The parts `name=value` of one value; of an object whose members are parts by themselves, `key=value`."""
    if style == "deepObject" and _is_many(value):
        return list(_deep(name, value, reserved=reserved))
    if explode and _is_many(value):
        items = _items(value, explode=True, reserved=reserved)
        return [f"{name}={each}" for each in items] if is_array(value) else items
    return [f"{name}={_SEPARATORS.get(style, ',').join(_items(value, explode=False, reserved=reserved))}"]


def _deep(name: str, value: Any, *, reserved: bool) -> Iterator[str]:
    """`name[key]=value`; OpenAPI leaves open how lists are written: here with positions, `name[0]=value`."""
    if not _is_many(value):
        yield f"{name}={_quote(value, reserved=reserved)}"
        return
    for key, each in value.items() if is_object(value) else enumerate(value):
        if each is not None:
            yield from _deep(f"{name}%5B{_quote(str(key))}%5D", each, reserved=reserved)


def _in_header(parameter: Parameter, value: Any) -> str:
    if parameter.media is not None:
        text = json.dumps(value)
    elif is_object(value):
        pairs = [(str(key), text_of(each)) for key, each in value.items()]
        sign = "=" if parameter.explode else ","
        text = ",".join(f"{key}{sign}{each}" for key, each in pairs)
    else:
        text = ",".join(map(text_of, value if is_array(value) else (value,)))
    if not text.isascii() or not text.replace("\t", " ").isprintable():
        raise ToolError(f"{parameter.argument}: only printable ASCII characters can be in a header.")
    return text


# Bodies -----------------------------------------------------------------------------------------------------------


def _add_body(draft: Draft, body: Body, value: Any, files: Mapping[str, bytes]) -> None:
    if body.kind in ("form", "multipart") and not is_object(value):
        raise ToolError(f"{body.argument}: it has to be an object, whose members are the fields of the form.")
    if body.kind == "multipart":
        draft.parts = list(_parts(body, value, files))
        return
    if body.kind == "json":
        draft.content = json.dumps(value, ensure_ascii=False).encode(errors="replace")
    elif body.kind == "form":
        pairs = (part for key, each in value.items() for part in _form_pairs(body, key, each))
        draft.content = "&".join(pairs).encode()
    elif body.kind == "text":
        draft.content = text_of(value).encode(errors="replace")
    else:
        draft.content = files[str(value)]
    draft.headers["content-type"] = body.media


def _form_pairs(body: Body, key: str, value: Any) -> list[str]:
    if value is None:
        return []
    rule, name = body.encoding.get(key, {}), _quote(key)
    if "style" in rule or "explode" in rule:
        style = str(rule.get("style", "form"))
        return _pairs(name, value, style, explode=rule.get("explode", style == "form"))
    if is_array(value):
        return [f"{name}={_quote(each)}" for each in value]
    return [f"{name}={_quote(value)}"]  # an object as JSON


def _parts(body: Body, value: Any, files: Mapping[str, bytes]) -> Iterator[tuple[str, Any]]:
    for key, each in value.items():
        media = str(body.encoding.get(key, {}).get("contentType", "")).partition(",")[0].strip()
        for item in each if is_array(each) else (each,):
            if item is None:
                continue
            if key in body.files and isinstance(item, str):
                name = os.path.basename(item)  # noqa: PTH119  a text
                guess = "application/octet-stream" if "*" in media else media
                yield key, (name, files[item], guess or mimetypes.guess_type(name)[0] or "application/octet-stream")
            elif _is_many(item):
                yield key, (None, json.dumps(item, ensure_ascii=False), media or "application/json")
            else:
                yield key, (None, text_of(item), *((media,) if media and "*" not in media else ()))


# Files ------------------------------------------------------------------------------------------------------------


def file_paths(operation: Operation, arguments: Mapping[str, Any]) -> list[str]:
    """The paths of files that a call would send."""
    body = operation.body
    value = None if body is None else arguments.get(body.argument)
    if body is None or value is None:
        return []
    if body.kind == "file":
        return [value]
    found: list[Any] = []
    for name in sorted(body.files) if is_object(value) else ():
        each = value.get(name)
        found += each if is_array(each) else [each]
    return [path for path in found if isinstance(path, str)]


def read_uploads(paths: list[str], context: ToolContext) -> dict[str, bytes]:
    """The content of files that a call sends, by path.

    Raises:
        ToolError: One can't be read, is too large, or the rules deny reading it.
    """
    contents: dict[str, bytes] = {}
    left = MOST_UPLOAD
    for path in dict.fromkeys(paths):
        if "\0" in path:
            raise ToolError(f"{path!r:.200} isn't a path.")
        whole = os.path.join(context.work_dir or os.getcwd(), os.path.expanduser(path))  # noqa: PTH109, PTH111, PTH118
        real = os.path.realpath(whole)
        if not context.allows("read_file", real):
            raise ToolError(f"The permission rules deny reading {path!r}. Continue without it, or tell the user.")
        try:
            contents[path] = read_bounded(real, left)
            left -= len(contents[path])
        except OSError as error:
            hint = f"; at most {size_text(MOST_UPLOAD)} can be sent" if error.errno == EFBIG else ""
            raise ToolError(f"{path!r} can't be read: {os_error_text(error)}{hint}.") from None
    return contents
