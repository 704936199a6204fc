"""Configuration files, trust and secrets."""

from __future__ import annotations

import json
import stat
import sys

import pytest
from hypothesis import given, strategies as st

from installed import own_keyring
from pegboard import ToolRegistry, hookimpl, parse_predicate, register_plugin, tool
from pegboard.config import (
    _MAX_BYTES,
    Config,
    Ignored,
    distrust,
    is_trusted,
    key_names,
    load_config,
    may_bind,
    parse_config,
    read_config,
    remove_key,
    set_key,
    trust,
    trust_file,
    with_secrets,
    without_secrets,
)
from pegboard.errors import HIDDEN, ConfigError, ExpressionError


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


def test_defaults(user):
    config = load_config()
    assert config == Config(looked_at=(str(user),))
    assert (config.autoload, config.enable, config.block) == (True, None, ())
    assert config.settings("any") == {}


def test_files_are_read_on_request(user, project):
    """The user's by default; a project's is searched upwards."""
    user.write_text('block = ["a"]\n[plugins.files]\nroot = "/srv"')
    project.write_text('untrusted = ["b"]')
    config = load_config()
    assert (config.block, config.untrusted, config.files) == (("a",), (), (str(user),))
    assert config.settings("files") == {"root": "/srv"}
    assert load_config(user=False) == Config()
    assert load_config(project="search").files == (str(user), str(project))


