# The public names for type checkers. Written by scripts/public_types.py; don't edit.

from pegboard.request.exporter import ResponseReader as ResponseReader
from pegboard.request.model_request import StreamingModel as StreamingModel, ToolChoice as ToolChoice
from pegboard.request.processors import DEFERRED as DEFERRED
