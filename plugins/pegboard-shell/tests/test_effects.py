"""Which commands count as read-only, and which as destructive."""

from __future__ import annotations

import pytest

from pegboard import ReadonlyContext
from pegboard_shell.effects import destroys, only_reads, overwrites


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
        "env ls",
        "sudo ls",
        "echo 'open",
        "",
        [],
    ],
)
def test_commands_that_may_change_something(command):
    assert not only_reads({"command": command})


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
        "ls | tee there",
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

    assert (decided(top).action, decided(top).reason) == ("ask", "marks this call destructive")
    assert decided(tmp_path / "elsewhere").reason != "marks this call destructive"


@pytest.mark.parametrize(
    "command",
    [
        "echo x >> there",
        "mv -n new there",
        "tee -a there",
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
