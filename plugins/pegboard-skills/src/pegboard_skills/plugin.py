"""The plugin: its tools, its commands, and what `registry doctor` reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from pegboard import hookimpl

if TYPE_CHECKING:
    import click

_NO_SETTINGS: Final[Mapping[str, Any]] = {}


class Skills:
    """The plugin, with its settings.

    Args:
        settings: `[plugins.skills]`, see `Settings`.

    Raises:
        ValueError: A setting is unknown or wrong.
    """

    def __init__(self, settings: Mapping[str, Any] = _NO_SETTINGS) -> None:
        from pegboard_skills.settings import read_settings
        from pegboard_skills.tools import SkillTools

        read = read_settings(settings)
        self.tools = SkillTools(read.sources(), read.budget)

    @hookimpl
    def pegboard_register_tools(self, register: Callable[[Any], None]) -> None:
        """Registers `load_skill`, which also announces the skills in requests, and `read_skill_file`."""
        register(self.tools)

    @hookimpl
    def pegboard_diagnose(self, report: Callable[[str, str], None]) -> None:
        """Reports the skills that can't be used."""
        for problem in self.tools.sources.find().problems:
            report(f"{problem.subject}: {problem.cause}", problem.fix or "Correct or remove it.")

    @hookimpl
    def pegboard_register_commands(self, group: click.Group) -> None:
        """Adds `registry skills`."""
        from pegboard_skills.commands import skills_command

        group.add_command(skills_command)
