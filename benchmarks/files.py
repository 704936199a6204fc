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


def in_turns(theirs: Callable[[], Any] | None, ours: Callable[[], Any], rounds: int) -> dict[str, float]:
    """The medians in milliseconds of `wall_ms` and `cpu_ms`, and of `theirs_wall_ms` and `theirs_cpu_ms`."""
    taken: dict[str, list[tuple[float, float]]] = {"theirs_": [], "": []}
    for _ in range(rounds):
        if theirs is not None:
            taken["theirs_"].append(timed(theirs))
        taken[""].append(timed(ours))
    return {
        f"{whose}{which}_ms": statistics.median(column)
        for whose, each in taken.items()
        for which, column in zip(("wall", "cpu"), zip(*each, strict=True), strict=False)
    }


def row(what: str, found: dict[str, float]) -> str:
    """One row of the table."""
    times = [
        f"{found[name]:,.0f} ms" if name in found else ""
        for name in ("theirs_wall_ms", "theirs_cpu_ms", "wall_ms", "cpu_ms")
    ]
    ratio = f"{found['cpu_ms'] / found['theirs_cpu_ms']:.1f}" if "theirs_cpu_ms" in found else ""
    return "| " + " | ".join([what, *times, ratio]) + " |"


def registry_of(folder: str) -> pegboard.ToolRegistry:
    """A registry with the file tools of a folder."""
    settings = {"files": {"root": folder, "time_limit": 300, "read_first": False}}
    registry = pegboard.load(settings=settings)
    registry.permissions = pegboard.Permissions([pegboard.Rule("edit", "*", "allow")])
    return registry


def tool(registry: pegboard.ToolRegistry, name: str, **arguments: Any) -> Callable[[], object]:
    """A call, to be made."""
    return lambda: call(registry, name, arguments)


def searches(registry: pegboard.ToolRegistry, top: Path, files: int, rounds: int) -> dict[str, dict[str, float]]:
    """grep and glob in a tree of `make_tree`, in turns with ripgrep: what is searched -> its times."""

    def rg(*arguments: str) -> Callable[[], object]:
        argv = [RG, "--no-config", *arguments, "."]
        return lambda: subprocess.run(argv, cwd=top, stdout=subprocess.DEVNULL, check=True)

    pattern, glob = r"n[e]+dle\d*$", f"*{files // 2}*.txt"
    of_all = {
        "grep a word in": (rg("-l", "needle"), tool(registry, "grep", pattern="needle", mode="files", limit=2_000)),
        "grep an expression in": (
            rg("-c", pattern),
            tool(registry, "grep", pattern=pattern, mode="counts", limit=2_000),
        ),
        "glob a few of": (rg("--files", "-g", glob), tool(registry, "glob", pattern=glob)),
    }
    return {f"{what} {files:,} files": in_turns(*each, rounds) for what, each in of_all.items()}


def in_files(files: int, rounds: int) -> dict[str, dict[str, float]]:
    """`searches` in a tree that is made for it, by the pegboard-files of this Python."""
    with tempfile.TemporaryDirectory() as folder:
        make_tree(Path(folder), files)
        return searches(registry_of(folder), Path(folder), files, rounds)


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
        registry = registry_of(folder)
        if options.peers:
            write_large(top / "large.txt", options.megabytes)
            peers = [peer for name in PEERS if (peer := Peer(options.peers, name, folder)).jobs]
            beside_peers([Ours(registry), *peers], options.files, options.megabytes, options.rounds)
            for peer in peers:
                peer.close()
            return
        print("| what | ripgrep, wall | processor | ours, wall | processor | ours to ripgrep, by processor |")
        print("| --- | --- | --- | --- | --- | --- |")
        for what, found in searches(registry, top, options.files, options.rounds).items():
            print(row(what, found))
        large = top / "large.txt"
        write_large(large, options.megabytes)
        size = f"{large.stat().st_size / 1e6:.0f} MB"
        edits = iter(range(1_000))

        def edit() -> None:
            number, middle = next(edits), f"{options.megabytes * 16_000:09}"
            old, new = (f"{middle} some{number + more or ''} words" for more in (0, 1))
            call(registry, "edit_file", {"path": "large.txt", "old_string": old, "new_string": new})

        page = tool(registry, "read_file", path="large.txt", offset=options.megabytes * 16_000)
        print(row(f"edit one line of {size}", in_turns(None, edit, options.rounds)))
        print(row(f"read a page in the middle of {size}", in_turns(None, page, options.rounds)))


if __name__ == "__main__":
    main()
