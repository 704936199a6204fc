"""What a model sees of skills: in its instructions, and by the tools."""

from __future__ import annotations

import asyncio
import re

import pytest
from hypothesis import given, strategies as st

from pegboard import (
    FileContent,
    ImageContent,
    ModelRequest,
    Permissions,
    Rule,
    Tool,
    ToolCall,
    ToolRegistry,
    register_plugin,
)
from pegboard.testing import check_plugin
from pegboard.text import escape_hidden
from pegboard_skills import FrontMatter, Skill, SkillSources, SkillTools
from pegboard_skills.plugin import Skills
from pegboard_skills.tools import describe

SCHEMA = {"type": "object"}
LINE = "Do it. " * 10 + "\n"


def make_registry(*folders, **settings):
    registry = ToolRegistry()
    record = register_plugin(
        registry, Skills, "skills", settings={"folders": [*map(str, folders)], "packages": [], **settings}
    )
    assert (record.status, record.cause) == ("loaded", None)
    return registry


def process(registry):
    return asyncio.run(registry.process(ModelRequest("hello")))


def call(registry, tool, **arguments):
    return registry.call_sync(tool, arguments)


def skills_of(**descriptions):
    return {name: Skill(FrontMatter(name, text), None) for name, text in descriptions.items()}


@pytest.mark.slow
def test_the_package_is_well_made():
    """By the manifest, too."""
    check_plugin("skills")


def test_a_request_lists_the_skills(tmp_path, write_skill):
    """Names and descriptions, each on one line, with hidden characters shown."""
    write_skill("b", 'name: b\ndescription: "Two\\u200b\\n- c: lines."')
    write_skill("a")
    request = process(make_registry(tmp_path / "skills"))
    assert request.system.endswith("Skills:\n- a: Works on a.\n- b: Two\\u{200b} - c: lines.")
    assert request.tools.names == ("load_skill", "read_skill_file")


def test_problems_are_for_the_operator(tmp_path, write_skill):
    """The model isn't told of them."""
    write_skill("a")
    write_skill("Bad")
    request = process(make_registry(tmp_path / "skills"))
    assert "Bad" not in request.system
    assert "'Bad' may only have" in str(request.problems[0])


def test_without_skills_the_tools_are_gone(tmp_path):
    """And the request says nothing about skills."""
    request = process(make_registry())
    assert (request.tools.names, request.system) == ((), "")
    assert "there are no skills" in str(request.tools.explain("load_skill"))
    assert SkillTools(SkillSources([], [])).announce_skills(ModelRequest("x")) == ModelRequest("x")


def test_without_its_tool_a_request_lists_no_skills(tmp_path, write_skill):
    """Where a predicate has removed it."""
    write_skill("a")
    registry = make_registry(tmp_path / "skills")
    tools = asyncio.run(registry.resolve(where="not name:load_skill"))
    assert asyncio.run(registry.process(ModelRequest("x", tools=tools))).system == ""


def test_a_skill_is_loaded(write_skill):
    """Its text, what it needs, and its files; hidden characters are shown."""
    front = "name: a\ndescription: x\ncompatibility: |\n  uv\n  git\nallowed-tools: Bash(git:*)"
    folder = write_skill("a", front, "Do\u202e it.\n", run_sh="exit", notes_md="Notes.\u200b")
    registry = make_registry(folder)
    result = call(registry, "load_skill", name="a")
    assert result.text == (
        "Do\\u{202e} it.\n\n---\n"
        "The skill needs: uv git\n"
        "The skill is written for these tools, but allows none by itself: Bash(git:*)\n"
        "Files of the skill 'a', for read_skill_file:\n- notes.md (9 bytes)\n- run.sh (4 bytes)"
    )
    assert (result.title, result.metadata) == ("Skill a", {"skill": "a"})
    assert call(registry, "read_skill_file", name="a", path="notes.md").text == "Notes.\\u{200b}"


def test_a_skill_may_have_nothing_else(write_skill):
    """Then only its text is the result."""
    registry = make_registry(write_skill("a"), write_skill("b", text=""))
    assert call(registry, "load_skill", name="a").text == "Do it."
    assert call(registry, "load_skill", name="b").text == "The skill has no text."


def test_an_empty_file_is_said_to_be_empty(write_skill):
    """An empty text could be taken for a failure."""
    registry = make_registry(write_skill("a", notes_md=""))
    assert call(registry, "read_skill_file", name="a", path="notes.md").text == "The file is empty."


