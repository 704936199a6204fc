"""pegboard-parrot: the wire format of a fictitious vendor."""

from __future__ import annotations

from pegboard_parrot.parrot import Parrot

__all__ = ["Parrot"]
