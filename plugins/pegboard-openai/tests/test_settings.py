from __future__ import annotations

import pytest

from pegboard import ToolSpec
from pegboard_openai._openai import DIALECTS
from pegboard_openai.client import server_exporter
from pegboard_openai.settings import Server, servers_from

URL = "http://127.0.0.1:8000/v1"


def test_servers_by_name():
    table = {"servers": {"a": {"base_url": URL}, "b": {"base_url": URL, "api_key_env": "B", "dialect": "moonshot"}}}
    assert servers_from(table) == {
        "a": Server(base_url=URL),
        "b": Server(base_url=URL, api_key_env="B", dialect="moonshot"),
    }
    assert servers_from({}) == {}


@pytest.mark.parametrize("name", DIALECTS)
def test_a_server_gets_schemas_in_its_dialect(name):
    spec = ToolSpec("f", input_schema={"type": "object", "properties": {"a": {"type": ["string", "null"]}}})
    written = server_exporter(dialect=name).tools([spec]).entries[0]["function"]["parameters"]
    of_moonshot = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    assert written["properties"] == {"a": of_moonshot if name == "moonshot" else {"type": ["string", "null"]}}
    assert servers_from({"servers": {"a": {"base_url": URL, "dialect": name}}})["a"].dialect == name


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"server": {}}, r"plugins.openai.server: unknown key. Did you mean 'servers'"),
        ({"zzz": 1}, r"plugins.openai.zzz: unknown key. There are servers"),
        ({"servers": [1]}, r"plugins.openai.servers: must be a table of servers, got list"),
        ({"servers": {"a": 1}}, r"plugins.openai.servers.a: must be a table, got int"),
        ({"servers": {"a/b": {"base_url": URL}}}, "SERVER/MODEL"),
        ({"servers": {"": {"base_url": URL}}}, "SERVER/MODEL"),
        ({"servers": {"a": {}}}, r"servers.a.base_url: missing"),
        ({"servers": {"a": {"base_url": "ftp://x"}}}, r"servers.a.base_url: must be an address"),
        ({"servers": {"a": {"base_url": 7}}}, r"servers.a.base_url: must be a string, got int"),
        (
            {"servers": {"a": {"base_url": URL, "api_key_env": ""}}},
            "servers.a.api_key_env: must be a non-empty string",
        ),
        (
            {"servers": {"a": {"base_url": URL, "dialect": "kimi"}}},
            "must be one of openai, moonshot, simple, got 'kimi'",
        ),
        ({"servers": {"a": {"base_url": URL, "api_keys": "sk-1"}}}, r"api_keys: unknown key.* 'api_key'"),
        ({"servers": {"a": {"base_url": URL, "api_key": "sk-1", "api_key_env": "B"}}}, "api_key and api_key_env"),
    ],
)
def test_what_is_wrong_is_named(table, said):
    with pytest.raises(ValueError, match=said):
        servers_from(table)
