"""The official conformance suite, in both directions: what `exempt.toml` lists fails, and nothing else."""

from __future__ import annotations

import json
import subprocess
import tomllib
from collections import Counter
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
REVISIONS = ("2025-11-25", "2026-07-28")
FAILED = ("FAILURE", "WARNING")


@pytest.fixture
def suite(node, npm_bin, tmp_path):
    """Runs all scenarios of one side and one revision; gives what each check came to, with what was wrong."""

    def run(side, revision, *words):
        argv = [node, npm_bin / "conformance", side, *words, "--suite", "all", "--spec-version", revision]
        done = subprocess.run(
            [*argv, "-o", tmp_path / revision], capture_output=True, text=True, check=False, timeout=100
        )
        checks = [
            (
                check["status"],
                f"{check['id']} ({revision}): {check.get('errorMessage', check['description'])}",
                check["id"],
            )
            for file in sorted(tmp_path.glob(f"{revision}/**/checks.json"))
            for check in json.loads(file.read_text())
        ]
        assert checks, done.stdout + done.stderr
        return checks

    return run


def exempt(side):
    """The checks that may fail, each of which has to."""
    groups = tomllib.loads((HERE / "exempt.toml").read_text())[side]
    listed = [check for group in groups for check in group["checks"]]
    assert [check for check, times in Counter(listed).items() if times > 1] == []
    return set(listed)


def held_against(listed, checks):
    failed = {id_ for status, _, id_ in checks if status in FAILED}
    unlisted = [text for status, text, id_ in checks if status in FAILED and id_ not in listed]
    assert not unlisted, "\n".join(["fail, and are not listed:", *unlisted])
    assert not listed - failed, f"are listed, and pass now or are no more: {sorted(listed - failed)}"


def test_the_server_passes_every_check_that_applies_to_a_tool_server(suite, url):
    checks = [check for revision in REVISIONS for check in suite("server", revision, "--url", url)]
    held_against(exempt("server"), checks)
    assert sum(status == "SUCCESS" for status, _, _ in checks) > 100
