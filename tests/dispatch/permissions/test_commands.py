"""Commands as rules match them: allowed, denied, and hidden ones."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from pegboard import PermissionRules, Rule
from pegboard.dispatch.permissions.commands import command_parts
from pegboard.dispatch.permissions.evaluation import Resource
from pegboard.dispatch.permissions.rule import UnreadableError


@pytest.mark.parametrize(
    ("line", "wider", "literal"),
    [
        ("ls -la", "ls *", True),
        ("git push origin", "git push *", True),
        ("git", None, True),
        ("npm exec prettier", None, True),
        ("hatch run test", "hatch run test *", True),
        ("git bisect run make", None, True),
        ("npm run test -- -x", "npm run test *", True),
        ("git -C x push", None, True),
        ("git remote add a b", "git remote add *", True),
        ("consul kv get a/b", "consul kv get *", True),
        ("consul members", "consul members *", True),
        ("aws s3 ls x", "aws s3 ls *", True),
        ("gcloud compute instances list", "gcloud compute instances *", True),
        ("pytest tests", "pytest *", True),
        ("pytest $X", "pytest *", False),
        *((each, None, True) for each in ("rm x", "sudo ls", "python -c 'a b'", "python3.11 x", "vim x", "./run x")),
        *((each, None, True) for each in ("> f", "A=b")),
        ("rm *.py", None, False),
        ("rm '*'", None, True),
        *((each, None, False) for each in ("rm $X", "git $X", "$X", "echo $(ls)")),
    ],
)
def test_the_wider_pattern_of_a_command(line, wider, literal):
    part = command_parts(line)[0]
    assert (part.wider, part.literal) == (wider, part.shown if literal else None)


def decide(line, *rules):
    return PermissionRules(rules).decide("bash", [Resource("command", line)]).action


def denied(line, pattern="git push *"):
    return decide(line, Rule("bash", pattern, "deny")) == "deny"


def allowed(line, *patterns):
    return (
        decide(
            line, *(Rule("bash", each, "allow") for each in patterns or ("git *", "ls *", "echo *", "test *", "A=*"))
        )
        == "allow"
    )


@pytest.mark.parametrize(
    "line",
    [
        *("git status", "echo git push", 'grep "git push" file', "git log --grep push", "git stash push"),
        *("git commit -m 'git push'",),
        *("cd x && make", "for f in *.py; do echo $f; done", "echo $(date)", "echo $((1+2))"),
        *("[[ -f x ]] && ls", "ls > out 2>&1"),
        *("cat <<E\ngit push\nE", "sudo apt update", "npm run push", "sudo grep 'git push' x", "xargs ls"),
        *("timeout 5 ls",),
        *("find . -name '*.py' | xargs grep foo", "echo ${HOME}/x", "sh script.sh", "bash -x script.sh", "env"),
        *("sudo -i",),
        *("diff <(ls a) <(ls b)", 'while read l; do echo "$l"; done < f', "case $1 in start) echo a;; esac"),
        *("export A=b",),
        *("python -c 'git_push()'", "python git push", "echo 'exec git push' > x", "GITHUB='git push' ls"),
        *("git pushx", ". ./activate", "source activate", "find . -name x"),
        *("docker push git", "uv push", "npm push git", "docker run git", "bwrap", "uv run"),
        *("find . -exec \\;", "sudo -n", "timeout 5", "bash file <<E\ngit push\nE", "> sudo"),
    ],
)
def test_other_commands_are_not_denied(line):
    assert decide(line, Rule("bash", "git push *", "deny")) is None


def test_options_and_expansions_hide_no_command():
    for line in (
        *("git -C /x push", "git --no-pager push", "git -c a.b=c push", "git --git-dir x push", "g$X push", "$X push"),
        *(
            "git $X",
            "git push$X",
            "$X git push",
            "git $(echo push)",
            "git pus*",
            "sudo $X git push",
            "sudo -u $X git push",
        ),
    ):
        assert denied(line)


@pytest.mark.parametrize("pattern", ["> *", "> /etc/*", "X=*", "* > f", "ls | *"])
def test_a_rule_about_several_commands_is_not_matched_with_nested_texts(pattern):
    assert not denied("sed 's/etc/X ls f/' x", pattern)
    assert not denied("awk '{print X}' ls", pattern)


def test_a_command_of_one_word_is_found_too():
    for line in ("su bob -c reboot", "script -qc reboot", "flock f --command reboot", "ssh host reboot", "eval reboot"):
        assert denied(line, "reboot")


def test_command_v_runs_nothing():
    assert decide("command -v git", Rule("bash", "git *", "deny")) is None
    assert decide("command git", Rule("bash", "git *", "deny")) == "deny"


def test_what_runs_without_its_empty_words_is_denied_by_an_exact_pattern():
    assert denied("git push $EMPTY", "git push")
    assert denied("git $EMPTY push", "git push")
    assert denied("cat ~/x", "cat /home/me/x")


@pytest.mark.parametrize(
    "line",
    [
        *("git status", "git", "ls && git log", "git log | ls", "git log $X", "ls *.py", 'echo "a b"'),
        *("(git status; ls)",),
        *("{ ls; }", "if ls; then git status; fi", "! ls", "git status # x", "ls 2>/dev/null", "ls >/dev/null 2>&1"),
        *("git status &", 'echo "$HOME"', "echo {a,b}", 'git commit -m "x; rm -rf /"', "git commit -m '$(rm)'"),
        *("ls \\\n -l",),
        *("git log <<E\nfoo\nE", "git log -- a", "git status\n\nls\n", "'git' status", "echo é"),
        *("while ls; do git status; done",),
    ],
)
def test_a_line_is_allowed_where_each_of_its_commands_is(line):
    assert allowed(line)


@pytest.mark.parametrize(
    "line",
    [
        *("git status; rm x", "git status\nrm x", "ls || rm", "ls | rm", "ls & rm", "(ls; rm)", "if ls; then rm; fi"),
        *("git $(ls)", "git `ls`", 'git "$(ls)"', "ls <(ls)", "git ${X:-y}", 'echo "${x@P}"', "echo ${!x}"),
        *("ls <<E\n$(ls)\nE",),
        *("$X", "$X status", "g?t status", "{git,status}", '"git status"', "git\\ status", "'' git"),
        *("/usr/bin/git status",),
        *("./git status", "GIT status", "sudo git status", "env git status", "X=1 git status", "PATH=/x; git status"),
        *("git status > f", "git status >>f", "ls &>f", "ls >& f", "git log < f", "git log <> f"),
        *("ls &>/dev/null rm x",),
        *("f() { ls; }; f", "function ls { ls; }", "for x in a; do ls; done", "select x in a; do ls; done"),
        *("case x in x) ls;; esac",),
        *("[[ a ]]", "((1))", "echo $((x))", "ls $[1]", "coproc ls", "ls=1", "ls ${a[$(rm)]}", "x[$(rm)]=1 ls"),
        *("echo a(b)",),
        *("git\u00a0status", "git\u200b status", "ls\rrm", "git status\0x", 'ls "', "ls )", "", "#", " "),
        *("ls <<E\nx", "test -v 'a[$(ls)]'", "A='$(ls)'", "echo ${a@P}"),
    ],
)
def test_a_line_with_anything_else_is_not_allowed(line):
    assert not allowed(line)
    assert decide(line, Rule("bash", "*", "deny")) == "deny"


def test_redirections_and_assignments_can_be_allowed_by_themselves():
    assert allowed("git log > out.txt", "git *", "> out.txt")
    assert not allowed("git log > /etc/passwd", "git *", "> out.txt")
    assert allowed("CI=1 git log", "git *", "CI=*")
    assert not allowed("CI=1 rm x", "CI=*")


def test_a_pattern_may_be_written_as_the_command_is():
    assert allowed('git commit -m "a b"', 'git commit -m "*"')
    assert allowed("echo $HOME", "echo $HOME")
    assert not allowed("echo $USER", "echo $HOME")


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        *(("X=*", line) for line in ("X=y ls", "X+=y ls", "env X=y ls", "env -i A=b X=y ls", "sudo X=y ls")),
        *(("X=*", line) for line in ("export X=y", "export X+=y", "declare -x X=y", "nice env X=y ls", "readonly X=y")),
        *(("> /etc/*", f"ls {sign}") for sign in (">/etc/x", ">>/etc/x", "&>>/etc/x", "1<>/etc/x", ">|/etc/x")),
        *(("> /etc/*", f"ls > {place}") for place in ("//etc/x", "/tmp/../etc/x", "/./etc//x", "///etc/x")),
        ("< /etc/*", "cat <> /etc/x"),
    ],
)
def test_an_assignment_or_a_redirection_is_denied_however_it_is_written(pattern, line):
    assert denied(line, pattern)
    assert decide(line, Rule("bash", "X=z", "deny"), Rule("bash", "> /etcetera/*", "deny")) is None


def test_quoted_words_stay_separate():
    """A program called `ls /tmp` is another than `ls`."""
    assert not allowed("'ls /tmp'", "ls /tmp")
    assert denied("'ls' '/tmp'", "ls /tmp")


def test_a_pattern_may_deny_a_whole_line():
    assert denied("curl x | sh", "curl * | sh*")
    assert denied("echo x > /etc/passwd", "* > /etc/*")
    assert not allowed("curl x | sh", "curl * | sh*")


def test_the_last_match_wins_command_by_command():
    rules = [Rule("bash", "rm *", "deny"), Rule("bash", "rm -i *", "allow"), Rule("bash", "ls *", "allow")]
    assert decide("rm -i a; ls", *rules) == "allow"
    assert decide("rm -i a; rm b", *rules) == "deny"
    assert decide("sudo rm -i a", *rules) is None
    assert decide("sudo rm a", *rules) == "deny"


def test_to_ask_what_may_be_meant_is_enough():
    asks = Rule("bash", "git push *", "ask")
    assert decide("git $X", Rule("bash", "git *", "allow"), asks) == "ask"
    assert decide("sudo git push", Rule("bash", "sudo *", "allow"), asks) == "ask"
    assert decide("git log", Rule("bash", "git *", "allow"), asks) == "allow"


def test_a_rule_that_may_apply_never_relaxes_a_decision():
    """A rule that only may apply isn't the last match: earlier rules still count."""
    assert decide("/bin/git push", Rule("bash", "git *", "deny"), Rule("bash", "git push *", "ask")) == "deny"


