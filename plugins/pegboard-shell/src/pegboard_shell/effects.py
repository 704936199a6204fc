"""Effects of commands: which certainly change nothing, and which may destroy something.

Lines are parsed as for permission rules: a command that another one runs (`sudo`, `sh -c`, `xargs`, `find -exec`) may
destroy what it would by itself, a line that can't be parsed may destroy something, and neither counts as read-only.
What is overwritten is known of the line's own commands only.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path, PurePath
from typing import Any, Final

from pegboard import Permissions, Rule, Tool
from pegboard.permissions import HOLE, UnreadableError, may_run_or_write, read_line

READERS: Final = """
    [ arch basename cat cd cksum cmp column comm cut df diff dirname du echo egrep expand expr false fgrep file fmt fold
    free grep groups head hexdump id jq join ls lsblk lscpu md5sum nl nproc od paste pgrep printenv printf ps pwd
    readlink realpath rev rg seq sha1sum sha256sum sha512sum sort stat strings tac tail test tr tree true tsort tty type
    uname unexpand uniq uptime wc whereis which who whoami
"""
"""Programs that only read, except with the options that `may_run_or_write` finds."""
_READ_SUBCOMMANDS: Final = {
    "git": """
        blame cat-file describe diff grep log ls-files ls-tree merge-base name-rev rev-list rev-parse shortlog show
        show-ref status version
    """,
    "docker": "images inspect logs ps version",
    "getent": "group passwd protocols rpc services shells",
}
_READ_FORMS: Final = """
    find *|sed -n *|< *|command -v *|date|date +*|hostname|git branch|git branch -a|git branch -r
    git branch -v|git branch -vv|git remote -v|git stash list *|git tag -l *
"""
_DESTROYERS: Final = """
    rm *|rmdir *|unlink *|shred *|truncate *|dd *of=*|mkfs*|wipefs *|blkdiscard *|fdisk *|parted *|kill *|killall *
    pkill *|reboot *|shutdown *|halt *|poweroff *|crontab -r*|userdel *|groupdel *|chmod -R *|chown -R *|find *-delete*
    rsync *--del*|mv * /dev/null|dropdb *|redis-cli *flush*
    git reset *--hard*|git clean *|git checkout -- *|git checkout * -- *|git checkout .*|git checkout -f*|git restore *
    git push *--force*|git push *-f*|git push *--delete*|git push *--mirror*|git branch *-D *|git branch *--delete*
    git stash drop*|git stash clear*|git reflog expire*|git filter-branch *|git update-ref -d*|git rebase *
    docker *prune*|docker rm *|docker * rm *|docker rmi *|podman *prune*|kubectl *delete *|helm *uninstall *
    helm *delete *|terraform *destroy*|terraform apply *|aws * delete*|aws s3 rm *|gcloud * delete *|az * delete *
    consul kv delete *|vault * delete *|gh repo delete *|gh release delete *|cargo yank *|npm unpublish *
    npm uninstall *|pip uninstall *|apt *remove *|apt *purge *|apt-get *remove *|apt-get *purge *
"""
_APPENDS: Final = re.compile("-[^-]*a.*|--append")  # an option of `tee`
_KEEPS: Final = re.compile("-[^-fiSt]*n[^-fiS]*|--no-clobber")  # an option of `mv` and `cp`, but not of `install`
_MAY_UNDO_IT: Final = re.compile("(-[^-]*[fiS]|--(f|i|su)).*")  # the last one counts, and -n may be -S's suffix


def _patterns(text: str) -> list[str]:
    return [each.strip() for line in text.split("\n") for each in line.split("|") if each.strip()]


_READING: Final = Permissions(
    [
        *(Rule("shell", f"{name} *", "allow") for name in READERS.split()),
        *(
            Rule("shell", f"{of} {name} *", "allow")
            for of, names in _READ_SUBCOMMANDS.items()
            for name in names.split()
        ),
        *(Rule("shell", form, "allow") for form in _patterns(_READ_FORMS)),
    ]
)
# Rules that deny, as these apply to what can't be parsed as well.
_DESTROYING: Final = Permissions([Rule("shell", form, "deny") for form in _patterns(_DESTROYERS)])
_SHELL: Final = Tool.from_schema(
    "shell",
    {"type": "object", "properties": {"command": {}}, "required": ["command"], "additionalProperties": False},
    permission="shell",
    permission_arguments={"command": "command"},
)


def only_reads(arguments: Mapping[str, Any]) -> bool:
    """Whether a command certainly changes nothing; false for unknown commands."""
    command = _command_of(arguments)
    return _decision(command, by_destroyers=False) == "allow" and not any(map(may_run_or_write, _commands_in(command)))


def destroys(arguments: Mapping[str, Any]) -> bool:
    """Whether a command may destroy something, as far as is known; true if it can't be parsed."""
    return _decision(_command_of(arguments), by_destroyers=True) == "deny"


def overwrites(arguments: Mapping[str, Any], root: Path) -> bool:
    """Whether a command overwrites an existing file, as far as is known: not by commands that this one runs.

    Args:
        arguments: The command and its folder.
        root: The folder that this one is relative to.
    """
    command = _command_of(arguments)
    try:
        folder = root / str(arguments.get("folder") or ".")
        targets = [target for words in _commands_in(command) for target in _targets(words, folder)]
        return any((folder / target).is_file() for target in targets if HOLE not in target)
    except (UnreadableError, OSError, ValueError):
        return False


def _commands_in(command: str | tuple[str, ...]) -> Iterator[list[str]]:
    """The words of each command that this one runs; an output file is one of the command `>`."""
    line = read_line(command if isinstance(command, str) else shlex.join(command))
    return (each.words for each in line.commands)


def _targets(words: Sequence[str], folder: Path) -> Iterator[str]:
    """The files that one command overwrites, if it is known to."""
    program, end = words[0] if words else "", words.index("--") if "--" in words else len(words)
    options = [word for word in words[1:end] if word.startswith("-")]
    operands = [*(word for word in words[1:end] if not word.startswith("-")), *words[end + 1 :]]
    keeps = any(map(_KEEPS.fullmatch, options)) and not any(map(_MAY_UNDO_IT.fullmatch, options))
    if program == ">" or (program == "tee" and not any(map(_APPENDS.fullmatch, options))):
        yield from operands
    elif len(operands) > 1 and (program == "install" or (program in {"mv", "cp"} and not keeps)):
        *sources, target = operands
        is_folder = HOLE not in target and (folder / target).is_dir()
        yield from (f"{target}/{PurePath(source).name}" for source in sources) if is_folder else [target]


def _command_of(arguments: Mapping[str, Any]) -> str | tuple[str, ...]:
    """The command of a call, hashable; an empty one if there is none."""
    command: Any = arguments.get("command")
    return command if isinstance(command, str) else tuple(command or ())


@lru_cache(512)
def _decision(command: str | tuple[str, ...], *, by_destroyers: bool) -> str | None:
    arguments = {"command": command if isinstance(command, str) else list(command)}
    return (_DESTROYING if by_destroyers else _READING).decide(_SHELL, arguments).action