@pytest.mark.parametrize(
    ("content", "kind"),
    [(b"\x89PNG\r\n\x1a\n\0", "image/png"), (b"\xff\xd8\xff\xe0\0", "image/jpeg"), (b"GIF89a\1\0\1\0", "image/gif")],
)
def test_an_image_is_shown(write_skill, content, kind):
    """Whatever it is called."""
    folder = write_skill("a")
    (folder / "form.txt").write_bytes(content)
    result = call(make_registry(folder), "read_skill_file", name="a", path="form.txt")
    assert result.content == (ImageContent(content, kind),)


def test_a_pdf_is_a_file(write_skill):
    """Also one of plain characters; a text that only begins like an image is a text."""
    folder = write_skill("a", a_b_pdf="%PDF-1.4 plain", gif_md="GIF89 is old.")
    registry = make_registry(folder)
    result = call(registry, "read_skill_file", name="a", path="a.b.pdf")
    assert result.content == (FileContent("skill:a/a.b.pdf", b"%PDF-1.4 plain", "application/pdf"),)
    assert call(registry, "read_skill_file", name="a", path="gif.md").text == "GIF89 is old."


def test_a_large_or_other_file_is_an_error(write_skill):
    """With what may be read."""
    folder = write_skill("a")
    (folder / "large.png").write_bytes(b"\x89PNG" + bytes(1_000_000))
    (folder / "form.docx").write_bytes(b"PK\3\4\0")
    registry = make_registry(folder)
    assert "is too large" in call(registry, "read_skill_file", name="a", path="large.png").text
    other = call(registry, "read_skill_file", name="a", path="form.docx").text
    assert "'form.docx' isn't a UTF-8 text, an image or a PDF" in other


@pytest.mark.parametrize("permission", ["shell", None])
def test_its_folder_is_told_where_commands_are_run(write_skill, permission):
    """Only there it is of use."""
    folder = write_skill("a", run_sh="exit")
    registry = make_registry(folder)
    registry.register(Tool.from_schema("run", SCHEMA, description="Runs.", permission=permission))
    text = call(registry, "load_skill", name="a").text
    assert (f"The folder is {folder}" in text) == (permission == "shell")


def test_many_files_are_cut(write_skill):
    """The model is told that there are more."""
    folder = write_skill("a")
    for number in range(300):
        (folder / str(number)).touch()
    assert call(make_registry(folder), "load_skill", name="a").text.endswith("\n- and more")


def read_parts(folder, tool, **arguments):
    """All results of a tool, part after part; none is cut by the registry."""

    async def read():
        async with ToolRegistry() as registry:
            registry.register(SkillTools(SkillSources([folder], ())))
            offset, results = 0, []
            while offset is not None:
                call = ToolCall(tool, {"name": "a", "offset": offset, **arguments}, "1")
                results.append((await registry.dispatch([call])).results[0])
                found = re.search(r"call (\w+) with offset=(\d+)\.\]", results[-1].text)
                assert found is None or found[1] == tool
                offset = None if found is None else int(found[2])
            return results

    results = asyncio.run(read())
    assert not any("truncated" in result.metadata for result in results)
    return [result.text for result in results]


