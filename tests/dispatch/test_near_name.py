from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from pegboard.dispatch.near_name import meant_name

names = st.from_regex(r"\A[a-z_][a-z0-9_-]{0,12}\Z")


@pytest.mark.parametrize(
    ("written", "tools", "meant"),
    [
        ("Read_File", ["read_file", "read"], "read_file"),
        ("ADD", ["add"], "add"),
        ("readFile", ["read_file"], "read_file"),
        ("read.file", ["read-file"], "read-file"),
        ("v1-2", ["v1_2"], "v1_2"),
        ("read_fil", ["read_file", "write_file"], "read_file"),
        ("read_filee", ["read_file"], "read_file"),
        ("raed_file", ["read_file"], "read_file"),
        ("read_file", ["read_files"], "read_files"),
        ("search_wbe", ["search_web"], "search_web"),
    ],
)
def test_a_slip_has_one_meaning(written, tools, meant):
    assert meant_name(written, tools) == meant


@pytest.mark.parametrize(
    ("written", "tools"),
    [
        ("and", ["add"]),
        ("adn", ["and"]),
        ("get_user", ["set_user"]),
        ("lock_door", ["block_door"]),
        ("charge_card", ["change_card"]),
        ("page_1", ["page_12"]),
        ("page_21", ["page_12"]),
        ("version_1", ["version_2"]),
        ("v1_2", ["v12"]),
        ("read_fl", ["read_file"]),
        ("READ", ["read", "Read"]),
        ("readfile", ["read_file", "read-file"]),
        ("read_fils", ["read_files", "read_file"]),
        ("read_file", ["raed_file", "read_flie"]),
        ("", ["_"]),
        ("___", ["_"]),
        ("\u212aill_it", ["kill_it"]),
        ("read_file" * 100, ["read_file"]),
        ("nothing_like_it", ["read_file"]),
        ("anything", []),
    ],
)
def test_what_could_be_another_word_means_nothing(written, tools):
    assert meant_name(written, tools) is None


@given(names, st.lists(names, unique=True, max_size=6))
def test_the_order_of_the_tools_does_not_matter(written, tools):
    meant = meant_name(written, tools)
    assert meant is None or meant in tools
    assert meant == meant_name(written, tools[::-1])


@given(names, st.lists(names, unique=True, max_size=6))
def test_more_tools_never_change_what_is_meant_to_something_else_but_the_nearer(written, tools):
    """A second name that is as near makes it unsure."""
    meant = meant_name(written, tools)
    if meant is not None:
        assert meant_name(written, [*tools, meant.swapcase() + "_"]) in (meant, None)
