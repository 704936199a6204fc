"""`Settings`: the table `[plugins.skills]`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from attrs import frozen

from pegboard.schema.converter import Allowed, read_table
from pegboard_skills.sources import SkillSources

PLACE: Final = "plugins.skills"
_LEAST_BUDGET: Final = 1_000
_MOST_BUDGET: Final = 100_000
_BUDGET: Final = Allowed(
    f"a whole number from {_LEAST_BUDGET:,} to {_MOST_BUDGET:,}", lambda number: _LEAST_BUDGET <= number <= _MOST_BUDGET
)


@frozen
class Settings:
    """The plugin's settings.

    Attributes:
        folders: Absolute paths of skills, or of folders of skills.
        packages: Patterns with `*` and `?` for the names of the installed packages whose skills count.
        budget: How many characters of names and descriptions a request contains at most.
    """

    folders: tuple[str, ...] = ()
    packages: tuple[str, ...] = ("*",)
    budget: Annotated[int, _BUDGET] = 8_000

    def sources(self) -> SkillSources:
        """Where the skills are.

        Raises:
            ValueError: A folder isn't absolute.
        """
        try:
            return SkillSources(self.folders, self.packages)
        except ValueError as error:
            raise ValueError(f"{PLACE}.{error}") from None


def read_settings(table: Mapping[str, Any]) -> Settings:
    """Reads the table.

    Raises:
        ValueError: A setting is unknown or wrong.
    """
    return read_table(Settings, table, PLACE)
