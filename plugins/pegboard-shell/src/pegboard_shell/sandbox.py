"""Sandbox for commands: bubblewrap, if the system has it and permits it.

Commands in it see the whole file system, and may change nothing of it, or only files below the root; they have a `/tmp`
and process ids of their own, none of the sockets in `/run`, and no network by default. It ends with its command.
"""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from attrs import define, field

from pegboard_shell.settings import Level

_SEARCH_PATH: Final = "/usr/local/bin:/usr/bin:/bin"  # no folder that a command could have written to
_PROBE_SECONDS: Final = 20.0
_PROTECTED: Final = (".git",)  # its hooks and settings are run when the user runs git here, outside of the sandbox
_REFUSALS: Final = (
    *("read-only file system", "permission denied", "operation not permitted", "network is unreachable"),
    *("could not resolve host", "temporary failure in name resolution", "name or service not known"),
    *("network unreachable", "failed to lookup address", "getaddrinfo", "connection refused"),
    *("failed to connect to", "couldn't connect to", "could not connect to"),
    *("enetunreach", "eai_again", "econnrefused"),
)
"""Error messages of programs, in lower case, that a sandbox may have caused."""

MISSING: Final = "no sandbox was found: bubblewrap (bwrap) isn't installed"


@define(eq=False)
class Sandbox:
    """The sandbox of this system, detected at its first use.

    Attributes:
        level: What commands in it may change.
        network: Whether they have access to the network.
        program: The path of bubblewrap; `None` until it was found in the system's own folders.
        is_known: Whether it was detected already.
    """

    level: Level
    network: bool = False
    program: str | None = None
    is_known: bool = field(default=False, init=False)
    _obstacle: str | None = field(default=None, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    @property
    def obstacle(self) -> str | None:
        """Why commands run without it, in a few words; `None` if it works. Blocks at its first use."""
        with self._lock:
            if not self.is_known:
                self._obstacle, self.is_known = self._find_obstacle(), True
            return self._obstacle

    def wrap(self, argv: Sequence[str], root: str, folder: str, *, reads: bool = False) -> list[str]:
        """The command that runs another one in the sandbox.

        Args:
            argv: The other command.
            root: The folder that it may change, at the level `workspace-write`.
            folder: Its working folder.
            reads: Whether it only reads: then it may change nothing.
        """
        assert self.program is not None
        writes = self.level == "workspace-write" and not reads and root != "/"  # there, everything would be writable
        mounts = ["--bind" if writes else "--ro-bind", root, root] if root != "/" else []
        for name in _PROTECTED if writes else ():
            path = Path(root, name)
            if path.exists() and not path.is_symlink():
                mounts += ["--ro-bind", str(path), str(path)]
        return [self.program, *self._isolation(), *mounts, "--chdir", folder, "--", *argv]

    def _isolation(self) -> list[str]:
        """The options that every command gets."""
        options = ["--die-with-parent", "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"]
        options += ["--cap-drop", "ALL", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]  # noqa: S108  a new, empty one
        if Path("/run").is_dir():
            options += ["--tmpfs", "/run"]
        name_servers = Path("/etc/resolv.conf").resolve()  # a link to a file in `/run` on some systems
        if self.network and name_servers.is_relative_to("/run") and name_servers.is_file():
            options += ["--ro-bind", str(name_servers), str(name_servers)]
        return options if self.network else [*options, "--unshare-net"]

    def _find_obstacle(self) -> str | None:
        if self.level == "none":
            return "the setting sandbox is 'none'"
        self.program = self.program or shutil.which("bwrap", path=_SEARCH_PATH)
        if self.program is None:
            return MISSING
        try:
            tried = subprocess.run(  # noqa: S603  the system's own program
                [self.program, *self._isolation(), "--", "/bin/sh", "-c", ":"],
                capture_output=True,
                check=False,
                stdin=subprocess.DEVNULL,
                timeout=_PROBE_SECONDS,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"no sandbox works: {self.program} failed ({type(error).__name__})"
        if tried.returncode == 0:
            return None
        output = tried.stderr.decode(errors="replace").strip().splitlines()
        return f"no sandbox works: {output[-1] if output else f'exit code {tried.returncode}':.200}"


def may_be_by_sandbox(text: str) -> bool:
    """Guesses whether a program's output is about an error that a sandbox may have caused."""
    recent = text[-20_000:].lower()
    if "no such file" in recent and "/tmp/" in recent:  # noqa: S108  the sandbox has one of its own
        return True
    return any(refusal in recent for refusal in _REFUSALS)