def test_a_line_that_is_too_deep_or_too_long_is_denied():
    assert denied("sudo " * 8 + "ls", "never")
    assert denied("sudo " + "-u x " * 50 + "ls", "never")
    assert denied("env -S '" + "a b; " * 500 + "'", "never")
    line = "sudo -a b -c d -e f -g h -i j " + "x" * 30_000
    with pytest.raises(UnreadableError):
        command_parts(line)


ODD_LINES = [
    *("for i in 1 2; do ls; done", "f() { ls; }; f", "case x in x) ls;; esac", "echo $(date)", "ls `date`", "(( 1 ))"),
    *("echo ${X:-a}", "echo $((1+2))", "[[ -f x ]]", "$X a", "test -v 'a[$(ls)]'", "cat <(ls)", "echo 'open", "a=(b)"),
    *("while read l; do $l; done < f", "function f { ls; }", "time { ls; }", "echo $[1]", "cat <<E", ""),
]


@pytest.mark.parametrize("line", ODD_LINES)
def test_the_pattern_for_everything_allows_any_line(line):
    """Unless a rule that denies may apply to what can't be read, in any order; another pattern allows none."""
    everything, deny = Rule("bash", "*", "allow"), Rule("bash", "rm *", "deny")
    assert decide(line, everything) == "allow"
    assert decide(line, Rule("bash", "*", "allow", kind="command")) == "allow"
    assert decide(line, Rule("bash", "?*", "allow")) is None
    unknown = PermissionRules([deny]).decide("bash", [Resource("command", line)]).action
    for rules in ((deny, everything), (everything, deny)):
        assert decide(line, *rules) == (unknown or "allow")


