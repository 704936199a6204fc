"""Commands that hang, flood, fork or are cancelled, and that no process is left."""

from __future__ import annotations

import asyncio
import os
import secrets
import subprocess
import sys

import pytest

from pegboard_shell.output import OutputBuffer
from pegboard_shell.process import RunningCommand


def pids_in(text: str) -> list[int]:
    return [int(word) for word in text.split("[", maxsplit=1)[0].split() if word.isdigit()]


async def test_a_command_that_never_ends_is_ended_at_its_limit(run, is_running):
    result = await run("echo $$; exec sleep 10000", timeout=0.2)
    assert result.metadata["exit_code"] == 124
    assert "at its time limit of 0.2 s" in result.text
    assert not any(map(is_running, pids_in(result.text)))


async def test_a_command_that_ignores_sigterm_is_killed_with_its_children(make_registry, is_running):
    registry = make_registry()
    command = "trap '' TERM; echo $$; sh -c 'echo $$ end; sleep 10000; sleep 10000'; sleep 10000"
    arguments = {"command": command, "background": True, "until": "end\n", "wait": 60}
    started = await registry.call("shell", arguments)
    pids = pids_in(started.text)
    assert len(pids) == 2
    assert all(map(is_running, pids))
    ended = await registry.call("end_session", {"session": started.metadata["session"]})
    assert ended.metadata["exit_code"] == 137
    assert not any(map(is_running, pids))


async def test_a_command_may_clean_up_on_sigterm(make_registry, top):
    registry = make_registry(grace=60)
    command = "trap 'echo cleaned; exit 3' TERM; echo ready; while :; do sleep 0.01; done"
    arguments = {"command": command, "background": True, "until": "ready", "wait": 60}
    started = await registry.call("shell", arguments)
    ended = await registry.call("end_session", {"session": started.metadata["session"]})
    assert "cleaned\n[Exit code 3, " in ended.text


async def test_very_long_output_is_read_and_truncated(make_registry):
    registry = make_registry(output_limit=1 << 16)
    result = await registry.call("shell", {"command": "yes 0123456789 | head -c 20000000; echo; echo end"})
    assert result.metadata["exit_code"] == 0
    assert result.metadata["output_bytes"] == 20_000_005
    assert result.metadata["lost_bytes"] > 19_000_000
    assert "end\n[Exit code 0" in result.text
    assert result.text.endswith(f" {result.metadata['lost_bytes']:,} bytes in the middle of the output were dropped.]")


async def test_endless_output_ends_at_the_limit(make_registry):
    registry = make_registry(output_limit=1 << 16)
    result = await registry.call("shell", {"command": "yes", "timeout": 0.3})
    assert result.metadata["exit_code"] == 124


async def test_long_output_is_truncated_in_the_result_and_stored_completely(make_registry):
    registry = make_registry()
    result = await registry.call("shell", {"command": "seq 20000"})
    assert result.text.startswith("1\n2\n")
    assert "20000\n[Exit code 0" in result.text
    stored = registry.kept.read(result.metadata["kept"], line=10_000)
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


DAEMON = """
import os, signal, sys, time
if os.fork():
    os.wait()
    sys.exit()
os.setsid()
if os.fork():
    os._exit(0)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
much = b"x" * 100_000_000
os.write(1, f"{os.getpid()}\\n".encode())
os.closerange(0, 3)
open(sys.argv[1], "w").close()
time.sleep(10_000)
"""


async def test_processes_that_have_left_the_group_are_ended(run, fifo, is_running):
    """The command ends once its daemon runs, which takes a while to release its memory when killed."""
    ready = fifo()
    result = await run(f"{sys.executable} -c '{DAEMON}' {ready} & cat {ready}; wait")
    (pid,) = pids_in(result.text)
    assert not is_running(pid)


async def test_a_process_that_holds_the_output_open_doesnt_block_the_call(run, is_running):
    result = await asyncio.wait_for(run("setsid sleep 10000 & echo $!"), 60)
    assert result.metadata["exit_code"] == 0
    assert not any(map(is_running, pids_in(result.text)))


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


async def test_a_command_may_close_its_output_and_run_on(run, top):
    result = await run("exec >&- 2>&-; touch one; sleep 0.05; touch two")
    assert result.metadata["exit_code"] == 0
    assert (top / "two").exists()


async def test_the_input_of_a_command_is_empty(run):
    assert (await run("cat; read line || echo nothing")).text.startswith("nothing\n")


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


async def test_a_cancelled_command_has_ended_when_the_call_has(run, fifo, is_running):
    ready = fifo()
    calling = asyncio.create_task(run(f"trap '' TERM; echo $$ > {ready}; sleep 10000; sleep 10000"))
    pid = int(await asyncio.to_thread(ready.read_text))
    assert is_running(pid)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert not is_running(pid)


async def test_without_pidfd_the_end_is_polled_for(run, monkeypatch):
    monkeypatch.delattr(os, "pidfd_open")
    assert (await run("echo hallo; exit 4")).metadata["exit_code"] == 4
    assert (await run("sleep 10000", timeout=0.2)).metadata["exit_code"] == 124
    assert (await run("sleep 10000 &", timeout=60)).metadata["exit_code"] == 0


async def test_a_limit_that_has_long_passed_leaves_time_to_end_the_command():
    """As after this program was stopped for a while, with Ctrl-Z."""
    command = RunningCommand(["sleep", "10000"], {}, "/", OutputBuffer(1 << 16), limit=1.0)
    command.started -= 3600
    command.start()
    await command.follow(None)
    assert (command.is_over, command.timed_out) == (True, True)


async def test_a_thread_that_cant_be_started_fails_only_the_call(run, monkeypatch):
    def refuse(_self):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr("threading.Thread.start", refuse)
        command = RunningCommand(["true"], {}, "/", OutputBuffer(1 << 16))
        command.start()
    assert command.is_over
    assert command.pid is None


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
    assert {"PATH", "GIVEN", "NO_COLOR", "PEGBOARD_SHELL_COMMAND"} <= names
    assert "secret" not in result.text


@pytest.mark.slow
@pytest.mark.parametrize("end", ["sys.exit()", "os._exit(1)", "os.kill(os.getpid(), 9)"])
def test_commands_end_with_the_program(top, end, fifo, is_running):
    code = f"""
import asyncio, os, sys
from pegboard import Permissions
from pegboard.testing import plugin_registry

async def main():
    registry = plugin_registry("shell", settings={{"shell": {{"root": {str(top)!r}, "sandbox": "none"}}}})
    registry.permissions = Permissions(mode="bypass")
    for number in range(2):
        command = f"trap '' TERM HUP; echo $$; sleep 10000; sleep 10000"
        result = await registry.call("shell", {{"command": command, "background": True, "until": chr(10), "wait": 60}})
        print(result.text.split()[0], flush=True)

asyncio.run(main())
{end}
"""
    program = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    out, err = program.communicate(timeout=120)
    pids = pids_in(out)
    assert len(pids) == 2, err
    for pid in pids:
        wait_for_end(pid)
        assert not is_running(pid)


def wait_for_end(pid: int) -> None:
    """Blocks until a process that isn't a child has ended."""
    import select

    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    assert poller.poll(60_000), f"process {pid} runs on"
    os.close(descriptor)
