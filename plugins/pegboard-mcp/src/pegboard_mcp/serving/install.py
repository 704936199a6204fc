"""`registry serve --install`: adds the server to the configuration of an MCP client."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

from attrs import frozen

from pegboard.errors import ConfigError
from pegboard.files import os_error_text, read_bounded, write_atomic
from pegboard.json import strict_json
from pegboard.typing import JsonObject

NAME: Final = "pegboard"
"""The server's name in the configuration."""

_MOST_BYTES: Final = 10_000_000
_MOST_DEEP: Final = 8  # spaces of an indentation


@frozen
class Served:
    """How a client reaches the server: by a command that it starts, or by a URL.

    Attributes:
        command: The command and its arguments; empty for a URL.
        url: The URL, or `None`.
        token_env: The environment variable of the token, or `None`.
    """

    command: Sequence[str] = ()
    url: str | None = None
    token_env: str | None = None

    def bearer(self, reference: str) -> JsonObject:
        """The headers with the token, which the client reads from its environment; `{}` if no token is needed.

        Args:
            reference: How the program refers to a variable: `${{{}}}`.
        """
        token = self.token_env
        return {} if token is None else {"headers": {"Authorization": f"Bearer {reference.format(token)}"}}


@frozen
class McpProgram:
    """An MCP client's configuration.

    Attributes:
        file: Its path, relative to the current folder or in the user's home.
        key: The table of the servers.
        entry: The server's entry.
    """

    file: Callable[[], Path]
    key: str
    entry: Callable[[Served], JsonObject]

    def text_with(self, served: Served, text: str, file: str) -> str:
        """The configuration with the server; everything else is preserved, also other keys of the server's entry.

        Args:
            served: The server.
            text: The configuration, `""` for a new one.
            file: Its path, for errors.

        Raises:
            ConfigError: It can't be read, or the key of the servers isn't a table.
        """
        is_toml = file.endswith(".toml")
        try:
            data: Any = _read_toml(text) if is_toml else _read_json(text)
        except ValueError as error:
            raise ConfigError(f"can't be read: {error}; {_BY_HAND}, or correct it", file=file) from None
        servers = _table(data, self.key, file)
        entry = self.entry(served)
        before: MutableMapping[str, Any] = _table(servers, NAME, file, f"{self.key}.") if NAME in servers else {}
        for key in _OWN_KEYS.intersection(before) - set(entry):
            del before[key]
        try:
            if before:
                before.update(entry)
            else:
                servers[NAME] = _toml_table(entry) if is_toml else entry
            if is_toml:
                return _toml_text(data)
        except ValueError as error:
            hint = f"{_BY_HAND}, or write [{self.key}] as a table of its own"
            raise ConfigError(f"can't be extended: {error}; {hint}", file=file) from None
        return json.dumps(data, indent=_indentation(text), ensure_ascii=False) + "\n"


_BY_HAND: Final = "nothing was changed; add the entry yourself, which --install shows without --write"
_OWN_KEYS: Final = frozenset({"command", "args", "url", "httpUrl", "type", "headers", "bearer_token_env_var"})
"""The keys that we write; other keys, such as `env`, are the user's."""


def install(program: str, served: Served, *, write: bool) -> str:
    """Writes a client's configuration, or shows the entry; gives the text to print.

    Raises:
        ConfigError: It can't be read or written, or the client doesn't support this way to reach the server.
    """
    kind = PROGRAMS[program]
    path = Path(os.path.realpath(kind.file()))  # a link isn't replaced
    file = str(path)
    if not write:
        return f"# {file}\n{kind.text_with(served, '', file)}"
    try:
        text = read_bounded(file, _MOST_BYTES).decode() if path.exists() else ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"can't be read: {error}", file=file) from None
    new = kind.text_with(served, text, file)
    if new == text:
        return f"{file} has it already."
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        mode = path.stat().st_mode & 0o777 if text else 0o600
        if text:
            shutil.copy2(file, f"{file}.bak")
        write_atomic(file, new.encode(), mode=mode, sync=True)
        path.chmod(mode)
    except OSError as error:
        raise ConfigError(f"can't be written: {os_error_text(error)}", file=file) from None
    backup = f" The previous version is in {file}.bak." if text else ""
    return f"Wrote {file}.{backup} Restart {program}."


def command_line(words: Sequence[str]) -> tuple[str, ...]:
    """The command that starts this server from any folder, without an active virtual environment."""
    # -P: the client starts it in a project's folder, whose modules must not shadow installed ones.
    return (sys.executable, "-P", "-m", "pegboard", "serve", *words)


