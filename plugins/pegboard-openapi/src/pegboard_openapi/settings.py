"""The plugin's settings: documents by name, read from `pegboard.toml`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

from attrs import fields

from pegboard import Problem, ToolsetBase, ToolsetFunction
from pegboard.config import may_bind, trust_file
from pegboard.errors import PegboardError, check_keys
from pegboard.files import user_folder
from pegboard.json import digest_of, is_array, is_object
from pegboard.schema.converter import read_table
from pegboard.toolsets import ToolsetResult
from pegboard_openapi.options import DocumentSettings, Options
from pegboard_openapi.toolset import OpenAPIToolset

_PLACE: Final = "plugins.openapi"
_KEYS: Final = ("documents", "trust")
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")


def toolsets_from(settings: Mapping[str, Any]) -> list[ToolsetBase]:
    """The toolsets of the documents in the settings; what is wrong with some is reported by one more."""
    faults: list[str] = []
    toolsets: list[ToolsetBase] = []
    try:
        check_keys(settings, _KEYS, _PLACE)
        tables, trust = settings.get("documents", {}), settings.get("trust", [])
        if not is_object(tables):
            raise ValueError(f"{_PLACE}.documents: expected a table of documents")  # noqa: TRY301  as check_keys does
        if not is_array(trust):
            raise ValueError(f"{_PLACE}.trust: expected a list, such as ['github', 'shop:list_*']")  # noqa: TRY301
    except ValueError as error:
        return [_problems([str(error)])]
    trusted = [str(each).partition(":") for each in trust]
    for name, table in tables.items():
        try:
            toolsets.append(_toolset(name, table, [tool or "*" for document, _, tool in trusted if document == name]))
        except (PegboardError, ValueError, TypeError) as error:
            text = str(error)
            faults.append(text if text.startswith(_PLACE) else f"{_PLACE}.documents.{name}: {text}")
    faults += [
        f"{_PLACE}.trust: {document!r:.80} isn't a document of the settings; write 'DOCUMENT' or 'DOCUMENT:TOOL'"
        for document, _, _ in trusted
        if document not in tables
    ]
    return [*toolsets, *([_problems(faults)] if faults else [])]


def _problems(faults: Sequence[str]) -> ToolsetBase:
    """A toolset without tools that reports what is wrong, until a file of a project is trusted."""
    offer = ToolsetResult((), [*map(Problem, faults)])
    return ToolsetFunction("openapi", lambda: offer, publishes=[str(trust_file())])


def _toolset(name: str, table: Any, trust: Sequence[str]) -> ToolsetBase:
    """The toolset of one document.

    Raises:
        ValueError: A setting is wrong.
        PegboardError: Likewise.
    """
    place = f"{_PLACE}.documents.{name}"
    if not _NAME.fullmatch(name):
        raise ValueError("a document's name is up to 40 letters, digits, '-' and '_', a letter first")
    read = read_table(DocumentSettings, table, place)
    if (read.file is None) == (read.url is None):
        raise ValueError("it needs a file or a url, and not both")
    if read.file is not None and not (Path(read.file).expanduser().is_absolute()):
        raise ValueError(f"file: {read.file}: begin it with './' if it is next to this file")
    location = read.file or read.url or ""
    if read.url is not None and not read.url.startswith(("http://", "https://")):
        raise ValueError("url: must be an address such as https://example.com/openapi.json")
    needs = "base_url" if read.auth and read.base_url is None else ""
    if any(is_object(each) and "client_id" in each and "token_url" not in each for each in (read.auth or {}).values()):
        needs = f"{needs} and token_url" if needs else "token_url"
    if needs and read.file is not None and not _binds(read.file):
        hint = f"set {needs}, or trust the file as it is (registry config trust {read.file})"
        raise ValueError(f"auth: a file in a project could send the credentials anywhere: {hint}")
    options: dict[str, Any] = {each.name: getattr(read, each.name) for each in fields(Options)}
    store = None if read.url is None else _store(name, read.url)
    toolset = OpenAPIToolset(location, name=name, trust=trust, store=store, **options)
    return toolset if read.where is None else cast("ToolsetBase", toolset.filtered(read.where))


def _binds(file: str) -> bool:
    """Whether a file may decide where credentials are sent; one that can't be read decides nothing."""
    try:
        return may_bind(Path(file).expanduser())
    except OSError:
        return True


def _store(name: str, url: str) -> str:
    """The file in which the document of a URL is kept."""
    digest = digest_of(url).rpartition(":")[2][:16]
    return os.path.join(user_folder("cache"), "openapi", f"{name}-{digest}")  # noqa: PTH118  a text is wanted
