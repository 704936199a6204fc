"""Rules on the order of calls: what comes first, what excludes what, what needs a pause, what can't be left out."""

from __future__ import annotations
