"""Sessions: commands that go on between calls, each belonging to the conversation that has started it."""

from __future__ import annotations

import os
import secrets
import threading
import time
import weakref
from typing import Final, TypeAlias

from attrs import define, field

from pegboard import ToolContext, ToolError
from pegboard_shell.process import RunningCommand

Owner: TypeAlias = tuple[str | None, str | None]
"""The user and the conversation."""

_END_SECONDS: Final = 5.0
_HINT: Final = "Sessions end with the program that runs the tools, and are forgotten some time after they have ended."


@define(eq=False)
class Session:
    """A command that goes on.

    Attributes:
        key: By which the model knows it; can't be guessed.
        owner: Whose it is.
        command: What runs.
        shown: Its command, for people.
        in_sandbox: Whether it can't leave a sandbox.
        used: When it was used last.
    """

    key: str
    owner: Owner
    command: RunningCommand
    shown: str
    in_sandbox: bool
    used: float = field(factory=time.monotonic)


def owner_of(call: ToolContext) -> Owner:
    """Whose sessions a call may use."""
    return call.user, call.session


@define(eq=False)
class Sessions:
    """The sessions of one registry; they end with this object, or with the program.

    Attributes:
        most: How many there may be; where there are more, those that have ended go, the one that wasn't used longest
            first.
    """

    most: int
    _sessions: dict[str, Session] = field(factory=dict[str, Session], init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def __attrs_post_init__(self) -> None:
        weakref.finalize(self, _end_all, self._sessions, os.getpid())

    def check_room(self, owner: Owner) -> None:
        """Makes room for one more.

        Raises:
            ToolError: All of them still run.
        """
        with self._lock:
            ended = sorted(
                (each for each in self._sessions.values() if each.command.is_over), key=lambda each: each.used
            )
            for each in ended[: max(0, len(self._sessions) + 1 - self.most)]:
                del self._sessions[each.key]
            if len(self._sessions) >= self.most:
                own = ", ".join(each.key for each in self._sessions.values() if each.owner == owner)
                hint = f"End one of yours first ({own})." if own else "They are other conversations'; try again later."
                raise ToolError(f"There are {self.most} sessions already, and all of them run.", hint=hint)

    def keep(self, command: RunningCommand, owner: Owner, shown: str, *, in_sandbox: bool) -> Session:
        """Keeps a command that runs on.

        Raises:
            ToolError: There are too many by now; the command was ended.
        """
        try:
            self.check_room(owner)
        except ToolError:
            command.end(now=True)
            raise
        session = Session(secrets.token_hex(4), owner, command, shown, in_sandbox)
        with self._lock:
            self._sessions[session.key] = session
        return session

    def get(self, key: str, owner: Owner) -> Session:
        """A session of this owner.

        Raises:
            ToolError: There is none of this key.
        """
        session = self._sessions.get(key)
        if session is None or session.owner != owner:
            own = [each.key for each in list(self._sessions.values()) if each.owner == owner]
            there = f"There are {', '.join(own)}." if own else "There are none; start one with background=true."
            raise ToolError(f"There is no session {key[:40]!r}. {there}", hint=_HINT)
        session.used = time.monotonic()
        return session

    def is_in_sandbox(self, key: str) -> bool:
        """Whether there is such a session, and it can't leave a sandbox."""
        session = self._sessions.get(key)
        return session is not None and session.in_sandbox

    def shown(self, key: str) -> str:
        """The command of a session, for people; `""` where there is none."""
        session = self._sessions.get(key)
        return "" if session is None else session.shown

    def forget(self, session: Session) -> None:
        """Its end was told."""
        with self._lock:
            self._sessions.pop(session.key, None)


def _end_all(sessions: dict[str, Session], owner: int) -> None:
    """Ends what still runs, when the registry is gone or the program ends; one that was forked off ends nothing."""
    if os.getpid() != owner:
        return
    running = [each.command for each in list(sessions.values()) if not each.command.is_over]
    for command in running:
        command.end(now=True)
    limit = time.monotonic() + _END_SECONDS
    for command in running:
        command.join(limit - time.monotonic())
