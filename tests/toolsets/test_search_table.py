"""The tokenizer of identifiers and queries."""

from __future__ import annotations

import pytest

from pegboard.toolsets.search_table import (
    MOST_TEXT,
    MOST_WORDS,
    identifier_parts,
    match_expression,
    query_words,
    space_ideographs,
)


@pytest.mark.parametrize(
    ("identifier", "parts"),
    [
        ("read_file", ["read", "file"]),
        ("list-all", ["list", "all"]),
        ("getUser", ["get", "user"]),
        ("HTTPServer", ["http", "server"]),
        ("getURLs2", ["get", "urls", "2"]),
        ("parseURL", ["parse", "url"]),
        ("v2api", ["v", "2", "api"]),
        ("007", ["007"]),
        ("Größe", ["größe"]),
        ("__", []),
    ],
)
def test_names_are_split_at_signs_capitals_and_digits(identifier, parts):
    assert identifier_parts(identifier) == parts


def test_ideographs_are_separate_words():
    assert space_ideographs("plain") == "plain"
    assert space_ideographs("天气 for über") == " 天  气  for über"


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("Read a file, please!", ["read", "file"]),
        ("how to do it", ["how", "to", "do", "it"]),
        ("getUser getuser", ["getuser", "get", "user"]),
        ("city's", ["city"]),
        ("天气abc", ["天气", "abc"]),
        ('" * -NEAR( \x00 \ud800', ["near"]),
        ("", []),
    ],
)
def test_the_words_of_a_query(question, words):
    assert query_words(question) == words


def test_queries_are_bounded():
    assert len(query_words(" ".join(f"w{'x' * n}" for n in range(60)))) == MOST_WORDS
    assert query_words("x" * MOST_TEXT + " more") == ["x" * MOST_TEXT]


@pytest.mark.parametrize(
    ("word", "written"),
    [
        ("store", '"store"*'),
        ("x", '"x"'),
        ("größen", '"größen"*'),
        ("天", '"天"'),
        ("天气预", '"天 气" OR "气 预"'),
    ],
)
def test_words_in_the_language_of_fts5(word, written):
    assert match_expression(word) == written
