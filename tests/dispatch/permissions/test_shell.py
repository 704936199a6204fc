from __future__ import annotations

import pytest
from hypothesis import example, given, strategies as st

from pegboard.dispatch.permissions.rule import HOLE
from pegboard.dispatch.permissions.shell import MOST_LINE, UnreadableError, read_line

TOKENS = [
    *("git", "rm", "x", "A=b", "'", '"', "\\", "`", "$", "$(", "${", "$((", "))", "(", ")", "{", "}", "["),
    *("[[", "]]"),
    *(";", "&", "|", "&&", "||", "<", ">", "<<", "<<<", "<<-", "E", "\n", "#", "*", "?", "~", "!", "if"),
    *("then", "fi", " "),
]


def words(text):
    return [command.words for command in read_line(text).commands]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("git push", [["git", "push"]]),
        ("  git\tpush  ", [["git", "push"]]),
        ("a;b&&c||d|e&f\ng|&h", [["a"], ["b"], ["c"], ["d"], ["e"], ["f"], ["g"], ["h"]]),
        ("a;;b;&c;;&d", [["a"], ["b"], ["c"], ["d"]]),
        ("(a; b); { c; }", [["a"], ["b"], ["c"]]),
        ("( (a) )", [["a"]]),
        ("if a; then b; elif c; then d; else e; fi", [["a"], ["b"], ["c"], ["d"], ["e"]]),
        ("while a; do b; done; until c; do d; done", [["a"], ["b"], ["c"], ["d"]]),
        ("! a", [["a"]]),
        ("a # b; c", [["a"]]),
        ("# a\nb", [["b"]]),
        ("a#b", [["a#b"]]),
        ("a \\\n b", [["a", "b"]]),
        ("echo if then", [["echo", "if", "then"]]),
        ("'if' a", [["if", "a"]]),
        ("", []),
    ],
)
def test_every_command_of_a_line_is_found(text, found):
    assert words(text) == found
    assert not read_line(text).obstacle


@pytest.mark.parametrize(
    "text",
    ["git push", "'git' push", '"git" push', "g''it push", 'g""it push', "g\\it pu\\sh", "gi\\\nt push", "git 'push'"],
)
def test_quotes_and_escapes_are_removed(text):
    assert words(text) == [["git", "push"]]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("'a $b `c`'", "a $b `c`"),
        ('"a \\$b \\"c\\" \\\\ \\d"', 'a $b "c" \\ \\d'),
        ('"a\\\nb"', "ab"),
        ("'a\nb'", "a\nb"),
        ("''", ""),
        ("$", "$"),
        ("a$", "a$"),
        ('"$"', "$"),
        ("'\u202e'", "\u202e"),
        ("{}", "{}"),
        ("a}", "a}"),
        ("é", "é"),
        ("$a", HOLE),
        ("x$a.y", f"x{HOLE}.y"),
        ('"x $a"', f"x {HOLE}"),
        ("${a}b", f"{HOLE}b"),
        ("$?$#$$", HOLE * 3),
        ("${#a}", HOLE),
        ("*.py", f"{HOLE}.py"),
        ("a?", f"a{HOLE}"),
        ("[ab]c", HOLE),
        ("a[b]c", f"a{HOLE}"),
        ("a{b,c}d", f"a{HOLE}"),
        ("{1..3}", HOLE),
        ("$'a\\n'", HOLE),
        ('$"a"', f"{HOLE}a"),
    ],
)
def test_what_a_word_says_and_what_the_shell_fills_in_is_a_hole(text, word):
    assert words(f"echo {text}") == [["echo", word]]
    assert not read_line(f"echo {text}").obstacle


@pytest.mark.parametrize(
    "text",
    [
        *("echo $(rm x)", "echo `rm x`", 'echo "$(rm x)"', 'echo "a `rm x` b"', "cat <(rm x)", "cat a>(rm x)"),
        *(
            "echo ${a:-$(rm x)}",
            'echo ${a:-"$(rm x)"}',
            "echo ${a:-`rm x`}",
            "echo $(echo $(rm x))",
            "cat <<E\n$(rm x)\nE",
        ),
        *("echo `echo \\`rm x\\``", "a=$(rm x)", "echo > $(rm x)", "cat <<< $(rm x)", "for a in $(rm x); do b; done"),
        *("echo $(case a in a) rm x;; esac)", "echo $(cat <<E\nz\nE\nrm x)", "((rm x))", "a=($(rm x))"),
    ],
)
def test_commands_in_substitutions_are_found(text):
    line = read_line(text)
    assert ["rm", "x"] in [command.words for command in line.commands if command.inside]
    assert line.obstacle


