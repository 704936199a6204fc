"""The plugin: its tools, its commands, and what `registry doctor` reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from pegboard import hookimpl

if TYPE_CHECKING:
    import click

_NO_SETTINGS: Final[Mapping[str, Any]] = {}


class Skills:
    """The plugin, with its settings. Its commands work whatever they are.

    Args:
        settings: `[plugins.skills]`, see `Settings`.
    """

    def __init__(self, settings: Mapping[str, Any] = _NO_SETTINGS) -> None:
        self._settings = settings

    @hookimpl
    def pegboard_register_tools(self, register: Callable[[Any], None]) -> None:
        """Registers `load_skill`, which also announces the skills in requests, and `read_skill_file`.

        Raises:
            ValueError: A setting is unknown or wrong; the tools are registered without skills.
        """
        from pegboard_skills.settings import read_settings
        from pegboard_skills.sources import SkillSources
        from pegboard_skills.tools import SkillTools

        try:
            settings = read_settings(self._settings)
            register(SkillTools(settings.sources(), settings.budget))
        except ValueError:
            register(SkillTools(SkillSources(packages=())))  # a plugin without any of its tools has no commands, either
            raise

    @hookimpl
    def pegboard_diagnose(self, report: Callable[[str, str], None]) -> None:
        """Reports the skills that can't be used."""
        from pegboard_skills.settings import read_settings

        try:
            sources = read_settings(self._settings).sources()
        except ValueError:  # reported as the plugin's problem
            return
        for problem in sources.find().problems:
            report(f"{problem.subject}: {problem.cause}", problem.fix or "Correct or remove it.")

    @hookimpl
    def pegboard_register_commands(self, group: click.Group) -> None:
        """Adds `registry skills`."""
        from pegboard_skills.commands import skills_command

        group.add_command(skills_command)
