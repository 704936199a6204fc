"""`entry_points.txt`: the plugins that a distribution names."""

from __future__ import annotations

import importlib.metadata

import pytest
from hypothesis import given, strategies as st

from pegboard.plugins.entry_points import EntryPoint, parse_entry_points


def test_the_group_is_read_and_no_other():
    text = """
    [console_scripts]
    registry = pegboard.__main__:main

    [pegboard]
    # a comment
    files = pegboard_files
    guard=guard.plugins : Guard.make [fast, small]
    ; another

    [pegboard.more]
    other = other
    """
    points, faults = parse_entry_points(text)
    assert points == [
        EntryPoint("files", "pegboard_files", None),
        EntryPoint("guard", "guard.plugins", "Guard.make"),
    ]
    assert faults == []


@pytest.mark.parametrize("text", ["", "[other]\na = b", "a = b", "[pegboard"])
def test_no_group_no_plugins(text):
    assert parse_entry_points(text) == ([], [])


@pytest.mark.parametrize(
    ("line", "name", "words"),
    [
        ("nonsense", "", "entry point 'nonsense' isn't 'name = module:attribute'"),
        ("= module", "", "isn't 'name = module:attribute'"),
        ("a =", "a", "names '', which isn't 'module' or 'module:attribute'"),
        ("a = not a module", "a", "entry point 'a' names 'not a module'"),
        ("a = ../x", "a", "names '../x'"),
        ("a = module:", "a", "names 'module:'"),
        ("a = module:x y", "a", "names 'module:x y'"),
        ("a = module:x:y", "a", "names 'module:x:y'"),
        ("a = .module", "a", "names '.module'"),
        ("good = other", "good", "entry point 'good' stands twice; the first counts"),
    ],
)
def test_a_wrong_line_costs_only_itself(line, name, words):
    points, faults = parse_entry_points(f"[pegboard]\ngood = module\n{line}\nlast = module")
    assert [point.name for point in points] == ["good", "last"]
    assert [(whose, words in cause) for whose, cause in faults] == [(name, True)]


names = st.from_regex(r"[A-Za-z_][\w.-]{0,8}", fullmatch=True)
dotted = st.lists(st.from_regex(r"[a-z_][a-z0-9_]{0,5}", fullmatch=True), min_size=1, max_size=3).map(".".join)


@given(st.dictionaries(names, st.tuples(dotted, st.none() | dotted), max_size=4))
def test_it_reads_what_importlib_metadata_reads(points):
    lines = [f"{name} = {module}{f':{attribute}' if attribute else ''}" for name, (module, attribute) in points.items()]
    text = "\n".join(("[other]", "a = b", "[pegboard]", *lines))
    standard = importlib.metadata.EntryPoints._from_text_for(text, None).select(group="pegboard")
    ours, faults = parse_entry_points(text)
    assert faults == []
    assert [(point.name, point.module, point.attribute) for point in ours] == [
        (point.name, point.module, point.attr) for point in standard
    ]