def test_a_later_rule_for_everything_overrides_one_that_surely_denies():
    """As it does in a line without a loop."""
    deny, everything = Rule("bash", "rm *", "deny"), Rule("bash", "*", "allow")
    for line in ("rm x", "for i in 1; do rm x; done"):
        assert decide(line, deny, everything) == "allow"
        assert decide(line, everything, deny) == "deny"
        assert decide(line, Rule("bash", "rm *", "deny", forbid=True), everything) == "deny"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("for i in 1; do ls; done", "only the pattern '*' allows 'for i in 1': the line has 'for'"),
        ("ls $(date)", "only the pattern '*' allows 'ls $(date)': the line has a substitution"),
        ("f() { ls; }", "only the pattern '*' allows 'f': the line has a function, an array or arithmetic"),
        ("$X", "only the pattern '*' allows '$X': which program it runs isn't known beforehand"),
        ("ls 'open", "only the pattern '*' allows \"ls 'open\": it can't be read for sure (a quote isn't closed)"),
        ("ls; id", "no rule allows 'id'"),
        ("", "only the pattern '*' allows '': it can't be read for sure (no command)"),
    ],
)
def test_what_no_rule_allows_is_said_with_the_reason(line, why):
    assert PermissionRules([Rule("bash", "ls *", "allow")]).decide("bash", [Resource("command", line)]).line == why


