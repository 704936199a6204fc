"""Arguments never become part of code that a shell or an interpreter runs."""

from __future__ import annotations

import pytest

from pegboard.schema.converter import read_table
from pegboard_commands import ToolSettings

RUN_BY_WRAPPERS = """
uv run {a}
uv run --with x {a}
uvx {a}
npx {a}
npx -y {a}
npm exec -- {a}
pnpm dlx {a}
bunx {a}
pipx run {a}
docker exec c {a}
docker run --rm -v a:b image {a}
docker compose exec web {a}
podman run image {a}
kubectl exec -n ns p -- {a}
git bisect run {a}
git submodule foreach --recursive {a}
poetry run {a}
hatch run {a}
systemd-run {a}
chroot d {a}
unshare {a}
nsenter -t 1 {a}
bwrap --ro-bind / / -- {a}
nix develop -c {a}
go run {a}
"""
AFTER_PROGRAMS = """
uv run pytest {a}
npx -y prettier {a}
docker run --rm -v a:b image ls {a}
docker exec -i {b} ls {a}
docker logs {a}
kubectl exec -n {b} p -- ls {a}
git rebase {a}
git bisect good {a}
chroot {b} ls {a}
timeout {b} ls {a}
npm run {a}
uv add {a}
"""


def read(command, **more):
    table = {"description": "x", "command": command, "arguments": {"a": {"type": "string"}}, **more}
    return read_table(ToolSettings, table, "tools.probe")


@pytest.mark.parametrize(
    ("command", "program"),
    [
        (["sh", "-c", "echo {a}"], "sh"),
        (["bash", "-o", "pipefail", "-ec", "echo {a}"], "bash"),
        (["/bin/zsh", "-c", "{a}"], "zsh"),
        (["fish", "--command", "echo {a}"], "fish"),
        (["cmd", "/c", "dir {a}"], "cmd"),
        (["pwsh", "-Command", "ls {a}"], "pwsh"),
        (["python3", "-c", "print('{a}')"], "python"),
        (["python3.11", "-W", "ignore", "-c", "{a}"], "python"),
        (["python3", "-cprint('{a}')"], "python"),
        (["perl", "-e", "1", "-pe", "s/{a}//"], "perl"),
        (["node", "--eval={a}"], "node"),
        (["awk", "/{a}/"], "awk"),
        (["sed", "-n", "{a}p"], "sed"),
        (["env", "A=1", "bash", "-c", "echo {a}"], "bash"),
        (["timeout", "5", "sh", ["-c", "echo {a}"]], "sh"),
        (["docker", "exec", "box", "sh", "-c", "echo {a}"], "sh"),
        (["find", ".", "-exec", "sh", "-c", "echo {a}", ";"], "sh"),
        (["ssh", "box", "ls", "{a}"], "ssh"),
        (["env", "-S", "{a}"], "env"),
        (["env", "-vS{a} x"], "env"),
        (["env", "--split={a}"], "env"),
        (["su", "bob", "-c", "ls {a}"], "su"),
        (["runuser", "-u", "bob", "--command={a}"], "runuser"),
        (["script", "-qc", "ls {a}", "log"], "script"),
        (["flock", "lock", "-c", "ls {a}"], "flock"),
        (["sg", "users", "ls {a}"], "sg"),
        (["watch", "{a}"], "watch"),
        (["parallel", "gzip {a}"], "parallel"),
        (["ssh", "-o", "ProxyCommand={a}", "box"], "ssh"),
        (["scp", "-oproxycommand {a}", "x", "box:"], "scp"),
        (["sftp", "-S", "{a}", "box"], "sftp"),
        (["git", "-c", "core.pager={a}", "log"], "git"),
        (["git", "-C", "/srv", "-c", "alias.x=!{a}", "x"], "git"),
        (["git", "clone", "-c", "filter.x.smudge={a}", "url"], "git"),
        (["git", "clone", "-u", "{a}", "url"], "git"),
        (["git", "grep", "-nO{a}", "x"], "git"),
        (["git", "rebase", "-x", "make {a}"], "git"),
        (["git", "filter-branch", "--tree-filter", "{a}"], "git"),
        (["apt-get", "-o", "DPkg::Pre-Invoke::={a}", "update"], "apt-get"),
        (["mutt", "-e", "{a}"], "mutt"),
        (["tar", "-xf", "x", "--to-command={a}"], "tar"),
        (["tar", "-x", "--use-comp", "{a}"], "tar"),
        (["tar", "-cI", "{a}", "-f", "x", "y"], "tar"),
        (["tar", "xIf", "{a}", "x"], "tar"),
        (["tar", "xfI", "x", "{a}"], "tar"),
        (["env", "PATH={a}", "ls"], "env"),
        (["sudo", "tar", "--checkpoint-action", "exec={a}"], "tar"),
        (["rsync", "-ave", "ssh -i {a}", "x", "y"], "rsync"),
        (["man", "-P", "{a}", "ls"], "man"),
        (["make", "SHELL={a}"], "make"),
        (["make", "CFLAGS={a}", "all"], "make"),
        (["gdb", "-ex", "{a}", "x"], "gdb"),
        (["gdb", "--eval-command={a}"], "gdb"),
        (["lldb", "-o", "{a}"], "lldb"),
        (["socat", "-", "EXEC:{a}"], "socat"),
        (["socat", "-", "TCP:x:1!!system:ls {a}"], "socat"),
        (["ncat", "--sh-exec", "{a}", "x", "1"], "ncat"),
        (["find", ".", "-exec", "{a}", ";"], "find"),
        (["sort", "--compress-program={a}"], "sort"),
        (["split", "--filter", "gzip {a}"], "split"),
        (["vim", "+{a}", "x"], "vim"),
        (["sqlite3", "x.db", "select {a}"], "sqlite"),
    ],
)
def test_an_argument_in_code_is_refused(command, program):
    with pytest.raises(ValueError, match="would be part of what") as raised:
        read(command)
    assert f"tools.probe: command: {{a}} would be part of what {program} runs as code" in str(raised.value)


