"""`registry skills`, and what `registry doctor` says."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from json_page import faults
from pegboard.cli import Options
from pegboard_skills.commands import skills_command
from pegboard_skills.plugin import Skills


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs `registry skills` in a folder with settings."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)

    def run(*arguments, settings=f'folders = ["{tmp_path}/skills"]\npackages = []'):
        file = tmp_path / "config/pegboard/pegboard.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"[plugins.skills]\n{settings}\n")
        return CliRunner().invoke(skills_command, arguments, obj=Options(), standalone_mode=False)

    return run


def test_skills_are_listed(tmp_path, run, write_skill):
    """With where they come from."""
    folder = write_skill("pdf")
    write_skill("Bad")
    done = run("list")
    assert done.return_value == 0
    assert done.stdout == f"SKILL  FROM{' ' * (len(str(folder)) - 2)}DESCRIPTION\npdf    {folder}  Works on pdf.\n"
    assert "'Bad' may only have" in done.stderr
    listed = json.loads(run("list", "--json").stdout)
    assert listed == {"skills": [{"name": "pdf", "description": "Works on pdf.", "folder": str(folder)}]}
    assert not faults("registry skills list --json", listed)


def test_the_package_and_the_folder_of_a_skill_are_listed(run, write_skill, monkeypatch):
    """Also of one that is damaged."""
    good, bad = write_skill("pdf", within="package"), write_skill("Bad", within="package")
    monkeypatch.setattr("pegboard_skills.sources._package_folders", lambda *_: [(good.parent, "tools")])
    done = run("list")
    assert f"pdf    tools ({good})  Works on pdf." in done.stdout
    assert f"skill '{bad}' of tools: name: 'Bad' may only have" in done.stderr
    assert "ask its author to correct it, or leave the package out" in done.stderr


def test_without_skills_a_hint_is_given(run):
    """Which setting names them."""
    done = run("list", settings="packages = []")
    assert (done.return_value, done.stdout) == (0, "")
    assert "name their folders by [plugins.skills] folders in pegboard.toml" in done.stderr
    assert json.loads(run("list", "--json", settings="packages = []").stdout) == {"skills": []}


def test_an_untrusted_projects_settings_are_ignored(tmp_path, run, write_skill):
    """And the user is told."""
    write_skill("pdf", within="project")
    (tmp_path / "pegboard.toml").write_text('[plugins.skills]\nfolders = ["./project"]\n')
    done = run("list", settings="packages = []")
    assert done.stdout == ""
    assert "plugins.skills is ignored until you trust the file" in done.stderr


def test_wrong_settings_are_errors(run):
    """Of the configuration; the plugin reports them itself, too, so that the doctor doesn't have to."""
    Skills({"budget": 1}).pegboard_diagnose(None)
    error = run("list", settings="budget = 1").exception
    assert "plugins.skills.budget: must be a whole number" in str(error)


def test_good_skills_pass(run, write_skill):
    """With notes for their authors."""
    folder = write_skill("pdf", "name: pdf\ndescription: x\nmodel: best", "x\n" * 501, large_txt="x" * 1_000_001)
    (folder / "link").symlink_to("..")
    for number in range(200):
        (folder / f"z{number:03}").touch()
    write_skill("empty", text="")
    done = run("check", "--json")
    assert done.return_value == 0
    checked = json.loads(done.stdout)
    assert not faults("registry skills check --json", checked)
    empty, pdf = checked["skills"]
    assert empty == {"folder": str(folder.parent / "empty"), "notes": ["it has no text after the front matter"]}
    assert pdf["notes"] == [
        "unknown keys: 'model'",
        "its text has 501 lines; more than 500 belong into files of their own",
        "'link' is a link or no file; it can't be read",
        "'large.txt' is larger than 1.0 MiB; it can't be read",
        "it has more than 200 files; only these many are listed to the model",
    ]
    assert "ok; note: unknown keys: 'model'; note: its text" in run("check").stdout


def test_a_damaged_skill_fails(tmp_path, run, write_skill):
    """All of its problems are named."""
    write_skill("pdf", "name: doc")
    done = run("check")
    assert done.return_value == 1
    assert "name: 'doc' isn't the name of its folder, 'pdf'; description: it is missing" in done.stdout
    (row,) = json.loads(run("check", "--json").stdout)["skills"]
    assert len(row["problems"]) == 2


def test_a_folder_without_skills_fails(tmp_path, run):
    """So that a wrong path in CI is noticed."""
    (tmp_path / "empty").mkdir()
    done = run("check", "empty")
    assert (done.return_value, done.stdout) == (1, "")
    assert "it has no SKILL.md, and no folder in it has one" in done.stderr


def test_an_authors_skills_need_no_trust(tmp_path, run, write_skill):
    """Of a folder that is named; those of the settings do."""
    (tmp_path / ".git").mkdir()
    write_skill("pdf")
    assert run("check", "skills").return_value == 0
    assert run("check", "skills/pdf").return_value == 0
    done = run("check")
    assert done.return_value == 1
    assert "review it, then run: registry config trust" in done.stdout


def test_skills_of_one_name_fail(run, write_skill):
    """Each of them, as none is used."""
    for within in ("one", "two"):
        write_skill("pdf", within=within)
    done = run("check", "one", "two", "--json")
    assert done.return_value == 1
    problem = "another skill is called 'pdf', too; rename or remove one of them"
    assert [row["problems"] for row in json.loads(done.stdout)["skills"]] == [[problem]] * 2


def test_a_skill_that_the_users_replaces_is_noted(tmp_path, run, write_skill, monkeypatch):
    """It can be used, but isn't."""
    own = write_skill("pdf")
    other = write_skill("pdf", within="package")
    monkeypatch.setattr("pegboard_skills.sources._package_folders", lambda *_: [(other, "tools")])
    done = run("check", "--json")
    assert [row.get("notes") for row in json.loads(done.stdout)["skills"]] == [None, [f"'{own}' is used instead"]]
    assert done.return_value == 0


def test_the_doctor_reports_what_cant_be_used(tmp_path, write_skill):
    """With what to do."""
    (tmp_path / ".git").mkdir()
    write_skill("pdf")
    write_skill("Bad")
    reported = []
    plugin = Skills({"folders": [f"{tmp_path}/skills"], "packages": []})
    plugin.pegboard_diagnose(lambda cause, fix: reported.append((cause, fix)))
    (_, first), (second, fix) = reported
    assert first.startswith("review it, then run: registry config trust")
    assert second.startswith(f"skill '{tmp_path}/skills/pdf': 'SKILL.md' belongs to a project")
    assert fix.startswith("review it")
