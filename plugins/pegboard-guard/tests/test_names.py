from __future__ import annotations

from pegboard_guard import names
from pegboard_guard.names import Names, listed


def test_a_name_matches_one_of_the_patterns():
    tools = Names(["web_*", "mai?"])
    assert [name in tools for name in ("web_read", "web_", "mail", "mails", "web", "mail")] == [
        *(True, True, True, False, False),
        True,
    ]


def test_what_is_remembered_is_bounded(monkeypatch):
    monkeypatch.setattr(names, "_MOST_KNOWN", 3)
    tools = Names(["a*"])
    assert [f"a{number}" in tools for number in range(10)] == [True] * 10
    assert len(tools._known) <= 3
    assert "a" * 1000 in tools
    assert "a" * 1000 not in tools._known


def test_a_list_reads_as_one_says_it():
    assert (listed("a"), listed("ab"), listed("abc", "and")) == ("a", "a or b", "a, b and c")
    assert str(Names(["a", "b"])) == "a or b"
