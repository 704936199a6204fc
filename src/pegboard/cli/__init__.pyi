# The public names for type checkers. Written by scripts/public_types.py; don't edit.

from pegboard.cli.commands.manifest import plugins_of as plugins_of
from pegboard.cli.log import BoundedHandler as BoundedHandler, log_to_stderr as log_to_stderr
from pegboard.cli.options import (
    FILE_PATH as FILE_PATH,
    Options as Options,
    call_options as call_options,
    context_of as context_of,
    context_options as context_options,
    registry_options as registry_options,
    tool_options as tool_options,
    where_option as where_option,
)
from pegboard.cli.output import (
    OPEN_QUESTIONS as OPEN_QUESTIONS,
    Screen as Screen,
    Status as Status,
    hide_status as hide_status,
    image_escapes as image_escapes,
    json_line as json_line,
    json_pretty as json_pretty,
    json_rows as json_rows,
    one_line as one_line,
    read_stdin as read_stdin,
    report_error as report_error,
    rows_text as rows_text,
    stderr_screen as stderr_screen,
    stdin_is_terminal as stdin_is_terminal,
    stdout_screen as stdout_screen,
    tools_text as tools_text,
    write as write,
    write_note as write_note,
    write_unbuffered as write_unbuffered,
)
from pegboard.cli.run import (
    approval_questions as approval_questions,
    approver_for as approver_for,
    flush_input as flush_input,
    handle_interrupts as handle_interrupts,
    show_progress as show_progress,
    show_request as show_request,
    unanswered_text as unanswered_text,
    write_event as write_event,
)
from pegboard.cli.session import (
    Session as Session,
    merge_configuration as merge_configuration,
    open_session as open_session,
)
