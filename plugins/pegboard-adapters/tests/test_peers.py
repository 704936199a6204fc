"""Versions of the frameworks."""

from __future__ import annotations

import importlib
import re
import tomllib
from pathlib import Path

import importlib_metadata
import pytest

from pegboard_adapters.peers import PEERS, PeerError, check_peer

PACKAGE = Path(__file__).parent.parent


@pytest.fixture(autouse=True)
def forget() -> None:
    """Checks each framework anew."""
    check_peer.cache_clear()


def install(monkeypatch: pytest.MonkeyPatch, version: str | None) -> None:
    def found(distribution: str) -> str:
        if version is None:
            raise importlib_metadata.PackageNotFoundError(distribution)
        return version

    monkeypatch.setattr(importlib_metadata, "version", found)


@pytest.mark.parametrize("extra", PEERS)
def test_a_missing_framework_says_what_to_install(monkeypatch: pytest.MonkeyPatch, extra: str) -> None:
    install(monkeypatch, None)
    distribution, oldest = PEERS[extra]
    with pytest.raises(PeerError) as raised:
        check_peer(extra)
    assert f"{distribution} {oldest} or newer" in str(raised.value)
    assert f"pip install 'pegboard-adapters[{extra}]'" in str(raised.value)


@pytest.mark.parametrize("extra", PEERS)
def test_the_module_of_a_missing_framework_says_so(monkeypatch: pytest.MonkeyPatch, extra: str) -> None:
    install(monkeypatch, None)
    module = f"pegboard_adapters.{extra.replace('-', '_')}"
    with pytest.raises(PeerError, match=rf"^{re.escape(module)} needs "):
        importlib.import_module(module)


def test_a_framework_that_is_too_old_says_which_version_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, "0.9.1")
    with pytest.raises(PeerError) as raised:
        check_peer("langchain")
    assert re.search(r"needs langchain-core [\d.]+ or newer; 0\.9\.1 is installed", str(raised.value))
    assert str(raised.value).endswith("pip install 'pegboard-adapters[langchain]' --upgrade")


@pytest.mark.parametrize("version", ["{oldest}", "{oldest}.post1", "999"])
def test_the_oldest_version_and_newer_ones_work(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    install(monkeypatch, version.format(oldest=PEERS["langchain"][1]))
    check_peer("langchain")


def test_each_framework_has_an_extra_with_the_same_version_and_a_row_of_tests() -> None:
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["optional-dependencies"] == {
        extra: [f"{distribution}>={oldest}"] for extra, (distribution, oldest) in PEERS.items()
    }
    rows = tomllib.loads((PACKAGE / "tests" / "neighbours" / "peers.toml").read_text("utf-8"))
    assert {row["extra"] for row in rows.values() if "extra" in row} == PEERS.keys()
