"""Sessions: commands that run on between calls, each owned by the conversation that has started it."""

from __future__ import annotations

import secrets
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Final, TypeAlias

from attrs import define, field

from pegboard import ToolContext, ToolError
from pegboard_shell.output import RunningCommand

Owner: TypeAlias = tuple[str | None, str | None]
"""The user and the conversation."""

_END_SECONDS: Final = 5.0
_HINT: Final = "A session is removed once its exit code was returned. All sessions end when the application exits."


@define(eq=False)
class Session:
    """A command that runs on between calls.

    Attributes:
        key: Its id for the model; can't be guessed.
        owner: Its user and conversation.
        command: The running command.
        shown: The command, as shown to the user.
        in_sandbox: Whether it runs in a sandbox.
        unended: The incomplete last line of its input.
        used: The time of its last use.
    """

    key: str
    owner: Owner
    command: RunningCommand
    shown: str
    in_sandbox: bool
    unended: str = ""
    used: float = field(factory=time.monotonic)


def owner_of(call: ToolContext) -> Owner:
    """The owner whose sessions a call may use."""
    return call.user, call.session


def unended(text: str) -> str:
    """The text after the last unescaped line end of an input; its last 30,000 characters."""
    end = text.rfind("\n")
    while end > 0 and text[end - 1] == "\\":
        end = text.rfind("\n", 0, end)
    return text[end + 1 :][-30_000:]


@define(eq=False)
class Sessions:
    """The sessions of one registry; they end with it, or with this object.

    Attributes:
        most: How many there may be; for a new one, ended ones are removed, least recently used first.
        running: The sessions, by key.
    """

    most: int
    running: dict[str, Session] = field(factory=dict[str, Session], init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def __attrs_post_init__(self) -> None:
        weakref.finalize(self, _end_all, self.running).atexit = False

    def check_room(self, owner: Owner) -> None:
        """Removes ended sessions if there is no room for one more.

        Raises:
            ToolError: All of them still run.
        """
        with self._lock:
            self._make_room(owner)

    def add(self, command: RunningCommand, owner: Owner, shown: str, *, in_sandbox: bool) -> Session:
        """Adds a running command as a session.

        Raises:
            ToolError: There are too many sessions; the caller has to end the command.
        """
        session = Session(secrets.token_hex(4), owner, command, shown, in_sandbox)
        with self._lock:
            self._make_room(owner)
            self.running[session.key] = session
        return session

    def _make_room(self, owner: Owner) -> None:
        ended = sorted((each for each in self.running.values() if each.command.is_over), key=lambda each: each.used)
        for each in ended[: max(0, len(self.running) + 1 - self.most)]:
            del self.running[each.key]
        if len(self.running) >= self.most:
            own = ", ".join(each.key for each in self.running.values() if each.owner == owner)
            hint = (
                f"Stop one of yours with end_session: {own}."
                if own
                else "They belong to other conversations. Try again later."
            )
            raise ToolError(f"There are already {self.most} running sessions, the maximum.", hint=hint)

    def get(self, key: str, owner: Owner) -> Session:
        """A session of this owner.

        Raises:
            ToolError: This owner has no session of this key.
        """
        session = self.running.get(key)
        if session is None or session.owner != owner:
            own = [each.key for each in list(self.running.values()) if each.owner == owner]
            there = f"Your sessions: {', '.join(own)}." if own else "You have none; start one with background=true."
            raise ToolError(f"There is no session {key[:40]!r}. {there}", hint=_HINT)
        session.used = time.monotonic()
        return session

    def remove(self, session: Session) -> None:
        """Removes a session whose end was reported."""
        with self._lock:
            self.running.pop(session.key, None)

    def opened(self) -> Iterator[Sessions]:
        """Yields these sessions, then ends them and blocks until they have ended."""
        yield self
        limit = time.monotonic() + _END_SECONDS
        for command in _end_all(self.running):
            command.join(limit - time.monotonic())


def _end_all(sessions: dict[str, Session]) -> list[RunningCommand]:
    """Kills the commands, without waiting, and returns them."""
    commands = [each.command for each in sessions.values()]
    for command in commands:
        command.end(now=True)
    return commands
