"""Compares pegboard-files with ripgrep: grep and glob over many files, edits of a large one. Prints rows of RESULTS.md.

python benchmarks/files.py --files 100000 --rounds 5
python benchmarks/files.py --peers PYTHON    # compares with other frameworks' file tools that this Python has

Each round alternates between ours and theirs; shows the median of wall times, and that of our processor times. The
tools are called through a registry, as a host calls them; ripgrep is started each time. Peers run in a long-lived
process of their own; the number of their results is compared with the expected one.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pegboard

RG = Path(sysconfig.get_path("scripts"), "rg")
A_FOLDER = 100
LINES = 40


def make_tree(top: Path, files: int) -> None:
    """Creates files of about 1.5 KB in folders of a hundred; one in a hundred has the searched word."""
    for number in range(files):
        folder = top / f"part{number // A_FOLDER // A_FOLDER}" / f"sub{number // A_FOLDER % A_FOLDER}"
        if number % A_FOLDER == 0:
            folder.mkdir(parents=True)
        word = "needle" if number % A_FOLDER == 7 else "straw"
        lines = [f"line {line} of file {number}: {word if line == LINES // 2 else 'hay'}\n" for line in range(LINES)]
        (folder / f"file{number}.{'py' if number % 2 else 'txt'}").write_text("".join(lines))


def write_large(path: Path, megabytes: int) -> None:
    """Writes one file of a size in megabytes."""
    path.write_text("".join(f"{number:09} some words of a line\n" for number in range(megabytes * 32_000)))


def processor_time() -> float:
    """Seconds of this process and of the children that have ended."""
    own, ended = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime


def timed(run: Callable[[], Any]) -> tuple[float, float]:
    """Wall and processor time in milliseconds."""
    wall, processor = time.perf_counter(), processor_time()
    run()
    return (time.perf_counter() - wall) * 1e3, (processor_time() - processor) * 1e3


def call(registry: pegboard.ToolRegistry, name: str, arguments: dict[str, Any]) -> pegboard.ToolResult:
    """The result of a call, in a session of its own, as peers change the same file.

    Raises:
        RuntimeError: It failed.
    """
    result = registry.call_sync(name, arguments, pegboard.ReadonlyContext(session=str(time.monotonic_ns())))
    if result.is_error:
        raise RuntimeError(result.text)
    return result


def row(what: str, theirs: Callable[[], Any] | None, ours: Callable[[], Any], rounds: int) -> str:
    """One row of the table."""
    taken: dict[str, list[tuple[float, float]]] = {"theirs": [], "ours": []}
    for _ in range(rounds):
        if theirs is not None:
            taken["theirs"].append(timed(theirs))
        taken["ours"].append(timed(ours))
    medians = [[statistics.median(column) for column in zip(*each, strict=True)] for each in taken.values() if each]
    other = [f"{each:,.0f} ms" for each in medians[0]] if theirs is not None else ["", ""]
    wall, processor = medians[-1]
    ratio = f"{processor / medians[0][1]:.1f}" if theirs is not None else ""
    return "| " + " | ".join([what, *other, f"{wall:,.0f} ms", f"{processor:,.0f} ms", ratio]) + " |"


class Ours:
    """pegboard-files, with the interface of `Peer`.

    Args:
        registry: A registry with its tools.
    """

    name = "pegboard"
    jobs = ("grep", "glob", "edit")

    def __init__(self, registry: pegboard.ToolRegistry) -> None:
        self._calls: dict[str, Callable[..., int]] = {
            "grep": lambda text: len(
                call(registry, "grep", {"pattern": text, "literal": True, "limit": 2_000}).structured_content["matches"]
            ),
            "glob": lambda pattern: len(
                call(registry, "glob", {"pattern": pattern, "limit": 2_000}).structured_content["files"]
            ),
            "edit": lambda path, old, new: int(
                not call(registry, "edit_file", {"path": path, "old_string": old, "new_string": new}).is_error
            ),
        }

    def do(self, job: str, *arguments: str) -> tuple[float, float, int]:
        """As `Peer.do`."""
        found: list[int] = []
        return *timed(lambda: found.append(self._calls[job](*arguments))), found[0]


class Peer:
    """A peer's file tools, in a process of its own.

    Args:
        python: An interpreter that has it.
        name: Its distribution.
        folder: The root of its tools.
    """

    def __init__(self, python: str, name: str, folder: str) -> None:
        self.name = name
        command = [python, "-W", "ignore", str(Path(__file__).with_name("inside") / "file_tools.py"), name, folder]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.jobs = json.loads(self._line() or "[]")

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def do(self, job: str, *arguments: str) -> tuple[float, float, int]:
        """Wall and processor time of a job in milliseconds, and the number of its results."""
        assert self._process.stdin is not None
        print(json.dumps([job, *arguments]), file=self._process.stdin, flush=True)
        taken = json.loads(self._line())
        return taken["wall"], taken["processor"], taken["found"]

    def close(self) -> None:
        """Ends its process."""
        self._process.communicate()


PEERS = ("deepagents", "agno", "langchain-community")


def beside_peers(tools: Sequence[Ours | Peer], files: int, megabytes: int, rounds: int) -> None:
    """Prints a row for each job and each of the tools that does it, all in turns; ours come first."""
    lines = iter(range(megabytes * 16_000, megabytes * 32_000))  # each edit has a line of its own
    print("| what | by | wall | processor | ours to theirs, by processor |\n| --- | --- | --- | --- | --- |")
    for job, what in (
        ("grep", f"grep a word in {files:,} files"),
        ("glob", f"glob a few of {files:,} files"),
        ("edit", f"edit one line of {megabytes} MB"),
    ):
        doing = [tool for tool in tools if job in tool.jobs]
        taken: dict[str, list[tuple[float, float, int]]] = {tool.name: [] for tool in doing}
        for tool in doing * rounds:
            start = f"{next(lines):09}"
            of_job = {
                "grep": ["needle"],
                "glob": [f"*{files // 2}*.txt"],
                "edit": ["large.txt", f"{start} some", f"{start} other"],
            }
            taken[tool.name].append(tool.do(job, *of_job[job]))
        ours = [statistics.median(column) for column in zip(*taken["pegboard"], strict=True)]
        for name, each in taken.items():
            wall, used, _ = (statistics.median(column) for column in zip(*each, strict=True))
            fewest = min(found for *_, found in each)  # some stop at a time limit of their own
            ratio = f"{ours[1] / used:.2f}" if fewest == ours[2] else f"found {fewest:,} of {ours[2]:,}"
            print(f"| {what} | {name} | {wall:,.0f} ms | {used:,.0f} ms | {ratio} |", flush=True)


def main() -> None:
    """Makes the files, measures, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])  # pyright: ignore[reportOptionalMemberAccess]
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--megabytes", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peers", metavar="PYTHON", default="")
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

        if options.peers:
            write_large(top / "large.txt", options.megabytes)
            peers = [peer for name in PEERS if (peer := Peer(options.peers, name, folder)).jobs]
            beside_peers([Ours(registry), *peers], options.files, options.megabytes, options.rounds)
            for peer in peers:
                peer.close()
            return
        print("| what | ripgrep, wall | processor | ours, wall | processor | ours to ripgrep, by processor |")
        print("| --- | --- | --- | --- | --- | --- |")
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
        write_large(large, options.megabytes)
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
