"""OpenAPI documents: reading them from files and URLs within limits, and following their references."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from attrs import define, field, frozen

from pegboard.errors import PegboardError
from pegboard.files import os_error_text, read_bounded
from pegboard.json import is_array, is_object, size_text
from pegboard.typing import JsonObject

MOST_DOCUMENT: Final = 64 << 20  # bytes
_MOST_LEVELS: Final = 200  # as of JSON that jiter reads
_MOST_VALUES: Final = 3_000_000  # with each alias of YAML written out; GitHub's document has 700,000
_MOST_HOPS: Final = 20  # redirects, and references to references
_MOST_SOURCES: Final = 500
_VERSION: Final = re.compile(r"3\.([012])(?:\.\d.*)?")


class DocumentError(PegboardError):
    """A document, or a part of it, can't be used."""


def is_url(location: str) -> bool:
    """Whether a location is a URL; else it is the path of a file."""
    return location.lower().startswith(("http://", "https://"))


def without_query(location: str) -> str:
    """A location without the query of a URL, which may have a secret."""
    return location.partition("?")[0] if is_url(location) else location


def origin_of(url: str) -> tuple[str, str, int | None]:
    """The scheme, host and port of a URL.

    Raises:
        DocumentError: It isn't a URL of a server, or has a user name in it.
    """
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise DocumentError(f"{url!r:.200} isn't the address of a server, such as https://api.example.com")
    if "@" in parts.netloc:
        raise DocumentError(f"the address of {parts.hostname} has credentials in it; 'auth' is for these")
    return parts.scheme, parts.hostname.lower(), port


# Content ----------------------------------------------------------------------------------------------------------


def parse_document(content: bytes, location: str) -> JsonObject:
    """The object in the JSON or YAML text of a document.

    Raises:
        DocumentError: It is neither, or isn't an object.
    """
    location = without_query(location)
    text = content.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not text:
        raise DocumentError(f"{location}: it is empty")
    if text.startswith(b"<"):
        raise DocumentError(f"{location}: it is HTML or XML, not an OpenAPI document in JSON or YAML")
    try:
        if text.startswith((b"{", b"[")):
            from jiter import from_json

            root: Any = from_json(text, allow_inf_nan=False)
        else:
            root = _parse_yaml(content)
    except (ValueError, RecursionError) as error:
        raise DocumentError(f"{location}: it can't be read: {error}") from None
    if not is_object(root):
        raise DocumentError(f"{location}: it isn't an OpenAPI document, but {_type_text(root)}")
    return root


def _type_text(value: object) -> str:
    return {"list": "a list", "str": "a text", "dict": "an object", "NoneType": "null"}.get(
        type(value).__name__, f"a value of type {type(value).__name__}"
    )


_SCALARS: Final = (
    ("bool", "true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?(?:0|[1-9]\d*)", list("-+0123456789")),
    ("float", r"[-+]?(?:\d+\.\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?\d+[eE][-+]?\d+", list("-+.0123456789")),
    ("null", "~|null|Null|NULL|", ["~", "n", "N", ""]),
)
"""The scalars of YAML 1.2's core schema: type, pattern, first characters."""


def _parse_yaml(content: bytes) -> Any:
    """The data of a YAML text, as JSON has it: dates and `on` are texts, and so are all keys."""
    import yaml  # slow to import, and not needed for JSON

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):
        yaml_implicit_resolvers: Mapping[str, Any] = {}

        def flatten_mapping(self, node: Any) -> None:
            if any(key.value == "<<" for key, _ in node.value):  # merged aliases may grow without bounds
                raise ValueError("merge keys (<<) aren't supported; write the members out")

    for kind, pattern, first in _SCALARS:
        Loader.add_implicit_resolver(f"tag:yaml.org,2002:{kind}", re.compile(f"(?:{pattern})$"), first)
    try:
        root = yaml.load(content, Loader)  # noqa: S506  a safe one
    except (yaml.YAMLError, UnicodeError) as error:
        raise ValueError(" ".join(str(error).split())[:300]) from None
    _convert_to_json(root)
    return root


