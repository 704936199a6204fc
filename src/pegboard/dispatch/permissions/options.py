r"""Options by which programs run other programs or code, write files or use the network; others only read by them.

A table has a line for each group of programs, or for subcommands of one (`git:log`), with its forms:

- `-x`: a short option, also among other letters (`-vx`); `--name`: a long one, also abbreviated; `-name`: a word;
- `-x=REGEX`: the option, if its value begins so; `=REGEX`: a word that begins so;
- `#2`: the operands from the second on.

The value, which is the program or the code, follows in the same word or the next one. With `!` there is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final, TypeAlias

from pegboard.dispatch.permissions.commands import program_of
from pegboard.dispatch.permissions.rule import HOLE

_GIT_KEYS: Final = (
    r"=(?i:alias|pager|core\.(pager|editor|askpass|sshcommand|gitproxy|fsmonitor|hookspath|attributesfile)"
    r"|(sequence|web\w*)\.\w*(editor|browser)|include\w*|credential|filter|difftool|mergetool|browser|man"
    r"|(diff|merge)\.(external|guitool|tool|[^=]*\.(command|textconv|driver))|gpg\.[^=]*program|interactive\.difffilter"
    r"|protocol|url|uploadpack|receive|remote\.[^=]*(uploadpack|receivepack|vcs)|trailer|tar|sendemail|submodule|init|imap)[^=]*=?"
)
_VARIABLES: Final = (
    r"=(PATH|(DY)?LD_\w+|(BASH_)?ENV|PYTHON(PATH|HOME|STARTUP)|PERL5(LIB|OPT)|RUBY(LIB|OPT)|NODE_OPTIONS|LESSOPEN"
    r"|GIT_(CONFIG|EXEC|SSH|EXTERNAL|PROXY)\w*|\w*(PAGER|EDITOR|VISUAL|BROWSER|ASKPASS|SHELL|RSH|PROMPT_COMMAND))="
)
RUN: Final = rf"""
env sudo doas: {_VARIABLES}
env: -S --split-string
su runuser: -c --command --session-command -s --shell
script flock: -c --command
sg: -c #2
watch eval parallel hyperfine concurrently mispipe pee entr: #1
ssh rsh mosh dbclient: #2
ssh scp sftp sshfs: -o=(?i:(proxy|local|knownhosts)command|permitlocal\w*|pkcs11\w*|securitykey\w*|match)\s*[=\s]?
scp sftp: -S -D
git: -c{_GIT_KEYS} --exec-path --config-env
git:log git:diff git:show git:stash git:shortlog git:blame: --ext-diff! --textconv! --show-signature! =.*%G
git:clone: -u -c{_GIT_KEYS} --config{_GIT_KEYS}
git:clone git:fetch git:pull git:ls-remote git:push git:archive: --upload-pack --receive-pack --exec
git:rebase git:difftool git:submodule: -x --exec --extcmd
git:tag: =.*signature
git:grep: -O --open-files-in-pager --textconv!
git:cat-file: --textconv! --filters! --batch-command!
git:filter-branch: =.* --env-filter --tree-filter --index-filter --parent-filter --msg-filter --commit-filter
git:filter-branch: --tag-name-filter --setup
hg: --config
svn: --diff-cmd --diff3-cmd --merge-cmd --editor-cmd --config-option
tar bsdtar: -I -F --to-command --use-compress-program --checkpoint-action --info-script --new-volume-script
tar cpio: --rsh-command --rmt-command
rsync: -e --rsh --rsync-path
man: -P --pager -H --html
make: --eval -E =[^-=][^=]*=
gdb: -ex -iex -eval-command -init-eval-command -x -ix -command -init-command
lldb: -o -O -s -S -k -K -source -one-line -one-line-before-file -source-before-file -one-line-on-crash
less more most: =\+
vim vi nvim view ex: =\+ --cmd -S -c
emacs: -eval -execute -f -funcall -l -load
socat: =(?is:.*?(exec|system|shell):)
nc ncat: -e -c --exec --sh-exec --lua-exec
find: -exec -execdir -ok -okdir
fd fdfind: -x -X --exec --exec-batch
file: -z! -Z! --uncompress! --uncompress-noreport!
rg: --pre --hostname-bin -z! --search-zip!
sort: --compress-program
split: --filter
zip: -TT --unzip-command
diff: -l! --paginate!
strace: -o=[|!]
tcpdump: -z
wget: -e --execute --use-askpass
nmap: --script
npm npx: --script-shell -c --call
nodemon: -x --exec
go: -exec -toolexec -vettool
cargo: --config
gcc cc clang: -wrapper -fplugin
rpm rpmbuild: -E --eval -D --define --pipe
bat delta ag: --pager
fzf: --preview --bind
mysql mariadb: --pager --init-command
sqlite: -cmd #2
docker podman: --entrypoint
dpkg apt apt-get aptitude: --pre-invoke --post-invoke -o --option
mutt neomutt ghc: -e
start-stop-daemon: -x -a --exec --startas
xterm konsole: -e
exiftool: -if -config
"""
"""Program names, then the options by which they run another program or code, as `options_used` reads them."""
CHANGE: Final = r"""
cat: =/+dev/
<: =/+dev/+(tcp|udp)/
curl: -o -O! --output --remote-name! -T --upload-file -D --dump-header -c --cookie-jar -K --config
date: -s --set #2
file: -C! --compile!
find: -delete! -fprint -fprint0 -fprintf -fls
getent: -s --service
git:log git:diff git:show git:stash git:shortlog git:whatchanged git:rev-list git:blame: --output
less: -o -O --log-file --LOG-FILE
printf: -v =.*%[^a-zA-Z%]*n
sed: =.*[wWe] =-\w*[ifI] -i! --in-place! -f --file
sort: -o --output -T --temporary-directory
tcpdump: -w
tree: -o -R!
uniq xxd: #2
who: --lookup!
"""

Form: TypeAlias = tuple[str, re.Pattern[str] | None, bool]
"""An option (`""` for any word), the beginning of its value, and whether it has a value."""

_TAR_VALUES: Final = "bfgCFHIKLNTVX"
_LETTERS: Final = re.compile(r"-([A-Za-z0-9.#:@]+)")


@cache
def forms(table: str) -> dict[str, list[Form]]:
    """The forms of each program, or subcommand."""
    read: dict[str, list[Form]] = {}
    for line in table.strip().splitlines():
        programs, _, texts = line.partition(": ")
        for program in programs.split():
            for text in texts.split():
                option, is_bound, pattern = text.partition("=")
                start = re.compile(pattern, re.DOTALL) if is_bound else None
                read.setdefault(program, []).append((option.rstrip("!"), start, not option.endswith("!")))
    return read


def options_used(words: Sequence[str], *tables: str) -> Iterator[tuple[str, str]]:
    """The forms that a command uses, each with its value, `""` if it has none.

    An option in place of which there is a hole isn't found.

    Args:
        words: The command.
        tables: `RUN`, `CHANGE`.
    """
    program = program_of(words)
    if program in ("tar", "bsdtar") and len(words) > 1 and not words[1].startswith("-"):
        words = _spell_out(words)
    end = _subcommand(words) if program == "git" else len(words)
    for table in tables:
        known = forms(table)
        yield from _find_uses(words[1:end], known.get(program, []))
        yield from _find_uses(words[end + 1 :], known.get(f"git:{''.join(words[end : end + 1])}", []))


def may_run_or_write(words: Sequence[str]) -> bool:
    """Whether a command uses a form of the tables, or may by a hole."""
    program, tables = program_of(words), (RUN, CHANGE)
    has_hole = any(HOLE in word for word in words)
    known = has_hole and any(name.partition(":")[0] == program for table in tables for name in forms(table))
    return known or any(options_used(words, *tables))


def _spell_out(words: Sequence[str]) -> list[str]:
    """A command of `tar` in its old style, with the letters of the first word as options before their values."""
    spelled, values = [words[0]], iter(words[2:])
    for letter in words[1]:
        spelled += [f"-{letter}", *([next(values, "")] if letter in _TAR_VALUES else [])]
    return [*spelled, *values]


def _subcommand(words: Sequence[str]) -> int:
    """The place of git's subcommand."""
    place = 1
    while place < len(words) and words[place].startswith("-"):
        place += 2 if words[place] in ("-c", "-C", "--git-dir", "--work-tree", "--namespace") else 1
    return place


