"""Shell commands as rules match them, with the commands that they wrap (`sudo`, `env`, `xargs`, `sh -c`, `find -exec`).

Wrapped commands are found so that rules can deny or ask about them; they never allow anything. Where an option may or
may not take a value, both readings count.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import pairwise
from posixpath import normpath
from typing import Final

import attrs
from attrs import field, frozen

from pegboard.dispatch.permissions.rule import HOLE, Match, Part, Rule, UnreadableError, Wildcard, refuse_if, wildcard
from pegboard.dispatch.permissions.shell import ASSIGNMENT, Command, Line, read_line

_KINDS: Final = """
shell: sh bash dash ash zsh ksh mksh fish rbash yash csh tcsh osh elvish xonsh nu pwsh bash-static posh lksh oksh loksh
  powershell
language: python pypy ipython perl ruby irb node nodejs deno bun php lua luajit awk gawk mawk nawk sed ex vi vim nvim
  view ed emacs gdb lldb sqlite mysql mariadb psql tclsh wish expect m4 gnuplot octave r rscript osascript groovy jshell
  scala ghci ocaml guile julia erl elixir dc make gmake
wrapper 0: sudo doas su runuser setpriv command builtin exec env nohup time nice ionice stdbuf setsid unbuffer watch
  script systemd-run busybox toybox unshare nsenter strace ltrace fakeroot entr xargs parallel pkexec run0 daemonize
  setarch linux32 linux64 i386 uname26 prlimit numactl choom runcon sg capsh valgrind rlwrap xvfb-run dbus-run-session
  systemd-inhibit torsocks tsocks proxychains proxychains4 chronic eatmydata tini dumb-init catatonit tmux screen dtach
  sshpass coreutils ld.so openvt cpulimit sem caffeinate ssh-agent dbus-launch noglob nocorrect - not and or begin {
  spawn system softlimit chpst s6-softlimit fakechroot uclampset timelimit ifne tsp nq trickle heaptrack catchsegv
  hyperfine watchexec run-one keep-one-running daemon xe rush bunx uvx systemd-cat aa-exec arch torify ts abduco
  dpkg-architecture history
wrapper 1: timeout chroot flock taskset chrt ssh setuidgid faketime datefudge logsave repeat gosu su-exec s6-setuidgid
  envuidgid envdir s6-envdir s6-envuidgid setlock lckdo mosh rsh dbclient when-changed pidproxy
anywhere: bwrap firejail proot nsjail gdb lldb rr start-stop-daemon mpirun srun npx cgexec lxc-attach systemd-nspawn
  setarch runcon tmux abduco cmd
behind: docker podman nerdctl crictl buildah kubectl oc lxc incus machinectl pct apptainer singularity uv poetry
  pipenv pipx conda mamba micromamba hatch pdm rye npm pnpm yarn bun nix flatpak flatpak-spawn distrobox toolbox direnv
  mise asdf rbenv pyenv bundle dotenv op doppler aws-vault chamber ip perf cmake xterm konsole gnome-terminal i3-msg
starts a shell 0: sudo doas unshare nsenter linux32 linux64 fakeroot capsh pkexec
starts a shell 1: su runuser setarch script chroot ssh sg newgrp nix-shell run0
starts a shell later: at batch crontab
reads a text: ssh su runuser env watch script flock parallel sg capsh tmux screen entr nix-shell mapfile readarray
  compgen complete split expect npx npm nodemon hyperfine vagrant mosh rsh dbclient rush mispipe pee rsync tar man xterm
  history cmd
evaluates: test [ [[ printf read declare typeset local export readonly let unset set mapfile readarray getopts wait for
  shift integer float
options: less more man tar bsdtar cpio zip sort wget tcpdump strace socat nc ncat scp sftp sshfs ssh ftp telnet mail
  mailx npm pnpm yarn nmap fc bind
gnu: timeout env find xargs nice nohup stdbuf chroot split time test printf rm mv cp dd ln chmod chown tee shred
  truncate rmdir install sed awk
two words: git gh helm cargo go npm pnpm yarn bun pip pip3 uv poetry hatch pdm rye brew apt apt-get dnf systemctl conda
  just terraform gradle mvn rustup nox tox dotnet consul vault nomad flyctl heroku glab hg svn jj pulumi rake mix
three words: aws gcloud az doctl npm_run pnpm_run yarn_run bun_run uv_run poetry_run hatch_run pdm_run rye_run cargo_run
  git_remote git_stash git_config git_worktree git_submodule uv_pip gh_pr gh_issue gh_repo gh_release gh_run gh_api
  consul_kv consul_acl vault_kv vault_auth vault_secrets nomad_job terraform_state terraform_workspace helm_repo
  dotnet_nuget pulumi_stack glab_mr glab_issue
interpreter: eval source . trap find fd fdfind npx pipx
anything: alias export tee rm rmdir mv dd shred truncate chmod chown ln kill pkill killall curl wget scp rsync nc docker
  podman kubectl
"""


def _programs(table: str) -> dict[str, frozenset[str]]:
    """Programs by kind: a line has the kind, a colon and names, and further lines begin with a blank."""
    lines = (line.partition(": ") for line in re.split(r"\n(?! )", table.strip()))
    return {kind: frozenset(names.split()) for kind, _, names in lines}


_NAMED: Final = _programs(_KINDS)
SHELLS: Final = _NAMED["shell"]  # the programs that are shells
LANGUAGES: Final = _NAMED["language"]  # interpreters that aren't shells
WRAPPERS: Final = {**dict.fromkeys(_NAMED["wrapper 0"], 0), **dict.fromkeys(_NAMED["wrapper 1"], 1)}
"""Programs that run a command, with the number of operands of their own before it."""

_RUNNERS: Final = {
    **dict.fromkeys(_NAMED["anywhere"], ""),
    **dict.fromkeys(_NAMED["behind"], "exec run shell enter --host dlx x stat record trace -E -- -e -c --command"),
    "git": "run foreach -x --exec",
}
"""Programs whose options take several words: the command starts anywhere, or anywhere behind one of these words."""

_RUN_FIRST: Final = {
    name: (frozenset(words), int(operands))
    for kind, names in _programs("""
0: npx firejail mpirun srun cgexec setarch runcon
exec dlx x 0: npm pnpm yarn bun
run 0: uv poetry pipenv pipx conda mamba micromamba hatch pdm rye flatpak toolbox dotenv op doppler
run foreach 0: git go deno
run -c --command 0: nix
-- 0: bwrap nsjail proot rr systemd-nspawn lxc-attach start-stop-daemon aws-vault
exec x --host 0: bundle mise rbenv pyenv asdf flatpak-spawn
exec run shell enter 1: docker podman nerdctl crictl kubectl oc lxc incus machinectl pct apptainer singularity
  distrobox direnv chamber ip
""").items()
    for *words, operands in [kind.split()]
    for name in names
}
"""Programs that run their first operand behind one of these words, and behind operands of their own (a container)."""

_GROUPS: Final = frozenset({"compose", "container", "netns", "tool", "submodule", "bisect"})  # words before such a word
_NO_VALUE: Final = (
    frozenset({"--yes", "-y", "--quiet", "--recursive"}),
    frozenset({"--rm", "-i", "-t", "-d", "-it", "-ti", "--tty", "--interactive", "--detach"}),
)
"""Options that take no value, of programs with so many operands of their own."""

_FILL_IN: Final = frozenset({"xargs", "parallel"})  # add words from their input
_FINDERS: Final = {
    "find": re.compile("-(?:exec|execdir|ok|okdir)()"),
    **dict.fromkeys(("fd", "fdfind"), re.compile(r"(?:-[A-Za-z]*?[xX]|--exec(?:-batch)?(?:=|$))(.*)", re.DOTALL)),
}
"""The option before a command, and what is attached to it."""

_ASSIGN: Final = frozenset({"export", "declare", "typeset", "local", "readonly", *WRAPPERS})
_SETS: Final = re.compile("[^-=][^=]*=")  # an assignment to `env`, which takes any name
_NAMES_PROGRAM: Final = {"coreutils": re.compile(r"^--coreutils-prog(?:-shebang)?="), "cmd": re.compile(r"^/+[A-Za-z]")}
"""Prefix of a program's name in the same word."""
_TAKES_TEXT: Final = re.compile(r"[-+][A-Za-z]*c[A-Za-z]*")
_BEFORE_TEXT: Final = re.compile(r"-[A-Za-z]*c|--command", re.IGNORECASE)
_TAKES_VALUE: Final = re.compile(r"[-+][A-Za-z]*[oO][A-Za-z]*|-C|--(init-|rc)?(command|file)|-Command|--emulate")
_ATTACHED: Final = (
    re.compile(r"--?[A-Za-z-]*=|-[A-Za-z]|\w*command[ =]", re.IGNORECASE),
    re.compile("-[A-Za-z]*?[cS]"),  # after other letters: `script -qc'...'`
)
MOST_STARTS: Final = 8
_VERSION: Final = re.compile(r"(?<=ld)-[\w.-]*(?=\.so)|(?<=\.so)[.0-9]+$|(?<=[a-z])-?[0-9.]+$")
"""Version in the name of a program: `bash-5.2`, `ld-linux-x86-64.so.2`."""

_LISTS: Final = frozenset({"-l", "-q", "-r", "-d", "-c", "-e", "-V"})  # options that start no shell later
_STARTS_SHELL: Final = dict.fromkeys(_NAMED["starts a shell 0"], 0) | dict.fromkeys(_NAMED["starts a shell 1"], 1)
"""Programs that run a shell if they get no command, with the number of operands of their own."""

_SPLITS: Final = re.compile(r"-[A-Za-z0-9]*S.*|--s.*")  # the option of `env` whose text has escapes of its own
_TEXTUAL: Final = LANGUAGES.union(_NAMED["options"])  # programs that run others by a text that isn't in shell syntax
_NO_WORD: Final = re.compile(r"[^\w./-]")
_BETWEEN_WORDS: Final = re.compile(r"[^\w.~+*?-]+")
_GIT_RUNS: Final = re.compile(r"-[cOux]|--(?:exec|extcmd|upload-pack|receive-pack|open-files-in-pager)\b|!|ext::")
_RUN_LATER: Final = re.compile(
    r"(?s)\w*(?:PAGER|EDITOR|VISUAL|BROWSER|ASKPASS|SHELL|COMMAND|RSH|SSH|DIFF|OPEN|CLOSE|VALUE_\d+|FLAGS|OPT|OPTIONS)"
    r"\+?=(.*)"
)
"""Assignments whose value other programs may run."""

_INDEX: Final = re.compile(r"\[.*(\$[({]|`)", re.DOTALL)  # of a variable or in arithmetic
_VALUE: Final = re.compile(r"(?s)(?:BASH_ENV|ENV|PROMPT_COMMAND|BASH_FUNC_[^=]*)\+?=(.*)|\w+\+?=(.*(?:\$\(|`).*)")
"""Assignments whose value a shell may run later."""

_SEVERAL: Final = re.compile(r"[\s;&|()<>$`]")


def program_of(words: Sequence[str]) -> str:
    """The name of a command, as `name_of`, without a version."""
    name = name_of(words)
    return name if name in INTERPRETERS else _VERSION.sub("", name)


def name_of(words: Sequence[str]) -> str:
    """The name of a command in lower case (as for systems that find `RM`), without its folder.

    Also without a leading `=`, which zsh replaces by the folder, and without the `g` of GNU programs.
    """
    name = words[0].rpartition("/")[2].lower().lstrip("=").removesuffix(".exe")
    return name[1:] if name.startswith("g") and name[1:] in _NAMED["gnu"] else name


def wrapped_commands(command: Command) -> Iterator[Command | str]:
    """What a command runs according to its words: commands, and texts that a shell reads."""
    yield from _evaluation_texts(command)
    if not command.is_program or not command.words:
        return
    name, arguments = program_of(command.words), command.words[1:]
    if name in _NAMES_PROGRAM:
        arguments = [_NAMES_PROGRAM[name].sub("", word, count=1) or word for word in arguments]
    if name in SHELLS:
        yield from _by_shell(arguments, command.scripts)
    if name in WRAPPERS and not (name == "command" and arguments[:1] in (["-v"], ["-V"])):  # which only describe it
        for words in starts(arguments, WRAPPERS[name]):
            yield Command(_fill(words, arguments) if name in _FILL_IN else words, scripts=command.scripts)
    if name in _RUNNERS:
        before = _RUNNERS[name].split()
        behind = next((place for place, word in enumerate(arguments) if word in before), len(arguments))
        for place in range(behind + 1 if before else 0, len(arguments)):
            yield Command(list(arguments[place:]), scripts=command.scripts)
    yield from _shell_texts(name, arguments, command.scripts)
    if name in _ASSIGN:
        yield from (Command([word], is_program=False) for word in arguments if _SETS.match(word))
    if name in _FINDERS:
        yield from _by_finder(arguments, _FINDERS[name])
    yield from _by_builtin(name, arguments)


def programs_run(words: Sequence[str]) -> Iterator[list[str]]:
    """The commands that a wrapper, `npx`, `uv run` or `docker exec` runs, at each place where one may start."""
    name, arguments = program_of(words), list(words[1:])
    if name in WRAPPERS:
        yield from starts(arguments, WRAPPERS[name])
    elif name in _RUN_FIRST:
        before, operands = _RUN_FIRST[name]
        behind = next((place for place, word in enumerate(arguments, 1) if word in before), None) if before else 0
        if behind is not None:
            yield from starts([word for word in arguments[behind:] if word not in _NO_VALUE[operands]], operands)


def runs_anything(words: Sequence[str]) -> bool:
    """Whether a command that begins with these words can run any program: `sudo`, `docker`, `uv run`."""
    name = program_of(words)
    if name in INTERPRETERS or (name in _RUN_FIRST and _GROUPS.issuperset(words[1:])):
        return True
    return any(HOLE in found[0] for found in programs_run([*words, HOLE, HOLE]))


def _shell_texts(name: str, arguments: Sequence[str], scripts: Sequence[str]) -> Iterator[str]:
    """The texts that a program passes to a shell, or splits as a shell does."""
    operands = sum("-" not in (word[:1], before[:1]) for before, word in zip(["", *arguments], arguments, strict=False))
    if operands <= _STARTS_SHELL.get(name, -1):
        yield from scripts
    if name in _NAMED["starts a shell later"] and _LISTS.isdisjoint(arguments):
        yield from scripts or (HOLE,)
    if name == "env" and "\\" in "".join(arguments) and any(map(_SPLITS.fullmatch, arguments)):
        yield HOLE
    runs_text = name == "git" and not {"rebase", "foreach", "filter-branch"}.isdisjoint(arguments)
    if not (runs_text or name in _NAMED["reads a text"]):
        return
    for before, word in zip(["", *arguments], arguments, strict=False):
        if _SEVERAL.search(word) or _BEFORE_TEXT.fullmatch(before):  # several words, without an attached option, too
            yield word
            yield from (word[option.end() :] for each in _ATTACHED if (option := each.match(word)))


def _evaluation_texts(command: Command) -> Iterator[str]:
    """The texts that a shell reads as a value and may still run."""
    assigns = not command.is_program or (command.words and name_of(command.words) in _ASSIGN)
    for word in command.words if assigns else ():
        if value := _VALUE.fullmatch(word):
            yield value[1] or value[2] or ""
    if command.words and name_of(command.words) in _NAMED["evaluates"]:
        yield from filter(_INDEX.search, command.words[1:] + command.scripts)


def _by_builtin(name: str, arguments: Sequence[str]) -> Iterator[str]:
    """The texts that shell builtins run."""
    if arguments[:1] == ["--"]:
        arguments = arguments[1:]
    if name == "eval":
        yield " ".join(arguments)
    elif name == "trap":
        yield from arguments[:1]
    elif name == "hash" and any(word.startswith("-") and "p" in word for word in arguments):
        yield HOLE
    elif name == "alias":
        yield from (each.partition("=")[2] for each in arguments)
    elif name in (".", "source") and arguments and (HOLE in arguments[0] or _is_standard_input(arguments[0])):
        yield HOLE


def starts(arguments: Sequence[str], own: int) -> Iterator[list[str]]:
    """Every reading of `[options] [operands] command`: the command, at each place where it may start.

    At most 8; if there are more, the last is a hole, which is any command.
    """
    least = most = found = 0
    behind_option = False
    for place, word in enumerate(arguments):
        sets = _SETS.match(word) is not None
        if HOLE not in word and (word.startswith("-") or (sets and not own)):
            behind_option = "=" not in word and word not in ("-", "--")
            continue
        if least <= own <= most:
            found += 1
            yield list(arguments[place:]) if found < MOST_STARTS else [HOLE]
        most += 1
        least += not (behind_option or sets or HOLE in word)
        behind_option = HOLE in word
        if least > own or found == MOST_STARTS:
            return


def _fill(words: list[str], arguments: Sequence[str]) -> list[str]:
    """A command with holes where `xargs` fills it in: at its end, and at a placeholder."""
    marks = {"{}"}
    for place, word in enumerate(arguments):
        if word.startswith("-I"):
            marks.add(word[2:] or "".join(arguments[place + 1 : place + 2]))
    for mark in marks - {""}:
        words = [word.replace(mark, HOLE) for word in words]
    return [*words, HOLE]


def _by_shell(arguments: Sequence[str], scripts: Sequence[str]) -> Iterator[str]:
    """The texts that a shell runs; what can't be seen is a hole."""
    operands = list[str]()
    text_follows = reads = skip = False
    for word in arguments:
        if HOLE in word and not operands and not text_follows:
            yield HOLE
        if text_follows or skip:
            yield word
        if word.startswith("--") and "=" in word:
            yield word.partition("=")[2]
        if word.startswith(("-", "+")) and word != "-":
            text_follows = text_follows or _TAKES_TEXT.fullmatch(word) is not None
            reads = reads or (not word.startswith("--") and "s" in word)
            skip = _TAKES_VALUE.fullmatch(word) is not None
        elif skip:
            skip = False
        else:
            operands.append(word)
    if not text_follows and (reads or not operands or _is_standard_input(operands[0])):
        yield from scripts or (HOLE,)


def _is_standard_input(file: str) -> bool:
    return re.search(r"^-$|(^|/)stdin$|(^|/)fd/[0-9]+$|^[0-9]+$", normpath(file)) is not None


def _by_finder(arguments: Sequence[str], option: re.Pattern[str]) -> Iterator[Command]:
    for place, word in enumerate(arguments):
        if found := option.fullmatch(word):
            rest = [*filter(None, found.groups()), *arguments[place + 1 :]]
            end = min((rest.index(each) for each in (";", "+") if each in rest), default=len(rest))
            if end:
                yield Command([each.replace("{}", HOLE) for each in rest[:end]])


INTERPRETERS: Final = SHELLS.union(LANGUAGES, WRAPPERS, _NAMED["interpreter"])
"""Programs that can run anything, as their arguments say."""

_DO_ANYTHING: Final = INTERPRETERS.union(_NAMED["anything"])
"""Programs whose calls differ too much in effect: no wider pattern is offered."""

_WORD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/-]*")


def suggest_rule(command: Command) -> str | None:
    """The wider pattern to offer for a command that could be allowed, or `None`."""
    words = command.words
    if not command.is_program or program_of(words) in _DO_ANYTHING or "/" in words[0]:
        return None
    named = words[:1]
    for length, kind in ((2, "two words"), (3, "three words")):  # that name an action of the program
        named = words[:length] if "_".join(named) in _NAMED[kind] else named
    is_narrow = all(_WORD.fullmatch(word) for word in named) and not runs_anything(named)
    return f"{' '.join(named)} *" if is_narrow else None


MOST_CHARACTERS: Final = 100_000
MOST_LEVELS: Final = 6
_SPANS: Final = frozenset(";&|<>\n")
_NEEDS_QUOTES: Final = frozenset(" \t\n\"'\\;&|()<>")


def command_parts(text: str) -> tuple[Part, ...]:
    """The commands of a shell line, each decided by itself, and after them those only seen inside them."""
    line = read_line(text)
    refuse_if(not line.commands, "no command")
    parts = sorted((part_of(command, line) for command in line.commands), key=lambda part: part.inside)
    hidden = parts[0].inside  # only arithmetic is seen
    whole = WholeLine(shown=text.strip(), inside=not hidden, obstacle=line.obstacle if hidden else "")
    return (*parts, whole, *_inner_parts(line.commands))


@frozen
class WholeLine(Part):
    """Whole line as written, for deny and ask rules whose pattern spans several commands."""

    def match(self, rule: Rule) -> Match:
        """Leaves a pattern of one command to `CommandPart`."""
        if rule.allows or _SPANS.isdisjoint(rule.pattern):
            return Match.NO
        return Match.SURELY if rule.wildcard.matches(self.shown) else Match.NO


@frozen
class CommandPart(Part):
    """Single command."""

    command: Command
    shown: str = field(default=attrs.Factory(lambda it: it.exact[-1].replace(HOLE, "*"), takes_self=True), init=False)

    @cached_property
    def exact(self) -> tuple[str, ...]:
        """Its text, normalised and as written."""
        words, source = self.command.words, self.command.source
        text = _quote_words(words) if self.command.is_program else " ".join(words)
        return (text,) if source in (None, text) else (text, source)

    @cached_property
    def loose(self) -> tuple[str, ...]:
        """Other forms of it, for deny and ask rules only: without its folder or its options, say."""
        words = self.command.words
        if self.command.is_program:
            names = [words[0], words[0].rpartition("/")[2], name_of(words)]
            if HOLE in words[0]:  # the hole may hold a folder
                names.append(HOLE + words[0].rpartition(HOLE)[2])
            rests = [words[1:], *starts(words[1:], 0)]
            assigned = [_quote_words(self.command.assignments + words)] if self.command.assignments else []
            return (*(_vague([name, *rest]) for name in dict.fromkeys(names) for rest in rests), *assigned)
        if len(words) == 1:
            return (words[0].replace("+=", "=", 1),)
        place = normpath(words[1]).replace("//", "/")
        return tuple(f"{sign} {place}" for sign in (*words[0], words[0]))

    @cached_property
    def nested(self) -> str:
        """The words of texts that may make it run others (`awk 'BEGIN{system("rm x")}'`), with a blank around each."""
        words, texts = self.command.words, [*self.command.scripts]
        if not self.command.is_program:
            later = _RUN_LATER.fullmatch(words[0])
            texts = [later[1]] if later else []
        elif (name := program_of(words)) == "git":
            is_config = "config" in words
            pairs = (pair for pair in pairwise(words) if is_config or any(map(_GIT_RUNS.match, pair)))
            texts += (_GIT_RUNS.sub(" ", word, count=1) for _, word in pairs)
        elif name in _TEXTUAL:
            texts += filter(_NO_WORD.search, words[1:])
        else:
            return ""
        return _pad(" ".join(texts)) if texts else ""

    @property
    def literal(self) -> str | None:
        """The command, if it is always the same."""
        return None if self.obstacle or HOLE in self.exact[0] else self.shown

    @property
    def wider(self) -> str | None:
        """The words that name the action, with any others."""
        return None if self.obstacle else suggest_rule(self.command)

    def match(self, rule: Rule) -> Match:
        """An allow rule must match whatever the shell fills in; a deny or ask rule may match."""
        match = rule.wildcard.match
        if any(match(text) is Match.SURELY for text in self.exact):
            return Match.NO if self.obstacle and rule.allows else Match.SURELY
        if rule.allows:
            return Match.NO
        if any(match(text) is not Match.NO for text in (*self.exact, *self.loose)):
            return Match.PERHAPS
        return Match.PERHAPS if self.nested and _inner_pattern(rule.pattern).matches(self.nested) else Match.NO


@frozen
class UnknownCommand(Part):
    """Command that isn't known beforehand, inside another one: any deny or ask rule may match it, none surely."""

    inside: bool = field(default=True, init=False)
    obstacle: str = field(default="what it runs isn't known beforehand", init=False)

    def match(self, rule: Rule) -> Match:
        """Whether the rule denies or asks."""
        return Match.NO if rule.allows else Match.PERHAPS


def part_of(command: Command, line: Line, *, inside: bool = False) -> CommandPart:
    """The part of one command."""
    obstacle = line.obstacle
    if not command.words[0] or (command.is_program and HOLE in command.words[0]):
        obstacle = obstacle or "which program it runs isn't known beforehand"
    elif any(_evaluation_texts(command)):
        obstacle = obstacle or "a shell may run a value in it"
    return CommandPart(command, inside=inside or command.inside, obstacle=obstacle)


def _pad(text: str) -> str:
    return f" {_BETWEEN_WORDS.sub(' ', text)} "


@lru_cache(1_024)
def _inner_pattern(pattern: str) -> Wildcard:
    """A rule's pattern, to be found anywhere in nested words; matches none if it isn't about a single command."""
    is_command = _SPANS.isdisjoint(pattern) and not ASSIGNMENT.match(pattern)
    return wildcard(f"*{_pad(pattern).rstrip(' *')} *" if is_command else "")


def _quote_words(words: list[str]) -> str:
    """The words as one text, quoted so that each stays one word."""
    return " ".join(word if word and _NEEDS_QUOTES.isdisjoint(word) else shlex.quote(word) for word in words)


def _vague(words: list[str]) -> str:
    """The words as one text in which those that the shell fills in may be missing."""
    text = " ".join(HOLE + word.lstrip("~") if word.startswith("~") else word for word in words)
    text = " ".join(text.split())  # a tool may join the words of a list and have them split again
    return text.replace(f" {HOLE}", HOLE).replace(f"{HOLE} ", HOLE) if HOLE in text else text


def _inner_parts(commands: Sequence[Command]) -> Iterator[Part]:
    """The commands that commands run, recursively; raises `UnreadableError` if there are too many."""
    left, waiting = MOST_CHARACTERS, [(each, 0) for each in commands]
    while waiting:
        command, level = waiting.pop()
        for found in wrapped_commands(command):
            left -= len(found) if isinstance(found, str) else sum(map(len, found.words)) + len(found.words)
            refuse_if(left < 0, "commands in commands in commands")
            try:
                line = Line([found]) if isinstance(found, Command) else read_line(found)
            except UnreadableError:
                line = None
            if line is None or level == MOST_LEVELS:
                yield UnknownCommand()
                continue
            yield from (part_of(inner, line, inside=True) for inner in line.commands)
            waiting += [(inner, level + 1) for inner in line.commands]
