"""Where skills come from: folders of the user, projects, installed packages; conflicts, and what is damaged."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from pegboard.config import distrust, trust
from pegboard_skills import Skill, SkillError, SkillSources, read_skill
from pegboard_skills.skill import MOST_SKILL
from pegboard_skills.sources import MOST_SKILLS


def names(sources):
    return list(sources.find().skills)


def problems(sources):
    return [str(problem) for problem in sources.find().problems]


@pytest.fixture
def install(tmp_path, monkeypatch, write_skill):
    """Installs a package with skills. Nothing in it can be imported."""

    def install(package, *skills, value=None):
        site = tmp_path / f"site-{package}"
        for skill in skills:
            write_skill(skill, within=f"site-{package}/{package}/more/skills", description=f"{skill} of {package}")
        info = site / f"{package}-1.0.dist-info"
        info.mkdir(parents=True)
        (site / package).mkdir(exist_ok=True)
        (site / package / "__init__.py").write_text("raise ImportError('it is imported')")
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[pegboard.skills]\nall = {value or f'{package}.more.skills'}\n")
        monkeypatch.syspath_prepend(site)

    return install


def test_a_folder_is_a_skill_or_has_skills(tmp_path, write_skill):
    """Hidden folders and those without a `SKILL.md` don't count; of a folder that is named twice, one does."""
    for name in ("a", "b", ".c"):
        write_skill(name)
    single = write_skill("d", within="more")
    (tmp_path / "skills/other").mkdir()
    sources = SkillSources([tmp_path / "skills", single, single])
    assert (names(sources), problems(sources)) == (["a", "b", "d"], [])


def test_the_home_folder_may_be_short(tmp_path, write_skill, monkeypatch):
    """`~` is expanded; any other relative path is refused."""
    write_skill("a")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert names(SkillSources(["~/skills"])) == ["a"]
    with pytest.raises(ValueError, match="folders: 'skills' isn't an absolute path"):
        SkillSources(["skills"])


def test_a_damaged_skill_affects_only_itself(tmp_path, write_skill):
    """The problem names its folder."""
    write_skill("good")
    write_skill("Bad", "name: Bad")
    write_skill("none", text="x")
    (tmp_path / "skills/none/SKILL.md").write_text("No front matter.")
    large = write_skill("large")
    (large / "SKILL.md").write_bytes(b"x" * 10_000_000)
    (tmp_path / "secret").write_text("---\nname: linked\ndescription: x\n---\n")
    (tmp_path / "skills/linked").mkdir()
    (tmp_path / "skills/linked/SKILL.md").symlink_to(tmp_path / "secret")
    (tmp_path / "skills/folder/SKILL.md").mkdir(parents=True)
    sources = SkillSources([tmp_path / "skills"])
    assert names(sources) == ["good"]
    found = problems(sources)
    assert len(found) == 5
    assert f"skill '{tmp_path}/skills/Bad'" in found[0]
    assert "description: it is missing" in found[0]
    assert "'SKILL.md' isn't a file" in found[1]
    assert "'SKILL.md' is too large: over 97.7 KiB" in found[2]
    assert "'SKILL.md' is a link" in found[3]
    assert "has no front matter" in found[4]
    assert MOST_SKILL < 10_000_000


def test_a_folder_without_skills_is_a_problem(tmp_path):
    """As is one that doesn't exist."""
    (tmp_path / "empty").mkdir()
    first, second = problems(SkillSources([tmp_path / "missing", tmp_path / "empty"]))
    assert "missing': it can't be searched for skills: No such file or directory" in first
    assert "empty': it has no SKILL.md, and no folder in it has one" in second


def test_a_folder_has_only_so_many_skills(tmp_path):
    """The others are left out, and the problem says so."""
    for number in range(MOST_SKILLS + 1):
        (tmp_path / f"s{number:03}").mkdir()
        (tmp_path / f"s{number:03}/SKILL.md").touch()
    assert "it has 501 skills; only the first 500 count" in problems(SkillSources([tmp_path]))[0]


def test_a_changed_skill_is_read_again(write_skill, monkeypatch):
    """One that hasn't changed isn't."""
    folder = write_skill("a")
    sources = SkillSources([folder])
    assert names(sources) == ["a"]
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", None)
        assert names(sources) == ["a"]
    (folder / "SKILL.md").write_text("damaged")
    assert names(sources) == []
    (folder / "SKILL.md").unlink()
    assert "it has no SKILL.md" in problems(sources)[0]


def test_a_skill_that_vanishes_is_reported(write_skill, monkeypatch):
    """Also between listing and reading it."""
    folder = write_skill("a")
    monkeypatch.setattr(os.path, "lexists", lambda _path: True)
    (folder / "SKILL.md").unlink()
    assert "'SKILL.md' doesn't exist" in problems(SkillSources([folder]))[0]