@pytest.mark.parametrize("line", ["Do it.\n", "\u4e2d" * 9_000 + "\n", "\u200b" * 200 + "\n"])
def test_a_long_skill_is_read_in_parts(write_skill, line):
    """The first part has the files of the skill, too."""
    text = line * (90_000 // len(line.encode()))
    folder = write_skill("a", text=text, notes_md="Notes.")
    first, *others = parts = read_parts(folder, "load_skill")
    assert others
    assert first.endswith("\n\n---\nFiles of the skill 'a', for read_skill_file:\n- notes.md (6 bytes)")
    shown = "".join(part.partition("\n[Characters ")[0] for part in parts)
    assert shown == escape_hidden(text).removesuffix("\n")


def test_a_long_file_of_a_skill_is_read_in_parts(write_skill):
    text = "".join(f"{number}\n" for number in range(100_000))
    parts = read_parts(write_skill("a", notes_md=text), "read_skill_file", path="notes.md")
    assert "".join(part.rpartition("\n[Characters ")[0] for part in parts) == text


def test_many_long_paths_leave_room_for_the_skill(write_skill):
    """As does a long list of tools."""
    folder = write_skill("a", f"name: a\ndescription: x\nallowed-tools: {'x' * 5_000}", LINE * 900)
    for number in range(150):
        (folder / f"{number}".ljust(80, "\u4e2d")).touch()
    first, *_ = read_parts(folder, "load_skill")
    assert first.startswith(LINE * 400)
    assert first.endswith("\n- and more")


def test_an_offset_beyond_the_end_is_an_error(write_skill):
    registry = make_registry(write_skill("a", notes_md="x"))
    for tool, more in (("load_skill", {}), ("read_skill_file", {"path": "notes.md"})):
        assert "characters only. Use a smaller offset." in call(registry, tool, name="a", offset=9, **more).text


def test_errors_say_what_to_do(tmp_path, write_skill):
    """Without paths of this machine."""
    (tmp_path / "secret").write_text("secret")
    folder = write_skill("release-notes", kinds_md="Kinds.")
    (folder / "link").symlink_to(tmp_path / "secret")
    registry = make_registry(folder)
    texts = [
        call(registry, "load_skill", name="release-note").text,
        call(registry, "load_skill", name="x").text,
        call(registry, "read_skill_file", name="release-notes", path="kind.md").text,
        call(registry, "read_skill_file", name="release-notes", path="../secret").text,
        call(registry, "read_skill_file", name="release-notes", path="link").text,
    ]
    assert texts == [
        "There is no skill 'release-note'. Did you mean 'release-notes'?",
        "There is no skill 'x'. Use a name that is listed in your instructions.",
        "The file of the skill 'release-notes' can't be read: 'kind.md' doesn't exist.\nDid you mean 'kinds.md'?",
        "The file of the skill 'release-notes' can't be read: '../secret' isn't a path below the skill's folder.",
        "The file of the skill 'release-notes' can't be read: 'link' is a link, which isn't followed.",
    ]


def test_a_file_that_isnt_trusted_is_the_users_to_allow(tmp_path, write_skill):
    """The model can't do anything about it."""
    tools = SkillTools(SkillSources([write_skill("a", notes_md="x")]))
    assert tools.sources.find().skills
    (tmp_path / ".git").mkdir()
    registry = ToolRegistry()
    registry.register(tools)
    for tool, more in (("load_skill", {}), ("read_skill_file", {"path": "notes.md"})):
        result = call(registry, tool, name="a", **more)
        assert result.text.endswith("isn't trusted as it is now.\nOnly the user can allow it."), result.text
        assert "then run: registry config trust" in result.detail.split("\n")[0], "which is for the user"


def test_rules_name_a_skill(write_skill):
    """By the argument."""
    registry = make_registry(write_skill("deploy"), write_skill("notes"))
    registry.permissions = Permissions([Rule("load_skill", "deploy*", "deny")])
    assert call(registry, "load_skill", name="deploy").kind == "denied"
    assert call(registry, "load_skill", name="notes").text == "Do it."


@pytest.mark.parametrize(
    ("settings", "cause"),
    [
        ({"folder": []}, "plugins.skills.folder: unknown key. Did you mean 'folders'?"),
        ({"folders": ["x"]}, "plugins.skills.folders: 'x' isn't an absolute path"),
        ({"budget": 10}, "plugins.skills.budget: must be a whole number from 1,000 to 100,000"),
    ],
)
def test_wrong_settings_are_named(settings, cause):
    """By their place."""
    record = register_plugin(ToolRegistry(), Skills, "skills", settings=settings)
    assert cause in record.cause


def test_descriptions_are_cut_at_one_length():
    """Short ones stay as they are."""
    skills = skills_of(a="x" * 300, b="short", c="y" * 300)
    a, b, c = describe(skills, 150).split("\n")
    assert b == "- b: short"
    assert a[5:-1] == "x" * 62
    assert len(a) == len(c)


def test_names_that_dont_fit_are_counted():
    """Where not even descriptions of 20 characters do."""
    several = skills_of(a="x" * 99, b="x" * 99, c="y" * 99)
    assert describe(several, 50) == "- a\n- b\n- c"
    many = skills_of(**{f"skill{number}": "x" * 99 for number in range(9)})
    assert describe(many, 60) == "- skill0\n- skill1\n7 more skills can't be listed here."


@given(
    st.dictionaries(st.from_regex(r"[a-z]{1,20}", fullmatch=True), st.text("x", min_size=1, max_size=200)),
    st.integers(50, 2_000),
)
def test_the_budget_is_kept(texts, budget):
    """Whatever the skills; all that fit are there in full, and every one is listed or counted."""
    shown = describe(skills_of(**texts), budget)
    assert len(shown) <= budget
    lines = shown.split("\n") if shown else []
    if sum(len(f"- {name}: {text}\n") for name, text in texts.items()) <= budget:
        assert lines == [f"- {name}: {text}" for name, text in texts.items()]
    listed = [line for line in lines if line.startswith("- ")]
    omitted = [int(line.split()[0]) for line in lines if not line.startswith("- ")]
    assert len(listed) + sum(omitted) == len(texts)
