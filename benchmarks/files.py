"""pegboard-files beside ripgrep: grep and glob over many files, and edits of a large one. Prints rows for RESULTS.md.

python benchmarks/files.py --files 100000 --rounds 5

Each round runs ours and theirs in turn; what is shown is the median of wall times, and that of the processor times of
ours. The tools are called through a registry, as a host calls them; ripgrep is started anew each time, as it has to be.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pegboard

RG = Path(sysconfig.get_path("scripts"), "rg")
A_FOLDER = 100
LINES = 40


def make_tree(top: Path, files: int) -> None:
    """Files of about 1.5 KB in folders of a hundred; one in a hundred has the word that is looked for."""
    for number in range(files):
        folder = top / f"part{number // A_FOLDER // A_FOLDER}" / f"sub{number // A_FOLDER % A_FOLDER}"
        if number % A_FOLDER == 0:
            folder.mkdir(parents=True)
        word = "needle" if number % A_FOLDER == 7 else "straw"
        lines = [f"line {line} of file {number}: {word if line == LINES // 2 else 'hay'}\n" for line in range(LINES)]
        (folder / f"file{number}.{'py' if number % 2 else 'txt'}").write_text("".join(lines))


def timed(run: Callable[[], Any]) -> tuple[float, float]:
    """Wall and processor time in milliseconds."""
    wall, processor = time.perf_counter(), time.process_time()
    run()
    return (time.perf_counter() - wall) * 1e3, (time.process_time() - processor) * 1e3


def call(registry: pegboard.ToolRegistry, name: str, arguments: dict[str, Any]) -> pegboard.ToolResult:
    """The result of a call.

    Raises:
        RuntimeError: It failed.
    """
    result = registry.call_sync(name, arguments)
    if result.is_error:
        raise RuntimeError(result.text)
    return result


def row(what: str, theirs: Callable[[], Any] | None, ours: Callable[[], Any], rounds: int) -> str:
    """One row of the table."""
    walls, processors, others = [], [], []
    for _ in range(rounds):
        if theirs is not None:
            others.append(timed(theirs)[0])
        wall, processor = timed(ours)
        walls.append(wall)
        processors.append(processor)
    wall = statistics.median(walls)
    other = f"{statistics.median(others):,.0f} ms" if others else " "
    ratio = f"{wall / statistics.median(others):.1f}" if others else " "
    return f"| {what} | {other} | {wall:,.0f} ms | {statistics.median(processors):,.0f} ms | {ratio} |"


def main() -> None:
    """Makes the files, measures, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])  # pyright: ignore[reportOptionalMemberAccess]
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--megabytes", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder)
        make_tree(top, options.files)
        allowed = pegboard.Permissions([pegboard.Rule("edit", "*", "allow")])
        settings = {"files": {"root": folder, "time_limit": 300, "read_first": False}}
        registry = pegboard.load(settings=settings)
        registry.permissions = allowed

        def rg(*arguments: str) -> None:
            subprocess.run([RG, "--no-config", *arguments, "."], cwd=top, stdout=subprocess.DEVNULL, check=True)

        def tool(name: str, **arguments: Any) -> Callable[[], object]:
            return lambda: call(registry, name, arguments)

        print("| what | ripgrep, wall | ours, wall | ours, processor | ratio |\n| --- | --- | --- | --- | --- |")
        many = f"{options.files:,} files"
        found = f"{options.files // A_FOLDER:,}"
        grep = tool("grep", pattern="needle", mode="files", limit=2_000)
        print(row(f"grep a word in {many}, {found} found", lambda: rg("-l", "needle"), grep, options.rounds))
        grep = tool("grep", pattern=r"n[e]+dle\d*$", mode="counts", limit=2_000)
        print(row(f"grep an expression in {many}", lambda: rg("-c", r"n[e]+dle\d*$"), grep, options.rounds))
        glob = tool("glob", pattern=f"*{options.files // 2}*.txt")
        files = lambda: rg("--files", "-g", f"*{options.files // 2}*.txt")  # noqa: E731
        print(row(f"glob a few of {many}", files, glob, options.rounds))
        large = top / "large.txt"
        large.write_text("".join(f"{number:09} some words of a line\n" for number in range(options.megabytes * 32_000)))
        size = f"{large.stat().st_size / 1e6:.0f} MB"
        edits = iter(range(1_000))

        def edit() -> None:
            number, middle = next(edits), f"{options.megabytes * 16_000:09}"
            old, new = (f"{middle} some{number + more or ''} words" for more in (0, 1))
            call(registry, "edit_file", {"path": "large.txt", "old_string": old, "new_string": new})

        page = tool("read_file", path="large.txt", offset=options.megabytes * 16_000)
        print(row(f"edit one line of {size}", None, edit, options.rounds))
        print(row(f"read a page in the middle of {size}", None, page, options.rounds))


if __name__ == "__main__":
    main()
