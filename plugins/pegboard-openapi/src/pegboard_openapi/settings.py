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

_TABLE: Final = "plugins.openapi"
_KEYS: Final = ("documents", "trust")
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")


def toolsets_from(settings: Mapping[str, Any]) -> list[ToolsetBase]:
    """The toolsets of the documents in the settings; what is wrong with some is reported by one more."""
    faults: list[str] = []
    toolsets: list[ToolsetBase] = []
    try:
        check_keys(settings, _KEYS, _TABLE)
        tables, trust = settings.get("documents", {}), settings.get("trust", [])
        if not is_object(tables):
            raise ValueError(f"{_TABLE}.documents: expected a table of documents")  # noqa: TRY301  as check_keys does
        if not is_array(trust):
            raise ValueError(f"{_TABLE}.trust: expected a list, such as ['github', 'shop:list_*']")  # noqa: TRY301
    except ValueError as error:
        return [_problems([str(error)])]
    trusted = [str(each).partition(":") for each in trust]
    for name, table in tables.items():
        try:
            toolsets.append(_toolset(name, table, [tool or "*" for document, _, tool in trusted if document == name]))
        except (PegboardError, ValueError, TypeError) as error:
            text = str(error)  # of `read_table`, it names the setting
            faults.append(text if text.startswith(_TABLE) else f"{_TABLE}.documents.{name}: {text}")
    faults += [
        f"{_TABLE}.trust: {document!r:.80} isn't a document of the settings; write 'DOCUMENT' or 'DOCUMENT:TOOL'"
        for document, _, _ in trusted
        if document not in tables
    ]
    return [*toolsets, *([_problems(faults)] if faults else [])]


def _problems(faults: Sequence[str]) -> ToolsetBase:
    """A toolset without tools that reports what is wrong; listings cache that until the user trusts a file."""
    offer = ToolsetResult((), [*map(Problem, faults)])
    return ToolsetFunction("openapi", lambda: offer, publishes=[str(trust_file())])


def _toolset(name: str, table: Any, trust: Sequence[str]) -> ToolsetBase:
    """The toolset of one document; raises `ValueError` or `PegboardError` for a wrong setting."""
    if not _NAME.fullmatch(name):
        raise ValueError("a document's name is up to 40 letters, digits, '-' and '_', a letter first")
    document = read_table(DocumentSettings, table, f"{_TABLE}.documents.{name}")
    if (document.file is None) == (document.url is None):
        raise ValueError("it needs a file or a url, and not both")
    if document.file is not None and not Path(document.file).expanduser().is_absolute():
        raise ValueError(f"file: {document.file}: begin it with './' if it is next to this file")
    if document.url is not None and not document.url.startswith(("http://", "https://")):
        raise ValueError("url: must be an address such as https://example.com/openapi.json")
    _check_trust(document)
    options: dict[str, Any] = {each.name: getattr(document, each.name) for each in fields(Options)}
    store = None if document.url is None else _store(name, document.url)
    toolset = OpenAPIToolset(document.file or document.url or "", name=name, trust=trust, store=store, **options)
    return toolset if document.where is None else cast("ToolsetBase", toolset.filtered(document.where))


def _check_trust(document: DocumentSettings) -> None:
    """Raises `ValueError` if a project's file that the user hasn't trusted would decide where credentials are sent."""
    auth = document.auth or {}
    needs = ["base_url"] if auth and document.base_url is None else []
    if any(is_object(each) and "client_id" in each and "token_url" not in each for each in auth.values()):
        needs.append("token_url")
    if needs and document.file is not None and not _may_bind(document.file):
        hint = f"set {' and '.join(needs)}, or trust the file as it is (registry config trust {document.file})"
        raise ValueError(f"auth: a file in a project could send the credentials anywhere: {hint}")


def _may_bind(file: str) -> bool:
    try:
        return may_bind(Path(file).expanduser())
    except OSError:
        return True  # reading it as a document fails, too, and is reported


def _store(name: str, url: str) -> str:
    """The file in which the document of a URL is kept."""
    digest = digest_of(url).rpartition(":")[2][:16]
    return os.path.join(user_folder("cache"), "openapi", f"{name}-{digest}")  # noqa: PTH118  a text is wanted
