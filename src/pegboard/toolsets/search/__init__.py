"""Search: finding the tools that some words ask for, and offering only what was found."""

from __future__ import annotations
