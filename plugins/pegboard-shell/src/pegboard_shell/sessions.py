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

_END_SECONDS: Final = 5.0  # how long the close of a registry waits for the ends of all commands


@define(eq=False)
class Session:
    """A command that runs on between calls.

    Attributes:
        key: Its id for the model; can't be guessed.
        owner: Its user and conversation.
        command: The running command.
        shown: The command, as shown to the user.
        in_sandbox: Whether it runs in a sandbox.
        incomplete_line: What was written to its input after the last line end.
        last_used: The time of its last use.
    """

    key: str
    owner: Owner
    command: RunningCommand
    shown: str
    in_sandbox: bool
    incomplete_line: str = ""
    last_used: float = field(factory=time.monotonic)


def owner_of(call: ToolContext) -> Owner:
    """The owner whose sessions a call may use."""
    return call.user, call.session


def incomplete_line_of(text: str) -> str:
    """The text after the last unescaped line end of an input, or the last 30,000 characters of that."""
    end = text.rfind("\n")
    while end > 0 and text[end - 1] == "\\":
        end = text.rfind("\n", 0, end)
    return text[end + 1 :][-30_000:]


@define(eq=False)
class Sessions:
    """The sessions of one registry; they end with it, or with this object.

    Attributes:
        most: How many there may be; for a new one, ended ones are removed, least recently used first.
        by_key: The sessions, also ended ones whose end wasn't reported yet.
    """

    most: int
    by_key: dict[str, Session] = field(factory=dict[str, Session], init=False)
    _lock: threading.RLock = field(factory=threading.RLock, init=False)

    def __attrs_post_init__(self) -> None:
        weakref.finalize(self, _end_all, self.by_key).atexit = False  # at exit, `pegboard.programs` ends all commands

    def make_room(self, owner: Owner) -> None:
        """Removes ended sessions if there is no room for one more.

        Raises:
            ToolError: All of them still run; it names those of this owner.
        """
        with self._lock:
            ended = [each for each in self.by_key.values() if each.command.is_over]
            ended.sort(key=lambda each: each.last_used)
            for session in ended[: max(0, len(self.by_key) + 1 - self.most)]:
                del self.by_key[session.key]
            if len(self.by_key) >= self.most:
                own = ", ".join(each.key for each in self.by_key.values() if each.owner == owner)
                others = "They belong to other conversations. Try again later."
                hint = f"Stop one of yours with end_session: {own}." if own else others
                raise ToolError(f"There are already {self.most} running sessions, the maximum.", hint=hint)

    def add(self, command: RunningCommand, owner: Owner, shown: str, *, in_sandbox: bool) -> Session:
        """Adds a running command as a session.

        Raises:
            ToolError: There are too many sessions; the caller has to end the command.
        """
        session = Session(secrets.token_hex(4), owner, command, shown, in_sandbox)
        with self._lock:
            self.make_room(owner)
            self.by_key[session.key] = session
        return session

    def get(self, key: str, owner: Owner) -> Session:
        """A session of this owner.

        Raises:
            ToolError: This owner has no session of this key.
        """
        session = self.by_key.get(key)
        if session is None or session.owner != owner:
            own = [each.key for each in list(self.by_key.values()) if each.owner == owner]
            known = f"Your sessions: {', '.join(own)}." if own else "You have none; start one with background=true."
            hint = "A session is removed once its exit code was returned. All sessions end when the application exits."
            raise ToolError(f"There is no session {key[:40]!r}. {known}", hint=hint)
        session.last_used = time.monotonic()
        return session

    def remove(self, session: Session) -> None:
        """Removes a session whose end was reported."""
        with self._lock:
            self.by_key.pop(session.key, None)

    def provide(self) -> Iterator[Sessions]:
        """Provides these sessions as a registry's service: ends them with it, and blocks until they have ended."""
        yield self
        limit = time.monotonic() + _END_SECONDS
        for command in _end_all(self.by_key):
            command.join(limit - time.monotonic())


def _end_all(sessions: dict[str, Session]) -> list[RunningCommand]:
    """Kills the commands, without waiting, and returns them."""
    commands = [each.command for each in sessions.values()]
    for command in commands:
        command.end(now=True)
    return commands
