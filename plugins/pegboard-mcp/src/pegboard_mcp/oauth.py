"""OAuth login to a server: the SDK's flow, with the tokens in a private file and the user's browser."""

from __future__ import annotations

import asyncio
import json
import math
import socket
import time
import webbrowser
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from attrs import define
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.auth.oauth2 import OAuthContext
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
)

from pegboard.files import read_private, write_private
from pegboard_mcp.settings import ServerSettings

LOGIN_SECONDS: Final = 300.0
"""How long the user may take to log in."""

_MOST_FILE: Final = 1_000_000
_MOST_REQUEST: Final = 16_384
_HOST: Final = "127.0.0.1"
_PATH: Final = "/callback"
_PAGE: Final = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nYou can close this window.\n"
_NO_PAGE: Final = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@define
class TokenFile:
    """The SDK's token storage in a private file: tokens, and this client's registration.

    Attributes:
        path: The path of the file.
        client: The client that the user has registered, used instead of a stored one, or `None`.
        context: The flow's context; its metadata of the authorization server is stored with the tokens, as a refresh
            needs it.
    """

    path: str
    client: OAuthClientInformationFull | None = None
    context: OAuthContext | None = None

    def read(self) -> dict[str, Any]:
        """The stored data; empty if there is none, or it can't be read."""
        try:
            data: Any = json.loads(read_private(self.path, _MOST_FILE))
        except (OSError, ValueError):
            return {}
        return data if isinstance(data, dict) else {}  # pyright: ignore[reportUnknownVariableType]

    def write(self, **facts: Any) -> None:
        """Updates the stored data.

        Raises:
            OSError: The file can't be written.
        """
        write_private(self.path, json.dumps({**self.read(), **facts}).encode())

    def redirect_port(self) -> int | None:
        """The port of the registered redirect URI: most servers accept only that."""
        try:
            address: str = self.read()["client"]["redirect_uris"][0]
            return urlsplit(address).port
        except (TypeError, LookupError, ValueError):
            return None

    async def get_tokens(self) -> OAuthToken | None:
        """The tokens, or `None`; an expired access token is left out, so that it is refreshed."""
        data = self.read()
        if "tokens" not in data:
            return None
        if self.context is not None and "server" in data:
            self.context.oauth_metadata = OAuthMetadata.model_validate(data["server"])
        has_expired = time.time() > data.get("expires_at", math.inf)
        return OAuthToken.model_validate({**data["tokens"], **({"access_token": ""} if has_expired else {})})

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Stores the tokens."""
        server = None if self.context is None else self.context.oauth_metadata
        facts = {} if server is None else {"server": server.model_dump(mode="json", exclude_none=True)}
        expires_at = math.inf if tokens.expires_in is None else time.time() + tokens.expires_in
        self.write(tokens=tokens.model_dump(mode="json", exclude_none=True), expires_at=expires_at, **facts)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """The registration, or `None`."""
        if self.client is not None:
            return self.client
        client = self.read().get("client")
        return None if client is None else OAuthClientInformationFull.model_validate(client)

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Stores the registration."""
        self.write(client=client_info.model_dump(mode="json", exclude_none=True))


def provider(
    name: str, settings: ServerSettings, path: str, show: Callable[[str], None] | None = None
) -> OAuthClientProvider:
    """The OAuth provider for a server's HTTP client.

    Args:
        name: The server's name.
        settings: Its settings, with the client that is registered there, if any.
        path: The file of its tokens.
        show: Called with the address to log in at, which is opened in a browser too; `None`: no login is possible,
            only stored tokens are used or refreshed.
    """
    tokens = TokenFile(path)
    port = tokens.redirect_port() or _free_port()
    address = f"http://{_HOST}:{port}{_PATH}"
    metadata = OAuthClientMetadata.model_validate(
        {"redirect_uris": [address], "client_name": "pegboard", "token_endpoint_auth_method": "none"}
    )
    if settings.client_id is not None:
        secret = settings.client_secret
        facts = {"client_id": settings.client_id, "client_secret": secret, "redirect_uris": [address]}
        method = "none" if secret is None else "client_secret_basic"
        tokens.client = OAuthClientInformationFull.model_validate({**facts, "token_endpoint_auth_method": method})
    listeners: list[socket.socket] = []

    async def redirect(where: str) -> None:
        if show is None:
            raise OAuthFlowError(f"it wants you to log in: run 'registry mcp login {name}'")
        # before the browser is opened, which may be redirected back at once
        listeners.append(socket.create_server((_HOST, port)))
        show(where)
        asyncio.get_running_loop().run_in_executor(None, webbrowser.open, where)

    made = OAuthClientProvider(
        settings.url or "",
        metadata,
        tokens,
        redirect,
        lambda: _receive_code(listeners.pop()),
        client_metadata_url=settings.client_metadata_url,
    )
    tokens.context = made.context
    return made


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind((_HOST, 0))
        return sock.getsockname()[1]


async def _receive_code(listener: socket.socket) -> AuthorizationCodeResult:
    """The authorization code from the redirected browser, received by a temporary HTTP server.

    Raises:
        OAuthFlowError: The login was refused, or took too long.
    """
    answer: asyncio.Future[dict[str, list[str]]] = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = await asyncio.wait_for(reader.readline(), 10)
            target = urlsplit(line.decode("latin-1").split(" ")[1])
            given = parse_qs(target.query) if target.path == _PATH else {}
            is_answer = "code" in given or "error" in given
            writer.write(_PAGE if is_answer else _NO_PAGE)
            await writer.drain()
            if is_answer and not answer.done():
                answer.set_result(given)
        except (OSError, ValueError, IndexError, TimeoutError):
            pass  # another program at this port
        finally:
            writer.close()

    async with await asyncio.start_server(serve, sock=listener, limit=_MOST_REQUEST):
        try:
            given = await asyncio.wait_for(answer, LOGIN_SECONDS)
        except TimeoutError:
            raise OAuthFlowError(f"there was no login within {LOGIN_SECONDS:g} s") from None
    if "error" in given:
        raise OAuthFlowError(f"the login was refused: {given['error'][0]:.200}")
    facts = {key: given[key][0] for key in ("code", "state", "iss") if key in given}
    return AuthorizationCodeResult.model_validate(facts)
