"""Which commands count as read-only, and which as destructive."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from contextlib import suppress

import pytest

from pegboard import ReadonlyContext
from pegboard.dispatch.permissions.options import samples
from pegboard_shell.effects import READERS, destroys, only_reads, overwrites


@pytest.mark.parametrize(
    "command",
    [
        "ls -la",
        "cat a | grep b 2>/dev/null | wc -l",
        "cd src && git log --oneline | head -5",
        "find . -name '*.py'",
        "sed -n 1,10p a.txt",
        "sort < data",
        "git diff HEAD~1; git branch",
        ["grep", "-rn", "rm -rf", "src"],
        "date +%s",
    ],
)
def test_commands_that_only_read(command):
    assert only_reads({"command": command})
    assert not destroys({"command": command})


@pytest.mark.parametrize(
    "command",
    [
        "make",
        "ls > file",
        "echo $(touch x)",
        "PAGER=x git log",
        "find . -delete",
        "find . -exec touch {} ;",
        "sort -uo a b",
        "sed -n 'w x' a",
        "sed -i s/a/b/ a",
        "git branch new",
        "git -c core.pager=x log",
        "git diff --output=x",
        "rg --pre x y",
        "./ls",
        "uniq a b",
        "printf -v x y",
        "date +%s -s 2020-01-01",
        "who --look",
        "git grep --ope=x y",
        "git stash list --output=x",
        "getent hosts x",
        "getent -s dns passwd",
        "find -- . -delete",
        "sort --outp=x a",
        "sort a$X",
        "< $X",
        "tree --fromfile -ao x",
        "printf a%n PATH; ls",
        "date +%s 01010101",
        "sed -n -I.bak 1p x",
        "git tag -l --format=%(signature)",
        "rg -.z x",
        "file -bz x",
        "env ls",
        "sudo ls",
        "echo 'open",
        "",
        [],
    ],
)
def test_commands_that_may_change_something(command):
    assert not only_reads({"command": command})


ACTING = [
    "sort -o out in",
    "sort -uoout in",
    "sort --compress-program=./witness -S 1 big",
    "sed -n 'w out' in",
    "sed -n '1W out' in",
    "sed -n 's/a/b/w out' in",
    "sed -n '1e ./witness' in",
    "sed -n -i 1p in",
    "uniq in out",
    "find . -fprint out",
    "find . -fprintf out x",
    "find . -fls out",
    "find in -delete",
    r"find in -exec ./witness \;",
    r"find $PWD/in -execdir $PWD/witness \;",
    "git diff --no-index --output=out in big",
    "git grep --no-index -O./witness a",
    "git grep --no-index --ope=./witness a",
    "git init -q && git add in && git -c user.name=a -c user.email=a@b commit -qm a && git rev-list --output=out HEAD",
    "git init -q && git add in && git -c user.name=a -c user.email=a@b commit -qm a && git blame --output=out in",
    "file -C -m magic",
    "true < /dev/tcp/127.0.0.1/PORT",
    "true < /dev/udp/127.0.0.1/PORT",
]


def run_in(folder, command):
    """Runs a command in a new folder; returns whether anything in there was changed, and sends no output."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "in").write_text("a\nb\nb\n")
    (folder / "big").write_text("a b\n" * 20_000)
    (folder / "magic").write_text("0 string a a\n")
    (folder / "witness").write_text("#!/bin/sh\n: > ran\ncat\n")
    (folder / "witness").chmod(0o755)
    before = {path: path.read_bytes() for path in folder.rglob("*")}
    argv = ["bash", "-c", command] if isinstance(command, str) else command
    environment = {"PATH": os.environ["PATH"], "TMPDIR": str(folder), "HOME": str(folder), "LC_ALL": "C"}
    with suppress(subprocess.TimeoutExpired):
        subprocess.run(
            argv, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=1
        )
    return before != {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("command", ACTING)
def test_options_of_readers_that_write_or_run_or_send(command, tmp_path):
    """They do so here, and don't count as reading."""
    kind = socket.SOCK_DGRAM if "udp" in command else socket.SOCK_STREAM
    with socket.socket(type=kind) as server:
        server.bind(("127.0.0.1", 0))
        command = command.replace("PORT", str(server.getsockname()[1]))
        if kind == socket.SOCK_STREAM:
            server.listen()
        assert run_in(tmp_path / "top", command) or "/dev/" in command
        if "tcp" in command:
            server.settimeout(5)
            server.accept()[0].close()
    assert not only_reads({"command": command})


@pytest.mark.parametrize("reader", [*READERS.split(), "find", "sed -n", "date +%s"])
def test_no_option_of_the_table_counts_as_reading(reader):
    for _, option in samples(reader.split()[0]):
        assert not only_reads({"command": f"{reader} {option} a"})


def options_of(program):
    """The options that a program's help names, and the values that follow them."""
    words = program.split()
    asks = [*words, "--git-completion-helper-all"] if words[0] == "git" else [*words, "--help"]
    told = subprocess.run(asks, capture_output=True, check=False, text=True, timeout=10, stdin=subprocess.DEVNULL)
    return sorted(set(re.findall(r"(?<![\w-])--?[A-Za-z][A-Za-z-]*", told.stdout)))


@pytest.mark.slow
@pytest.mark.parametrize(
    "reader", sorted({*READERS.split(), "git log", "git diff", "git show", "git grep", "git blame"} - {"cd", "type"})
)
def test_no_option_of_a_reader_changes_a_file_or_runs_a_program(reader, tmp_path):
    """Each option that its help names is tried, if a command with it counts as reading."""
    if shutil.which(reader.split()[0]) is None:
        return
    for option in options_of(reader):
        for value in ("out", "./witness"):
            words = [f"{option}={value}"] if option.startswith("--") else [option, value]
            for command in ([*reader.split(), *words, "in"], [*reader.split(), option, "in", value]):
                if only_reads({"command": command}):
                    assert not run_in(tmp_path / "top", command), command


@pytest.mark.parametrize(
    "command",
    [
        "rm x",
        "cd y; sudo rm -rf /",
        "ls | xargs rm",
        "sh -c 'git reset --hard'",
        "git push --force origin main",
        "git push -f",
        "find . -delete",
        ["rm", "x"],
        "python -c 'import os; os.system(\"rm x\")'",
        "docker system prune",
        "echo 'open",
        "",
    ],
)
def test_commands_that_may_destroy_something(command):
    assert destroys({"command": command})


@pytest.mark.parametrize(
    "command",
    [
        "echo x > there",
        "make &> sub/there",
        "cat <<EOF >| there\nx\nEOF",
        "mv new there",
        "mv -f new sub/deep/../there",
        "cp new other/there sub",
        ["cp", "new", "there"],
        "cp --no-dereference new there",
        "mv -n -f new there",
        "mv -nf new there",
        "mv --no-clobber new there --force",
        "mv -n --interactive new there",
        "mv -- -n there",
        "cp -Sn new there",
        "cp -S -n new there",
        "cp --suffix -n new there",
        "install -gnogroup new there",
        "install -onobody new there",
        "ls | tee there -- -a",
        "ls | tee there",
        "ls | tee --output-error=warn there",
    ],
)
def test_commands_that_overwrite_a_file(command, top):
    (top / "sub" / "deep").mkdir(parents=True)
    assert not overwrites({"command": command}, top)
    (top / "there").touch()
    (top / "sub" / "there").touch()
    assert overwrites({"command": command}, top)


def test_existing_files_are_searched_in_the_folder_of_the_command(top):
    (top / "sub").mkdir()
    (top / "sub" / "there").touch()
    assert overwrites({"command": "> there", "folder": "sub"}, top)
    assert not overwrites({"command": "> there"}, top)


async def test_a_command_that_overwrites_a_file_in_its_own_folder_asks(make_registry, top, tmp_path):
    registry = make_registry(mode="default", sandbox="workspace-write", root=".")
    (top / "there").touch()
    tool = next(tool for tool in registry.tools() if tool.name == "shell")

    def decided(folder):
        context = ReadonlyContext(work_dir=str(folder))
        return registry.permissions.decide(tool, {"command": "echo x > there"}, context=context)

    assert (decided(top).action, decided(top).reason) == ("ask", "it marks this call destructive")
    assert decided(tmp_path / "elsewhere").reason != "it marks this call destructive"


@pytest.mark.parametrize(
    "command",
    [
        "echo x >> there",
        "mv -n new there",
        "mv --no-clobber new there",
        "cp -anv --preserve=mode -- new there",
        "mv new there -n --verbose",
        "tee -a there",
        "tee --append there",
        "echo '> there'",
        "make > /dev/null",
        "x > $Y",
        "echo 'open",
        "",
    ],
)
def test_commands_that_dont_overwrite_a_file(command, top):
    (top / "there").touch()
    assert not overwrites({"command": command}, top)


@pytest.mark.parametrize(
    "command", ["make", "git commit -m 'rm old files'", "docker run --rm x", "git push", "npm test"]
)
def test_commands_that_only_seem_destructive(command):
    assert not destroys({"command": command})
