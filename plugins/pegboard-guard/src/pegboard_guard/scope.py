"""Which calls are counted together: those of a turn, of a session, of a user, or all."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, Literal, TypeAlias, get_args

from pegboard import ReadonlyContext

Within: TypeAlias = Literal["turn", "session"]
Per: TypeAlias = Literal["turn", "session", "user", "registry"]
WITHIN: Final[tuple[Within, ...]] = get_args(Within)
PER: Final[tuple[Per, ...]] = get_args(Per)
Scope: TypeAlias = Hashable
"""What stands for all calls that count together; `None` where a context doesn't say which turn it is of."""


def scope_of(request: ReadonlyContext, per: Per) -> Scope:
    """What stands for all calls that count together with one of this context.

    A turn is what the host calls an invocation, or else one message of the model's. A call without a session is of
    the one nameless session that a program without sessions is.
    """
    if per == "registry":
        return "registry"
    if per == "user":
        return ("user", request.user)
    if per == "session":
        return ("session", request.session)
    turn = request.invocation or request.message
    return None if turn is None else ("turn", request.session, turn)


def course_of(request: ReadonlyContext, within: Within) -> Scope:
    """What stands for the calls of a session, or of a whole turn: never those of one message only."""
    if within == "session":
        return scope_of(request, within)
    return None if request.invocation is None else scope_of(request, within)


def streak_of(request: ReadonlyContext) -> Scope:
    """Whose calls stand in one row: the session's, or else the turn's; `None`: they may be anybody's."""
    return scope_of(request, "turn" if request.session is None else "session")
