from __future__ import annotations

import pytest

from pegboard import Config, Origin, ToolRegistry, register_plugin, tool, tool_of
from pegboard.json import digest_of
from pegboard_lock import (
    Comparison,
    Lock,
    LockError,
    LockPlugin,
    Present,
    accept_toolset,
    lock_of,
    pins_of,
    read_lock,
    write_lock,
)

ORIGIN = Origin("mcp", "pegboard-nowhere", toolset="web", trusted=False)


@tool
def fetch(url: str) -> str:
    "Fetch a page."
    return url


FETCH = tool_of(fetch).evolve(origin=ORIGIN)


def _check_by_lock(config):
    """A configuration of a registry that checks its tools by a lock."""
    registry = ToolRegistry()
    registry.contributions.config = config
    register_plugin(registry, LockPlugin, "lock")
    registry.contributions.is_checked()
    return config


@pytest.fixture
def config(tmp_path):
    return _check_by_lock(Config(lock={"file": str(tmp_path / "pegboard.lock")}))


def test_a_toolset_is_locked_as_it_was_accepted_and_its_pins_are_known(config, tmp_path):
    file = tmp_path / "pegboard.lock"
    assert accept_toolset(config, "web", {"url": "x"}, [FETCH]) is None, "there is no lock"
    assert pins_of(config, "web", {"url": "x"}) is None
    write_lock(file, Lock(), whole=True)
    assert pins_of(config, "web", {"url": "x"}) is None
    assert accept_toolset(config, "web", {"url": "x"}, [FETCH]) == file
    assert pins_of(config, "web", {"url": "x"}) == {"fetch": FETCH.spec.digest}
    assert accept_toolset(config, "web", {"url": "x"}, [FETCH]) is None, "nothing has changed"
    lock = read_lock(file)[0]
    assert lock.toolsets == {"web": {"identity": digest_of({"url": "x"})}}
    assert lock.distributions == {"pegboard-nowhere": {"version": None, "code": None}}


def test_nothing_is_accepted_of_a_server_of_another_identity(config, tmp_path):
    write_lock(tmp_path / "pegboard.lock", Lock(), whole=True)
    accept_toolset(config, "web", {"url": "x"}, [FETCH])
    assert pins_of(config, "web", {"url": "x"})
    for other in ({"url": "y"}, None, {"url": "x", "code": []}, {"code": ["x"]}):
        assert bool(pins_of(config, "web", other)) is (other is not None and other.get("url") == "x")
        assert pins_of(config, "web", other) is not None, "the lock names it"


def test_nothing_is_accepted_by_a_lock_that_no_registry_is_checked_by(config, tmp_path):
    write_lock(tmp_path / "pegboard.lock", Lock(), whole=True)
    accept_toolset(config, "web", None, [FETCH])
    assert pins_of(config, "web", None)
    assert pins_of(Config(lock=dict(config.lock)), "web", None) is None


def test_tools_of_other_toolsets_stay_and_its_own_former_ones_go(config, tmp_path):
    write_lock(tmp_path / "pegboard.lock", Lock(), whole=True)
    other = FETCH.evolve(origin=Origin("mcp", toolset="mail")).with_spec(name="send")
    accept_toolset(config, "mail", None, [other])
    accept_toolset(config, "web", None, [FETCH])
    accept_toolset(config, "web", None, [FETCH.with_spec(name="fetch_page")])
    assert set(read_lock(tmp_path / "pegboard.lock")[0].tools) == {"send", "fetch_page"}


def test_what_is_accepted_of_transformed_tools_is_what_their_toolset_lists(config, tmp_path):
    file, short = tmp_path / "pegboard.lock", FETCH.with_spec(name="get")
    present = Present([short], {"web": None}, frozenset({"web"}), definitions={"web": {"fetch": "sha256:1"}})
    write_lock(file, lock_of(Comparison(Lock(), tmp_path), present), whole=True)
    assert pins_of(config, "web", None) == {"fetch": "sha256:1"}
    assert accept_toolset(config, "web", None, [FETCH]) == file
    assert pins_of(config, "web", None) == {"fetch": FETCH.spec.digest}
    assert set(read_lock(file)[0].tools) == {"get"}


def test_a_tool_that_is_locked_as_anothers_isnt_replaced(config, tmp_path):
    write_lock(tmp_path / "pegboard.lock", Lock(), whole=True)
    accept_toolset(config, "mail", None, [FETCH.evolve(origin=Origin("mcp", toolset="mail"))])
    with pytest.raises(LockError, match="tool 'fetch' is locked as one of mail"):
        accept_toolset(config, "web", None, [FETCH])


def test_a_lock_that_isnt_trusted_or_is_damaged_pins_nothing(config, tmp_path):
    file = tmp_path / "pegboard.lock"
    write_lock(file, Lock(), whole=True)
    accept_toolset(config, "web", None, [FETCH])
    (tmp_path / "pegboard.toml").touch()
    file.write_text(file.read_text() + "\n")
    assert pins_of(config, "web", None) is None
    file.write_text("{}")
    assert pins_of(config, "web", None) is None
    with pytest.raises(LockError, match="its format None"):
        accept_toolset(config, "web", None, [FETCH])


def test_wrong_settings_pin_nothing():
    assert pins_of(_check_by_lock(Config(lock={"files": 3})), "web", None) is None


def test_few_locks_are_remembered(tmp_path):
    for number in range(40):
        assert pins_of(_check_by_lock(Config(lock={"file": str(tmp_path / f"{number}.lock")})), "web", None) is None
