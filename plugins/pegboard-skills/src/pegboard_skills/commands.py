"""`registry skills`: list and check skills."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import click
from attrs import evolve

from pegboard import Problem
from pegboard.cli import (
    Options,
    json_rows,
    merge_configuration,
    registry_options,
    rows_text,
    stdout_screen,
    write,
    write_note,
)
from pegboard.errors import ConfigError
from pegboard.files import CONFIG_NAME
from pegboard_skills.check import Checked, check_skill
from pegboard_skills.settings import read_settings
from pegboard_skills.skill import Skill
from pegboard_skills.sources import SkillSources

_IGNORED: Final = ("", "plugins", "plugins.skills")
_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group("skills")
@registry_options()
def skills_command() -> None:
    """List and check skills: folders of instructions for models."""


@skills_command.command("list")
@_json_option
@registry_options()
@click.pass_obj
def list_command(options: Options, *, as_json: bool) -> int:
    """List the skills that models can load.

    What is wrong with others is written to standard error; 'registry skills check' says more.
    """
    found = _sources(options).find()
    skills = found.skills.values()
    if as_json:
        write(json_rows("skills", (skill.to_json() for skill in skills)))
    elif skills:
        rows = [(skill.name, skill.source, skill.front.description) for skill in skills]
        write(rows_text(("SKILL", "FROM", "DESCRIPTION"), rows, stdout_screen()))
    _report(found.problems)
    if not skills and not found.problems:
        write_note("there are no skills: name their folders by [plugins.skills] folders in pegboard.toml")
    return 0


@skills_command.command("check")
@click.argument("paths", metavar="[FOLDER]...", nargs=-1, type=click.Path(exists=True, file_okay=False, path_type=Path))
@_json_option
@registry_options()
@click.pass_obj
def check_command(options: Options, paths: tuple[Path, ...], *, as_json: bool) -> int:
    """Check skills. Exits with 1 if one can't be used.

    FOLDER is a skill, or a folder of skills; by default, the configured ones and those of packages are checked.
    """
    folders = [os.path.abspath(path) for path in paths]  # noqa: PTH100  without dots, but with links
    sources = SkillSources(folders, (), trusted=True) if paths else _sources(options)
    problems: list[Problem] = []
    checked = [check_skill(place) for place in sources.places(problems)]
    found = sources.find()
    checked = [_with_use(each, found.skills) for each in checked]
    for name, several in found.conflicts.items():
        excluded = {str(skill.folder) for skill in several}
        cause = f"another skill is called {name!r}, too; rename or remove one of them"
        checked = [evolve(each, problems=(cause,)) if each.folder in excluded else each for each in checked]
    if as_json:
        write(json_rows("skills", (each.to_json() for each in checked)))
    elif checked:
        rows = [(Path(each.folder).name, each.package or each.folder, _outcome(each)) for each in checked]
        write(rows_text(("SKILL", "FROM", "CHECK"), rows, stdout_screen()))
    _report(problems)
    return 1 if problems or any(each.problems for each in checked) else 0


def _with_use(checked: Checked, skills: Mapping[str, Skill]) -> Checked:
    """The checked skill; with a note if the user's skill of its name is used instead."""
    used = skills.get(Path(checked.folder).name)
    if used is None or checked.problems or str(used.folder) == checked.folder:
        return checked
    return evolve(checked, notes=(*checked.notes, f"{str(used.folder)!r} is used instead"))


def _outcome(checked: Checked) -> str:
    """What a check has found, as text."""
    fix = () if checked.fix is None else (checked.fix,)
    notes = (f"note: {note}" for note in checked.notes)
    return "; ".join([*(checked.problems or ("ok",)), *fix, *notes])


def _report(problems: Iterable[Problem]) -> None:
    for problem in problems:
        write_note(f"{problem}{'' if problem.fix is None else f'; {problem.fix[0].lower()}{problem.fix[1:]}'}")


def _sources(options: Options) -> SkillSources:
    """The sources of the configuration; ignored settings of an untrusted project are reported.

    Raises:
        ConfigError: A setting is unknown or wrong.
    """
    config = merge_configuration(options)
    for ignored in config.ignored:
        if ignored.key in _IGNORED or ignored.key.startswith("plugins.skills."):
            write_note(str(ignored))
    try:
        return read_settings(config.settings("skills", "pegboard-skills")).sources()
    except ValueError as error:
        raise ConfigError(str(error), file=CONFIG_NAME) from error
