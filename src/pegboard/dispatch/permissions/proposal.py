"""What an answer "always" to a command would allow: the same program, or the same subcommand of it."""

from __future__ import annotations

import re
from typing import Final

from pegboard.dispatch.permissions.match import exactly
from pegboard.dispatch.permissions.runner import RUNNERS, SHELLS
from pegboard.dispatch.permissions.shell_line import Command
from pegboard.dispatch.permissions.wildcard import HOLE

_SUBCOMMANDS: Final = {
    **dict.fromkeys(("git", "gh", "helm", "cargo", "go", "npm", "pnpm", "yarn"), 2),
    **dict.fromkeys(("bun", "pip", "pip3", "uv", "poetry", "brew", "apt", "apt-get", "dnf", "systemctl", "conda"), 2),
    **dict.fromkeys(("just", "dotnet", "terraform", "gradle", "mvn", "rustup", "nox", "tox"), 2),
    **dict.fromkeys(("aws", "gcloud", "az"), 3),
    **dict.fromkeys((f"{tool} run" for tool in ("npm", "pnpm", "yarn", "bun", "uv", "poetry", "cargo")), 3),
    **dict.fromkeys(("git remote", "git stash", "git config", "git worktree", "uv pip"), 3),
    **dict.fromkeys((f"gh {what}" for what in ("pr", "issue", "repo", "release", "run", "api")), 3),
}
"""How many words name what is done, where it is more than one."""

_DO_ANYTHING: Final = frozenset(
    {*RUNNERS, *SHELLS, "eval", "source", ".", "trap", "alias", "export", "find", "fd", "fdfind", "awk", "sed", "tee"}
    | {"python", "python3", "node", "deno", "perl", "ruby", "php", "lua", "osascript", "npx", "uvx", "pipx", "make"}
    | {"rm", "rmdir", "mv", "dd", "shred", "truncate", "chmod", "chown", "ln", "kill", "pkill", "killall", "curl"}
    | {"wget", "scp", "rsync", "nc", "docker", "podman", "kubectl"}
)
"""Programs of which one call says nothing of the next: only exactly the same is proposed."""

_WORD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/-]*")


def proposed(command: Command, text: str) -> str | None:
    """The pattern that is proposed, or `None` where none could be said.

    Args:
        command: Of a line that could be allowed.
        text: The command as one text.
    """
    words = command.words
    if not command.is_program or words[0] in _DO_ANYTHING or "/" in words[0]:
        return None if HOLE in text else exactly(text)
    named = words[: _length(words)]
    if not all(_WORD.fullmatch(word) for word in named):
        return None if HOLE in text else exactly(text)
    return f"{' '.join(named)} *"


def _length(words: list[str]) -> int:
    length = 1
    while (longer := _SUBCOMMANDS.get(" ".join(words[:length]), length)) > length:
        length = longer
    return length


__all__ = ["proposed"]
