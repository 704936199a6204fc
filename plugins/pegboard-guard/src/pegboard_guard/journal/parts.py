"""The files of one journal: `audit.jsonl`, and `audit.jsonl.1`, `audit.jsonl.2`, ..., which were put aside before."""

from __future__ import annotations

import re
from pathlib import Path


def parts_of(path: Path) -> list[Path]:
    """The files that were put aside, the oldest first."""
    return [path.with_name(f"{path.name}.{number}") for number in _numbers(path)]


def next_part(path: Path) -> Path:
    """Where the file is put aside next."""
    return path.with_name(f"{path.name}.{max(_numbers(path), default=0) + 1}")


def _numbers(path: Path) -> list[int]:
    pattern = re.compile(re.escape(path.name) + r"\.([1-9][0-9]{0,8})")
    try:
        matches = [pattern.fullmatch(other.name) for other in path.parent.iterdir()]
    except FileNotFoundError:
        return []
    return sorted(int(match.group(1)) for match in matches if match is not None)
