"""Settings of MCP servers, read from `pegboard.toml` and JSON files."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, Literal, cast
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from attrs import define, field, frozen

from pegboard.config import may_bind, without_secrets
from pegboard.errors import check_keys
from pegboard.files import read_bounded
from pegboard.schema.converter import read_table
from pegboard.typing import JsonObject

SEPARATOR: Final = "__"
"""Separates a server's name and a tool's: no server's name contains it, so the rule `NAME__*` matches one server."""

_NAME: Final = re.compile(r"[A-Za-z](?:_?[A-Za-z0-9-])*")
_VARIABLE: Final = re.compile(r"\$\{(?:env:)?([A-Za-z_]\w*)(?::-([^}]*))?\}")
_MOST_FILE: Final = 1_000_000


class ServerError(Exception):
    """A server can't be reached, or doesn't answer as it should.

    Attributes:
        kind: `"unreachable"`: nothing was sent; `"unsent"`: nothing was, as its process has just ended; `"lost"`: the
            connection ended before the answer, so that the outcome isn't known; `"answered"`: it answered an error;
            `"unreadable"`: its answer violates the protocol.
        retry_after: Seconds until the next attempt, or `None`.
    """

    def __init__(
        self,
        text: str,
        kind: Literal["unreachable", "unsent", "lost", "answered", "unreadable"] = "unreachable",
        *,
        retry_after: float | None = None,
    ) -> None:
        self.kind = kind
        self.retry_after = retry_after
        super().__init__(text)


@frozen(kw_only=True)
class ServerSettings:
    """Settings of one MCP server, reached by `command` or `url` (exactly one): its transport, and the offered tools.

    Attributes:
        command: The program to start; it communicates over standard input and output.
        args: Its arguments.
        env: Its environment variables, besides the few that every server gets (`HOME`, `PATH` and the like).
        inherit: Names of variables of this process that it gets too.
        cwd: The folder that it is started in.
        url: The URL of a running server.
        headers: Headers for each request to it.
        transport: The transport of the URL; `"auto"` tries streamable HTTP, then SSE.
        oauth: Whether to log in by OAuth if the server asks for it.
        client_id: The client that you have registered with the authorization server; `None` registers one.
        client_secret: Its secret, if it has one.
        client_metadata_url: The URL of this client's metadata document, for servers that accept it as the client id.
        prefix: The prefix of the names of its tools; `None` is the server's name and `__`.
        include: The server's tools that are offered, by names with wildcards.
        exclude: The server's tools that aren't offered, likewise.
        rename: New names of tools, without the prefix, by the server's names.
        confirm: The tools whose calls have to be confirmed although the server is trusted.
        trusted: Whether to trust the annotations of its tools, so that calls run without an approval.
        accept: `"first"`: its first list is accepted, and later changes are held back until they are accepted;
            `"always"`: all that it lists is offered.
        instructions: Whether the model reads the server's instructions.
        resources: Whether there are tools to list and read its resources.
        prompts: Whether there are tools to list and get its prompts.
        elicitation: Whether it may ask the user, through the host's approver.
        sampling: Whether it may use the model that the host provides (`registry.provide(Model, ...)`), each time with
            the permission of the rules or the user.
        roots: Its MCP roots; `None` is the folder that it is started in, else the current one.
        start_timeout: Seconds that it may take to start, and to list its tools.
        timeout: Seconds for one call; `None` is the registry's limit.
        most_timeout: Seconds for one call that reports progress: each report starts `timeout` anew, up to this many in
            all; `None`: progress doesn't extend the limit.
        most_bytes: The maximum size of one message.
        most_tools: The maximum number of its tools.
    """

    command: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(factory=dict[str, str], repr=False)
    inherit: tuple[str, ...] = ()
    cwd: str | None = None
    url: str | None = None
    headers: Mapping[str, str] = field(factory=dict[str, str], repr=False)
    transport: Literal["auto", "http", "sse"] = "auto"
    oauth: bool = False
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    client_metadata_url: str | None = None
    prefix: str | None = None
    include: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()
    rename: Mapping[str, str] = field(factory=dict[str, str])
    confirm: tuple[str, ...] = ()
    trusted: bool = False
    accept: Literal["first", "always"] = "first"
    instructions: bool = False
    resources: bool = False
    prompts: bool = False
    elicitation: bool = False
    sampling: bool = False
    roots: tuple[str, ...] | None = None
    start_timeout: float = 60.0
    timeout: float | None = None
    most_timeout: float | None = None
    most_bytes: int = 16_000_000
    most_tools: int = 5_000

    def __attrs_post_init__(self) -> None:
        if (self.command is None) == (self.url is None):
            raise ValueError("it needs a command or a url, and not both")
        if self.url is not None and not self.url.startswith(("http://", "https://")):
            raise ValueError("url: must be an address such as https://example.com/mcp")
        if self.client_secret is not None and self.client_id is None:
            raise ValueError("client_secret: it is the secret of a client_id, which is missing")
        for key in ("start_timeout", "timeout", "most_timeout", "most_bytes", "most_tools"):
            if (limit := getattr(self, key)) is not None and not limit > 0:
                raise ValueError(f"{key}: must be above 0")
        if self.most_timeout is not None and (self.timeout is None or self.timeout > self.most_timeout):
            raise ValueError("most_timeout: it needs a timeout that is not larger")
        for key in ("env", "headers", "rename"):
            table: Mapping[Any, Any] = getattr(self, key)
            if not all(isinstance(value, str) for each in table.items() for value in each):
                raise ValueError(f"{key}: names and values have to be texts")

    def with_prefix(self, server: str, name: str) -> str:
        """The name of a tool with the server's prefix; it may not be valid yet."""
        return f"{server}{SEPARATOR}{name}" if self.prefix is None else f"{self.prefix}{name}"

    def offers(self, name: str) -> bool:
        """Whether the server's tool of this name is offered."""
        return is_among(name, self.include) and not is_among(name, self.exclude)

    @property
    def reached_by(self) -> JsonObject:
        """What identifies the server, without secrets: a new token, for example, changes nothing."""
        return {
            "command": without_secrets([self.command, *self.args]),
            "cwd": self.cwd,
            "url": None if self.url is None else str(self),
            "query": [] if self.url is None else sorted({name for name, _ in parse_qsl(urlsplit(self.url).query)}),
            "env": sorted({*self.env, *self.inherit}),
            "headers": sorted({name.lower() for name in self.headers}),
        }

    def __str__(self) -> str:
        """Its command or URL, without secrets."""
        if self.url is None:
            return " ".join(without_secrets([self.command or "", *self.args]))
        parts = urlsplit(self.url)
        return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment=""))


