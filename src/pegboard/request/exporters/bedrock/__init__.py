"""Amazon Bedrock's Converse, in the words of `boto3`: media are bytes, and a stream's events are dicts.

`exporter` has the face, `limits` the numbers. Each other module is one noun of the wire: tools out, blocks and results
out, answers in, events of a stream.
"""

from __future__ import annotations

from pegboard.request.exporters.bedrock.exporter import Bedrock
from pegboard.request.exporters.bedrock.limits import BedrockLimits

__all__ = ["Bedrock", "BedrockLimits"]
