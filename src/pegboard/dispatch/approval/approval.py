"""`Approval`: that exactly this may run, once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from threading import Lock
from typing import Any, Self

from attrs import field, frozen

from pegboard.dispatch.approval.digest import digest_of_call, digest_of_parts
from pegboard.dispatch.work import CallError
from pegboard.schema.json import json_text
from pegboard.tools.tool import Tool


@frozen(eq=False)
class Approval:
    """A person's yes to one call, bound to what the tool says of itself and to the arguments; good for one run.

    Attributes:
        digest: Of the call, as `digest_of_call` gives it.
        arguments: What was approved, as JSON text.
        request: The id of the request that was answered.
    """

    digest: str
    arguments: str = field(repr=False)
    request: str = ""
    _spent: Lock = field(factory=Lock, init=False, repr=False)

    @classmethod
    def of(cls, tool: Tool, arguments: Mapping[str, Any], request: str = "") -> Self:
        """An approval of this call.

        Raises:
            ValueError: The arguments hold NaN, an infinity or a cycle.
            TypeError: They hold something that JSON can't say.
        """
        return cls.of_text(tool.spec.digest, json_text(dict(arguments)), request)

    @classmethod
    def of_text(cls, spec_digest: str, arguments: str, request: str = "") -> Self:
        """An approval of a call whose arguments were written as JSON text; the digest is that text's own."""
        return cls(digest_of_parts(spec_digest, json.loads(arguments)), arguments, request)

    def consume(self, tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Uses the approval up, right before the call runs, whether it fits or not.

        Returns:
            The arguments to run, read anew from what was approved: nobody else holds them.

        Raises:
            CallError: `denied`: another tool, other arguments, or used before.
        """
        if not self._spent.acquire(blocking=False):  # never released: the one atomic "was I first?" that there is
            raise CallError("denied", f"{tool.name} was not run: its approval has been used. Ask again.")
        if not self._fits(tool, arguments):
            raise CallError("denied", f"{tool.name} was not run: it isn't what was approved any more. Ask again.")
        return json.loads(self.arguments)

    def _fits(self, tool: Tool, arguments: Mapping[str, Any]) -> bool:
        try:
            return digest_of_call(tool, arguments) == self.digest
        except (TypeError, ValueError, RecursionError):
            return False  # what isn't JSON any more was never approved
