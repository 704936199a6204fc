"""REGISTER: installed packages hang their tools on the board."""

from __future__ import annotations
