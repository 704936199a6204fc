"""What bash hands over when it asks for completions."""

from __future__ import annotations

import os

from click.shell_completion import BashComplete, split_arg_string


class BashLine(BashComplete):
    """Bash takes `=` and `:` for ends of words, so our script hands over the line up to the cursor as it stands."""

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the cursor, without the program, and the one that is being written."""
        line = os.environ["COMP_WORDS"]
        words = split_arg_string(line)[1:]
        return (words, "") if not words or line[-1:].isspace() else (words[:-1], words[-1])
