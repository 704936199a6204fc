"""The `registry` command: answered from the cache where possible, else by the full CLI."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # typing costs more than everything else that is loaded here
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Runs `registry`.

    Args:
        argv: The arguments without the program's name; those of the process by default.

    Returns:
        The exit code.
    """
    arguments = sys.argv[1:] if argv is None else list(argv)
    if sys.stdout is None:
        if sys.stderr is not None:
            sys.stderr.write("error: standard output is closed; to discard it, redirect it to /dev/null\n")
        return 1
    try:
        from pegboard.cli.warm import answer

        code = answer(arguments)
        if code is None:
            from pegboard.cli.main import main as full

            code = full(arguments)
    except KeyboardInterrupt:
        return 130  # 128 + SIGINT, as in shells
    return code


def run() -> None:
    """Runs `registry` and exits the process, without waiting for threads that tools have left behind."""
    import gc

    gc.disable()  # until the command is imported: looking for garbage then takes a twelfth of a cold listing
    code = main()
    if "pegboard.cli.run" in sys.modules:
        from pegboard.cli.run import has_left_threads

        if has_left_threads():
            import os

            for stream in (sys.stdout, sys.stderr):
                if stream is not None:
                    stream.flush()
            os._exit(code)  # an ordinary end would wait for them
    else:
        gc.freeze()  # no tool has run; collecting garbage at exit would take a sixth of a listing's time
    sys.exit(code)


if __name__ == "__main__":
    if not sys.flags.safe_path:
        del sys.path[0]  # the current folder, which `python -m` puts first: its modules aren't installed plugins
    run()
