"""Pictures, documents, videos and sounds as Converse's blocks."""

from __future__ import annotations

import re
from collections.abc import Mapping

from attrs import define, field

from pegboard.request.exporters.bedrock.limits import BedrockLimits
from pegboard.request.exporters.worded import worded
from pegboard.tools.content import AudioContent, Content, FileContent, ImageContent, LinkContent
from pegboard.typing import JsonObject

_S3 = "s3://"


@define(eq=False)
class BedrockMedia:
    """Writes the media of one request: each document in it needs a name of its own.

    Attributes:
        limits: What the provider takes.
    """

    limits: BedrockLimits
    _names: dict[str, int] = field(factory=dict[str, int], init=False)

    def block(self, content: Content, *, in_result: bool) -> JsonObject | None:
        """Content as a block: of its own kind where there is one, else in words; `None` where there are none.

        Args:
            content: What is to be shown.
            in_result: Whether it is a result's, which can't hold sounds.
        """
        block = self.native(content, in_result=in_result)
        if block is not None:
            return block
        text = worded(content)
        return {"text": text} if text.strip() else None

    def native(self, content: Content, *, in_result: bool) -> JsonObject | None:
        """Content as a block of its own kind; `None` where there is none."""
        if isinstance(content, LinkContent):
            source = {"s3Location": {"uri": content.uri}} if content.uri.startswith(_S3) else None
            return None if source is None else self._of(content.mime_type or "", source, content.name, in_result)
        if isinstance(content, ImageContent | AudioContent):
            return self._of(content.mime_type, {"bytes": content.data}, "", in_result) if content.data else None
        return self._file(content, in_result) if isinstance(content, FileContent) and content.data else None

    def _file(self, content: FileContent, in_result: bool) -> JsonObject | None:
        data = content.data.encode() if isinstance(content.data, str) else content.data
        name = content.uri.rstrip("/").rpartition("/")[2]
        kind = (content.mime_type or ("text/plain" if isinstance(content.data, str) else "")).partition(";")[0].strip()
        return self._of(kind, {"bytes": data}, name, in_result)

    def _of(self, kind: str, source: JsonObject, name: str, in_result: bool) -> JsonObject | None:
        limits = self.limits
        if kind in limits.documents:
            document = {"format": limits.documents[kind], "name": self._document_name(name), "source": source}
            return {"document": document}
        kinds: Mapping[str, Mapping[str, str]] = {"image": limits.images, "video": limits.videos}
        kinds = kinds if in_result else {**kinds, "audio": limits.audio}
        member = next((member for member, formats in kinds.items() if kind in formats), None)
        return None if member is None else {member: {"format": kinds[member][kind], "source": source}}

    def _document_name(self, name: str) -> str:
        """A name as the provider takes it (letters, digits, single spaces, `-()[]`; public), each once."""
        plain = re.sub(r"\s+", " ", re.sub(r"[^A-Za-z0-9\s()\[\]-]", " ", name)).strip() or "document"
        plain = plain[: self.limits.document_name].rstrip()
        number = self._names.get(plain, 0) + 1
        self._names[plain] = number
        if number == 1:
            return plain
        suffix = f" ({number})"
        return self._document_name(plain[: self.limits.document_name - len(suffix)].rstrip() + suffix)


__all__ = ["BedrockMedia"]
