"""`Server`: the settings `[plugins.openai.servers.NAME]` in a pegboard.toml."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias, cast

from attrs import field, frozen

from pegboard.errors import check_keys
from pegboard.schema.converter import Allowed, read_table

_Text: TypeAlias = Annotated[str, Allowed("a non-empty string", bool)]
_Address: TypeAlias = Annotated[
    str,
    Allowed("an address, such as http://127.0.0.1:8000/v1", lambda text: text.startswith(("http://", "https://"))),
]


@frozen(kw_only=True)
class Server:
    """An OpenAI-compatible server of chat completions.

    Attributes:
        base_url: Its address, such as `"http://127.0.0.1:8000/v1"`.
        api_key: Its key, as in `{ keyring = "NAME" }`.
        api_key_env: The environment variable of its key; without either, none is sent.
        most_tokens: The member that limits an answer's length.
        reasoning: The member in which it wants the model's reasoning back, or `None`.
        dialect: Its dialect of schemas: `"openai"`, `"moonshot"` (Kimi), or `"simple"` (few keywords).
    """

    base_url: _Address
    api_key: _Text | None = field(default=None, repr=False)
    api_key_env: _Text | None = None
    most_tokens: _Text = "max_tokens"
    reasoning: _Text | None = None
    dialect: Literal["openai", "moonshot", "simple"] = "openai"


def servers_from(table: Mapping[str, Any]) -> dict[str, Server]:
    """Reads the plugin's settings: the servers by name.

    Raises:
        ValueError: A key is unknown, or a value isn't what it has to be; the text names key and value.
    """
    check_keys(table, ["servers"], "plugins.openai")
    servers = table.get("servers", {})
    if not isinstance(servers, Mapping):
        raise ValueError(f"plugins.openai.servers: must be a table of servers, got {type(servers).__name__}")  # noqa: TRY004
    return {name: _server(name, facts) for name, facts in cast("Mapping[str, Any]", servers).items()}


def _server(name: str, table: Any) -> Server:
    place = f"plugins.openai.servers.{name}"
    if not name or "/" in name:
        raise ValueError(f"{place}: {name!r:.80} isn't a valid name; models are named SERVER/MODEL")
    server = read_table(Server, table, place)
    if server.api_key and server.api_key_env:
        raise ValueError(f"{place}: it has api_key and api_key_env; leave one out")
    return server
