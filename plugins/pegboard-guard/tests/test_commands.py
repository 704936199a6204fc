from __future__ import annotations

import json

import click
import pytest
from click.testing import CliRunner

from json_page import faults
from pegboard.cli.main import main
from pegboard_guard import Guard, verify
from pegboard_guard.journal_file import JournalFile


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "audit.jsonl"
    journal = JournalFile(path, now=lambda: 0.0)
    journal.append(
        [
            {"kind": "start", "tool": "look", "call": "c1"},
            {
                "kind": "call",
                "tool": "look\u202e\n",
                "session": "s1",
                "user": "ann",
                "outcome": "ok",
                "seconds": 0.25,
                "arguments": {"at": "a"},
            },
            {"kind": "lost", "records": 2},
        ]
    )
    journal.close()
    path.write_bytes(path.read_bytes() + b"torn")
    journal.append([{"kind": "later"}])
    return path


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Runs `registry guard ...` as the plugin adds it: exit code, standard output, standard error."""

    def run(*words, journal=None):
        group = click.Group("registry")
        Guard({"journal": {"file": journal}} if journal else {}).pegboard_register_commands(group)
        words = words if words[0] == "logs" else ("guard", *words)
        done = CliRunner().invoke(group, [*map(str, words)], standalone_mode=False)
        if done.exception is not None:
            raise done.exception
        return done.return_value, done.stdout, done.stderr

    return run


def test_a_whole_journal_verifies(run, path):
    head = verify(path).head
    code, out, _ = run("verify", path)
    assert (code, out) == (0, f"{path}: whole: 6 records, head {head}, 1 torn by crashes, 2 lost\n")


def test_a_changed_journal_is_reported_by_its_first_broken_record(run, path):
    path.write_bytes(path.read_bytes().replace(b'"s1"', b'"s2"'))
    code, out, _ = run("verify", path)
    assert code == 1
    assert out.startswith(f"{path}: broken: record 3 (line 3, byte ")
    assert "its content doesn't match its hash" in out


def test_all_files_of_a_journal_are_verified(run, tmp_path):
    path = tmp_path / "rotated.jsonl"
    journal = JournalFile(path, rotate_bytes=200)
    for number in range(3):
        journal.append([{"kind": "call", "tool": f"t{number}"}])
    code, out, _ = run("verify", path)
    assert code == 0
    assert [line.split(": ")[0] for line in out.splitlines()] == [f"{path}.1", f"{path}.2", str(path)]


def test_a_stored_head_shows_what_was_cut_off(run, path):
    head = verify(path).head
    assert run("verify", path, "--head", head)[0] == 0
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:2]))
    code, out, err = run("verify", path, "--head", head)
    assert (code, "whole" in out) == (1, True)
    assert f"no record has the hash {head}" in err


def test_reports_as_json(run, path):
    (report,) = json.loads(run("verify", path, "--json")[1])["files"]
    assert report == json.loads(json.dumps(verify(path).to_json()))
    path.write_bytes(path.read_bytes().replace(b'"s1"', b'"s2"'))
    broken = json.loads(run("verify", path, "--json")[1])
    assert broken["files"][0]["broken"]["record"] == 3
    assert faults("registry guard verify --json", {"files": [report, *broken["files"]]}) == []


def test_the_log_is_one_readable_line_a_record(run, path):
    code, out, err = run("log", path)
    identity = verify(path).id
    at = "1970-01-01T00:00:00.000000Z"
    assert code == 1
    assert err == "line 5 is not a record; see 'registry guard verify'\n"
    assert out.splitlines() == [
        f"{at}  (journal {identity}, file 1)",
        f"{at}  started  look  call c1",
        f'{at}  ok  look\\u{{202e}}\\u{{a}}  0.250 s  session s1  user ann  {{"at": "a"}}',
        f"{at}  (2 records could not be written)",
        f"{at}  (a crash had torn the record before)",
        f"{at}  (later)",
    ]


def test_registry_logs_shows_the_journal_that_the_settings_name(run, path, tmp_path):
    with pytest.raises(click.UsageError, match="no journal is configured"):
        run("logs")
    assert run("logs", path) == run("log", path) == run("logs", journal=path)
    assert run("logs", "--json", journal=path) == run("log", path, "--json")
    assert run("logs", "-n", "2", journal=path)[1].splitlines() == run("log", path)[1].splitlines()[-2:]
    assert run("logs", journal=tmp_path / "none")[0::2] == (0, f"{tmp_path / 'none'}: no call was recorded yet\n")


def test_the_log_as_json_lines(run, tmp_path):
    path = tmp_path / "audit.jsonl"
    JournalFile(path).append([{"kind": "call", "tool": "é"}])
    code, out, _ = run("log", path, "--json")
    assert code == 0
    assert [json.loads(line) for line in out.splitlines()] == [
        json.loads(line) for line in path.read_bytes().splitlines()
    ]
    assert out.isascii()


def test_log_records_match_the_documented_json(run, path):
    lines = [json.loads(line) for line in run("logs", path, "--json")[1].splitlines()]
    assert [each["kind"] for each in lines] == ["journal", "start", "call", "lost", "mended", "later"]
    assert [faults("registry logs --json, a line", each) for each in lines[:-1]] == [[]] * 5


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    """A folder and a home without any configuration."""
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


@pytest.mark.slow
@pytest.mark.usefixtures("nowhere")
def test_the_installed_command_runs(path, capsys):
    """As installed: the manifest names the command, and the plugin adds it."""
    assert main(["guard", "verify", str(path)]) == 0
    assert "6 records" in capsys.readouterr().out
    assert main(["guard", "log", "nowhere"]) == 2
    assert "does not exist" in capsys.readouterr().err
