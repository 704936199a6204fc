"""Which project configurations the user has trusted."""

from __future__ import annotations

import json
import stat

import pytest

from pegboard.config.trusted import distrust, is_trusted, trust, trust_file
from pegboard.errors import ConfigError


@pytest.fixture(autouse=True)
def _own_state(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def file(tmp_path):
    file = tmp_path / "pegboard.toml"
    file.write_bytes(b"enable = []")
    return file


def test_a_file_is_trusted_as_it_is(file):
    assert not is_trusted(file, b"enable = []")
    assert trust(file).startswith("sha256:")
    assert is_trusted(file, b"enable = []")


def test_a_changed_file_is_untrusted_again(file):
    trust(file)
    assert not is_trusted(file, b"enable = ['x']")


def test_the_same_words_elsewhere_are_not_trusted(file, tmp_path):
    trust(file)
    assert not is_trusted(tmp_path / "other.toml", b"enable = []")


def test_a_link_is_the_file_it_leads_to(file, tmp_path):
    (tmp_path / "link.toml").symlink_to(file)
    trust(tmp_path / "link.toml")
    assert is_trusted(file, b"enable = []")


def test_trust_is_kept_privately(file):
    trust(file)
    assert stat.S_IMODE(trust_file().stat().st_mode) == 0o600
    assert stat.S_IMODE(trust_file().parent.stat().st_mode) == 0o700


def test_trust_is_taken_back(file):
    trust(file)
    assert distrust(file)
    assert not is_trusted(file, b"enable = []")
    assert not distrust(file)


def test_one_decision_leaves_the_others(file, tmp_path):
    other = tmp_path / "other.toml"
    other.touch()
    trust(other)
    trust(file)
    distrust(other)
    assert is_trusted(file, b"enable = []")


def test_a_list_that_others_can_write_is_not_believed(file):
    trust(file)
    trust_file().chmod(0o666)
    assert not is_trusted(file, b"enable = []")


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": 9, "files": {}}', '{"format": 1}', "[" * 99_999])
def test_a_broken_list_trusts_nothing_and_can_be_replaced(file, content):
    trust(file)
    trust_file().write_text(content)
    assert not is_trusted(file, b"enable = []")
    trust(file)
    assert is_trusted(file, b"enable = []")


def test_the_list_is_readable_by_people(file):
    digest = trust(file)
    assert json.loads(trust_file().read_text()) == {"format": 1, "files": {str(file): digest}}


def test_a_missing_file_cannot_be_trusted(tmp_path):
    with pytest.raises(ConfigError, match="can't be trusted: No such file"):
        trust(tmp_path / "no.toml")


def test_trust_that_cannot_be_kept_is_an_error(file, tmp_path):
    trust(file)
    trust_file().chmod(0o600)
    kept = trust_file().read_bytes()
    trust_file().unlink()
    trust_file().parent.rmdir()
    trust_file().parent.touch()
    with pytest.raises(ConfigError, match="can't be trusted: "):
        trust(file)
    trust_file().parent.unlink()
    trust_file().parent.mkdir()
    trust_file().write_bytes(kept)
    trust_file().chmod(0o600)


def test_distrust_that_cannot_be_kept_is_an_error(file, monkeypatch):
    trust(file)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pegboard.config.trusted.write_private", full)
    with pytest.raises(ConfigError, match="trust can't be taken back: No space left"):
        distrust(file)