def is_among(name: str, patterns: tuple[str, ...]) -> bool:
    """Whether one of the patterns (`*` and `?`) matches a name."""
    return "*" in patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


@define
class Servers:
    """The servers of a configuration, and what is wrong with others.

    Attributes:
        settings: The settings by the server's name.
        faults: Why a server is left out, each with its name.
    """

    settings: dict[str, ServerSettings] = field(factory=dict[str, ServerSettings])
    faults: list[str] = field(factory=list[str])

    def add(self, where: str, name: str, facts: Any) -> None:
        """Adds a server from its table, or a fault if it is invalid."""
        try:
            self.settings[name] = read_server(name, facts)
        except ValueError as error:
            self.faults.append(f"{where}.{name}: {error}")


def read_server(name: str, facts: Any) -> ServerSettings:
    """Reads a server's settings.

    Raises:
        ValueError: The name, a key or a value is wrong; the text names it.
    """
    check_server_name(name)
    given: Any = facts
    if isinstance(facts, Mapping):
        table = cast("Mapping[str, Any]", facts)
        command = table.get("command")
        if isinstance(command, list | tuple) and command:  # as other programs have it
            program, *args = cast("Sequence[Any]", command)
            more: Any = table.get("args") or ()
            whole: Any = [*args, *more] if isinstance(more, list | tuple) else more
            given = {**table, "command": program, "args": whole}
    return read_table(ServerSettings, given, "")


