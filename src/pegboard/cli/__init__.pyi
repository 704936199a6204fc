# The public names for type checkers. Written by scripts/public_types.py; don't edit.

from pegboard.cli.commands.manifest import plugins_of as plugins_of
from pegboard.cli.options import (
    FILE as FILE,
    Options as Options,
    call_options as call_options,
    context_of as context_of,
    context_options as context_options,
    registry_options as registry_options,
    tool_options as tool_options,
)
from pegboard.cli.output import (
    OPEN_QUESTIONS as OPEN_QUESTIONS,
    Screen as Screen,
    Status as Status,
    json_line as json_line,
    json_pretty as json_pretty,
    json_rows as json_rows,
    one_line as one_line,
    pictures as pictures,
    quiet as quiet,
    read_stdin as read_stdin,
    remark as remark,
    report_error as report_error,
    rows_text as rows_text,
    stderr_screen as stderr_screen,
    stdin_is_terminal as stdin_is_terminal,
    stdout_screen as stdout_screen,
    tools_text as tools_text,
    write as write,
    write_through as write_through,
)
from pegboard.cli.run import (
    approver_for as approver_for,
    dialogue as dialogue,
    flush_input as flush_input,
    interruptible as interruptible,
    show_progress as show_progress,
    show_request as show_request,
    unanswered as unanswered,
    write_event as write_event,
)
from pegboard.cli.session import (
    Session as Session,
    configuration_of as configuration_of,
    open_session as open_session,
    where_option as where_option,
)
