"""The command `registry llm`: lists llm's plugins, and loads those that are new."""

from __future__ import annotations

from typing import Final

import click

from pegboard.cli import (
    Options,
    json_rows,
    open_session,
    registry_options,
    rows_text,
    stdout_screen,
    write,
    write_note,
)
from pegboard.config import with_secrets
from pegboard.errors import ConfigError
from pegboard.json import count_text
from pegboard.typing import JsonObject
from pegboard_llm.packages import Cache, Settings
from pegboard_llm.toolset import LlmToolset

_MOST_NOTE: Final = 200  # characters of a problem in the table


@click.command("llm")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@registry_options()
@click.pass_obj
def llm_command(options: Options, *, as_json: bool) -> int:
    """List llm's installed plugins, and load those that are new; with --refresh, all of them.

    Each is loaded in a process of its own, which may take some seconds.
    """
    session = open_session(options)
    try:
        settings = Settings.of(with_secrets(session.config.settings("llm", "pegboard-llm"), [], []))
    except ValueError as error:
        raise ConfigError(str(error), file="pegboard.toml") from error
    toolset = LlmToolset(settings)
    if options.refresh:
        Cache.clear()
    toolset.load()
    rows: list[tuple[str, str, str, str]] = []
    data: list[JsonObject] = []
    for package, facts in toolset.packages():
        found: JsonObject = {"failure": "it couldn't be loaded"} if facts is None else facts
        tools = [each["name"] for each in found.get("tools", ())]
        needy, failure = found.get("needy", []), found.get("failure")
        problems = [failure] if failure is not None else found.get("problems", [])
        notes = [each[:_MOST_NOTE] for each in problems] + [f"{name} needs arguments" for name in needy]
        rows.append((package.label, package.version, count_text(len(tools), "tool"), "; ".join(notes)))
        row: JsonObject = {"package": package.distribution, "version": package.version, "entryPoint": package.name}
        data.append(row | {"tools": tools, "needArguments": needy, "problems": problems})
    if as_json:
        write(json_rows("packages", data))
    elif rows:
        write(rows_text(("PACKAGE", "VERSION", "TOOLS", "NOTES"), rows, stdout_screen()))
    else:
        write_note("no plugin of llm is installed: try 'pip install llm-tools-quickjs'")
    return 1 if any(each["problems"] for each in data) else 0