def _table(data: Any, key: str, file: str, before: str = "") -> MutableMapping[str, Any]:
    """The table of a key, created if it is missing."""
    if key not in data:
        data[key] = _toml_table({}) if file.endswith(".toml") else {}
    table: Any = data[key]
    if not isinstance(table, MutableMapping):
        raise ConfigError(
            f"must be a table, not {type(table).__name__}; nothing was changed", file=file, key=before + key
        )
    return cast("MutableMapping[str, Any]", table)


def _toml_table(entry: JsonObject) -> Any:
    import tomlkit

    table: MutableMapping[str, Any] = tomlkit.table(is_super_table=not entry)
    for key, value in entry.items():
        table[key] = value
    return table


def _toml_text(data: Any) -> str:
    """The text of a document.

    Raises:
        ValueError: It would mean something else: tomlkit writes a new table before keys that stand behind dotted ones.
    """
    import tomlkit

    text = tomlkit.dumps(data)
    # As texts: nan isn't equal to itself.
    after, wanted = (json.dumps(each.unwrap(), sort_keys=True, default=str) for each in (tomlkit.parse(text), data))
    if after != wanted:
        raise ValueError("other keys would become part of the new table")
    return text


def _read_toml(text: str) -> Any:
    import tomlkit

    return tomlkit.parse(text)


def _read_json(text: str) -> Any:
    if not text.strip():
        return {}
    data = strict_json(text.encode())
    if not isinstance(data, dict):
        raise ValueError(f"it holds {type(data).__name__}, not an object")  # noqa: TRY004  (an error in the file)
    return cast("JsonObject", data)


def _indentation(text: str) -> int | str:
    """The indentation of its first indented line; two spaces for a new file."""
    found = re.search(r"^([ \t]+)\S", text, re.MULTILINE)
    return found[1][:_MOST_DEEP] if found else 2


def _local_or_url(served: Served, reference: str, *, url: str = "url", kind: bool = False) -> JsonObject:
    """An entry in the format of most clients.

    Args:
        served: The server.
        reference: How the program refers to a variable of its environment.
        url: The key of a URL.
        kind: Whether it has `type`, too.
    """
    if served.url is not None:
        return {**({"type": "http"} if kind else {}), url: served.url, **served.bearer(reference)}
    stdio = {"type": "stdio"} if kind else {}
    return {**stdio, "command": served.command[0], "args": list(served.command[1:])}


def _claude_desktop(served: Served) -> JsonObject:
    if served.url is not None:
        text = "only starts servers itself; those with a URL are connectors in its settings: omit --http"
        raise ConfigError(text, file="claude-desktop")
    return _local_or_url(served, "")


def _codex(served: Served) -> JsonObject:
    if served.url is None:
        return _local_or_url(served, "")
    return {"url": served.url, **({} if served.token_env is None else {"bearer_token_env_var": served.token_env})}


def _opencode(served: Served) -> JsonObject:
    if served.url is not None:
        return {"type": "remote", "url": served.url, **served.bearer("{{env:{}}}")}
    return {"type": "local", "command": list(served.command)}


def is_of_folder(program: str) -> bool:
    """Whether a client has its configuration in the project's folder, and starts servers there."""
    return not PROGRAMS[program].file().is_absolute()


def _claude_folder() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library/Application Support/Claude"
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA", Path.home() / "AppData/Roaming")) / "Claude"
    return _config_home() / "Claude"


def _config_home() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")


PROGRAMS: Final[Mapping[str, McpProgram]] = {
    "claude-code": McpProgram(
        lambda: Path(".mcp.json"), "mcpServers", lambda served: _local_or_url(served, "${{{}}}", kind=True)
    ),
    "claude-desktop": McpProgram(
        lambda: _claude_folder() / "claude_desktop_config.json", "mcpServers", _claude_desktop
    ),
    "cursor": McpProgram(
        lambda: Path.home() / ".cursor/mcp.json", "mcpServers", lambda served: _local_or_url(served, "${{env:{}}}")
    ),
    "vscode": McpProgram(
        lambda: Path(".vscode/mcp.json"), "servers", lambda served: _local_or_url(served, "${{env:{}}}", kind=True)
    ),
    "codex": McpProgram(
        lambda: Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex") / "config.toml", "mcp_servers", _codex
    ),
    "gemini-cli": McpProgram(
        lambda: Path.home() / ".gemini/settings.json",
        "mcpServers",
        lambda served: _local_or_url(served, "${{{}}}", url="httpUrl"),
    ),
    "opencode": McpProgram(lambda: _config_home() / "opencode/opencode.json", "mcp", _opencode),
}
