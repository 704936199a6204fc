"""Sessions: commands that go on between calls, each belonging to the conversation that has started it."""

from __future__ import annotations

import atexit
import os
import secrets
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from attrs import define, field

from pegboard import ToolContext, ToolError
from pegboard_shell.process import RunningCommand

Owner: TypeAlias = tuple[str | None, str | None]
"""The user and the conversation."""

_END_SECONDS: Final = 5.0
_HINT: Final = "Sessions end with the program that runs the tools, and are forgotten once their end was told."


@define(eq=False)
class Session:
    """A command that goes on.

    Attributes:
        key: By which the model knows it; can't be guessed.
        owner: Whose it is.
        command: What runs.
        shown: Its command, for people.
        in_sandbox: Whether it can't leave a sandbox.
        unended: The line that was written to it, as far as it has no end.
        used: When it was used last.
    """

    key: str
    owner: Owner
    command: RunningCommand
    shown: str
    in_sandbox: bool
    unended: str = ""
    used: float = field(factory=time.monotonic)


def owner_of(call: ToolContext) -> Owner:
    """Whose sessions a call may use."""
    return call.user, call.session


def unended(text: str) -> str:
    """What stands behind the last line end, unless that is escaped, in an input; its last 30,000 characters."""
    end = text.rfind("\n")
    while end > 0 and text[end - 1] == "\\":
        end = text.rfind("\n", 0, end)
    return text[end + 1 :][-30_000:]


@define(eq=False)
class Sessions:
    """The sessions of one registry; they end with it, with this object, or with the program.

    Attributes:
        most: How many there may be; where there are more, those that have ended go, the one that wasn't used longest
            first.
        running: Those that are kept, by key.
        owner: The process that has started them.
    """

    most: int
    running: dict[str, Session] = field(factory=dict[str, Session], init=False)
    owner: int = field(factory=os.getpid, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def __attrs_post_init__(self) -> None:
        weakref.finalize(self, _end_all, self.running, self.owner).atexit = False
        _EVERY.add(self)

    def check_room(self, owner: Owner) -> None:
        """Makes room for one more.

        Raises:
            ToolError: All of them still run.
        """
        with self._lock:
            ended = sorted((each for each in self.running.values() if each.command.is_over), key=lambda each: each.used)
            for each in ended[: max(0, len(self.running) + 1 - self.most)]:
                del self.running[each.key]
            if len(self.running) >= self.most:
                own = ", ".join(each.key for each in self.running.values() if each.owner == owner)
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
            self.running[session.key] = session
        return session

    def get(self, key: str, owner: Owner) -> Session:
        """A session of this owner.

        Raises:
            ToolError: There is none of this key.
        """
        session = self.running.get(key)
        if session is None or session.owner != owner:
            own = [each.key for each in list(self.running.values()) if each.owner == owner]
            there = f"There are {', '.join(own)}." if own else "There are none; start one with background=true."
            raise ToolError(f"There is no session {key[:40]!r}. {there}", hint=_HINT)
        session.used = time.monotonic()
        return session

    def is_in_sandbox(self, key: str) -> bool:
        """Whether there is such a session, and it can't leave a sandbox."""
        session = self.running.get(key)
        return session is not None and session.in_sandbox

    def shown(self, key: str) -> str:
        """The command of a session, for people; `""` where there is none."""
        session = self.running.get(key)
        return "" if session is None else session.shown

    def begun(self, key: str) -> str:
        """The line of a session's input that goes on with the next; `""` where there is none."""
        session = self.running.get(key)
        return "" if session is None else session.unended

    def forget(self, session: Session) -> None:
        """Its end was told."""
        with self._lock:
            self.running.pop(session.key, None)

    def opened(self) -> Iterator[Sessions]:
        """These, which end when what they were opened for is closed; blocks then until they have."""
        yield self
        _joined(_end_all(self.running, self.owner))


def _end_all(sessions: dict[str, Session], owner: int) -> list[RunningCommand]:
    """Ends what still runs, and gives it; a program that was forked off ends nothing. Waits for nothing."""
    running = [each.command for each in list(sessions.values()) if not each.command.is_over]
    if os.getpid() != owner:
        return []
    for command in running:
        command.end(now=True)
    return running


_EVERY: Final = weakref.WeakSet[Sessions]()


@atexit.register
def _end_at_exit() -> None:
    """Ends all sessions, and waits for that: daemons among them are found by what is looked for at their end."""
    _joined([command for sessions in _EVERY for command in _end_all(sessions.running, sessions.owner)])


def _joined(running: Sequence[RunningCommand]) -> None:
    """Waits for the end of commands, for some time."""
    limit = time.monotonic() + _END_SECONDS
    for command in running:
        command.join(limit - time.monotonic())
