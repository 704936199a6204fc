"""`Finding`: something that `registry doctor` has found."""

from __future__ import annotations

from attrs import frozen


@frozen
class Finding:
    """Something that `doctor` has found.

    Attributes:
        subject: What it is about, such as `"plugin 'files' (pegboard-files 0.1.0)"`.
        cause: What is wrong.
        fix: What to do, or `""` where the cause says it.
    """

    subject: str
    cause: str
    fix: str = ""

    def to_json(self) -> dict[str, str]:
        """All facts by name."""
        return {"subject": self.subject, "cause": self.cause, "fix": self.fix}
