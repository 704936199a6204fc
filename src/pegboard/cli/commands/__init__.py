"""The built-in commands of `registry`, in modules that are imported at use."""

from __future__ import annotations
