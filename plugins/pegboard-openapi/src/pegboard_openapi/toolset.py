"""Toolset with the operations of one OpenAPI document."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

from attrs import define, field, frozen

from pegboard import (
    Origin,
    Policy,
    Preview,
    Problem,
    ReadonlyContext,
    Tool,
    ToolAnnotations,
    ToolContext,
    ToolError,
    ToolsetBase,
    ToolSpec,
)
from pegboard.callbacks import CallableKind
from pegboard.errors import PegboardError
from pegboard.files import os_error_text, read_private, write_private
from pegboard.json import count_text
from pegboard.text import visible
from pegboard.threads import run_in_thread
from pegboard.tools import HOST, Handler
from pegboard.toolsets import ToolsetResult, check_tool_schemas, error_text
from pegboard_openapi.auth import Authenticator, read_schemes
from pegboard_openapi.calls import Caller
from pegboard_openapi.document import (
    MOST_DOCUMENT,
    Document,
    DocumentError,
    Source,
    fetch,
    is_url,
    origin_of,
    parse_document,
    read_file,
)
from pegboard_openapi.operations import IDEMPOTENT, SAFE, Listing, Operation, Reader
from pegboard_openapi.options import Options
from pegboard_openapi.requests import draft_of, file_paths
from pegboard_openapi.schemas import repair_texts

MOST_TOOLS: Final = 10_000
_MOST_SCHEMAS: Final = 16 << 20  # characters of the schemas of all tools
_MOST_NOTES: Final = 10
_MOST_FETCH: Final = 20.0  # seconds; fewer than the 30 of a resolution, whose problem then says why
_AGAIN: Final = 60.0  # seconds after which a document that failed is tried again
_GRACE: Final = 5.0  # seconds that the registry waits longer, so that the result says what happened
_MOST_PREVIEW: Final = 2_000
_UNTRUSTED: Final = Origin(trusted=False)

_Stamp: TypeAlias = tuple[int, int] | None


@frozen(eq=False)
class _Loaded:
    """A document's tools.

    Attributes:
        stamp: What `OpenAPIToolset._stamp` gave for its file.
        offer: The tools, and the problems.
        servers: The addresses that their calls go to, sorted.
        until: When it is read again in any case, as the time of `monotonic`.
    """

    stamp: _Stamp
    offer: ToolsetResult
    servers: tuple[str, ...]
    until: float


@define(eq=False, repr=False, kw_only=True, slots=False)
class OpenAPIToolset(Options, ToolsetBase):
    """Toolset with a tool for each operation of an OpenAPI document; takes `Options`, too.

    Attributes:
        document: The path or URL of the document, or its content.
        name: The toolset's name.
        trust: Names, with wildcards, of the tools whose annotations are trusted: those that read need no approval.
        store: A file in which the document of a URL is kept, so that listing its tools needs no network.

    Raises:
        DocumentError: An address isn't one, or has credentials in it.
        ValueError: A limit isn't above 0.
    """

    document: str | Path | Mapping[str, Any] = field(kw_only=False)
    name: str
    trust: Iterable[str] = field(default=(), converter=tuple[str, ...])
    store: str | None = None
    _location: str = field(default="", init=False)
    _loaded: _Loaded | None = field(default=None, init=False)
    _failed: tuple[float, DocumentError] | None = field(default=None, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.document, Mapping):
            path = str(self.document)
            self._location = path if is_url(path) else os.path.realpath(os.path.expanduser(path))  # noqa: PTH111
        for address in (*self.follow, self.base_url, self._location if self._is_remote else None):
            if address is not None:
                origin_of(address)  # refuses what is none
        if self.timeout <= 0 or self.most_bytes <= 0:
            raise ValueError("timeout and most_bytes must be above 0")

    @property
    def name_prefix(self) -> str:
        """The prefix of its tools' names."""
        return self.prefix

    @property
    def _is_remote(self) -> bool:
        return is_url(self._location)

    @property
    def _file(self) -> str | None:
        """The file that the document is read from: its own, or where that of a URL is kept."""
        return self.store if self._is_remote else self._location or None

    @property
    def publishes(self) -> list[str] | None:
        """The file of the document, or of the stored one; `None` if there is none, or it refers to others."""
        return [self._file] if self._file and not self.references else None

    @property
    def identity(self) -> dict[str, Any] | None:
        """Where the document is, and the servers of its tools; `None` until it was read."""
        if self._loaded is None:
            return None
        return {"document": self._location.partition("?")[0], "servers": [*self._loaded.servers]}

    async def tools(self, context: ReadonlyContext) -> ToolsetResult:
        """The tools of the document, which is read at first use, and again once its file has changed.

        Raises:
            DocumentError: It can't be used.
        """
        del context
        loaded = await run_in_thread(self._load)
        return loaded.offer

    # Loading ----------------------------------------------------------------------------------------------------

    def _load(self) -> _Loaded:
        with self._lock:
            if self._failed is not None and time.monotonic() - self._failed[0] < _AGAIN:
                raise self._failed[1]
            stamp = self._stamp()
            if self._loaded is None or self._loaded.stamp != stamp or self._loaded.until < time.monotonic():
                try:
                    self._loaded = self._read(stamp)
                    self._failed = None
                except DocumentError as error:
                    if self._is_remote:  # a file is looked at again each time
                        self._failed = time.monotonic(), error
                    raise
            return self._loaded

    def _stamp(self) -> _Stamp:
        """The file's time of modification and size; `None` if there is none, or if what it stores is too old."""
        if self._file is None:
            return None
        try:
            facts = os.stat(self._file)  # noqa: PTH116
        except OSError:
            return None
        is_old = self._is_remote and time.time() - facts.st_mtime > self.max_age
        return None if is_old else (facts.st_mtime_ns, facts.st_size)

    def _read(self, stamp: _Stamp) -> _Loaded:
        problems: list[Problem] = []
        root, content = self.document, b""
        if not isinstance(root, Mapping):
            content = self._bytes(stamp, problems)
            root = parse_document(content, self._location)
        is_earlier = bool(problems)
        document = Document(Source(self._location, dict(root)), self.references, self._fetch_seconds)
        if self._is_remote and stamp is None and not is_earlier:
            self._keep(content, problems)  # now that it is known to be a document
        schemes, faults = read_schemes(document, self.auth or {})
        problems += [Problem(fault) for fault in faults]
        hidden = {(each.place, each.key.lower() if each.place == "header" else each.key) for each in schemes.values()}
        reader = Reader(document, self.base_url, self.prefix, frozenset(hidden))
        caller = Caller(self._location, self, Authenticator(schemes))
        servers = set[str]()
        tools = self._tools(reader, caller, problems, servers)
        stamp = self._stamp() if self._is_remote else stamp  # it may just have been stored
        until = time.monotonic() + _AGAIN if is_earlier else math.inf
        return _Loaded(stamp, ToolsetResult(tools, problems), tuple(sorted(servers)), until)

    def _bytes(self, stamp: _Stamp, problems: list[Problem]) -> bytes:
        """The document's text: of its file, the stored one if it has a stamp, or its URL; else an older one, noted."""
        if not self._is_remote:
            return read_file(self._location)
        if self.store is not None and stamp is not None:
            with suppress(OSError):
                return read_private(self.store, MOST_DOCUMENT)
        try:
            return fetch(self._location, self._fetch_seconds)
        except DocumentError as error:
            if self.store is None:
                raise
            try:
                old = read_private(self.store, MOST_DOCUMENT)
            except OSError:
                raise error from None
            problems.append(Problem(f"an earlier document is used: {error}", note=True))
            return old

    @property
    def _fetch_seconds(self) -> float:
        return min(self.timeout, _MOST_FETCH)

    def _keep(self, content: bytes, problems: list[Problem]) -> None:
        if self.store is not None:
            try:
                write_private(self.store, content)
            except OSError as error:
                problems.append(Problem(f"{self.store} can't be written: {os_error_text(error)}", note=True))

    # Tools ------------------------------------------------------------------------------------------------------

    def _tools(self, reader: Reader, caller: Caller, problems: list[Problem], servers: set[str]) -> list[Tool]:
        """A tool for each operation that can be used; adds their servers, and the problems of others with notes."""
        tools: dict[str, Tool] = {}
        faults: list[Problem] = []
        lacking: dict[str, int] = {}
        size = 0
        for operation, listing in reader.operations():
            if len(tools) == MOST_TOOLS or size > _MOST_SCHEMAS:
                what = f"{MOST_TOOLS:,} operations, or {_MOST_SCHEMAS:,} characters of schemas"
                faults.append(Problem(f"it has more than {what}; the others are left out"))
                break
            route = f"{operation.method} {operation.path}"
            try:
                tool = self._tool(operation, listing, caller)
                size += len(tool.spec.input_schema_text)  # also of one that is refused, as it took time
                check_tool_schemas(tool)
            except (PegboardError, ValueError, TypeError, RecursionError) as error:
                faults.append(Problem(f"{route} is left out: {error_text(error)}", operation.name, error=error))
                continue
            if tools.setdefault(tool.name, tool) is not tool:
                faults.append(Problem(f"{route} is left out: another operation has the name {tool.name!r}", tool.name))
            servers.add(operation.server.partition("?")[0])
            for name in caller.authenticator.missing_schemes(operation.security):
                lacking[name] = lacking.get(name, 0) + 1
        faults += reader.problems
        notes = [*reader.notes, *repair_texts(reader.definitions.repairs)]
        notes += [
            f"{count_text(number, 'operation')} may need credentials for {name!r}, which 'auth' doesn't have"
            for name, number in lacking.items()
        ]
        if len(notes) > _MOST_NOTES:
            notes[_MOST_NOTES:] = [f"and {count_text(len(notes) - _MOST_NOTES, 'more note')}"]
        problems += [*faults, *(Problem(text, note=True) for text in notes)]
        return list(tools.values())

    def _tool(self, operation: Operation, listing: Listing, caller: Caller) -> Tool:
        method = operation.method
        is_trusted = any(fnmatchcase(operation.name, each) for each in self.trust)
        spec = ToolSpec(
            operation.name,
            listing.description,
            listing.schema,
            title=listing.title,
            tags=listing.tags,
            annotations=ToolAnnotations(
                read_only_hint=True if method in SAFE else None,
                destructive_hint=True if method == "DELETE" else None,
                idempotent_hint=True if method in IDEMPOTENT else None,
                open_world_hint=True,
            ),
            permission="upload" if operation.takes_files else None,
            permission_arguments={"files": "path"} if operation.takes_files else {},  # as `_files` gives them
            original_name=None if listing.own_name == operation.name else listing.own_name,
            meta={"openapi": {"method": method, "path": operation.path}},
        )
        return Tool(
            spec,
            Handler(partial(caller.call, operation), lambda: _bind, CallableKind.ASYNC),
            HOST if is_trusted else _UNTRUSTED,
            Policy(timeout=self.timeout + _GRACE),
            preview=partial(_preview, operation),
            permission_values=partial(_files, operation) if operation.takes_files else None,
        )


def _bind(context: ToolContext, arguments: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (arguments, context), {}


def _preview(operation: Operation, arguments: Mapping[str, Any]) -> Preview:
    """The method and the address of a call, and the files that it sends."""
    try:
        address = draft_of(operation, arguments).url
    except ToolError:  # which the call raises, too
        address = f"{operation.server}{operation.path}"
    files = "\n".join(f"sends the file {path}" for path in file_paths(operation, arguments))
    return Preview(visible(f"{operation.method} {address}")[:_MOST_PREVIEW], visible(files, newlines=True))


def _files(operation: Operation, arguments: Mapping[str, Any], context: ReadonlyContext) -> dict[str, list[str]]:
    """The files that a call sends, for rules, as if they were one argument."""
    del context
    return {"files": file_paths(operation, arguments)}
