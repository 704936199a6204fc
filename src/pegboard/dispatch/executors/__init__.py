"""Where handlers run other than here."""

from __future__ import annotations