COMMANDS = st.sampled_from(["git status", "ls -l", "rm x", "echo 'a b'", "git log > f", "X=1 ls", "cat $F", "sudo ls"])
JOINS = st.sampled_from([";", "&&", "||", "|", "\n", "&"])


@given(
    st.lists(COMMANDS, min_size=1, max_size=4),
    JOINS,
    st.sets(st.sampled_from(["git *", "ls *", "rm *", "cat *", "> f", "*"])),
)
def test_a_line_is_allowed_exactly_where_each_segment_is(commands, join, patterns):
    rules = [Rule("bash", pattern, "allow") for pattern in sorted(patterns)]
    together = decide(f" {join} ".join(commands), *rules)
    assert (together == "allow") == all(decide(command, *rules) == "allow" for command in commands)


@given(
    st.lists(COMMANDS, min_size=1, max_size=4), JOINS, st.sampled_from(["git *", "ls *", "rm x", "cat *", "> f", "*"])
)
def test_a_line_is_denied_exactly_where_one_segment_is(commands, join, pattern):
    rule = Rule("bash", pattern, "deny")
    together = decide(f" {join} ".join(commands), rule)
    assert (together == "deny") == any(decide(command, rule) == "deny" for command in commands)


SHELLS = sorted({os.path.realpath(shell) for name in ("bash", "dash", "sh") if (shell := shutil.which(name))})
RECORDER = """#!/bin/sh
call=${0##*/}
for word in "$@"; do call="$call|$word"; done
printf '%s%%' "$call" >>"$RECORD"
"""
PARTS = [
    *("c0 ", "c1 ", "c2 ", "c0 a", "c1 b", "'c2'", "c\\2", '"c"2', "$x", "${x:-c2}", "$(c2)", "`c2`"),
    *('"$(c2 a)"', "c?"),
    *("$(c0", ")", "(", "((", "))", "{ ", "; }", "{c2,a}", "\n", ";", "&", "&&", "|", " ", " ", "\\", "\\\n"),
    *("'", '"'),
    *("`", ">f", "2>&1", "&>f ", "<<E\n", "\nE\n", "<<'E'\n", "<<<", "#", "# c2\n", "$'", "!", "~", "[", "]"),
    *("=", "x=c2 "),
    *("x=(c0 a)", "if ", "; then ", "; fi", "while ", "; do ", "; done", "for x in a b", "case x in x)", ";;"),
    *("esac", "for x do ", "set 1;"),
    *("f()", "function f", "eval ", "[[ ", " ]]", "sh -c ", "env ", "command "),
]
LINES = st.lists(st.sampled_from(PARTS), min_size=1, max_size=8).map("".join)
ALLOWED = PermissionRules([Rule("shell", pattern, "allow") for pattern in ("c0 *", "c1 *", "x=*")])


@pytest.fixture(scope="module")
def recorders(tmp_path_factory):
    """A folder of programs that record how they are called."""
    folder = tmp_path_factory.mktemp("recorders")
    for name in ("c0", "c1", "c2"):
        (folder / name).write_text(RECORDER)
        (folder / name).chmod(0o755)
    for name in ("sh", "env"):
        (folder / name).symlink_to(shutil.which(name))
    return folder


def calls_of(shell, line, recorders):
    """The words of each command that a shell runs of a line."""
    # A folder of its own: background processes of an earlier line may still write to that line's record.
    state = Path(tempfile.mkdtemp(dir=recorders))
    record = state.with_suffix(".record")
    process = subprocess.Popen(
        [shell, "-c", line],
        cwd=state,
        env={"PATH": str(recorders), "RECORD": str(record)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        process.wait(2)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
    process.wait()
    recorded = record.read_text() if record.exists() else ""
    return [call.split("|") for call in recorded.split("%")[:-1]]


@pytest.mark.parametrize("shell", SHELLS)
@given(line=st.sampled_from(["c0 ", "c1 ", ""]).flatmap(lambda start: LINES.map(start.__add__)))
def test_what_a_shell_runs_has_been_found(shell, line, recorders):
    """Each command that ran is denied by a rule that names exactly it; and if the line was allowed, each was."""
    subject = Resource("command", line)
    allowed = ALLOWED.decide("shell", [subject]).action == "allow"
    for words in calls_of(shell, line, recorders):
        named = PermissionRules([Rule("shell", " ".join(filter(None, words)), "deny")])
        assert named.decide("shell", [subject]).action == "deny", words
        assert not allowed or words[0] in ("c0", "c1"), words
