"""All configuration together."""

from __future__ import annotations

import os

import pytest

import pegboard.config
from pegboard.config import Config, Ignored, load_config, trust
from pegboard.errors import ConfigError


@pytest.fixture(autouse=True)
def _own_folders(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("PEGBOARD_BLOCK", raising=False)
    monkeypatch.delenv("PEGBOARD_AUTOLOAD", raising=False)
    (tmp_path / "config/pegboard").mkdir(parents=True)
    (tmp_path / "project/src").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "project/src")


@pytest.fixture
def user(tmp_path):
    return tmp_path / "config/pegboard/pegboard.toml"


@pytest.fixture
def project(tmp_path):
    return tmp_path / "project/pegboard.toml"


def test_nothing_said_is_the_default(user):
    config = load_config()
    assert config == Config(looked_at=(str(user),))
    assert config.is_enabled("any")
    assert not config.is_blocked("any")
    assert config.settings("any") == {}


def test_the_users_file_is_read(user):
    user.write_text('block = ["a"]\n[plugins.files]\nroot = "/srv"')
    config = load_config()
    assert config.block == ("a",)
    assert config.is_blocked("a")
    assert config.settings("files") == {"root": "/srv"}
    assert config.files == (str(user),)


def test_the_users_file_is_not_read_unless_asked_for(user):
    user.write_text('block = ["a"]')
    assert load_config(user=False) == Config()


def test_no_project_is_read_unless_asked_for(project):
    project.write_text('block = ["a"]')
    assert load_config().block == ()


def test_a_project_is_searched_upwards(project):
    project.write_text('block = ["a"]')
    assert load_config(project="search").files == (str(project),)


def test_no_project_where_the_current_folder_is_gone(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert load_config(project="search").files == ()


def test_an_untrusted_project_narrows(user, project):
    user.write_text('block = ["a"]\nwhere = "read_only or tag:x"\nprefix.p = "u_"')
    project.write_text('block = ["b", "a"]\nwhere = "not tag:y"\nrename.t = "u"\nprefix.q = "v_"')
    config = load_config(project=project)
    assert config.block == ("a", "b")
    assert config.where == "(read_only or tag:x) and (not tag:y)"
    assert config.rename == {"t": "u"}
    assert config.prefix == {"p": "u_", "q": "v_"}
    assert config.ignored == ()


def test_an_untrusted_project_changes_nothing_else(user, project):
    user.write_text('enable = ["a"]\nrename.t = "mine"\n[plugins.a]\nx = 1')
    project.write_text(
        'enable = ["a", "b"]\nconflicts = "replace"\nrename.t = "theirs"\n[plugins.a]\nx = 2\n[plugins.b]\ny = 3'
    )
    config = load_config(project=project)
    assert config.enable == ("a",)
    assert config.conflicts == "keep"
    assert config.rename == {"t": "mine"}
    assert config.plugins == {"a": {"x": 1}}
    assert {ignored.key for ignored in config.ignored} == {
        "enable",
        "conflicts",
        "rename.t",
        "plugins.a",
        "plugins.b",
    }
    assert str(Ignored(str(project), "enable")) in {str(ignored) for ignored in config.ignored}
    assert "registry config trust" in str(config.ignored[0])


def test_a_trusted_project_says_what_holds(user, project):
    user.write_text('enable = ["a"]\nconflicts = "keep"\nrename.t = "mine"\n[plugins.a]\nx = 1\ny = 1')
    project.write_text('enable = ["b"]\nconflicts = "replace"\nrename.t = "theirs"\n[plugins.a]\nx = 2')
    trust(project)
    config = load_config(project=project)
    assert config.enable == ("b",)
    assert config.conflicts == "replace"
    assert config.rename == {"t": "theirs"}
    assert config.plugins == {"a": {"x": 2, "y": 1}}
    assert config.ignored == ()
    assert not config.is_enabled("a")


def test_a_project_that_changed_is_untrusted_again(project):
    project.write_text("enable = []")
    trust(project)
    project.write_text("enable = ['x']")
    assert load_config(project=project).enable is None


def test_a_given_file_binds(user, project):
    user.write_text("enable = ['a']")
    project.write_text("enable = ['b']")
    assert load_config(explicit=project).enable == ("b",)
    assert load_config(explicit=project, project="search").enable == ("b",)
    assert load_config(explicit=project, project="search").files == (str(user), str(project))


def test_a_given_file_must_be_there(tmp_path):
    with pytest.raises(ConfigError, match="no such file"):
        load_config(explicit=tmp_path / "no.toml")


def test_the_users_file_is_not_the_projects_too(user, monkeypatch):
    user.write_text("enable = ['a']")
    monkeypatch.chdir(user.parent)
    config = load_config(project="search")
    assert config.enable == ("a",)
    assert config.files == (str(user),)


def test_everything_that_would_change_it_is_told(user, project, tmp_path):
    """Missing files and the list of what is trusted too."""
    config = load_config(project=project)
    assert config.looked_at == (str(user), str(project), str(tmp_path / "state/pegboard/trusted.json"))
    assert config.files == ()


def test_the_environment_blocks():
    config = load_config(environ={"PEGBOARD_BLOCK": " a, b,,a "})
    assert config.block == ("a", "b")


@pytest.mark.parametrize(("text", "loads"), [("", True), ("1", True), ("0", False), ("False", False), (" off ", False)])
def test_the_environment_loads_none(text, loads):
    assert load_config(environ={"PEGBOARD_AUTOLOAD": text}).autoload is loads
    assert load_config(environ={"PEGBOARD_AUTOLOAD": text}).is_enabled("any") is loads


def test_an_environment_that_is_not_understood():
    with pytest.raises(ConfigError, match="PEGBOARD_AUTOLOAD: 'never' is neither 0 nor 1"):
        load_config(environ={"PEGBOARD_AUTOLOAD": "never"})


def test_a_bad_file_is_an_error(user):
    user.write_text("blokc = []")
    with pytest.raises(ConfigError, match="Did you mean 'block'"):
        load_config()


def test_a_config_is_read_only(user):
    user.write_text("rename.a = 'b'")
    with pytest.raises(TypeError):
        load_config().rename["x"] = "y"  # pyright: ignore[reportIndexIssue]


def test_the_process_environment_is_the_default(monkeypatch):
    monkeypatch.setitem(os.environ, "PEGBOARD_BLOCK", "z")
    assert load_config().block == ("z",)


def test_the_rooms_face_has_its_names_and_no_others():
    assert all(hasattr(pegboard.config, name) for name in pegboard.config.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        pegboard.config.nothing  # noqa: B018