@pytest.mark.parametrize(
    "text",
    [
        *(
            "f() { rm x; }; f",
            "f(){ rm x; }",
            "function f { rm x; }",
            "case a in (a) rm x;; esac",
            "case a in a|b) rm x; esac",
        ),
        *(
            "[[ -f a && b ]] && rm x",
            "[[ a =~ ^(b|c) ]]; rm x",
            "a=(b c); rm x",
            "for ((i=0; i<3; i++)); do rm x; done",
        ),
        *("for a in b; do rm x; done", "select a in b; do rm x; done", "((i<3)) && rm x", "echo a(b); rm x"),
        *("echo $((1 + (2)))\nrm x", "echo ${a%b}; rm x"),
        *("for a do rm x; done", "select a do rm x; done", "time -p for a do rm x; done", "for do do rm x; done"),
    ],
)
def test_commands_in_what_is_not_plain_are_found(text):
    line = read_line(text)
    assert ["rm", "x"] in [command.words for command in line.commands]
    assert line.obstacle


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a > b", [[">", "b"], ["a"]]),
        ("a >b c", [[">", "b"], ["a", "c"]]),
        ("a 2>>b <c <>d >|e", [[">>", "b"], ["<", "c"], ["<>", "d"], [">", "e"], ["a"]]),
        ("a &> b", [[">", "b"], ["a"]]),
        ("a &>> b", [[">>", "b"], ["a"]]),
        ("a >& b", [[">", "b"], ["a"]]),
        ("(a) > b", [["a"], [">", "b"]]),
        ("if a; then b; fi > c", [["a"], ["b"], [">", "c"]]),
        ("> a", [[">", "a"]]),
        ("a 2>&1 >/dev/null 2>/dev/stderr >&- <&0", [["a"]]),
        ("a > $b", [[">", HOLE], ["a"]]),
    ],
)
def test_a_redirection_to_a_file_is_a_command_of_its_own(text, found):
    assert words(text) == found
    assert [command.is_program for command in read_line(text).commands] == [each[0][0] not in "<>" for each in found]


def test_an_assignment_is_a_command_of_its_own():
    line = read_line('A=b C="d e" git push; E=f')
    assert [command.words for command in line.commands] == [["A=b"], ["C=d e"], ["git", "push"], ["E=f"]]
    assert [command.is_program for command in line.commands] == [False, False, True, False]
    assert line.commands[2].assignments == ["A=b", "C=d e"]


def test_the_source_of_a_command_is_stored_if_contiguous():
    sources = {" ".join(command.words): command.source for command in read_line("A=b 'x'  y; z >f w").commands}
    assert sources == {"A=b": None, "x y": "'x'  y", "> f": None, "z w": None}


@pytest.mark.parametrize(
    ("text", "script", "after"),
    [
        ("cat <<E\na\nb\nE\nls", "a\nb\n", [["cat"], ["ls"]]),
        ("cat <<'E'\n$(a)\nE", "$(a)\n", [["cat"]]),
        ("cat <<\\E\n`a`\\\nE", "`a`\\\n", [["cat"]]),
        ("cat <<-E\n\ta\n\tE\nls", "\ta\n", [["cat"], ["ls"]]),
        ('cat <<E; ls\n$a "b" \\$c\nE', f'{HOLE} "b" $c\n', [["cat"], ["ls"]]),
        ("cat <<<'a b'", "a b", [["cat"]]),
        ("cat <<E\nE", "", [["cat"]]),
    ],
)
def test_the_text_that_a_command_is_given(text, script, after):
    line = read_line(text)
    assert [command.words for command in line.commands] == after
    assert line.commands[0].scripts == [script]


def test_two_here_documents_follow_each_other():
    line = read_line("cat <<A <<B\n1\nA\n2\nB\nls")
    assert line.commands[0].scripts == ["1\n", "2\n"]
    assert line.commands[1].words == ["ls"]


@pytest.mark.parametrize(
    "text",
    [
        *("'a", '"a', "`a", "$(a", "${a", "(a", "a)", "a\\", "a >", "a > ;", "$((a", "echo $((1 << $(a)))"),
        *("((a", "coproc a"),
        *("git\u00a0push", "git\u200bpush", "git\rpush", "a\x0b", "a\\\u00a0b", "a\0b", "\ud800"),
        *("x" * (MOST_LINE + 1),),
        *("cat <<E", "cat <<E\na", "cat <<$E\na\nE", "cat <<E\na\\\nE\nE", "(cat <<E)\na\nE"),
        *("cat <<E $(a\n)\nE", "cat <<E 'a\n'\nE"),
        *("cat <<'a\nb'\na\nb", "cat <<E (a)\nE", "echo $'a\\'b'", "echo $[1]", "echo ${a:-'b'}"),
        *('echo "${a:-"b"}"', "echo ${a:-<(b)}"),
        *("echo ${ a; }", "echo ${|a; }", "${a:-", 'echo "`echo \\"a\\"`"', "[[ a #b ]]", "a=(b)c d"),
        *("a=(b)# d", "ls !(a|b)c"),
        *("a &>b c", "$(" * 20 + ")" * 20, "a;" * 300, "((a<<b))\nc\nb", "$((1))" + "$((a;b))"),
    ],
)
def test_what_shells_may_read_differently_is_refused_as_a_whole(text):
    with pytest.raises(UnreadableError):
        read_line(text)


@example("a" * 10_000)
@given(st.lists(st.sampled_from(TOKENS), max_size=30).map("".join) | st.text(max_size=20))
def test_any_text_is_read_or_refused(text):
    try:
        line = read_line(text)
    except UnreadableError:
        return
    assert all(command.words for command in line.commands)
