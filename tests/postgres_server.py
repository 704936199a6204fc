"""`PostgresServer`: a PostgreSQL server of the tests' own, in a temporary folder, on a Unix socket.

The programs are those on PATH or of Debian's packages; as root, the package is installed where there is none.
"""

from __future__ import annotations

import fcntl
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Any

PASSWORD = "hunter2-secret"
_INSTALL = "apt-get update -qq && apt-get install -qq -y --no-install-recommends postgresql"


def programs() -> Path:
    """The folder of the server's programs.

    Raises:
        RuntimeError: There are none, and they can't be installed.
    """
    if (found := _found()) is not None:
        return found
    if os.geteuid() == 0 and shutil.which("apt-get"):
        with Path(tempfile.gettempdir(), "pegboard-postgres.lock").open("w") as lock:  # tests run side by side
            fcntl.flock(lock, fcntl.LOCK_EX)
            if (found := _found()) is None:
                environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
                subprocess.run(["bash", "-c", _INSTALL], env=environment, check=False, capture_output=True, timeout=600)
                found = _found()
        if found is not None:
            return found
    raise RuntimeError("the tests need PostgreSQL: put initdb and postgres on PATH, or install the package postgresql")


def _found() -> Path | None:
    if (initdb := shutil.which("initdb")) and shutil.which("postgres"):
        return Path(initdb).parent
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name.split(".")[0]))
    return folders[-1] if folders else None


class PostgresServer:
    """A server with an empty database; stop it at the end.

    Args:
        safe: Whether it puts on the disk what it has committed, as servers do.

    Attributes:
        url: Of its database, for a user with a password.
        log: What it has logged, by lines.
    """

    def __init__(self, *, safe: bool = False) -> None:
        self.programs = programs()
        self.folder = Path(tempfile.mkdtemp(prefix="pegboard-pg-"))
        self.log: list[str] = []
        self.url = f"postgresql://tools:{PASSWORD}@/postgres?host={self.folder}"
        self._options = [] if safe else ["-c", "fsync=off", "-c", "full_page_writes=off"]
        self._process: subprocess.Popen[str] | None = None
        self._reader = threading.Thread()
        self._account: dict[str, Any] = {}
        if os.geteuid() == 0:  # the server refuses to run as root
            names = {each.pw_name for each in pwd.getpwall()}
            account = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
            os.chown(self.folder, account.pw_uid, account.pw_gid)
            self._account = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        try:
            self._initialise()
            self.start()
        except BaseException:
            self.stop()
            raise

    def _initialise(self) -> None:
        secret = self.folder / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        command = [self.programs / "initdb", "-D", self.folder / "data", "-U", "tools", "--pwfile", secret]
        options = ["-A", "scram-sha-256", "-E", "UTF8", "--locale=C", "--no-sync"]
        done = subprocess.run(
            [*command, *options], cwd=self.folder, capture_output=True, text=True, check=False, **self._account
        )
        if done.returncode:
            raise RuntimeError(f"initdb failed: {done.stdout}{done.stderr}")

    def start(self) -> None:
        """Starts it and waits until it takes connections."""
        settings = ["-c", "listen_addresses=", "-c", f"unix_socket_directories={self.folder}", *self._options]
        command = [self.programs / "postgres", "-D", self.folder / "data", *settings]
        self._process = process = subprocess.Popen(
            command, cwd=self.folder, stderr=subprocess.PIPE, text=True, errors="replace", **self._account
        )
        assert process.stderr is not None
        for line in process.stderr:
            self.log.append(line)
            if "ready to accept connections" in line:
                self._reader = threading.Thread(target=self.log.extend, args=(process.stderr,), daemon=True)
                self._reader.start()
                return
        process.wait()
        process.stderr.close()
        raise RuntimeError(f"the server didn't start: {''.join(self.log[-20:])}")

    @property
    def pid(self) -> int:
        """The main process."""
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """Ends it at once, with all connections, as a crash does."""
        assert self._process is not None
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait()
        self._reader.join(60)
        assert self._process.stderr is not None
        self._process.stderr.close()

    def stop(self) -> None:
        """Ends it, and removes its folder."""
        if self._process is not None and self._process.poll() is None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def sql(self, statement: str) -> list[Any]:
        """Runs a statement as the administrator; returns its rows."""
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement)  # type: ignore[arg-type]
            return cursor.fetchall() if cursor.description else []
