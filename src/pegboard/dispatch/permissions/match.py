"""What a rule can say of a part of a call: `Match`; and the parts that nothing can be read out of."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Protocol

from attrs import field, frozen

from pegboard.dispatch.permissions.wildcard import HOLE

if TYPE_CHECKING:
    from pegboard.dispatch.permissions.rule import Rule


class Match(enum.Enum):
    """Whether a rule speaks of a part of a call. An allow rule never does so perhaps: it does surely, or not."""

    NO = "no"
    PERHAPS = "perhaps"
    SURELY = "surely"


class Part(Protocol):
    """What is decided by itself: one command of a line, one place in the file system, one URL, one text."""

    @property
    def inside(self) -> bool:
        """Whether it is only seen inside another part, as what `sudo` runs: nothing has to allow it."""
        ...

    @property
    def shown(self) -> str:
        """What people are shown of it."""
        ...

    @property
    def always(self) -> str | None:
        """The pattern that an answer "always" would allow, or `None` where no pattern could."""
        ...

    def match(self, rule: Rule) -> Match:
        """Whether the rule speaks of it."""
        ...


@frozen
class WholeCall:
    """A call of a tool that declares nothing that rules could look at: only the pattern `*` surely speaks of it."""

    inside: bool = field(default=False, init=False)
    shown: str = field(default="*", init=False)
    always: str | None = field(default="*", init=False)

    def match(self, rule: Rule) -> Match:
        """Any other pattern may or may not fit: that is enough to deny and to ask, and too little to allow."""
        if rule.wildcard.is_everything and rule.field is None and rule.kind in (None, "text"):
            return Match.SURELY
        return Match.NO if rule.allows else Match.PERHAPS


@frozen
class Unreadable:
    """What a rule should look at, but it isn't there or can't be read for sure. It is denied rather than allowed.

    Attributes:
        shown: What was given.
    """

    shown: str = ""
    inside: bool = field(default=False, init=False)
    always: str | None = field(default=None, init=False)

    def match(self, rule: Rule) -> Match:
        """Nothing allows it; what denies or asks may mean it."""
        if rule.allows:
            return Match.NO
        return Match.SURELY if rule.wildcard.is_everything else Match.PERHAPS


@frozen
class Text:
    """A text that is taken as it is.

    Attributes:
        text: The text; it may have holes.
    """

    text: str
    inside: bool = field(default=False, init=False)

    @property
    def shown(self) -> str:
        """The text."""
        return self.text.replace(HOLE, "*")

    @property
    def always(self) -> str | None:
        """Exactly this text; nothing where it can't be said without matching more."""
        return exactly(self.shown)

    def match(self, rule: Rule) -> Match:
        """The pattern as it was written."""
        if rule.wildcard.covers(self.text):
            return Match.SURELY
        return Match.PERHAPS if not rule.allows and rule.wildcard.touches(self.text) else Match.NO


def exactly(text: str) -> str | None:
    """The pattern that matches this text and nothing else, or `None`: `*` and `?` can't be said literally."""
    return None if "*" in text or "?" in text else text


__all__ = ["Match", "Part", "Text", "Unreadable", "WholeCall", "exactly"]
