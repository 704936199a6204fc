"""`registry new`: a plugin package that installs, lists and passes its own test, to start from."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import click
from attrs import frozen

from pegboard.cli.terminal import write

TEMPLATE: Final = Path(__file__).parents[1] / "template"
_NAME: Final = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
_MOST: Final = 40


@frozen
class Package:
    """The names of a new package.

    Attributes:
        plugin: The plugin's name, such as `"word-count"`.
    """

    plugin: str

    @classmethod
    def named(cls, name: str) -> Package:
        """The package for a plugin of this name; `pegboard-` before it may be there.

        Raises:
            click.UsageError: Nothing can be called so.
        """
        plugin = name.replace("_", "-").removeprefix("pegboard-")
        if not _NAME.fullmatch(plugin) or len(plugin) > _MOST:
            raise click.UsageError(
                f"{name!r} can't name a plugin: use a-z, 0-9 and '-', a letter first, at most {_MOST} characters"
            )
        return cls(plugin)

    @property
    def distribution(self) -> str:
        """What is installed."""
        return f"pegboard-{self.plugin}"

    @property
    def module(self) -> str:
        """What is imported."""
        return self.distribution.replace("-", "_")

    def filled(self, text: str) -> str:
        """A template's text with the names in it."""
        words = self.plugin.replace("-", " ").capitalize()
        names = {
            "plugin": self.plugin,
            "distribution": self.distribution,
            "module": self.module,
            "title": words,
            "tool": f"{self.plugin.replace('-', '_')}_count_words",
        }
        for key, name in names.items():
            text = text.replace(f"{{{{{key}}}}}", name)
        return text

    def files(self) -> dict[str, str]:
        """The package's files: path below its folder -> text."""
        found = sorted(path for path in TEMPLATE.rglob("*.txt"))
        return {
            path.relative_to(TEMPLATE).as_posix().removesuffix(".txt").replace("/package/", f"/{self.module}/"): (
                self.filled(path.read_text(encoding="utf-8"))
            )
            for path in found
        }


@click.command("new")
@click.argument("name")
@click.option(
    "--path",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    metavar="DIR",
    help="Where the package's folder is made; here by default.",
)
def new_command(name: str, path: Path) -> int:
    """Write a new plugin package.

    It is the smallest useful one, with a tool, a test and a README.

    NAME is the plugin's name; the package is called pegboard-NAME.
    """
    package = Package.named(name)
    folder = path / package.distribution
    if folder.exists():
        raise click.UsageError(f"{folder} is there already; choose another name or --path")
    for below, text in package.files().items():
        file = folder / below
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        write(f"{file}\n")
    write(
        f"\nNext:\n  pip install -e '{folder}[test]'\n  pytest {folder}\n  registry list --plugin {package.plugin}\n",
    )
    return 0
