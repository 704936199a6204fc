"""`registry watch`: shows the tools of files, and their changes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pegboard.cli import (
    Options,
    Session,
    handle_interrupts,
    one_line,
    open_session,
    registry_options,
    write_note,
    write_unbuffered,
)
from pegboard_commands.file_tools import NAME, FileToolset

if TYPE_CHECKING:
    from pegboard import Tool


@click.command("watch")
@registry_options()
@click.pass_obj
def watch_command(options: Options) -> int:
    """Show the tools that files define, and report changes until Ctrl-C.

    Reads the files in `tool` and `tools` of each folder in the settings (folders = ["~/my"] in [plugins.commands]). A
    broken file is reported with its line; its tools are added once it is fixed.
    """
    session = open_session(options)
    session.run(lambda: _watch(session))
    return 0


async def _watch(session: Session) -> None:
    changed, loop, ends = asyncio.Event(), asyncio.get_running_loop(), False

    def end() -> None:
        nonlocal ends
        ends = True
        changed.set()

    registry = session.registry
    await registry.resolve(where=f"toolset:{NAME}")  # imports the plugin of the toolset
    toolsets = [each for each in _all_of(registry.contributions.catalogue.toolsets) if isinstance(each, FileToolset)]
    if not toolsets:
        raise click.UsageError('no folders are set: write folders = ["~/my"] into [plugins.commands] of pegboard.toml')
    shown: Mapping[str, Tool] = {}
    problems: frozenset[str] = frozenset()
    broken: frozenset[Path] = frozenset()
    with registry.contributions.on_change(lambda: loop.call_soon_threadsafe(changed.set)), handle_interrupts(end):
        for toolset in toolsets:
            toolset.watch()
        write_note(
            f"Watching {', '.join(str(folder) for each in toolsets for folder in each.folders)}. Ctrl-C ends it."
        )
        while not ends:
            changed.clear()
            resolved = await registry.resolve(where=f"toolset:{NAME}")
            now = {tool.name: tool for tool in resolved}
            own = (problem for problem in resolved.problems if problem.subject == f"toolset {NAME!r}")
            wrong = frozenset(one_line(str(problem.cause)) for problem in own)
            gone = (path for path in sorted(broken) if not path.exists())
            lines = [*_lines(shown, now), *(f"broken   {each}" for each in sorted(wrong - problems))]
            lines += (f"removed  {one_line(str(path))}" for path in gone)
            write_unbuffered("".join(f"{line}\n" for line in lines))
            shown, problems, broken = now, wrong, frozenset(path for each in toolsets for path in each.broken)
            await changed.wait()


def _lines(before: Mapping[str, Tool], now: Mapping[str, Tool]) -> Iterator[str]:
    for name in sorted(before.keys() | now.keys()):
        if name not in now:
            yield f"removed  {name}"
        elif name not in before:
            yield f"added    {name}  {one_line(now[name].spec.description)}".rstrip()
        elif now[name] is not before[name]:
            yield f"changed  {name}  {one_line(now[name].spec.description)}".rstrip()


def _all_of(toolsets: Iterable[Any]) -> Iterator[Any]:
    """The toolsets and their inner toolsets."""
    for toolset in toolsets:
        yield toolset
        yield from _all_of(getattr(toolset, "inner_toolsets", ()))
