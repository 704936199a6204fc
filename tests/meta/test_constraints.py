"""`constraints.txt`, from which README's commands install."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECTS = [ROOT / "pyproject.toml", *ROOT.glob("plugins/*/pyproject.toml"), *ROOT.glob("examples/*/pyproject.toml")]
ALONE = "pegboard-adapters"  # the frameworks of its extras can't be installed together: `nox -s neighbours` pins them
LINES = [line for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines() if line[0] != "#"]


def requirements():
    for path in PROJECTS:
        project = tomllib.loads(path.read_text(encoding="utf-8"))
        facts = project["project"]
        lists = facts["dependencies"], project["build-system"]["requires"]
        extras = {} if path.parent.name == ALONE else facts.get("optional-dependencies", {})
        for each in (*lists, *extras.values(), *project["dependency-groups"].values()):
            yield from (Requirement(text) for text in each if isinstance(text, str))


def test_each_dependency_of_the_checkout_has_its_version_in_the_constraints():
    versions = {canonicalize_name(line.partition("==")[0]) for line in LINES}
    ours = {canonicalize_name(path.parent.name) for path in PROJECTS[1:]} | {"pegboard", "fake-vendors"}
    assert {canonicalize_name(each.name) for each in requirements()} - ours - versions == set()


def test_the_constraints_hold_versions_and_markers_only():
    assert [line for line in LINES if not re.fullmatch(r"[\w.-]+==[\w.]+( ; [\w.' <>=!]+)?", line)] == []


def test_our_packages_have_one_version_and_name_its_minor_release_where_they_need_each_other():
    """As does what `registry new` writes."""
    projects = {path.parent.name: tomllib.loads(path.read_text(encoding="utf-8"))["project"] for path in PROJECTS}
    core = projects[ROOT.name]
    ours = {name for name in projects if name.startswith("pegboard-")} - {"pegboard-parrot"}
    assert {projects[name]["version"] for name in ours} == {core["version"]}
    major, minor, *_ = core["version"].split(".")
    lists = [[each["dependencies"], *each.get("optional-dependencies", {}).values()] for each in projects.values()]
    needed = [Requirement(text) for each in lists for texts in each for text in texts]
    release = SpecifierSet(f">={core['version']},<{major}.{int(minor) + 1}")
    assert {each.specifier for each in needed if each.name in {*ours, "pegboard"}} == {release}
    template = ROOT / "src/pegboard/cli/template/pyproject.toml.txt"
    assert SpecifierSet(re.search(r'"pegboard(.+)"\]', template.read_text(encoding="utf-8"))[1]) == release
