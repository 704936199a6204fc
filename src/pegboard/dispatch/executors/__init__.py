"""Where handlers run beside the event loop and its threads: child processes, and whatever a plugin brings."""

from __future__ import annotations
