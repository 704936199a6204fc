"""All published packages that bring tools for llm: each is listed, most answer without a key or a network."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

PACKAGES = 30
BROKEN = "llm-tools-broken"
ANSWERS = {  # package -> tool, arguments, a part of its answer
    "llm-tools-simpleeval": ("simple_eval", {"expression": "6 * 7"}, "42"),
    "llm-tools-sqlite": ("SQLite_query", {"sql": "select item from stock"}, "nails"),
    "llm-tools-quickjs": ("quickjs", {"javascript": "function execute() { return 42 }"}, "42"),
    "llm-tools-todo": ("Todo_begin", {}, "session"),
    "llm-tools-patch": ("Patch_read", {"file_path": "notes.txt"}, "buy nails"),
    "llm-tools-readonly-fs": ("ReadonlyFsTools_view", {"file_path": "notes.txt"}, "buy nails"),
    "llm-tools-edit": ("Filesystem_view", {"path": "notes.txt"}, "buy nails"),
    "llm-tools-browser-history": ("BrowserHistory_search", {"sql": "select 42 as answer"}, "42"),
    "llm-tools-docker": ("DockerAlpine_container_info", {}, "ontainer"),
    "llm-tools-kit": ("Kit_get_current_repository", {}, "packages"),
    "llm-tools-rag": ("RAG_get_collections", {}, "pegs"),
    "llm-tools-skills": ("skills_counting_load", {}, "Count them"),
    "llm-tools-trigger-error": ("trigger_error", {"message": "exactly this"}, "exactly this"),
    "llm-tools-mcp": ("double", {"number": 21}, "42"),
    "llm-tools-openapi": ("get_stock", {}, "served"),
    "llm-tools-datasette": ("Datasette_query", {"sqlite_sql": "select 1"}, "served"),
    "llm-tools-searxng-md": ("searxng_search_md", {"query": "nails"}, "served"),
    "llm-engram": ("engram_list_buckets", {}, "served"),
}
MCP = """
from mcp.server.fastmcp import FastMCP

server = FastMCP("numbers")

@server.tool()
def double(number: int) -> int:
    "Doubles."
    return 2 * number

server.run()
"""


class Site(BaseHTTPRequestHandler):
    """Answers of the services that four packages ask."""

    def do_GET(self):
        answer = {"results": [{"title": "served", "url": "x", "content": "y"}], "buckets": ["served"], "data": "served"}
        if self.path.endswith("openapi.json"):
            operation = {"operationId": "get_stock", "summary": "Stock.", "responses": {"200": {"description": "ok"}}}
            answer = {
                "openapi": "3.0.0",
                "info": {"title": "Shop", "version": "1"},
                "paths": {"/stock": {"get": operation}},
            }
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.do_GET()

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    """Runs the command in a folder with what the packages need, and with one more package, which is broken."""
    folder = tmp_path_factory.mktemp("packages")
    (folder / "notes.txt").write_text("buy nails\n")
    for file, statement in {
        "shop.db": "create table stock as select 'nails' as item",
        "embeddings.db": "create table collections as select 1 as id, 'pegs' as name, 'm' as model",
    }.items():
        with sqlite3.connect(folder / file) as database:
            database.execute(statement)
    (folder / "server.py").write_text(MCP)
    server = {"command": sys.executable, "args": [str(folder / "server.py")]}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"numbers": server}}))
    skill = folder / "skills" / "counting"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: counting\ndescription: Counts pegs.\n---\nCount them.\n")
    facts = folder / "site" / "llm_tools_broken-1.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {BROKEN}\nVersion: 1\n")
    (facts / "entry_points.txt").write_text("[llm]\nllm_tools_sqlite = llm_tools_broken\n")
    (folder / "site" / "llm_tools_broken.py").write_text("raise OSError('broken on purpose')\n")
    site = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    threading.Thread(target=site.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{site.server_port}"
    boxes = [
        'SQLite("shop.db")',
        'Filesystem(".")',
        'RAG("embeddings.db")',
        'Skills("skills")',
        'MCP("mcp.json")',
        f'OpenAPIToolbox("{url}/openapi.json")',
        f'Datasette("{url}/shop")',
    ]
    config = folder / "config" / "pegboard" / "pegboard.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f"[plugins.llm]\ntoolboxes = {json.dumps(boxes)}\n")
    environ = {
        **os.environ,
        "HOME": str(folder),
        "PYTHONPATH": str(folder / "site"),
        "LLM_USER_PATH": str(folder / "llm"),
        "SEARXNG_URL": url,
        "LLM_ENGRAM_API_BASE": url,
        "LLM_ENGRAM_API_KEY": "key",
        **{f"XDG_{kind}_HOME": str(folder / kind.lower()) for kind in ("CACHE", "CONFIG", "STATE")},
    }

    def registry(*words, **changes):
        command = [sys.executable, "-m", "pegboard", *words]
        return subprocess.run(
            command,
            cwd=folder,
            env=environ | changes,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )

    yield registry
    site.shutdown()


@pytest.fixture(scope="module")
def packages(registry):
    """What was found in each package."""
    return {each["package"]: each for each in json.loads(registry("llm", "--json").stdout)["packages"]}


def test_every_package_lists_tools_and_the_broken_one_affects_only_itself(packages, registry):
    assert len(packages) == PACKAGES + 1
    assert packages.pop(BROKEN)["problems"] == ["OSError: broken on purpose"]
    assert {name: each["problems"] for name, each in packages.items() if each["problems"] or not each["tools"]} == {}
    listed = registry("list")
    assert f"{BROKEN}: it can't be loaded: OSError: broken on purpose" in listed.stderr
    assert "llm_tools_exa__web_search" in listed.stdout


@pytest.mark.parametrize("package", ANSWERS)
def test_a_package_answers_without_a_network(package, packages, registry):
    name, arguments, part = ANSWERS[package]
    assert name in packages[package]["tools"]
    done = registry("call", "--yes", name, *(f"{key}={value}" for key, value in arguments.items()))
    assert part in done.stdout + done.stderr
    assert done.returncode == (1 if package == "llm-tools-trigger-error" else 0)


def test_a_warm_listing_takes_hardly_longer_with_all_packages_than_without(packages, registry):
    times = {"": [], "llm": []}
    for _ in range(21):
        for block, seconds in times.items():
            registry("list", PEGBOARD_BLOCK=block) if not seconds else None
            started = time.perf_counter()
            assert registry("list", PEGBOARD_BLOCK=block).returncode == 0
            seconds.append(time.perf_counter() - started)
    assert min(times[""]) <= 1.2 * min(times["llm"])
