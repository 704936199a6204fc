"""What can be set for a document, in a program and in `pegboard.toml`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define, field


@define(eq=False, kw_only=True, slots=False)
class Options:
    """Options of a document's toolset.

    Attributes:
        base_url: The server's address, in place of the document's servers.
        auth: The credentials: by the name of the security scheme, `"env:NAME"`, `"keyring:NAME"` or a table.
        timeout: Seconds for one call, and for fetching the document, but at most 20 for that.
        prefix: The prefix of its tools' names.
        references: Folders, and beginnings of URLs, that references out of the document may lead to.
        follow: Addresses of other servers that redirects of GET and HEAD may lead to; they get no credentials.
        most_bytes: The maximum size of an answer.
        max_age: Seconds after which a stored document is fetched again.
    """

    base_url: str | None = None
    auth: Mapping[str, Any] | None = field(default=None, repr=False)
    timeout: float = 30.0
    prefix: str = ""
    references: Sequence[str] = ()
    follow: Sequence[str] = ()
    most_bytes: int = 10_000_000
    max_age: float = 86_400.0


@define(eq=False, kw_only=True)
class DocumentSettings(Options):
    """Settings of one document, which has a `file` or a `url`.

    Attributes:
        file: Its path; relative to the settings' file if it begins with `./`.
        url: Its URL.
        where: Which of its tools are offered, as a predicate: `"tag:repos and read_only"`.
    """

    file: str | None = None
    url: str | None = None
    where: str | None = None
