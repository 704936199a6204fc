"""pegboard-parrot: the wire format of a made-up vendor."""

from __future__ import annotations

from pegboard_parrot.parrot import Parrot

__all__ = ["Parrot"]
