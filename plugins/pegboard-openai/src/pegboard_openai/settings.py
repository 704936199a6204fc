"""`Server`: what `[plugins.openai.servers.NAME]` in a pegboard.toml may say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from attrs import field, fields_dict, frozen

from pegboard.errors import did_you_mean, suggest

_SERVERS: Final = "servers"
_DIALECTS: Final = ("openai", "moonshot", "simple")


@frozen(kw_only=True)
class Server:
    """A server that speaks as OpenAI's chat completions do.

    Attributes:
        base_url: Where it is, such as `"http://127.0.0.1:8000/v1"`.
        api_key: Its key, as in `{ keyring = "NAME" }`.
        api_key_env: The environment variable that holds its key; where there is neither, it wants none.
        most_tokens: The member that limits an answer's length.
        reasoning: The member in which it wants the model's reasoning back, or `None`.
        dialect: What it takes of schemas: `"openai"`, `"moonshot"` (Kimi), or `"simple"` (few keywords).
    """

    base_url: str
    api_key: str | None = field(default=None, repr=False)
    api_key_env: str | None = None
    most_tokens: str = "max_tokens"
    reasoning: str | None = None
    dialect: str = "openai"


def servers_from(table: Mapping[str, Any]) -> dict[str, Server]:
    """Reads the plugin's settings: the servers by name.

    Raises:
        ValueError: A key is unknown, or a value isn't what it has to be; the text names key and value.
    """
    _check_keys("plugins.openai", table, [_SERVERS])
    return {name: _server(name, facts) for name, facts in _tables(table).items()}


def _tables(table: Mapping[str, Any]) -> Mapping[str, Any]:
    servers = table.get(_SERVERS, {})
    if not isinstance(servers, Mapping):
        raise ValueError(f"plugins.openai.{_SERVERS}: {servers!r:.80} is no table of servers.")  # noqa: TRY004
    return cast("Mapping[str, Any]", servers)


def _server(name: str, facts: Any) -> Server:
    where = f"plugins.openai.{_SERVERS}.{name}"
    if not name or "/" in name:
        raise ValueError(f"{where}: {name!r:.80} can't be asked for; models are named SERVER/MODEL.")
    if not isinstance(facts, Mapping):
        raise ValueError(f"{where}: {facts!r:.80} is no table.")  # noqa: TRY004  the one error of settings
    given = cast("Mapping[str, Any]", facts)
    _check_keys(where, given, list(fields_dict(Server)))
    for key, value in given.items():
        if not isinstance(value, str) or not value:
            raise ValueError(f"{where}.{key}: {value!r:.80} is no text.")
    if given.get("dialect", "openai") not in _DIALECTS:
        raise ValueError(f"{where}.dialect: {given['dialect']!r:.80} is none of {', '.join(_DIALECTS)}.")
    if "api_key" in given and "api_key_env" in given:
        raise ValueError(f"{where}: it has api_key and api_key_env; leave one out.")
    if not str(given.get("base_url", "")).startswith(("http://", "https://")):
        raise ValueError(f"{where}.base_url: an address is wanted, such as http://127.0.0.1:8000/v1.")
    return Server(**given)


def _check_keys(where: str, table: Mapping[str, Any], known: list[str]) -> None:
    for key in table:
        if key not in known:
            near = did_you_mean(suggest(key, known)) or f" Known are {', '.join(known)}."
            raise ValueError(f"{where}.{key}: there is no such setting.{near}")