def _convert_to_json(root: Any) -> None:
    """Makes all keys texts, in place; raises `ValueError` for a value that JSON doesn't have, or for too many values.

    Each alias, which is the same object again, counts as if it were written out; it is converted once.
    """
    sizes: dict[int, int] = {}

    def size(value: Any, level: int) -> int:
        if not isinstance(value, dict | list):
            if value is not None and not isinstance(value, str | int | float):
                raise ValueError(f"a value of type {type(value).__name__}, which JSON doesn't have")
            return 1
        if level > _MOST_LEVELS:
            raise ValueError(f"it is nested more than {_MOST_LEVELS} levels deep, or contains itself")
        known = sizes.get(id(cast("Any", value)))
        if known is not None:
            return known
        items: Any = cast("Any", value)
        if isinstance(items, dict):
            items = cast("dict[Any, Any]", items)
            if not all(isinstance(key, str) for key in items):
                named = {_key_text(key): each for key, each in items.items()}
                items.clear()
                items.update(named)
            items = items.values()
        total = 1
        for each in items:
            total += size(each, level + 1)
        if total > _MOST_VALUES:
            raise ValueError(f"it has more than {_MOST_VALUES:,} values once its aliases are written out")
        sizes[id(cast("Any", value))] = total
        return total

    size(root, 0)


def _key_text(key: Any) -> str:
    if isinstance(key, bool | None):
        return {True: "true", False: "false", None: "null"}[key]
    if not isinstance(key, str | int | float):
        raise ValueError(f"a key of type {type(key).__name__}")  # noqa: TRY004  data from outside
    return str(key)


# Reading ----------------------------------------------------------------------------------------------------------


def read_file(path: str) -> bytes:
    """The bytes of a document's file.

    Raises:
        DocumentError: It can't be read, or is too large.
    """
    try:
        return read_bounded(path, MOST_DOCUMENT)
    except OSError as error:
        raise DocumentError(f"{path} can't be read: {os_error_text(error)}") from None


def fetch(url: str, seconds: float, allowed: Callable[[str], bool] = is_url) -> bytes:
    """The bytes of a document at a URL, after redirects to `allowed` URLs; not to be called in an event loop's thread.

    Raises:
        DocumentError: There is no document, or it is too large, or takes too long.
    """
    import asyncio

    import httpx2

    shown = without_query(url)
    try:
        return asyncio.run(_fetch(url, seconds, allowed))
    except TimeoutError:
        raise DocumentError(f"{shown} can't be fetched: it takes longer than {seconds:g} s") from None
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
        raise DocumentError(f"{shown} can't be fetched: {error or type(error).__name__}") from None


async def _fetch(url: str, seconds: float, allowed: Callable[[str], bool]) -> bytes:
    """Raises `ValueError` if there is no document."""
    import asyncio

    import httpx2

    headers = {"accept": "application/json, application/yaml, */*;q=0.5", "accept-encoding": "identity"}
    # The client's own timeouts are for single reads: a server that sends slowly would never exceed them.
    async with asyncio.timeout(seconds), httpx2.AsyncClient(headers=headers, timeout=None) as client:
        for _ in range(_MOST_HOPS):
            async with client.stream("GET", url) as response:
                if not response.has_redirect_location:
                    return await _body(response)
                url = urljoin(url, response.headers["location"])
            if not allowed(url):
                raise ValueError(f"it redirects to {without_query(url)!r:.200}, which isn't allowed")
    raise ValueError(f"more than {_MOST_HOPS} redirects")


async def _body(response: Any) -> bytes:
    if response.status_code != 200 or response.headers.get("content-encoding", "identity") != "identity":
        raise ValueError(f"the answer is {response.status_code} {response.reason_phrase}".rstrip())
    content = bytearray()
    async for part in response.aiter_raw():
        content += part
        if len(content) > MOST_DOCUMENT:
            raise ValueError(f"it has more than {size_text(MOST_DOCUMENT)}")
    return bytes(content)


# References -------------------------------------------------------------------------------------------------------


@frozen(eq=False)
class Source:
    """One file of a document.

    Attributes:
        location: Its absolute path or its URL; `""` for an object in memory.
        root: Its content.
    """

    location: str
    root: JsonObject = field(repr=False)


