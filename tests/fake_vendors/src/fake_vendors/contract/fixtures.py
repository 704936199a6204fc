"""The fixtures of the contract; a vendor's `conftest.py` imports them and adds `vendor`."""

from __future__ import annotations

import os

import pytest

from fake_vendors.contract.vendor import Way, book, clock, photo, weather
from pegboard import ToolRegistry

__all__ = ["around", "pytest_collection_modifyitems", "registry", "streaming", "way", "whole"]


def pytest_collection_modifyitems(config, items):
    """Deselects tests of features that a vendor lacks (`needs`)."""
    absent = [item for item in items if _lacks(item)]
    if absent:
        config.hook.pytest_deselected(items=absent)
        items[:] = [item for item in items if item not in absent]


def _lacks(item):
    feature = getattr(getattr(item, "function", None), "needs", None)
    vendor = item.callspec.params.get("vendor") if feature and hasattr(item, "callspec") else None
    return vendor is not None and not getattr(vendor, feature)


@pytest.fixture
def registry():
    """A registry with a tool that answers, one that fails, one that returns a picture, and a strict one."""
    made = ToolRegistry()
    made.register(weather, clock, photo, book)
    return made


@pytest.fixture(autouse=True)
def around(request, monkeypatch, tmp_path):
    """Isolates the test from the machine's settings, and makes turns retry without a pause of their own."""
    monkeypatch.setattr("pegboard.dispatch.run.FIRST_PAUSE", 0.0)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))  # no SDK reads the system's certificates, at each start
    prefixes = request.getfixturevalue("vendor").variables if "vendor" in request.fixturenames else ()
    for name in [name for name in os.environ if prefixes and name.startswith(prefixes)]:
        monkeypatch.delenv(name)
    if "AWS_" in prefixes:
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def way(request, vendor):
    """The vendor's model, whole and streamed."""
    return Way(vendor, request.param)


@pytest.fixture
def whole(vendor):
    """The vendor's model, whole."""
    return Way(vendor, streamed=False)


@pytest.fixture
def streaming(vendor):
    """The vendor's model, streamed."""
    return Way(vendor, streamed=True)