def test_no_project_where_the_current_folder_is_gone(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert load_config(project="search").files == ()


def test_an_untrusted_project_narrows(user, project):
    user.write_text('block = ["a"]\nuntrusted = ["a"]\nwhere = "read_only or tag:x"\nprefix.p = "u_"')
    project.write_text(
        'block = ["b", "a"]\nuntrusted = ["b", "a"]\nwhere = "not tag:y"\nrename.t = "u"\nprefix.q = "v_"'
    )
    config = load_config(project=project)
    assert (config.block, config.project_block, config.untrusted) == (("a",), ("b", "a"), ("a", "b"))
    assert config.where == "(read_only or tag:x) and (not tag:y)"
    assert config.rename == {}
    assert config.prefix == {"p": "u_"}
    assert [ignored.key for ignored in config.ignored] == ["rename.t", "prefix.q"]
    assert (config.files, config.narrowing) == ((str(user), str(project)), (str(project),))
    trust(project)
    trusted = load_config(project=project)
    assert trusted.narrowing == ()
    assert (trusted.block, trusted.project_block) == (("a", "b"), ())
    assert (trusted.rename, trusted.prefix) == ({"t": "u"}, {"p": "u_", "q": "v_"})


def test_an_untrusted_project_changes_nothing_else(user, project):
    user.write_text('enable = ["a"]\nrename.t = "mine"\nselections.s = "plugin:a"\n[plugins.a]\nx = 1')
    project.write_text(
        'enable = ["a", "b"]\nconflicts = "replace"\nrename.t = "theirs"\nselections = { s = "git_*", t = "x" }\n'
        "[plugins.a]\nx = 2\n[plugins.b]\ny = 3\n[tools.'*']\nexecutor = 'far'\n[executors.far]\nhost = 'evil'"
    )
    config = load_config(project=project)
    assert config.enable == ("a",)
    assert config.conflicts is None
    assert config.rename == {"t": "mine"}
    assert (config.plugins, config.selections) == ({"a": {"x": 1}}, {"s": "plugin:a"})
    keys = {"enable", "conflicts", "rename.t", "selections.s", "selections.t", "plugins.a", "plugins.b"}
    keys |= {"tools.*", "executors.far"}
    assert (config.tools, config.executors) == ({}, {})
    assert {ignored.key for ignored in config.ignored} == keys
    assert str(Ignored(str(project), "enable")) in {str(ignored) for ignored in config.ignored}
    assert "registry config trust" in str(config.ignored[0])


def test_a_trusted_project_overrides_the_user(user, project):
    user.write_text(
        'enable = ["a"]\nconflicts = "keep"\nrename.t = "u"\nselections.s = "u"\n[plugins.a]\nx = 1\ny = 1\n'
        '[tools.t]\nexecutor = "u"\nqueue = "u"'
    )
    project.write_text(
        'enable = ["b"]\nconflicts = "replace"\nrename.t = "p"\nselections.s = "p"\n[plugins.a]\nx = 2\n'
        '[tools.t]\nexecutor = "p"'
    )
    trust(project)
    config = load_config(project=project)
    assert config.enable == ("b",)
    assert config.conflicts == "replace"
    assert (config.rename, config.selections) == ({"t": "p"}, {"s": "p"})
    assert config.plugins == {"a": {"x": 2, "y": 1}}
    assert config.tools == {"t": {"executor": "p", "queue": "u"}}
    assert config.ignored == ()


def test_an_explicit_file_is_trusted_and_must_exist(user, project):
    user.write_text("enable = ['a']")
    project.write_text("enable = ['b']")
    assert load_config(explicit=project).enable == ("b",)
    assert load_config(explicit=project, project="search").enable == ("b",)
    assert load_config(explicit=project, project="search").files == (str(user), str(project))
    with pytest.raises(ConfigError, match="no such file"):
        load_config(explicit=project.with_name("no.toml"))


def test_the_users_file_is_not_read_as_a_project_file(user, monkeypatch):
    user.write_text("enable = ['a']")
    monkeypatch.chdir(user.parent)
    config = load_config(project="search")
    assert config.enable == ("a",)
    assert config.files == (str(user),)


def test_looked_at_has_every_file_that_may_change_the_result(user, project, tmp_path):
    """Missing files and the list of what is trusted too."""
    config = load_config(project=project)
    assert config.looked_at == (str(user), str(project), str(tmp_path / "state/pegboard/trusted.json"))
    assert config.files == ()


def test_the_environment_blocks(monkeypatch):
    """That of the process by default."""
    assert load_config(environ={"PEGBOARD_BLOCK": " a, b,,a "}).block == ("a", "b")
    monkeypatch.setenv("PEGBOARD_BLOCK", "z")
    assert load_config().block == ("z",)


@pytest.mark.parametrize(("text", "loads"), [("", True), ("1", True), ("0", False), ("False", False), (" off ", False)])
def test_the_environment_disables_loading(text, loads):
    assert load_config(environ={"PEGBOARD_AUTOLOAD": text}).autoload is loads


def test_an_invalid_variable():
    with pytest.raises(ConfigError, match="PEGBOARD_AUTOLOAD: 'never' is neither 0 nor 1"):
        load_config(environ={"PEGBOARD_AUTOLOAD": "never"})


@pytest.mark.parametrize(
    ("text", "words", "where"),
    [
        (
            "blokc = []\nwhere = 'read_only'",
            "blokc: unknown key. Did you mean 'block' or 'lock'? (ignored)",
            "read_only",
        ),
        ("block = 3\nwhere = '(a'\nenable = []", "block: expected a list of plugin names, found int (ignored)", None),
        ("= 1", "not TOML: Invalid statement (at line 1, column 1) (ignored)", None),
        ("#" * (_MAX_BYTES + 1), "can't be read: larger than 262144 bytes (ignored)", None),
    ],
)
def test_errors_in_an_untrusted_project_are_ignored_and_reported(user, project, text, words, where):
    """It came with the project, and stops no command."""
    user.write_text("block = ['a']")
    project.write_text(text)
    config = load_config(project=project)
    assert (config.block, config.where) == (("a",), where)
    assert str(config.ignored[0]) == f"{project}: {words}"
    if len(text) < _MAX_BYTES:
        trust(project)
        with pytest.raises(ConfigError):
            load_config(project=project)


# One `pegboard.toml`: its bytes -> its checked values ----------------------------------------------------------------

CUSTOM = {"a": lambda tool, context: True, "x": lambda tool, context: True}


def parsed(text: str) -> dict:
    return parse_config(text.encode(), "pegboard.toml")


def test_all_keys():
    text = """
        block = ["a", "b"]
        enable = []
        conflicts = "shadow"
        where = 'read_only and (tag:x or name:"a\\"(b")'
        rename.read_file = "cat"
        prefix.github = "gh_"
        [plugins.files]
        root = "/srv"
        limits = {lines = 3}
        [executors.eu]
        kind = "nats"
        servers = ["a"]
        [tools."*_image"]
        executor = "eu"
        queue = "gpu"
    """
    assert parsed(text) == {
        "block": ("a", "b"),
        "enable": (),
        "conflicts": "shadow",
        "where": r'read_only and (tag:x or name:"a\"(b")',
        "rename": {"read_file": "cat"},
        "prefix": {"github": "gh_"},
        "plugins": {"files": {"root": "/srv", "limits": {"lines": 3}}},
        "executors": {"eu": {"kind": "nats", "servers": ["a"]}},
        "tools": {"*_image": {"executor": "eu", "queue": "gpu"}},
    }
    assert parsed("") == {}


@pytest.mark.parametrize(
    ("text", "key", "words"),
    [
        ("blocks = []", "blocks", "unknown key. Did you mean 'block' or 'lock'?"),
        ("zzz = 1", "zzz", "unknown key. There are block, untrusted, enable, rename,"),
        ("block = 'a'", "block", "expected a list of plugin names, found str"),
        ("block = ['a', 3]", "block[1]", "expected a string, found int"),
        ("block = ['']", "block[0]", "must not be empty"),
        ("enable = true", "enable", "expected a list of plugin names, found bool"),
        ("rename = 'a'", "rename", "expected a table, found str"),
        ("rename.a = 1", "rename.a", "expected a string, found int"),
        ("rename.a = 'not a name'", "rename.a", "'not a name' isn't valid in a tool's name"),
        ("rename.a = 'c'\nrename.b = 'c'", "rename.b", "'a' is also renamed to 'c'"),
        ("prefix.p = '9'", "prefix.p", "'9' isn't valid in a tool's name"),
        ("prefix.p = ''", "prefix.p", "must not be empty"),
        ("selections.a = ['x']", "selections.a", "expected a string"),
        ("conflicts = 'keeep'", "conflicts", "'keeep' is not a conflict policy. Did you mean 'keep'?"),
        ("conflicts = '?'", "conflicts", "There are error, keep, replace, shadow, prefix."),
        ("where = 1", "where", "expected a string, found int"),
        ("where = ' '", "where", "must not be empty"),
        ("where = 'a) or (b'", "where", "brackets or quotes don't match in 'a) or (b'"),
        ("where = '(a'", "where", "brackets or quotes don't match"),
        ("where = 'name:\"a'", "where", "brackets or quotes don't match"),
        pytest.param("where = '\"" + r"\"" * 60_000 + "'", "where", "quotes don't match", id="none is read twice"),
        ("plugins = 1", "plugins", "expected a table, found int"),
        ("plugins.files = 'x'", "plugins.files", "expected a table, found str"),
        ("executors.eu = 'x'", "executors.eu", "expected a table, found str"),
        ("executors.eu.kind = 3", "executors.eu.kind", "expected a string, found int"),
        ("executors.eu.kind = ''", "executors.eu.kind", "must not be empty"),
        ("tools = 1", "tools", "expected a table, found int"),
        ("tools.'a*' = 'x'", "tools.a*", "expected a table, found str"),
        ("tools.a.executer = 'x'", "tools.a.executer", "unknown key. Did you mean 'executor'?"),
        ("tools.a.timeout = 3", "tools.a.timeout", "unknown key. There are executor, queue"),
        ("tools.a.executor = 3", "tools.a.executor", "executor must be the name of an executor"),
        ("tools.a.executor = ''", "tools.a.executor", "executor must be the name of an executor"),
        ("tools.a.sends = ['cart']", "tools.a.sends", "sends: 'cart' must be 'state', "),
        ("tools.a.queue = '..'", "tools.a.queue", "queue must be 1 to 64 of"),
    ],
)
def test_errors_name_the_file_and_the_key(text, key, words):
    with pytest.raises(ConfigError) as caught:
        parsed(text)
    assert caught.value.file == "pegboard.toml"
    assert caught.value.key == key
    assert words in str(caught.value)


PIECES = ["(", ")", '"', "'", "\\", "a", " or ", "name:", "x"]


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_a_predicate_cannot_reach_out_of_its_brackets(text):
    """An accepted text in brackets parses to one operand, the same as the text alone."""
    try:
        taken = parse_config(json.dumps(text).join(("where = ", "")).encode(), "f")["where"]
        alone = parse_predicate(taken, CUSTOM)
    except (ConfigError, ExpressionError):
        return
    assert parse_predicate(f"(read_only) and ({taken})", CUSTOM) == (parse_predicate("read_only") & alone)


@pytest.mark.parametrize(
    "text", [r'name:"x\" (" ) or ( name:"y\" ("', r"""name:"x\") or (name:"y" """, r"name:'x\') or (name:'y'"]
)
def test_a_quoted_quote_does_not_end_a_quote(text):
    """Each would turn `(read_only) and (...)` into an `or`."""
    with pytest.raises(ConfigError, match="brackets or quotes don't match"):
        parsed(f"where = {json.dumps(text)}")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\n\na = = 1", "at line 3"),
        (b"\n# \xff", "not UTF-8 (at line 2)"),
        (b"a = " + b"[" * 50_000, "nested too deep"),
    ],
)
def test_invalid_toml(content, words):
    with pytest.raises(ConfigError) as caught:
        parse_config(content, "/etc/x.toml")
    assert str(caught.value).startswith("/etc/x.toml: ")
    assert words in str(caught.value)


