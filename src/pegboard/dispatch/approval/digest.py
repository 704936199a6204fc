"""`digest_of_call`: what an approval is bound to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pegboard.schema.json import digest_of
from pegboard.tools.tool import Tool


def digest_of_call(tool: Tool, arguments: Mapping[str, Any]) -> str:
    """`"sha256:..."` over everything that the tool says of itself and over the arguments as JSON.

    The order of keys and the way in which a number is written (`1.0`, `1`) make no difference.

    Raises:
        ValueError: The arguments hold NaN, an infinity or a cycle.
        TypeError: They hold something that JSON can't say.
    """
    return digest_of_parts(tool.spec.digest, arguments)


def digest_of_parts(spec_digest: str, arguments: Mapping[str, Any]) -> str:
    """The same, where only the digest of the tool's spec is known."""
    return digest_of({"tool": spec_digest, "arguments": dict(arguments)})
