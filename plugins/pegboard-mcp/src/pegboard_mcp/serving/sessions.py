"""Sessions: the server's state of a client between its requests."""

from __future__ import annotations

import uuid
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import attrs
from attrs import define, field
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext

from pegboard import Actions, ReadonlyContext
from pegboard.toolsets import FOUND_TOOLS
from pegboard_mcp.serving.access import CLAIMS, context_of_token

T = TypeVar("T")

MOST_USERS: Final = 1_000
"""Users without sessions whose state is kept; of more, the least recent ones are forgotten."""

CLIENT: Final = "pegboard/client"
"""The key of the client's `Asker` in the `extra` of a call's context."""

_SESSION: Final = "session"

Request = ServerRequestContext[Any, Any]
"""The SDK's context of one request."""


@define(eq=False)
class Session:
    """Session of one client; in protocol revisions without sessions, the state of its user.

    Attributes:
        name: Its name, which isn't the id that the client sends; `None` without a session.
        user: The user's id, or `None`.
        state: The state set by tools; without a session, only the tools that a search has found.
    """

    name: str | None
    user: str | None
    state: dict[str, Any] = field(factory=dict[str, Any])

    def is_of(self, other: Session) -> bool:
        """Whether it is the same session, or, without one, the same user."""
        return (self.name, self.user) == (other.name, other.user)

    def note(self, actions: Actions) -> bool:
        """Applies a call's changes of the state; gives whether they change which tools are offered."""
        found = self.state.get(FOUND_TOOLS)
        state = dict(self.state)
        actions.apply_to(state)
        is_session = self.name is not None
        self.state = {
            key: value
            for key, value in state.items()
            if key == FOUND_TOOLS or (is_session and not key.startswith(CLAIMS))  # claims only come from a token
        }
        return self.state.get(FOUND_TOOLS) != found


class Sessions:
    """The sessions of a server's clients.

    Args:
        context: The context of requests without a user.
    """

    def __init__(self, context: ReadonlyContext) -> None:
        self._context = context
        self._users: OrderedDict[str | None, Session] = OrderedDict()

    def of(self, request: Request) -> tuple[Session, ReadonlyContext]:
        """The session of a request, and its context: the server's, with the user and the state."""
        shown = None if request.request is None else request.request.scope.get("user")
        context = context_of_token(self._context, shown)
        session = self._session(request, context.user)
        state: Mapping[str, Any] = {**self._context.state, **session.state}
        claims = {key: value for key, value in context.state.items() if key not in self._context.state}
        return session, attrs.evolve(context, session=session.name, state={**state, **claims})

    def _session(self, request: Request, user: str | None) -> Session:
        connection = connection_of(request)
        if connection.session_id is not None:
            place = connection.state
        elif request.request is None:  # standard input and output: one client
            place = request.lifespan_context
        else:
            session = self._users.pop(user, None) or Session(None, user)
            self._users[user] = session
            if len(self._users) > MOST_USERS:
                self._users.popitem(last=False)
            return session
        session = place.get(_SESSION)
        if session is None:
            session = place[_SESSION] = Session(uuid.uuid4().hex, user)
        return session


def forget_oldest(kept: OrderedDict[str, T], owner: Callable[[T], object], most_of_one: int, most: int) -> list[T]:
    """Drops the oldest entries of the newest one's owner, then of all, beyond the limits; gives those dropped."""
    newest = owner(next(reversed(kept.values())))
    own = [id_ for id_, each in kept.items() if owner(each) == newest]
    forgotten = [kept.pop(id_) for id_ in own[:-most_of_one]]
    while len(kept) > most:
        forgotten.append(kept.popitem(last=False)[1])
    return forgotten


def connection_of(request: Request) -> Connection:
    """The connection, which holds the state of one client; the SDK has no public way to it from a request."""
    return request.session._connection  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