def test_a_missing_file_is_none_and_an_unreadable_one_an_error(tmp_path):
    (tmp_path / "file").touch()
    assert [read_config(str(tmp_path / name)) for name in ("no.toml", "file/no.toml")] == [None, None]
    with pytest.raises(ConfigError, match="can't be read: Is a directory"):
        read_config(str(tmp_path))


# Which project configurations the user has trusted -------------------------------------------------------------------


@pytest.fixture
def file(tmp_path):
    file = tmp_path / "pegboard.toml"
    file.write_bytes(b"enable = []")
    return file


def test_a_file_is_trusted_by_path_and_content(file, tmp_path):
    """The same words elsewhere aren't; a link is the file it leads to."""
    assert not is_trusted(file, b"enable = []")
    (tmp_path / "link.toml").symlink_to(file)
    digest = trust(tmp_path / "link.toml")
    assert is_trusted(file, b"enable = []")
    assert not is_trusted(file, b"enable = [] ")
    assert not is_trusted(tmp_path / "other.toml", b"enable = []")
    assert json.loads(trust_file().read_text()) == {"format": 1, "files": {str(file): digest}}
    assert stat.S_IMODE(trust_file().stat().st_mode) == 0o600
    assert stat.S_IMODE(trust_file().parent.stat().st_mode) == 0o700


