"""Front matters: what is accepted, and what the errors say."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st

from pegboard_skills.front_matter import MOST_FRONT, SkillError, read_front_matter, split_text

LEAST = "name: pdf\ndescription: Reads PDFs."


def front(text, folder="pdf"):
    return read_front_matter(text, folder)


def problems(text, folder="pdf"):
    with pytest.raises(SkillError) as caught:
        front(text, folder)
    return caught.value.problems


@pytest.mark.parametrize("head", ["---\n{}\n---\n", "---\r\n{}\r\n---\r\n", "\ufeff--- \n{}\n---\t\n\n"])
def test_front_matter_and_text_are_split(head):
    """Line ends of Windows, a mark of the byte order and blanks after the dashes don't matter."""
    text = f"{head}Do it.\r\n---\n".format(LEAST).encode()
    assert split_text(text) == (LEAST, "Do it.\n---")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "its first line has to be ---"),
        (b"Do it.", "its first line has to be ---"),
        (b"---\nname: x\n", "there is no second line ---"),
        (b"---\nname: x\n---\n\xff", "isn't UTF-8 text (line 4)"),
    ],
)
def test_a_file_without_front_matter_is_refused(content, problem):
    """The error says what is missing, and where."""
    with pytest.raises(SkillError, match=re.escape(problem)):
        split_text(content)


def test_all_keys_are_read():
    """Every value is a text; unknown keys are kept."""
    read = front(f"{LEAST}\nlicense: MIT\ncompatibility: Python\nmetadata: {{version: 1.0, on: yes}}\nmodel: [a, 1]")
    assert read.to_json() == {
        "name": "pdf",
        "description": "Reads PDFs.",
        "license": "MIT",
        "compatibility": "Python",
        "metadata": {"version": "1.0", "on": "yes"},
        "other": {"model": ["a", "1"]},
    }


@pytest.mark.parametrize(
    ("written", "tools"),
    [
        ("Bash(git add:*)  Read", "Bash(git add:*) Read"),
        ("[Read, Bash(git:*)]", "Read Bash(git:*)"),
        ("[]", ""),
    ],
)
def test_allowed_tools_are_a_text_or_a_list(written, tools):
    """They are only shown, so their text is enough."""
    assert front(f"{LEAST}\nallowed-tools: {written}").allowed_tools == tools


@given(st.from_regex(r"\A[a-z0-9-]{1,66}\Z"))
def test_a_name_is_of_letters_and_single_dashes(name):
    """1 to 64 characters; no dash at the ends, or two in a row."""
    valid = len(name) <= 64 and not name.startswith("-") and not name.endswith("-") and "--" not in name
    try:
        assert front(f"name: '{name}'\ndescription: x", name).name == name
    except SkillError:
        assert not valid
    else:
        assert valid


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ["the front matter isn't a mapping of keys to values"]),
        ("- a", ["the front matter isn't a mapping of keys to values"]),
        ("{}", ["name: it is missing", "description: it is missing"]),
        ("name: pdf\ndescription: ' '", ["description: has to be a text of 1 to 1,024 characters"]),
        ("name: [a]\ndescription: x", ["name: has to be a text of 1 to 64 characters"]),
        ("name: doc\ndescription: x", ["name: 'doc' isn't the name of its folder, 'pdf'"]),
        ("name: Pdf\ndescription: x", ["name: 'Pdf' may only have a-z, 0-9 and single '-' between them"]),
        (f"name: pdf\ndescription: {'x' * 1025}", ["description: has 1,025 characters; the maximum is 1,024"]),
        (f"{LEAST}\ncompatibility: {'x' * 501}", ["compatibility: has 501 characters; the maximum is 500"]),
        (f"{LEAST}\nlicense: []", ["license: has to be a text of 1 to 1,000 characters"]),
        (f"{LEAST}\nmetadata: x", ["metadata: has to be a mapping of texts"]),
        (f"{LEAST}\nmetadata: {{a: {{b: c}}}}", ["metadata: has to be a mapping of texts"]),
        (f"{LEAST}\nallowed-tools: {{a: b}}", ["allowed-tools: has to be a text or a list of texts"]),
        (f"{LEAST}\nname: pdf", ["the front matter has the key 'name' twice"]),
        ("a: &x [1]\nb: *x", ["the front matter has an alias (*); write the value out"]),
        ("a: [", ["the front matter isn't YAML: expected the node content, but found '<stream end>' (line 2)"]),
        ("a: b\nc", ["the front matter isn't YAML: could not find expected ':' (line 3)"]),
        (
            "a: \x00",
            ["the front matter isn't YAML: unacceptable character #x0000: special characters are not allowed in"],
        ),
        ("? [a]\n: b", ["the front matter isn't YAML: found unhashable key (line 2)"]),
        ('a: "\\U00110000"', ["the front matter isn't YAML: chr() arg not in range(0x110000)"]),
        ('a: "\\UFFFFFFFF"', ["the front matter isn't YAML: "]),
        ("[" * 50, ["the front matter is nested too deep"]),
        ("- " * 22, ["the front matter is nested too deep"]),
        ("? " * 4_000, ["the front matter is nested too deep"]),
        ("a" * (MOST_FRONT + 1), ["the front matter has 10,001 characters; the maximum is 10,000"]),
        ("name: !!python/object/apply:os.abort []\ndescription: x", ["name: has to be a text of 1 to 64 characters"]),
    ],
)
def test_what_is_wrong_is_said(text, expected):
    """All problems of one front matter together; no tag is followed."""
    found = problems(text)
    assert len(found) == len(expected)
    assert all(each.startswith(start) for each, start in zip(found, expected, strict=True)), found