def _find_uses(arguments: Sequence[str], known: Sequence[Form]) -> Iterator[tuple[str, str]]:
    operands, options = 0, True
    for place, word in enumerate(arguments):
        options = options and word != "--"
        is_word = word.startswith("-") and word != "-"  # `find -- . -delete` deletes
        is_option = options and is_word
        operands += not is_option
        after = arguments[place + 1] if place + 1 < len(arguments) else ""
        for option, pattern, has_value in known:
            value = word if option.startswith("#") and not is_option and operands >= int(option[1:]) else None
            if not option:
                value = word
            elif is_option or (is_word and option.lstrip("-") == word.lstrip("-") and len(option) > len("-x")):
                value = _value(option, word, after)
            if value is not None and pattern is not None:
                start = pattern.match(value)
                value = value[start.end() :] if start else None
            if value is not None:
                yield option or word, value if has_value else ""


def _value(option: str, word: str, after: str) -> str | None:
    """The value of an option that a word is, or has among its letters; `None` if it is another one."""
    name, is_attached, value = word.partition("=")
    if option.startswith("--"):
        is_it = name.startswith("--") and len(name) > len("--") and option.startswith(name)
        return (value if is_attached else after) if is_it else None
    if len(option) > len("-x"):
        return (value if is_attached else after) if name.lstrip("-") == option[1:] else None
    letters = _LETTERS.match(word)
    at = letters[1].find(option[1]) if letters else -1
    return None if at < 0 else (word[at + 2 :] or after)


def samples(program: str) -> Iterator[tuple[str, str]]:
    """The forms of a program that run or change something, each with an example; of those with a pattern, what runs."""
    for table in (RUN, CHANGE):
        for name, known in forms(table).items():
            if name.partition(":")[0] == program:
                for option, pattern, _ in known:
                    value = "x" if pattern is None else next(filter(pattern.match, _VALUES), "")
                    if option.startswith("#"):
                        yield option, " ".join("x" * int(option[1:]))
                    elif option and (pattern is None or table is RUN):
                        yield option, f"{option}{'=' if option.startswith('--') else ' '}{value}"
                    elif table is RUN:
                        yield value, value


_VALUES: Final = ["EXEC:x", "SHELL=x", "LD_PRELOAD=x", "alias.x=x", "ProxyCommand=x", "%G", "x.signature", "+x", "|x"]
"""Values for the patterns of `RUN`: at least one for each."""