@define(eq=False)
class Document:
    """A document, with the files that its references lead to.

    Attributes:
        main: The document's own file.
        allowed: Folders, and beginnings of URLs, that references may lead to.
        seconds: How long fetching one file may take.
        minor: The version: 0 to 2, for 3.0 to 3.2.

    Raises:
        DocumentError: It isn't an OpenAPI document, or of another version.
    """

    main: Source
    allowed: Sequence[str] = ()
    seconds: float = 20.0
    minor: int = field(init=False)
    _sources: dict[str, Source | DocumentError] = field(factory=dict[str, Any], init=False)

    def __attrs_post_init__(self) -> None:
        root, place = self.main.root, without_query(self.main.location) or "the document"
        version = root.get("openapi")
        if "swagger" in root and version is None:
            hint = "convert it to OpenAPI 3 first, for example at https://converter.swagger.io"
            raise DocumentError(f"{place}: Swagger {root['swagger']!r:.20} isn't supported; {hint}")
        if version is None:
            raise DocumentError(f"{place}: it isn't an OpenAPI document: it has no 'openapi' with its version")
        match = _VERSION.fullmatch(str(version))
        if match is None:
            raise DocumentError(f"{place}: OpenAPI {version!r:.20} isn't supported; 3.0, 3.1 and 3.2 are")
        self.minor = int(match[1])
        self._sources[self.main.location] = self.main

    def follow(self, value: Any, source: Source, what: str) -> tuple[JsonObject, Source]:
        """An object, or the one that its reference leads to, with the file that it is in; errors call it `what`.

        Raises:
            DocumentError: It isn't an object, or its reference leads nowhere.
        """
        for _ in range(_MOST_HOPS):
            if not is_object(value):
                raise DocumentError(f"{what} isn't an object, but {_type_text(value)}")
            reference = value.get("$ref")
            if not isinstance(reference, str):
                return value, source
            value, source, _ = self.target(reference, source)
        raise DocumentError(f"{what}: its references lead to each other without end")

    def target(self, reference: str, source: Source) -> tuple[Any, Source, str]:
        """The value that a reference leads to, the file that it is in, and its JSON pointer there.

        Raises:
            DocumentError: It leads nowhere, or to a file that isn't allowed.
        """
        base, pointer = urldefrag(reference)
        if base:
            source = self._source(base, source, reference)
        value: Any = source.root
        for step in unquote(pointer).split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if is_object(value) and name in value:
                value = value[name]
            elif is_array(value) and re.fullmatch(r"\d{1,6}", name) and int(name) < len(value):
                value = value[int(name)]
            else:
                raise DocumentError(f"its reference {reference!r:.200} leads to nothing")
        if pointer and not pointer.startswith("/"):
            raise DocumentError(f"its reference {reference!r:.200} isn't a JSON pointer")
        return value, source, pointer

    def _source(self, base: str, source: Source, reference: str) -> Source:
        """The file that a reference names, if it may be read; each is read once, also one that fails."""
        here = source.location
        try:
            if is_url(base) or is_url(here):
                location = urljoin(here, base)
            else:
                location = os.path.realpath(os.path.join(os.path.dirname(here), unquote(base)))  # noqa: PTH118, PTH120
        except ValueError as error:
            raise DocumentError(f"its reference {reference!r:.200} isn't a path or a URL: {error}") from None
        known = self._sources.get(location)
        if known is None:
            try:
                known = self._read(location, reference)
            except DocumentError as error:
                known = error
            self._sources[location] = known
        if isinstance(known, DocumentError):
            raise known
        return known

    def _read(self, location: str, reference: str) -> Source:
        if not self._allows(location):
            hint = "list its folder or the beginning of its URL in 'references' to allow it"
            raise DocumentError(f"its reference {reference!r:.200} leads out of the document; {hint}")
        if len(self._sources) >= _MOST_SOURCES:
            raise DocumentError(f"its references lead to more than {_MOST_SOURCES} files")
        content = fetch(location, self.seconds, self._allows) if is_url(location) else read_file(location)
        return Source(location, parse_document(content, location))

    def _allows(self, location: str) -> bool:
        """Whether references may lead to a resolved path or a URL."""
        # `..`, also as %2e%2e, which servers resolve; and other schemes, such as file:
        if ".." in unquote(location).split("/") or not (is_url(location) or os.path.isabs(location)):  # noqa: PTH117
            return False
        for each in self.allowed:
            if is_url(each) and is_url(location):
                if origin_of(each) == origin_of(location) and urlsplit(location).path.startswith(urlsplit(each).path):
                    return True
            elif not is_url(each) and not is_url(location):
                folder = os.path.realpath(os.path.expanduser(each))  # noqa: PTH111
                if os.path.commonpath((folder, location)) == folder:
                    return True
        return False