@pytest.mark.parametrize(
    "command",
    [
        ["env", "{a}"],
        ["env", "X=1", "{a}", "ls"],
        ["sudo", "-u", "{a}", "ls"],
        ["xargs", "/opt/{a}"],
        ["nice", "-n", "5", "{a}"],
        ["timeout", "5", "{a}"],
        ["docker", "exec", "box", "nohup", "{a}"],
        *map(str.split, RUN_BY_WRAPPERS.strip().splitlines()),
    ],
)
def test_an_argument_that_may_be_the_program_of_a_wrapper_is_refused(command):
    with pytest.raises(ValueError, match=r"command: \{a\} may be the program that [\w-]+ runs; name it in the command"):
        read(command)


@pytest.mark.parametrize("line", AFTER_PROGRAMS.strip().splitlines())
def test_an_argument_of_the_program_of_a_wrapper_is_allowed(line):
    arguments = {name: {"type": "string"} for name in "ab" if f"{{{name}}}" in line}
    assert list(read(line.split(), arguments=arguments).command) == line.split()


def test_a_number_is_never_a_program():
    assert read(["nice", "-n", "{a}", "ls"], arguments={"a": {"type": "integer"}}).program == "nice"


@pytest.mark.parametrize("command", [["sh"], ["bash", "-s"], ["python3", "-"], ["docker", "exec", "-i", "box", "sh"]])
def test_an_argument_in_code_on_standard_input_is_refused(command):
    with pytest.raises(ValueError, match="runs as code"):
        read(command, stdin="print({a})")


@pytest.mark.parametrize(
    "command",
    [
        ["sh", "-c", 'echo "$1"', "sh", "{a}"],
        ["python3", "-c", "import sys; print(sys.argv[1])", "{a}"],
        ["python3", "-u", "/srv/x.py", "-c", "{a}"],
        ["python3", "-m", "pytest", "-c", "{a}"],
        ["node", "/srv/x.js", "-e", "{a}"],
        ["awk", "{{print}}", "{a}"],
        ["awk", "-f", "/srv/x.awk", "{a}"],
        ["sed", "-n", "5p", "{a}"],
        ["grep", "-e", "{a}"],
        ["tar", "-cf", "{a}"],
        ["git", "log", "--author={a}"],
        ["ssh", "{a}", "uptime"],
        ["ssh", "-oConnectTimeout={a}", "box", "uptime"],
        ["git", "-c", "user.name={a}", "commit"],
        ["git", "cherry-pick", "-x", "{a}"],
        ["tar", "-xzC", "{a}", "-f", "x"],
        ["rsync", "-a", "--exclude={a}", "x", "y"],
        ["make", "-j4", "{a}"],
        ["find", ".", "-name", "{a}"],
        ["flock", "{a}", "ls"],
        ["less", "{a}"],
        ["env", "X={a}", "ls"],
        ["tar", "xIf", "zstd", "{a}"],
        ["nice", "-n{a}", "ls"],
        ["timeout", "{a}", "ls"],
        ["sudo", "ls", "{a}"],
    ],
)
def test_an_argument_after_the_code_is_allowed(command):
    assert list(read(command).command) == command


def test_an_argument_in_data_on_standard_input_is_allowed():
    assert read(["python3", "-c", "import sys; print(sys.stdin.read())"], stdin="{a}").stdin == "{a}"
    assert read(["wc", "-c"], stdin="{a}").stdin == "{a}"


@pytest.mark.parametrize("command", [["python3", "x.py", "{a}"], ["sh", "-e", "./bin/x.sh", "{a}"]])
def test_a_script_is_never_looked_up_in_the_calls_folder(command, tmp_path):
    with pytest.raises(ValueError, match="would be looked for in each call's folder"):
        read(command)
    assert read(command, cwd=str(tmp_path)).cwd == str(tmp_path)
    assert read([command[0], "~/x.py", "{a}"]).with_holes[1].endswith("/x.py")


@pytest.mark.parametrize(
    ("command", "value", "more"),
    [
        (["make", "{a}"], "SHELL=/tmp/x", {}),
        (["less", "{a}"], "+!touch x", {}),
        (["socat", "-", "{a}"], "exec:/tmp/x", {}),
        (["ssh", "-o", "{a}", "box"], "ProxyCommand=/tmp/x", {}),
        (["git", "-c", "{a}", "log"], "core.pager=/tmp/x", {}),
        (["git", "-c", "core.{a}=x", "log"], "pager", {}),
        (["tar", "-cf", "x", "{a}"], "--to-command=/tmp/x", {"options": True}),
        (["nice", "sort", "{a}"], "--comp=/tmp/x", {"options": True}),
        (["docker", "{a}"], ["exec", "box", "/tmp/x"], {"type": "array"}),
        (["git", "{a}"], ["submodule", "foreach", "/tmp/x"], {"type": "array"}),
        (["uv", "--quiet", "{a}", "/tmp/x"], "run", {}),
    ],
)
def test_a_value_cant_become_an_option_that_runs_a_program(command, value, more):
    settings = read(command, arguments={"a": {"type": "string", **more}})
    (problem,) = settings.problems({"a": value})
    assert problem.startswith("command: this value would run another program: ")
    assert settings.problems({"a": ["harmless"] if more.get("type") else "harmless"}) == []
