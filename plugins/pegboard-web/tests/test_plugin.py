"""The plugin: settings, what it registers, what `registry doctor` says, and listing it without an import."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from pegboard.errors import PluginError
from pegboard.testing import plugin_registry
from pegboard_web.plugin import Plugin
from pegboard_web.settings import read_settings


def tools(**settings):
    registry = plugin_registry("web", settings={"web": settings})
    return [tool.name for tool in asyncio.run(registry.resolve())]


def findings(**settings):
    found = []
    Plugin(settings).pegboard_diagnose(lambda cause, fix: found.append((cause, fix)))
    return found


def test_search_is_offered_with_a_backend():
    assert tools() == ["web_fetch"]
    assert tools(search={"backend": "brave"}) == ["web_fetch"]
    assert tools(search={"backend": "searxng"}) == ["web_fetch"]
    assert tools(search={"backend": "searxng", "url": "http://localhost:8888"}) == ["web_fetch", "web_search"]
    assert tools(search={"backend": "tavily", "key": "k"}) == ["web_fetch", "web_search"]


def test_doctor_says_why_search_isnt_offered():
    ((cause, fix),) = findings()
    assert cause.startswith("web_search isn't offered: no search backend is set (plugins.web.search.backend can be")
    assert fix is None, "nothing is wrong"
    assert findings(search={"backend": "brave", "key": "k"}) == []
    assert findings(search={"backend": "brave"})[0][0] == "web_search isn't offered: brave needs a key."
    assert "keyring" in findings(search={"backend": "brave"})[0][1]
    assert findings(search={"backend": "searxng"})[0][0] == "web_search isn't offered: searxng needs a url."


@pytest.mark.parametrize(("backend", "key"), [("brave", "key"), ("searxng", "url")])
def test_doctor_names_the_secret_that_is_missing(monkeypatch, backend, key):
    monkeypatch.delenv("THE_SECRET", raising=False)
    found = []
    given = {"search": {"backend": backend, key: {"env": "THE_SECRET"}}}
    Plugin({"search": {"backend": backend}}, given).pegboard_diagnose(lambda *each: found.append(each))
    assert found[0][0] == (
        f"web_search isn't offered: {backend} needs a {key}: setting 'plugins.web.search.{key}' is left out: "
        "the environment has no THE_SECRET."
    )


@pytest.mark.parametrize("place", ["proxy", "search"])
def test_without_its_proxy_nothing_is_fetched(monkeypatch, place):
    """Where the proxy is a variable that isn't set, as everything would be fetched directly."""
    monkeypatch.delenv("THE_PROXY", raising=False)
    proxy = {"proxy": {"env": "THE_PROXY"}}
    settings = proxy if place == "proxy" else {"search": {"backend": "brave", "key": "k", **proxy}}
    with pytest.raises(PluginError, match=r"proxy' is left out: the environment has no THE_PROXY\. Nothing is fetched"):
        tools(**settings)
    monkeypatch.setenv("THE_PROXY", "http://localhost:3128")
    assert "web_fetch" in tools(**settings)


def test_settings_are_read():
    settings = read_settings({"allow": ["10.1.0.0/16", "::1"], "timeout": 3, "search": {"backend": "brave"}})
    assert [str(network) for network in settings.networks] == ["10.1.0.0/16", "::1/128"]
    assert settings.timeout == 3.0
    assert "secret" not in repr(
        read_settings({"proxy": "http://a:secret@b", "search": {"backend": "brave", "key": "secret"}})
    )


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"timeout": 0}, "plugins.web.timeout"),
        ({"timeout": 601}, "plugins.web.timeout"),
        ({"most_bytes": 0}, "plugins.web.most_bytes"),
        ({"cache_seconds": -1}, "plugins.web.cache_seconds"),
        ({"allow": ["intranet"]}, "plugins.web.allow"),
        ({"allow": "10.0.0.0/8"}, "plugins.web.allow"),
        ({"proxy": "localhost:3128"}, "plugins.web.proxy"),
        ({"alow": []}, "Did you mean 'allow'"),
        ({"search": {}}, "plugins.web.search"),
        ({"search": False}, "plugins.web.search"),
        ({"search": {"backend": "bing"}}, "plugins.web.search"),
        ({"search": {"backend": "brave", "keys": "k"}}, "plugins.web.search"),
    ],
)
def test_wrong_settings_are_named(settings, reason):
    with pytest.raises(ValueError, match=reason):
        read_settings(settings)


@pytest.mark.slow
def test_listing_imports_nothing_of_it():
    code = (
        "import sys\n"
        "from pegboard.__main__ import run\n"
        "sys.argv = ['registry', 'list', '--plugin', 'web']\n"
        "try:\n    run()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        "assert not [name for name in sys.modules if name.startswith(('pegboard_web', 'httpx2', 'bs4', 'lxml'))]\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.split()[0]) == (0, "web_fetch"), done.stderr


@pytest.mark.slow
def test_loading_it_imports_no_heavy_library():
    code = (
        "import asyncio, sys\n"
        "from pegboard.testing import plugin_registry\n"
        "settings = {'search': {'backend': 'brave', 'key': 'k'}}\n"
        "asyncio.run(plugin_registry('web', settings={'web': settings}).resolve())\n"
        "assert 'pegboard_web.tools' in sys.modules\n"
        "assert not {'bs4', 'lxml', 'markdownify', 'httpx2'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
