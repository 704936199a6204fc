# The public names for type checkers. Written by scripts/public_types.py; don't edit.

from pegboard.tools.call import (
    CallError as CallError,
    CallFault as CallFault,
    State as State,
    arguments_object as arguments_object,
    merge_actions as merge_actions,
    parsed_object as parsed_object,
)
from pegboard.tools.content import (
    BINARY as BINARY,
    Content as Content,
    ErrorKind as ErrorKind,
    encodable_text as encodable_text,
    is_text_type as is_text_type,
    json_or_text as json_or_text,
    media_type as media_type,
    plain_type as plain_type,
    read_content as read_content,
    text_of_file as text_of_file,
)
from pegboard.tools.context import EMPTY_CONTEXT as EMPTY_CONTEXT, DisplayUpdate as DisplayUpdate
from pegboard.tools.handler import Handler as Handler
from pegboard.tools.spec import (
    HOST as HOST,
    alike as alike,
    check_name as check_name,
    is_valid_name as is_valid_name,
    mapped_name as mapped_name,
)
from pegboard.tools.stores import check_artifact_name as check_artifact_name
from pegboard.tools.tool import ATTRIBUTE as ATTRIBUTE, LONG_RUNNING as LONG_RUNNING
from pegboard.tools.typed import tools_from as tools_from
from pegboard.tools.visible import visible_spec as visible_spec