def test_trust_of_one_file_is_revoked(file, tmp_path):
    other = tmp_path / "other.toml"
    other.touch()
    trust(other)
    trust(file)
    assert distrust(other)
    assert not is_trusted(other, b"")
    assert not distrust(other)
    assert is_trusted(file, b"enable = []")


def test_a_trust_file_that_others_can_write_is_ignored(file):
    trust(file)
    trust_file().chmod(0o666)
    assert not is_trusted(file, b"enable = []")


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": 9, "files": {}}', '{"format": 1}', "[" * 99_999])
def test_a_broken_trust_file_is_ignored_and_replaced(file, content):
    trust(file)
    trust_file().write_text(content)
    assert not is_trusted(file, b"enable = []")
    trust(file)
    assert is_trusted(file, b"enable = []")


def test_read_and_write_errors_of_trust(file, tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match="can't be trusted: No such file"):
        trust(tmp_path / "no.toml")
    trust(file)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pegboard.config.write_state", full)
    for decide, what in ((trust, "can't be trusted"), (distrust, "trust can't be revoked")):
        with pytest.raises(ConfigError, match=f"{what}: No space left"):
            decide(file)


# Secrets --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def keyring(tmp_path, monkeypatch):
    """A keyring of the test's own: (service, name) -> key."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return own_keyring(monkeypatch)


def test_references_are_resolved_at_any_depth(keyring, monkeypatch) -> None:
    monkeypatch.setenv("MY_KEY", "from env")
    keyring["pegboard", "mine"] = "from keyring"
    settings = {
        "a": {"env": "MY_KEY"},
        "deep": {"list": [{"keyring": "mine"}, 3], "b": {"env": "MY_KEY", "more": 1}, "c": {"env": 3}},
    }
    missing: list[str] = []
    assert with_secrets(settings, missing, []) == {
        "a": "from env",
        "deep": {"list": ["from keyring", 3], "b": {"env": "MY_KEY", "more": 1}, "c": {"env": 3}},
    }
    assert missing == []


def test_settings_with_missing_secrets_are_left_out_and_reported(keyring, monkeypatch) -> None:
    monkeypatch.delenv("NO_KEY", raising=False)
    missing: list[str] = []
    settings = {"a": {"env": "NO_KEY"}, "b": {"c": [{"keyring": "none"}]}, "d": 1}
    assert with_secrets(settings, missing, []) == {"b": {"c": []}, "d": 1}
    assert missing == [
        "setting 'a' is left out: the environment has no NO_KEY",
        "setting 'b.c[0]' is left out: run 'registry keys set none'",
    ]


def test_a_failing_keyring_affects_only_its_setting(keyring, monkeypatch) -> None:
    monkeypatch.setattr(sys.modules["keyring"], "get_password", lambda *_: 1 / 0)
    missing: list[str] = []
    assert with_secrets({"a": {"keyring": "x"}}, missing, []) == {}
    assert "setting 'a' is left out: keyring: get_password failed: ZeroDivisionError" in missing[0]


def test_a_missing_keyring_package_names_the_extra(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    missing: list[str] = []
    assert with_secrets({"a": {"keyring": "x"}}, missing, []) == {}
    assert "pip install 'pegboard[keyring]'" in missing[0]
    with pytest.raises(ConfigError, match="pip install"):
        set_key("x", "y")


def test_a_plugin_gets_secrets_and_missing_ones_are_reported(monkeypatch) -> None:
    class Plugin:
        @hookimpl
        def pegboard_register_tools(self, register, settings) -> None:
            register(tool(lambda: str(dict(settings)), name="show_settings", description="Its settings."))

    monkeypatch.setenv("MY_KEY", "from env")
    monkeypatch.delenv("NO_KEY", raising=False)
    registry = ToolRegistry()
    settings = {"a": {"env": "MY_KEY"}, "b": {"env": "NO_KEY"}}
    record = register_plugin(registry, Plugin, "mine", settings=settings)
    assert registry.call_sync("show_settings").text == "{'a': 'from env'}"
    assert (record.status, record.cause) == ("partial", "setting 'b' is left out: the environment has no NO_KEY")


def test_a_plugin_may_also_get_its_settings_as_they_are_in_the_file(monkeypatch) -> None:
    """So that it can refuse to work without a secret."""
    found = []

    class Plugin:
        def __init__(self, given, settings) -> None:
            found.append((dict(given), dict(settings)))

    monkeypatch.delenv("NO_KEY", raising=False)
    register_plugin(ToolRegistry(), Plugin, "mine", settings={"b": {"env": "NO_KEY"}})
    assert found == [({"b": {"env": "NO_KEY"}}, {})]


@pytest.mark.parametrize(
    ("settings", "shown"),
    [
        ({"api_key": "abc"}, {"api_key": HIDDEN}),
        ({"API-Token": 5, "passwd": ["x", "y"]}, {"API-Token": HIDDEN, "passwd": [HIDDEN, HIDDEN]}),
        ({"auth": {"user": "me", "on": True}}, {"auth": {"user": HIDDEN, "on": True}}),
        ({"list": ["sk-abc123", "skills"], "x": "Bearer eyJabcdefg"}, {"list": [HIDDEN, "skills"], "x": HIDDEN}),
        ({"url": "https://me:pw@example.org/"}, {"url": HIDDEN}),
        *(({name: "x"}, {name: HIDDEN}) for name in ("passphrase", "db_pass", "smtpPass", "passcode", "webhook")),
        *(
            ({"run": [text]}, {"run": [HIDDEN]})
            for text in (
                "passphrase=x",
                "Authorization: Bearer x",
                "curl -u me:pw h",
                "mysql -pX",
                "a?sig=x",
                "--token=x",
            )
        ),
        ({"run": ["--password", "x", "y"], "auth": ["x"]}, {"run": ["--password", HIDDEN, "y"], "auth": [HIDDEN]}),
        ({"text": "a token of thanks", "mode": "passive"}, {"text": "a token of thanks", "mode": "passive"}),
        ({"value": "0123456789abcdef0123456789abcdef"}, {"value": HIDDEN}),
        ({"api_key": {"env": "MY_KEY"}, "b": {"keyring": "x"}}, {"api_key": {"env": "MY_KEY"}, "b": {"keyring": "x"}}),
        ({"max_tokens": 100}, {"max_tokens": 100}),
        ({"root": "~/work", "n": 3, "on": False, "none": None}, {"root": "~/work", "n": 3, "on": False, "none": None}),
        ({"base_url": "http://127.0.0.1:8000/v1"}, {"base_url": "http://127.0.0.1:8000/v1"}),
    ],
)
def test_secrets_are_hidden_by_name_and_by_value(settings, shown) -> None:
    assert without_secrets(settings) == shown


def test_only_names_of_keys_are_stored_in_the_file(keyring, tmp_path) -> None:
    set_key("b", "secret")
    set_key("a", "secret")
    assert key_names() == ["a", "b"]
    file = tmp_path / "state" / "pegboard" / "keys.json"
    assert json.loads(file.read_text()) == {"format": 1, "names": ["a", "b"]}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [remove_key("a"), remove_key("a")] == [True, False]
    assert (key_names(), keyring) == (["b"], {("pegboard", "b"): "secret"})


def test_paths_in_settings_are_relative_to_their_file(tmp_path):
    file = tmp_path / "pegboard.toml"
    file.write_text('[plugins.a]\nb = ["./x", { c = "../y/./z" }]\nd = "x"\ne = ".x"\nroot = "."\n')
    settings = load_config(user=False, explicit=file).settings("a")
    assert settings == {
        "b": [str(tmp_path / "x"), {"c": str(tmp_path.parent / "y" / "z")}],
        "d": "x",
        "e": ".x",
        "root": ".",
    }


@pytest.mark.parametrize("mark", ["pegboard.toml", "sub/.git", "sub/deep/pegboard.toml"])
def test_a_file_of_a_project_binds_only_if_trusted(tmp_path, mark):
    file = tmp_path / "sub" / "deep" / "servers.json"
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    assert may_bind(file, b"{}")
    (tmp_path / mark).touch()
    (tmp_path / "link").symlink_to(file)
    assert not may_bind(file, b"{}")
    assert not may_bind(tmp_path / "link", b"{}")
    trust(file)
    assert may_bind(file, b"{}")
    assert not may_bind(file, b"{ }")
