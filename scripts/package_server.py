"""Builds what makes `registry serve` installable: `server.json` for the MCP registry, and `pegboard.mcpb`, a bundle.

python scripts/package_server.py --name io.github.OWNER/pegboard

Both are written to `dist`. It needs uv, and npx for the bundle. The name is that of the server in the MCP registry, in
a namespace that the publisher owns; the registry wants `mcp-name: NAME` in the README that PyPI shows.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {
    "pegboard": ROOT,
    **{name: ROOT / "plugins" / name for name in ("pegboard-clients", "pegboard-mcp", "pegboard-files")},
}
SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
MCPB = "npx --yes @anthropic-ai/mcpb@2.1.2"
SUMMARY = "Reads, searches, edits and patches the files of a folder, behind permissions and limits."
FOLDER = "The folder whose files the tools may read and change."
SERVE = "serve"


def main() -> None:
    """Builds both.

    Raises:
        CalledProcessError: A command has failed.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--name", required=True, type=server_name, help="the server's name in the MCP registry: NAMESPACE/pegboard"
    )
    parser.add_argument("--to", type=Path, default=ROOT / "dist", help="the folder to write to")
    parser.add_argument("--mcpb", default=MCPB, help="the command that packs a bundle")
    options = parser.parse_args()
    options.to.mkdir(parents=True, exist_ok=True)
    server = options.to / "server.json"
    write_json(server, server_of(options.name))
    bundle = options.to / "bundle"
    shutil.rmtree(bundle, ignore_errors=True)
    write_bundle(bundle)
    run(*shlex.split(options.mcpb), "validate", bundle / "manifest.json")
    run(*shlex.split(options.mcpb), "pack", bundle, options.to / "pegboard.mcpb")
    print(f"Built {server} and {options.to / 'pegboard.mcpb'}.")
    if f"mcp-name: {options.name}" not in (ROOT / "README.md").read_text(encoding="utf-8"):
        print(f"Before the release, add this line to README.md: <!-- mcp-name: {options.name} -->")


def server_name(text: str) -> str:
    """A name that the MCP registry accepts.

    Raises:
        ArgumentTypeError: It is none.
    """
    if len(text) > 200 or not re.fullmatch(r"[A-Za-z0-9.-]+/[A-Za-z0-9._-]+", text):
        raise argparse.ArgumentTypeError(f"{text!r} isn't a name such as io.github.OWNER/pegboard")
    return text


def server_of(name: str) -> dict[str, Any]:
    """The entry of the MCP registry: how a client starts the released packages by uvx."""
    version = project_of("pegboard")["version"]
    others = [f"{package}=={version}" for package in PACKAGES if package != "pegboard"]
    folder = {"description": FOLDER, "isRequired": True, "format": "filepath"}
    return {
        "$schema": SCHEMA,
        "name": name,
        "title": "pegboard",
        "description": SUMMARY,
        "version": version,
        "packages": [
            {
                "registryType": "pypi",
                "identifier": "pegboard",
                "version": version,
                "runtimeHint": "uvx",
                "runtimeArguments": [{"type": "named", "name": "--with", "value": other} for other in others],
                "packageArguments": [
                    {"type": "positional", "value": SERVE},
                    {"type": "named", "name": "--set", "value": "files.root={folder}", "variables": {"folder": folder}},
                ],
                "transport": {"type": "stdio"},
            }
        ],
    }


def write_bundle(folder: Path) -> None:
    """Writes the bundle's files: its manifest, a project that uv runs, and our wheels; uv gets the other packages."""
    wheels = folder / "wheels"
    for source in PACKAGES.values():
        run("uv", "build", "--quiet", "--wheel", "--out-dir", wheels, source)
    (wheels / ".gitignore").unlink(missing_ok=True)  # uv writes it
    core = project_of("pegboard")
    version = core["version"]
    pins = [f"{package}=={version}" for package in PACKAGES]
    project = [
        "[project]",
        'name = "pegboard-bundle"',
        f'version = "{version}"',
        f'requires-python = "{core["requires-python"]}"',
        f"dependencies = {json.dumps(pins)}",
        "",
        "[tool.uv]",
        "package = false",
        'find-links = ["wheels"]',
        "",
    ]
    (folder / "pyproject.toml").write_text("\n".join(project), encoding="utf-8")
    shutil.copy(ROOT / "LICENSE", folder)
    write_json(folder / "manifest.json", manifest_of(core))


def manifest_of(core: dict[str, Any]) -> dict[str, Any]:
    """The bundle's manifest."""
    serve = ["run", "--directory", "${__dirname}", "--no-progress", "pegboard", SERVE]
    owner = re.search(r"Copyright \(c\) \d+ (.+)", (ROOT / "LICENSE").read_text(encoding="utf-8"))
    assert owner is not None
    return {
        "manifest_version": "0.4",
        "name": "pegboard",
        "display_name": "pegboard",
        "version": core["version"],
        "description": SUMMARY,
        "author": {"name": owner[1]},
        "license": core["license"],
        "keywords": core["keywords"],
        "server": {
            "type": "uv",
            "entry_point": "pyproject.toml",
            "mcp_config": {"command": "uv", "args": [*serve, "--set", "files.root=${user_config.folder}"]},
        },
        "tools_generated": True,
        "user_config": {
            "folder": {"type": "directory", "title": "Folder", "description": FOLDER, "required": True},
        },
        "compatibility": {
            "platforms": ["darwin", "linux"],
            "runtimes": {"python": core["requires-python"]},
        },
    }


def project_of(package: str) -> dict[str, Any]:
    """A package's metadata."""
    text = (PACKAGES[package] / "pyproject.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)["project"]


def write_json(path: Path, data: Any) -> None:
    """Writes a JSON file for people."""
    path.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")


def run(*words: str | Path) -> None:
    """Runs a command."""
    subprocess.run(words, check=True)


if __name__ == "__main__":
    main()
