"""Names of foreign tools: valid ones for them, and keys by which look-alikes are found."""

from __future__ import annotations

import re
from typing import Final

from pegboard.tools.spec import MAX_LENGTH, is_valid_name

_ALIKE: Final = str.maketrans("01i-", "oll_")


def alike(name: str) -> str:
    """A key that is equal for names that differ only in case, or in characters that look alike."""
    return name.lower().translate(_ALIKE)


def mapped_name(foreign: str) -> str:
    """A valid name for a foreign one: itself if it is valid, else a readable part and a digest of the whole.

    Different foreign names get different names: mapped ones end with a digest of the foreign name (40 bits of SHA-256),
    and a valid name that looks like a mapped one is mapped, too.
    """
    if is_valid_name(foreign) and not re.fullmatch(".+_[0-9a-f]{10}", foreign):
        return foreign
    import hashlib  # not needed for valid names

    digest = hashlib.sha256(foreign.encode("utf-8", "surrogatepass")).hexdigest()[:10]
    readable = re.sub("[^A-Za-z0-9_-]", "_", foreign)
    if not re.match("[A-Za-z_]", readable) or readable.lower().startswith("pegboard_"):
        readable = f"_{readable}"
    return f"{readable[: MAX_LENGTH - 11]}_{digest}"
