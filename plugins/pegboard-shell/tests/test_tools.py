"""The tool `shell`: its results, annotations and permissions."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import time
import traceback
from importlib.metadata import version
from pathlib import Path

import pytest

import pegboard_shell
from pegboard import Concurrency, Once, Permissions, ReadonlyContext, Rule, ToolCall, load, tool
from pegboard.config import Config
from pegboard.testing import ScriptedApprover, check_plugin, plugin_registry

TOOLS = ["end_session", "poll_session", "shell", "shell_unsandboxed", "write_stdin"]


def test_annotations_and_permissions_of_the_tools(make_registry):
    specs = {tool.name: tool.spec for tool in make_registry().tools()}
    assert sorted(specs) == TOOLS
    for name, spec in specs.items():
        assert "shell" in spec.tags
        assert spec.title
        assert spec.annotations.open_world_hint is True
        assert spec.annotations.read_only_hint is (True if name == "poll_session" else None)
    assert specs["shell"].permission_arguments == {"command": "command"}
    assert specs["shell_unsandboxed"].permission == "shell_unsandboxed"


def test_every_parameter_is_described_and_bounded(make_registry):
    for each in make_registry().tools():
        schema = each.spec.input_schema
        assert schema["additionalProperties"] is False
        for name, part in schema["properties"].items():
            assert part["description"], (each.name, name)
            for kind in part.get("anyOf", [part]):
                assert {"boolean": True, "null": True}.get(kind["type"]) or any(key.startswith("m") for key in kind)


async def test_a_line_is_run_by_a_shell_and_a_list_is_not(run):
    assert (await run("echo one two | tr o 0")).text.startswith("0ne tw0\n[Exit code 0, ")
    assert (await run(["echo", "one | two", "$HOME"])).text.startswith("one | two $HOME\n[Exit code 0, ")


@pytest.mark.parametrize("command", ["cat new; echo", "python3 -c 'print(open(\"new\").read())'"])
@pytest.mark.parametrize("folder", [".", "below"])
async def test_calls_of_one_answer_run_in_order_if_they_share_a_folder(make_registry, top, command, folder):
    registry = make_registry()
    place = top / folder
    place.mkdir(exist_ok=True)

    @registry.register
    @tool(concurrency=Concurrency("path", ("path",)))
    async def put(path: str, text: str) -> None:
        """Write a file, with a delay."""
        await asyncio.sleep(0.1)
        await asyncio.to_thread(Path(path).write_text, text)

    def written(text):
        return ToolCall("put", {"path": str(place / "new"), "text": text}, text)

    shown = ToolCall("shell", {"command": command, "folder": folder}, "shown")
    outcome = await registry.dispatch([written("one"), shown, written("two")])
    assert outcome.results[1].text.startswith("one\n[Exit code 0")
    assert (place / "new").read_text() == "two"


async def test_commands_of_two_answers_run_concurrently_in_different_folders(tmp_path, fifo):
    """Each writes to a pipe that the other one reads."""
    registry, one, other = plugin_registry("shell", settings={"shell": {"sandbox": "none"}}), fifo(), fifo()
    registry.permissions = Permissions(mode="bypass")

    async def run(name, command):
        folder = tmp_path / name
        folder.mkdir()
        call = ToolCall("shell", {"command": command}, "1")
        return (await registry.dispatch([call], context=ReadonlyContext(work_dir=str(folder)))).results[0]

    lines = f"echo a > {one}; cat {other}", f"cat {one}; echo b > {other}"
    ran = await asyncio.wait_for(asyncio.gather(*map(run, ("one", "other"), lines)), 60)
    assert [each.text[:1] for each in ran] == ["b", "a"]


@pytest.mark.parametrize(
    ("longest", "advice"),
    [
        (
            60,
            "It was killed at its time limit of 0.2 s. Set a longer timeout (at most 60 s), or background=true.",
        ),
        (0.1, "It was killed at its time limit of 0.1 s. A longer timeout isn't possible. Set background=true."),
    ],
)
async def test_the_advice_at_a_limit_can_be_followed(make_registry, longest, advice):
    result = await make_registry(longest=longest).call("shell", {"command": "exec sleep 10000", "timeout": 0.2})
    assert result.metadata["exit_code"] == 124
    assert result.text.endswith(f"{advice}]")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["shell", "shell_unsandboxed", "poll_session"])
@pytest.mark.parametrize("line", ["exec sleep 10000", "yes", "yes 50%$(printf '\\r')", "trap '' TERM; yes x >&2"])
async def test_no_thread_of_a_tool_works_on_after_the_time_limit(make_registry, join, name, line):
    registry = make_registry(output_limit=16 << 20)
    arguments = {"command": line, "timeout": 0.5}
    if name == "poll_session":
        begun = await registry.call("shell", {"command": line, "timeout": 2, "background": True, "wait": 0.1})
        arguments = {"session": begun.metadata["session"], "wait": 60}
    begin = time.monotonic()
    result = await registry.call(name, arguments)
    assert result.metadata["exit_code"] == 124
    join()  # the thread that wakes the call is about to end
    assert time.monotonic() - begin < 30
    frames = (frame for top in sys._current_frames().values() for frame, _ in traceback.walk_stack(top))
    package = Path(pegboard_shell.__file__).parent
    assert not [frame for frame in frames if Path(frame.f_code.co_filename).parent == package]


async def test_a_prompt_shows_the_command(make_registry):
    registry = make_registry(mode="default")
    with ScriptedApprover([Once()]) as approver:
        registry.approver = approver
        await registry.call("shell", {"command": "echo once"})
    assert approver.requests[0].to_text().count("echo once") == 2
    assert approver.requests[0].preview.details == "echo once"


async def test_an_exit_code_is_a_result_and_not_an_error(run):
    result = await run("echo out; echo err >&2; exit 3")
    assert not result.is_error
    assert result.text.startswith("out\nerr\n[Exit code 3, ")
    assert result.metadata["exit_code"] == 3
    assert (await run("kill -9 $$")).metadata["exit_code"] == 137
    assert "(SIGKILL)" in (await run("kill -9 $$")).text


async def test_a_command_runs_in_the_folder_that_is_named(run, top):
    (top / "inner").mkdir()
    assert (await run("pwd -P")).text.splitlines()[0] == str(top)
    assert (await run(["pwd"], folder="inner")).text.splitlines()[0] == str(top / "inner")


async def test_the_calls_folder_is_the_default_root(make_registry, tmp_path):
    registry = make_registry(root=".")
    result = await registry.call("shell", {"command": "pwd"}, context=ReadonlyContext(work_dir=str(tmp_path)))
    assert result.text.splitlines()[0] == str(tmp_path)


@pytest.mark.parametrize("folder", ["missing", "file", "..", "/etc", "out", "a\0b"])
async def test_a_folder_that_cant_be_entered_is_refused(run, top, folder):
    (top / "file").write_text("")
    (top / "out").symlink_to("/etc")
    result = await run("pwd", folder=folder)
    assert result.is_error
    assert "folder" in result.text
    assert "/etc/" not in result.text


@pytest.mark.parametrize("command", [["no-such-program"], ["./missing"], ["./file"], [""], ["/etc"], ["echo", "a\0b"]])
async def test_a_missing_program_is_reported(run, top, command):
    (top / "file").write_text("")
    result = await run(command)
    assert result.is_error
    assert "was not found" in result.text or "couldn't be started" in result.text


async def test_a_line_with_a_missing_program_has_the_shells_exit_code(run):
    result = await run("no-such-program")
    assert result.metadata["exit_code"] == 127
    assert "not found" in result.text


async def test_output_comes_as_events_while_the_command_runs(make_registry, fifo):
    """The command waits until its first line was received."""
    gate, contents = fifo(), []
    async for event in make_registry().stream([ToolCall("shell", {"command": f"echo first; cat {gate}; echo last"})]):
        content = getattr(event, "content", None)
        if content is not None and not any(contents):
            await asyncio.to_thread(gate.write_text, "go\n")
        contents.append(content)
    assert event.result.text.startswith("first\ngo\nlast\n")
    assert next(filter(None, contents)) == "first\n"


async def test_without_a_sandbox_the_user_is_asked_and_the_prompt_says_so(make_registry):
    registry = make_registry(mode="default")
    with ScriptedApprover([Once()]) as approver:
        registry.approver = approver
        assert not (await registry.call("shell", {"command": "ls"})).is_error
    shown = approver.requests[0].to_text()
    assert "without a sandbox" in shown
    assert "ls" in shown


async def test_rules_decide_on_each_command_of_a_line(make_registry):
    registry = make_registry()
    registry.permissions = Permissions([Rule("shell", "echo *", "allow"), Rule("shell", "curl *", "deny", forbid=True)])
    assert not (await registry.call("shell", {"command": "echo a && echo b"})).is_error
    assert (await registry.call("shell", {"command": "echo a && id"})).is_error, "there is no approver"
    for name in ("shell", "shell_unsandboxed"):
        assert (await registry.call(name, {"command": "sh -c 'curl x'"})).is_error, name
    assert (await registry.call("shell_unsandboxed", {"command": "echo a"})).is_error, (
        "an allow rule for the shell doesn't apply"
    )


async def test_plan_mode_runs_read_only_commands(make_registry, top):
    registry = make_registry()
    registry.permissions = Permissions([Rule("shell", "*", "allow")], mode="plan")
    assert not (await registry.call("shell", {"command": "ls | sort"})).is_error
    assert (await registry.call("shell", {"command": "touch made"})).is_error
    assert not (top / "made").exists()


@pytest.mark.slow
async def test_plan_mode_offers_the_shell_before_its_code_is_imported(top):
    registry = load(config=Config(enable=("shell",)), settings={"shell": {"root": str(top), "sandbox": "none"}})
    registry.permissions = Permissions([Rule("shell", "*", "allow")], mode="plan")
    offered = await registry.resolve()
    calls = [ToolCall("shell", {"command": command}, id=command) for command in ("ls", "touch made")]
    assert "shell" in offered.names
    assert [result.kind for _, result in await registry.dispatch(calls, offered)] == [None, "denied"]


async def test_destructive_commands_ask(make_registry, top):
    registry = make_registry(mode="default")
    (top / "file").write_text("")
    with ScriptedApprover([Once()]) as approver:
        registry.approver = approver
        await registry.call("shell", {"command": "rm file"})
    assert approver.requests[0].reason == "it marks this call destructive"
    assert not (top / "file").exists()


@pytest.mark.slow
def test_the_plugin_fulfils_the_contract():
    check_plugin("shell")


@pytest.mark.slow
def test_the_tools_are_listed_without_importing_the_plugin():
    code = "import sys; from pegboard.__main__ import run; sys.argv = ['registry', 'list', '--plugin', 'shell']\n"
    code += "try:\n    run()\nexcept SystemExit:\n    pass\nassert 'pegboard_shell' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "shell_unsandboxed" in done.stdout


@pytest.mark.slow
def test_the_plugin_works_installed_as_a_wheel(tmp_path):
    """Installed as by an installer, without the checkout; `nox -s wheels` builds the wheel itself."""
    source, site = Path(__file__).parents[1], tmp_path / "site"
    shutil.copytree(source / "src" / "pegboard_shell", site / "pegboard_shell")
    release = version("pegboard-shell")
    info = site / f"pegboard_shell-{release}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: pegboard-shell\nVersion: {release}\n")
    (info / "entry_points.txt").write_text("[pegboard]\nshell = pegboard_shell:Plugin\n")
    (info / "RECORD").write_text("".join(f"{path.relative_to(site)},,\n" for path in site.rglob("*") if path.is_file()))
    code = (
        "import pegboard, pegboard_shell, sys; assert pegboard_shell.__file__.startswith(sys.argv[1]);"
        "from pegboard.testing import plugin_registry;"
        "registry = plugin_registry('shell'); registry.permissions = pegboard.Permissions(mode='bypass');"
        "print(registry.call_sync('shell', {'command': 'echo hello'}).text.splitlines()[0])"
    )
    env = {**os.environ, "PYTHONPATH": str(site)}
    done = subprocess.run([sys.executable, "-c", code, str(site)], env=env, capture_output=True, text=True, check=False)
    assert done.stdout == "hello\n", done.stderr


@pytest.mark.parametrize("command", ["apply_patch <<'EOF'\n*** Begin Patch\n*** End Patch\nEOF", ["apply_patch", "x"]])
async def test_a_patch_that_is_run_as_a_command_names_the_tool(run, command):
    assert "apply_patch is not a command. If you have a tool" in (await run(command)).text
