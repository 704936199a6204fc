"""Times the command: its help, and listings of few and many plugins, with and without manifests, warm and cold."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import Factory, field, frozen
from bench import Bench, tell
from processes import Command, race
from programs import modules
from sites import Site, make_site

FEW = (5, 4)
"""Plugins in the small folder, and tools each."""

_SLOW = 1000  # tools beyond which a cold listing takes so long that few are made
_MADE = re.compile(r"find_\d{3}_\d{3}")  # the made plugins' tools


@frozen
class Listings:
    """The listings of one folder of plugins.

    Attributes:
        bench: The run.
        site: The folder.
        label: How many plugins it has, in words.
    """

    bench: Bench
    site: Site
    label: str
    warm: Mapping[str, str] = field(init=False, default=Factory(lambda self: self._home("warm"), takes_self=True))
    cold: Mapping[str, str] = field(init=False, default=Factory(lambda self: self._home("cold"), takes_self=True))

    def _home(self, name: str) -> dict[str, str]:
        folder = self.site.folder
        home = self.bench.new_home(f"{folder.name}-{name}")
        return {**self.bench.env, "HOME": home, "PYTHONPATH": str(folder)}

    def listed(self) -> str:
        """Fills the cache; gives the output of the command, and checks it."""
        argv = [registry_of(self.bench), "list", "--json"]
        subprocess.run(argv, env=self.warm, check=True, capture_output=True)
        done = subprocess.run(argv, env=self.warm, check=True, capture_output=True, text=True)
        found = sum(bool(_MADE.match(tool["name"])) for tool in json.loads(done.stdout)["tools"])
        assert found == self.site.tools, f"{found} tools are listed, {self.site.tools} are there"
        return done.stdout

    def commands(self) -> dict[str, Command]:
        """The timed commands, by label."""
        text = self.bench.scratch / f"{self.site.folder.name}.json"
        text.write_text(self.listed())
        if not self.site.manifests:
            return {
                f"list --json, {self.label}, first load": self._cold_list(most=1 if self.site.tools > _SLOW else 10),
                f"list --json, {self.label}, no manifests, warm": self._warm_list("--json"),
            }
        show = f"import os; os.write(1, open({str(text)!r}, 'rb').read())"
        return {
            f"printing the same text, {self.label}": Command((self.bench.ours, "-c", show), self.bench.ours, self.warm),
            f"list --json, {self.label}, warm": self._warm_list("--json"),
            f"list, {self.label}, warm": self._warm_list(),
            f"list --json, {self.label}, manifests": self._cold_list(most=3 if self.site.tools > _SLOW else 10),
        }

    def _warm_list(self, *options: str) -> Command:
        return Command((registry_of(self.bench), "list", *options), self.bench.ours, self.warm)

    def _cold_list(self, most: int) -> Command:
        argv = (registry_of(self.bench), "list", "--json")
        return Command(argv, self.bench.ours, self.cold, before=self._forget, most=most)

    def _forget(self) -> None:
        shutil.rmtree(Path(self.cold["HOME"]) / ".cache", ignore_errors=True)


def registry_of(bench: Bench) -> str:
    """The path of the command."""
    return str(bench.ours.with_name("registry"))


def command(bench: Bench) -> dict[str, Any]:
    """The groups `command`, by label, and `modules`."""
    commands: dict[str, Command] = {}
    small: Listings | None = None
    for label, (plugins, tools) in (("5 plugins", FEW), ("500 plugins", bench.sizes.many)):
        for manifests in (True, False):
            tell(f"making {plugins} plugins")
            folder = bench.scratch / "sites" / f"{plugins}-{'with' if manifests else 'without'}"
            site = make_site(folder, bench.ours, plugins=plugins, tools=tools, manifests=manifests)
            listings = Listings(bench, site, label)
            commands |= listings.commands()
            small = small or listings
    assert small is not None
    commands["registry --help"] = Command((registry_of(bench), "--help"), bench.ours, small.warm)
    if "llm" in bench.pythons:
        for words in ("--help", "tools list --json"):
            python = bench.pythons["llm"]
            commands[f"llm {words}"] = Command(
                (str(python.with_name("llm")), *words.split()), python, bench.env, most=5
            )
    tell("command")
    return {
        "modules": modules(bench, registry_of(bench), small.warm),
        "command": race(commands, bench.sizes.commands),
    }
