"""REGISTER: the tools of installed packages."""

from __future__ import annotations
