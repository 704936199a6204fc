"""Runs jobs with a peer's own file tools, in that peer's Python, and prints their times as JSON lines.

PYTHON benchmarks/inside/file_tools.py PEER FOLDER < jobs
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from typing import Any


def deepagents(folder: str) -> dict[str, Callable[..., Any]]:
    """The backend of its file tools, with its own search in Python, as ripgrep isn't on the path."""
    from deepagents.backends.filesystem import FilesystemBackend  # pyright: ignore[reportMissingImports, reportUnknownVariableType]

    backend: Any = FilesystemBackend(root_dir=folder, virtual_mode=True, max_file_size_mb=1_000)
    return {
        "grep": lambda text: len(backend.grep(text, "/").matches),
        "glob": lambda pattern: len(backend.glob(f"**/{pattern}", "/").matches),
        "edit": lambda path, old, new: backend.edit(f"/{path}", old, new).occurrences,
    }


def agno(folder: str) -> dict[str, Callable[..., Any]]:
    """Its tools for coding, which run the system's `grep`."""
    from agno.tools.coding import CodingTools  # pyright: ignore[reportMissingImports, reportUnknownVariableType]

    tools: Any = CodingTools(base_dir=folder, all=True, max_lines=10_000, max_bytes=100_000_000)
    return {
        "grep": lambda text: tools.grep(text, limit=10_000).count(": "),
        "glob": lambda pattern: len(tools.find(f"**/{pattern}", limit=10_000).splitlines()),
        "edit": lambda path, old, new: int("rror" not in tools.edit_file(path, old, new)[:20]),
    }


def langchain_community(folder: str) -> dict[str, Callable[..., Any]]:
    """Its toolkit for files, which finds them by name only."""
    from langchain_community.agent_toolkits import FileManagementToolkit  # pyright: ignore[reportMissingImports, reportUnknownVariableType]

    tools: Any = {tool.name: tool for tool in FileManagementToolkit(root_dir=folder).get_tools()}
    search = tools["file_search"]
    return {"glob": lambda pattern: len(search.invoke({"pattern": pattern, "dir_path": "."}).splitlines())}


def processor() -> float:
    """Seconds of this process and of those that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def main() -> None:
    """Does the jobs, one a line: its name and arguments."""
    peer, folder = sys.argv[1:]
    os.environ["PATH"] = "/usr/bin:/bin"
    out, sys.stdout = sys.stdout, sys.stderr
    jobs = {"deepagents": deepagents, "agno": agno, "langchain-community": langchain_community}[peer](folder)
    print(json.dumps(sorted(jobs)), file=out, flush=True)
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        wall, used = time.perf_counter(), processor()
        found = jobs[name](*arguments)
        taken = {"wall": (time.perf_counter() - wall) * 1e3, "processor": (processor() - used) * 1e3, "found": found}
        print(json.dumps(taken), file=out, flush=True)


if __name__ == "__main__":
    main()