def check_server_name(name: str) -> None:
    """Raises `ValueError` for a name that no server can have."""
    if not _NAME.fullmatch(name) or len(name) > 30:
        raise ValueError("a server's name is up to 30 letters, digits, '-' and single '_', a letter first")
    if name == "client":
        raise ValueError("the names of tools that clients bring begin with 'client_'; give the server another name")


_KEYS: Final = ("servers", "mcp_config", "serve")


def servers_from(settings: Mapping[str, Any]) -> Servers:
    """Reads the plugin's settings: `servers`, and the file of `mcp_config`; `serve` is for `registry serve`.

    Raises:
        ValueError: There is an unknown key, or `servers` isn't a table.
    """
    check_keys(settings, _KEYS, "plugins.mcp")
    servers, table = Servers(), settings.get("servers", {})
    if not isinstance(table, Mapping):
        raise ValueError("plugins.mcp.servers: expected a table of servers")  # noqa: TRY004  as above
    for name, facts in cast("Mapping[str, Any]", table).items():
        servers.add("plugins.mcp.servers", name, facts)
    file = config_file(settings)
    if file is not None and not (file.is_absolute() or str(settings["mcp_config"]).startswith(("./", "../"))):
        servers.faults.append(f"plugins.mcp.mcp_config: {file}: begin it with './' if it is next to this file")
    elif file is not None:
        add_json(servers, file)
    return servers


def config_file(settings: Mapping[str, Any]) -> Path | None:
    """The JSON file of `mcp_config`, or `None`."""
    file = settings.get("mcp_config")
    return None if file is None else Path(str(file)).expanduser()


def add_json(servers: Servers, file: Path) -> None:
    """Adds the servers of a JSON file in the common format: `{"mcpServers": {NAME: {"command": ...}}}`.

    Unknown keys are ignored. `${NAME}`, `${NAME:-default}` and `${env:NAME}` are replaced by environment variables.
    The file of a project has to be trusted, with its current content.
    """
    try:
        content = read_bounded(str(file), _MOST_FILE)
        if not may_bind(file, content):
            servers.faults.append(f"{file} is ignored until you trust it as it is (registry config trust {file})")
            return
        data: Any = json.loads(content)
        table: Any = data.get("mcpServers", data.get("servers"))
        items: list[tuple[str, Any]] = list(table.items())
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        servers.faults.append(f"{file}: no mcpServers can be read from it: {error}")
        return
    configured = {*servers.settings}
    for given_name, facts in items:
        name = _repair_name(given_name)
        if not isinstance(facts, Mapping):
            servers.faults.append(f"{file}: {given_name!r:.80} isn't an object")
            continue
        given = cast("Mapping[str, Any]", facts)
        if given.get("disabled") is True or name in configured:
            continue
        missing: list[str] = []
        known = {key: _fill(given[key], missing) for key in _JSON_KEYS if given.get(key) is not None}
        if "url" not in known and (url := given.get("serverUrl", given.get("httpUrl"))) is not None:
            known["url"] = _fill(url, missing)
        if given.get("type") == "sse":
            known["transport"] = "sse"
        if missing:
            servers.faults.append(f"{file}: server {given_name!r:.80} is left out: the environment has no {missing[0]}")
        elif name in servers.settings:
            servers.faults.append(f"{file}: server {given_name!r:.80} is left out: another is called {name!r:.80}")
        else:
            servers.add(str(file), name, known)


_JSON_KEYS: Final = ("command", "args", "env", "cwd", "url", "headers")


def _repair_name(name: str) -> str:
    """A valid server name: in such files, names may be any text."""
    return re.sub(r"_{2,}|[^A-Za-z0-9_-]+", "-", name).strip("_-")


def _fill(value: Any, missing: list[str]) -> Any:
    if isinstance(value, Mapping):
        return {key: _fill(each, missing) for key, each in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list):
        return [_fill(each, missing) for each in cast("list[Any]", value)]
    if not isinstance(value, str):
        return value

    def variable(found: re.Match[str]) -> str:
        default: str | None = found[2]
        if found[1] not in os.environ and default is None:
            missing.append(found[1])
        return os.environ.get(found[1], default or "")

    return _VARIABLE.sub(variable, value)
