"""`constraints.txt`, from which README's commands install."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECTS = [ROOT / "pyproject.toml", *ROOT.glob("plugins/*/pyproject.toml"), *ROOT.glob("examples/*/pyproject.toml")]
LINES = [line for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines() if line[0] != "#"]


def requirements():
    for path in PROJECTS:
        project = tomllib.loads(path.read_text(encoding="utf-8"))
        facts = project["project"]
        lists = facts["dependencies"], project["build-system"]["requires"]
        for each in (*lists, *facts.get("optional-dependencies", {}).values(), *project["dependency-groups"].values()):
            yield from (Requirement(text) for text in each if isinstance(text, str))


def test_each_dependency_of_the_checkout_has_its_version_in_the_constraints():
    versions = {canonicalize_name(line.partition("==")[0]) for line in LINES}
    ours = {canonicalize_name(path.parent.name) for path in PROJECTS[1:]} | {"pegboard", "fake-vendors"}
    assert {canonicalize_name(each.name) for each in requirements()} - ours - versions == set()


def test_the_constraints_hold_versions_and_markers_only():
    assert [line for line in LINES if not re.fullmatch(r"[\w.-]+==[\w.]+( ; [\w.' <>=!]+)?", line)] == []
