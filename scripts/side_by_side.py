"""Runs the tests in several processes at once, each under coverage.

python scripts/side_by_side.py tests/turn tests/tools -- tests/request plugins

Each row of pytest arguments between the dashes is a process of its own. The first one's output comes as it is made, the
others' when they have ended. The exit code is 1 if any of them failed.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence


def rows(words: Sequence[str]) -> Iterator[list[str]]:
    """The arguments of each process."""
    row: list[str] = []
    for word in words:
        if word == "--":
            yield row
            row = []
        else:
            row.append(word)
    yield row


def main(words: Sequence[str]) -> int:
    """Runs them; gives the exit code."""
    first, *others = rows(words)
    command = [sys.executable, "-m", "coverage", "run", "-m", "pytest"]
    beside = []
    for row in others:
        said = tempfile.TemporaryFile()  # noqa: SIM115  read when its process has ended
        beside.append((said, subprocess.Popen([*command, *row], stdout=said, stderr=subprocess.STDOUT)))
    failed = subprocess.run([*command, *first], check=False).returncode != 0
    for said, process in beside:
        failed = process.wait() != 0 or failed
        said.seek(0)
        sys.stdout.buffer.write(said.read())
        sys.stdout.flush()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
