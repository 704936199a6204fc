"""In the child: how much memory a call may use.

On Linux the limit is on data (`RLIMIT_DATA`: the heap and private writable mappings), which comes closer to what a
tool really takes than its address space does: threads and runtimes reserve much more of that than they use. Elsewhere
it is on the address space (`RLIMIT_AS`), which macOS takes note of and doesn't keep.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

LIMITED: Final = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS


class MemoryLimit:
    """Sets and takes back the limit of this process."""

    def __init__(self) -> None:
        self._free = resource.getrlimit(LIMITED)

    @contextmanager
    def kept_to(self, limit: int | None) -> Generator[None, None, None]:
        """Holds what runs inside to so many bytes, all of the process counted; `None` holds it to nothing."""
        if limit is None:
            yield
            return
        soft, hard = self._free
        resource.setrlimit(LIMITED, (limit if soft == resource.RLIM_INFINITY else min(limit, soft), hard))
        try:
            yield
        finally:
            resource.setrlimit(LIMITED, self._free)
