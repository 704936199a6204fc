from __future__ import annotations

import pytest

from pegboard_openai.settings import Server, servers_from

URL = "http://127.0.0.1:8000/v1"


def test_servers_by_name():
    table = {"servers": {"a": {"base_url": URL}, "b": {"base_url": URL, "api_key_env": "B", "reasoning": "thought"}}}
    assert servers_from(table) == {
        "a": Server(base_url=URL),
        "b": Server(base_url=URL, api_key_env="B", reasoning="thought"),
    }
    assert servers_from({}) == {}


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"server": {}}, r"plugins.openai.server: there is no such setting. Did you mean 'servers'"),
        ({"zzz": 1}, r"plugins.openai.zzz: there is no such setting. Known are servers"),
        ({"servers": [1]}, r"plugins.openai.servers: \[1\] is no table"),
        ({"servers": {"a": 1}}, r"plugins.openai.servers.a: 1 is no table"),
        ({"servers": {"a/b": {"base_url": URL}}}, "SERVER/MODEL"),
        ({"servers": {"": {"base_url": URL}}}, "SERVER/MODEL"),
        ({"servers": {"a": {}}}, r"servers.a.base_url: an address is wanted"),
        ({"servers": {"a": {"base_url": "ftp://x"}}}, r"servers.a.base_url: an address is wanted"),
        ({"servers": {"a": {"base_url": 7}}}, r"servers.a.base_url: 7 is no text"),
        ({"servers": {"a": {"base_url": URL, "api_key_env": ""}}}, r"servers.a.api_key_env: '' is no text"),
        ({"servers": {"a": {"base_url": URL, "api_keys": "sk-1"}}}, r"api_keys: there is no such .* 'api_key'"),
        ({"servers": {"a": {"base_url": URL, "api_key": "sk-1", "api_key_env": "B"}}}, "api_key and api_key_env"),
    ],
)
def test_what_is_wrong_is_named(table, said):
    with pytest.raises(ValueError, match=said):
        servers_from(table)
