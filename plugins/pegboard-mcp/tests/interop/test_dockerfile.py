"""The steps of the Dockerfile, one by one in an empty environment and folder, up to a call over HTTP."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import Request, urlopen

ROOT = Path(__file__).resolve().parents[4]
TOKEN = "a-token-of-the-test-0123"
NETWORK = ("http_proxy", "https_proxy", "no_proxy", "pip_index_url", "pip_cert", "ssl_cert_file")


def instructions():
    """The instructions of the file, each with the rest of its line."""
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in lines)]


class Build:
    """A folder that stands for the image's file system, and the environment that the instructions set."""

    def __init__(self, root):
        self.root = root
        self.folder = root
        self.arguments = {}
        self.variables = {key: value for key, value in os.environ.items() if key.lower() in NETWORK}
        (root / "base").mkdir()
        (root / "base" / "python3").symlink_to(Path(sys.executable).resolve())
        (root / "opt").mkdir()
        (root / "srv").mkdir()

    def placed(self, text):
        """A text with the image's paths below the folder."""
        return re.sub(r"(?<![\w/])/(opt|srv)/", rf"{self.root}/\1/", text)

    def environment(self, **more):
        found = {**self.variables, **self.arguments, **more}
        return {**found, "PATH": f"{found['PATH']}:{self.root / 'base'}"}

    def step(self, name, rest):
        """Runs one instruction; raises for one that this test doesn't know."""
        getattr(self, f"do_{name.lower()}")(rest)

    def do_from(self, rest):
        assert re.fullmatch(r"python:3\.\d+-slim", rest)  # what `base` stands for

    def do_arg(self, rest):
        name, _, _ = rest.partition("=")
        self.arguments[name] = {"OWNER": str(os.getuid())}[name]  # as by --build-arg

    def do_env(self, rest):
        name, _, value = self.placed(rest).partition("=")
        (self.variables[name],) = shlex.split(value)

    def do_copy(self, rest):
        source, place = self.placed(rest).split()
        ignored = shutil.ignore_patterns(*(ROOT / ".dockerignore").read_text().replace("**/", "").split())
        shutil.copytree(ROOT / source, place, ignore=ignored, symlinks=True)

    def do_run(self, rest):
        subprocess.run(["/bin/sh", "-c", self.placed(rest)], check=True, cwd=self.folder, env=self.environment())

    def do_workdir(self, rest):
        self.folder = Path(self.placed(f"{rest}/"))

    def do_user(self, rest):
        assert "0" not in rest.split(":")
        assert rest == "$OWNER:$OWNER"

    def do_expose(self, rest):
        assert rest == self.variables["PORT"]

    def do_healthcheck(self, rest):
        self.check = rest.removeprefix("CMD ")

    def do_cmd(self, rest):
        self.command = self.placed(rest)


def post(url, session, **message):
    """The answer to a message, and the id of the session."""
    headers = {
        "Authorization": f"Bearer {TOKEN}",
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "MCP-Protocol-Version": "2025-06-18",
        **session,
    }
    with urlopen(Request(url, json.dumps({"jsonrpc": "2.0", **message}).encode(), headers), timeout=60) as answer:
        lines = [line for line in answer.read().decode().splitlines() if line.startswith("data: {")]
        found = {"Mcp-Session-Id": answer.headers["mcp-session-id"]} if "mcp-session-id" in answer.headers else session
        return (json.loads(lines[0].removeprefix("data: ")) if lines else None), found


def test_the_image_serves_a_file_over_http(tmp_path):
    build = Build(tmp_path)
    for name, rest in instructions():
        build.step(name, rest)
    assert (tmp_path / "opt" / "pegboard" / "bin" / "registry").is_file()
    (build.folder / "a.txt").write_text("forty two")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    env = {key: value for key, value in build.environment(PORT=port).items() if key not in build.arguments}
    words = {"cwd": build.folder, "env": {**env, "PEGBOARD_TOKEN": TOKEN}}
    with subprocess.Popen(["/bin/sh", "-c", build.command], **words) as server:
        try:
            until = time.monotonic() + 120
            health = ["/bin/sh", "-c", build.check]
            while subprocess.run(health, capture_output=True, check=False, **words).returncode != 0:
                assert server.poll() is None, "the server has ended"
                assert time.monotonic() < until, "the server isn't healthy"
            url, about = f"http://127.0.0.1:{port}/mcp", {"name": "test", "version": "1"}
            start = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about}
            _, session = post(url, {}, id=1, method="initialize", params=start)
            post(url, session, method="notifications/initialized")
            call = {"name": "read_file", "arguments": {"path": "a.txt"}}
            answer, _ = post(url, session, id=2, method="tools/call", params=call)
            assert "forty two" in answer["result"]["content"][0]["text"]
        finally:
            server.terminate()
    assert server.returncode == 0
