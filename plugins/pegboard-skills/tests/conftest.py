"""Skills in a new folder for each test."""

from __future__ import annotations

import pytest

TEXT = "Do it.\n"


@pytest.fixture
def write_skill(tmp_path):
    """Writes a skill below a folder; further keys of its front matter are given as YAML. Returns its folder."""

    def write(name="pdf", front=None, text=TEXT, *, within="skills", **files):
        folder = tmp_path / within / name
        folder.mkdir(parents=True)
        front = f"name: {name}\ndescription: Works on {name}." if front is None else front
        (folder / "SKILL.md").write_text(f"---\n{front}\n---\n{text}", encoding="utf-8")
        for file, content in files.items():
            (folder / file.replace("_", ".")).write_text(content, encoding="utf-8")
        return folder

    return write