@pytest.mark.parametrize("mark", [".git", "pegboard.toml"])
def test_a_projects_skill_has_to_be_trusted(tmp_path, write_skill, mark):
    """Each file of it, with its present content."""
    (tmp_path / mark).mkdir()
    folder = write_skill("a", notes_md="Old.")
    sources = SkillSources([folder])
    (problem,) = sources.find().problems
    assert problem.cause == "'SKILL.md' belongs to a project, and isn't trusted as it is now"
    assert problem.fix == f"review it, then run: registry config trust {folder}/SKILL.md"
    trust(folder / "SKILL.md")
    skill = sources.find().skills["a"]
    with pytest.raises(SkillError, match=r"'notes.md' belongs to a project"):
        skill.read_file("notes.md")
    trust(folder / "notes.md")
    assert skill.read_file("notes.md") == "Old."
    (folder / "notes.md").write_text("New.")
    with pytest.raises(SkillError, match=r"'notes.md' belongs to a project"):
        skill.read_file("notes.md")
    distrust(folder / "SKILL.md")
    assert names(sources) == []
    with pytest.raises(SkillError, match=r"'SKILL.md' belongs to a project"):
        skill.read_text()
    assert names(SkillSources([folder], trusted=True)) == ["a"]


def test_a_link_into_a_project_is_of_the_project(tmp_path, write_skill):
    """Otherwise its files would count unseen."""
    (tmp_path / "project/.git").mkdir(parents=True)
    write_skill("a", within="project")
    (tmp_path / "own").mkdir()
    (tmp_path / "own/a").symlink_to(tmp_path / "project/a")
    assert "belongs to a project" in problems(SkillSources([tmp_path / "own"]))[0]


def test_packages_bring_skills(tmp_path, write_skill, install):
    """Without being imported; the user's own of the same name is used instead."""
    install("tools", "pdf", "csv")
    own = write_skill("csv")
    sources = SkillSources([own])
    skills = sources.find().skills
    assert {name: skill.package for name, skill in skills.items()} == {"csv": None, "pdf": "tools"}
    assert problems(sources) == []
    assert skills["pdf"].read_text() == "Do it."
    assert "tools" not in sys.modules


def test_skills_of_one_name_exclude_each_other(tmp_path, write_skill, install):
    """Two of the user, and two of packages."""
    for within in ("one", "two"):
        write_skill("own", within=within)
        install(f"p{within}", "pdf")
    sources = SkillSources([tmp_path / "one", tmp_path / "two"])
    first, second = sources.find().problems
    assert names(sources) == []
    assert first.cause == f"several skills have this name, so none is used: {tmp_path}/one/own, {tmp_path}/two/own"
    assert second.subject == "skill 'pdf'"
    assert f"pone ({tmp_path}/site-pone/pone/more/skills/pdf), ptwo (" in second.cause
    assert list(sources.find().conflicts) == ["own", "pdf"]


def test_a_package_of_which_one_skill_is_damaged_is_named(tmp_path, install):
    """Its other skills count."""
    install("tools", "pdf", "csv")
    bad = tmp_path / "site-tools/tools/more/skills/csv"
    (bad / "SKILL.md").write_text("damaged")
    sources = SkillSources()
    (problem,) = sources.find().problems
    assert (names(sources), problem.subject) == (["pdf"], f"skill '{bad}' of tools")
    assert problem.fix.startswith("Ask its author to correct it")


@pytest.mark.parametrize(
    ("patterns", "expected"), [(["*"], ["a", "b"]), (["My.Tools"], ["b"]), (["other*"], ["a"]), ([], []), (["x"], [])]
)
def test_packages_are_selected_by_name(install, patterns, expected):
    """As pip compares names."""
    install("others", "a")
    install("my_tools", "b")
    assert names(SkillSources([], patterns)) == expected


@pytest.mark.parametrize("value", ["nowhere.skills", "tools.missing", "tools:skills", "tools..x", "os.path"])
def test_an_entry_point_has_to_name_a_folder(install, value):
    """Else it is a problem of that package."""
    install("tools", "pdf", value=value)
    (problem,) = SkillSources().find().problems
    assert (problem.distribution, problem.subject) == ("tools", "skills of tools")
    assert problem.cause == f"its entry point all = {value!r} names no folder of a package"


def test_a_finder_that_fails_is_a_problem_of_the_package(install, monkeypatch):
    """Import finders of others may raise anything."""
    install("tools", "pdf")
    monkeypatch.setattr("pegboard_skills.sources.find_spec", lambda _name: 1 / 0)
    assert "names no folder of a package" in problems(SkillSources())[0]


def test_metadata_that_cant_be_read_is_a_problem(write_skill, monkeypatch):
    """The user's skills are there."""
    folder = write_skill("a")
    monkeypatch.setattr("pegboard_skills.sources.entry_points", lambda **_: 1 / 0)
    sources = SkillSources([folder])
    assert names(sources) == ["a"]
    assert "the installed packages can't be searched: ZeroDivisionError" in problems(sources)[0]


def test_a_skill_is_read_by_itself(write_skill):
    """For programs that have skills elsewhere."""
    folder = write_skill("a", text="\nOne.\n\n", data_bin="\0")
    skill, text = read_skill(folder, trusted=True)
    assert (skill, text) == (Skill(skill.front, folder, trusted=True), "One.")
    assert skill.to_json() == {"name": "a", "description": "Works on a.", "folder": str(folder)}
    for name, content in (("data.bin", b"a\0"), ("latin.txt", b"\xe4")):
        Path(folder, name).write_bytes(content)
        with pytest.raises(SkillError, match=f"'{name}' isn't a UTF-8 text, an image or a PDF"):
            skill.read_file(name)
