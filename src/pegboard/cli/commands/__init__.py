"""The commands of `registry`, one file a group, each imported when it is asked for."""

from __future__ import annotations
