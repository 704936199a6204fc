"""What the model reads of commands that hang, flood or fork, and where and with what they run."""

from __future__ import annotations

import asyncio
import os
import secrets
import subprocess
import sys

import pytest

from pegboard.programs import running, tree


def pids_in(text: str) -> list[int]:
    return [int(word) for word in text.split("[", maxsplit=1)[0].split() if word.isdigit()]


async def test_a_command_that_never_ends_is_ended_at_its_limit(run, is_running):
    result = await run("echo $$; exec sleep 10000", timeout=0.2)
    assert result.metadata["exit_code"] == 124
    assert "at its time limit of 0.2 s" in result.text
    assert not any(map(is_running, pids_in(result.text)))


async def test_very_long_output_is_read_and_truncated(make_registry):
    registry = make_registry(output_limit=1 << 16)
    result = await registry.call("shell", {"command": "yes 0123456789 | head -c 20000000; echo; echo end"})
    assert result.metadata["exit_code"] == 0
    assert result.metadata["output_bytes"] == 20_000_005
    assert result.metadata["lost_bytes"] > 19_000_000
    assert "end\n[Exit code 0" in result.text
    assert result.text.endswith(f" {result.metadata['lost_bytes']:,} bytes in the middle of the output were dropped.]")


async def test_long_output_is_truncated_in_the_result_and_stored_completely(make_registry):
    registry = make_registry()
    result = await registry.call("shell", {"command": "seq 20000"})
    assert result.text.startswith("1\n2\n")
    assert "20000\n[Exit code 0" in result.text
    stored = registry.results.read(result.metadata["kept"], line=10_000)
    assert stored.text.startswith("10000\n")


async def test_children_that_a_command_leaves_are_ended(run, fifo, is_running):
    begun = fifo()
    quiet = f"(echo > {begun}; exec sleep 10000) > /dev/null 2>&1 & echo $!; read line < {begun}"
    result = await run(f"sleep 10000 & echo $!; {quiet}")
    assert result.metadata["exit_code"] == 0
    assert not any(map(is_running, pids_in(result.text)))
    # A child that has only been forked may not be counted.
    assert "that it left running. To keep one running, start it as a command of its own" in result.text


async def test_git_opens_no_editor_that_waits(run):
    git = "git -c user.name=a -c user.email=a@b -c core.editor='sleep 10000' commit --allow-empty"
    result = await run(f"git init -q . && {git} -qm one && {git} -q --amend && git log --format=%s", timeout=30)
    assert result.text.startswith("one\n[Exit code 0")
    assert "empty commit message" in (await run(git)).text
    assert (await run(f"GIT_EDITOR='echo two >' {git} -q; git log --format=%s")).text.startswith("two\none\n")


async def test_a_command_that_cant_be_killed_is_reported_with_its_time(make_registry, fifo, monkeypatch):
    monkeypatch.setattr(tree.ProcessTree, "signal", lambda *_: None)
    monkeypatch.setattr(running, "_DEATH_SECONDS", 0.1)
    gate = fifo()
    result = await make_registry().call("shell", {"command": f"cat {gate}", "timeout": 0.2})
    gate.write_text("")  # it ends now
    assert result.text.startswith("[Exit code 124, 0.")
    assert "0.0 s" not in result.text
    assert " couldn't be killed at its time limit of 0.2 s. Tell the user." in result.text
    assert "was killed" not in result.text


@pytest.mark.slow
async def test_a_process_that_cant_be_found_is_reported(run, fifo):
    """It has neither the group nor the environment of its command, but holds the output."""
    gate, ready = fifo(), fifo()
    line = (
        f"setsid env -i {sys.executable} -c 'import sys; open(sys.argv[2], \"w\"); open(sys.argv[1])' {gate} {ready} &"
    )
    result = await run(f"{line} cat {ready}")
    gate.write_text("")  # it ends now
    assert "A process that it started is still running and can't be killed. Tell the user." in result.text


async def test_bytes_that_arent_text_are_replaced(run):
    result = await run(r"printf 'a\0b\377c\303'; printf '\251 \033[31mred\033[0m\n'")
    assert result.text.startswith("a\ufffdb\ufffdc\u00e9 red\n")
    assert "2 characters are not text" in result.text


async def test_a_command_may_remove_its_own_folder(run, top):
    (top / "inner").mkdir()
    result = await run("rmdir ../inner; echo done", folder="inner")
    assert result.text.startswith("done\n")
    assert (await run("pwd", folder="inner")).is_error


async def test_a_folder_that_is_replaced_by_a_link_is_still_used(run, top, tmp_path, monkeypatch):
    """The folder is replaced after it was opened, right before the command starts."""
    (top / "inner").mkdir()
    (tmp_path / "secret").mkdir()
    started = subprocess.Popen.__init__

    def swap(*arguments, **options):
        if not (top / "inner").is_symlink():
            (top / "inner").rename(top / "moved")
            (top / "inner").symlink_to(tmp_path / "secret")
        return started(*arguments, **options)

    monkeypatch.setattr(subprocess.Popen, "__init__", swap)
    result = await run(["pwd"], folder="inner")
    assert result.text.splitlines()[0] == str(top / "moved")


async def test_cancellation_at_any_moment_leaves_no_process(run, join, processes_with):
    word = f"1{secrets.randbelow(10**12)}"
    for steps in [*range(0, 60, 3), 100, 300, 1_000, 3_000]:
        calling = asyncio.create_task(run(["sleep", word]))
        for _ in range(steps):
            await asyncio.sleep(0)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        await asyncio.to_thread(join)
        assert not processes_with(word), steps


async def test_commands_dont_inherit_hostile_variables(make_registry, monkeypatch, top):
    hostile = {
        "LD_PRELOAD": "/nowhere.so",
        "BASH_ENV": str(top / "evil"),
        "ENV": str(top / "evil"),
        "BASH_FUNC_echo%%": "() { printf evil; }",
        "SHELLOPTS": "xtrace",
        "PYTHONSTARTUP": "/evil",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "OPENAI_API_KEY": "secret",
        "GIT_SSH_COMMAND": "evil",
        "IFS": "e",
    }
    (top / "evil").write_text("echo evil")
    (top / "ls").write_text("#!/bin/sh\necho evil\n")
    (top / "ls").chmod(0o755)
    for name, value in hostile.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", f".::{os.environ['PATH']}")
    result = await make_registry(environment={"GIVEN": "yes"}).call("shell", {"command": "ls -d .; echo x; env"})
    assert result.text.startswith(".\nx\n")
    names = {line.partition("=")[0] for line in result.text.splitlines()}
    assert not names & hostile.keys()
    assert {"PATH", "GIVEN", "NO_COLOR", "PEGBOARD_JOB"} <= names
    assert "secret" not in result.text
