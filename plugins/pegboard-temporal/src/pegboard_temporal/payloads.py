"""Payloads of Temporal: the bytes of a message, or their file where they are too many for the server."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Final

from attrs import frozen
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue

from pegboard.files import read_private, write_private
from pegboard.threads import run_in_thread

MOST_INLINE: Final = 1_900_000  # bytes; Temporal refuses 2 MiB
_MOST_BESIDE_FILES: Final = 256 << 10  # bytes inline; the server warns from 512 KiB on, and keeps each in its database
_MOST_IN_FILE: Final = 64 << 20  # bytes
_JSON: Final = {"encoding": b"json/plain"}
_BINARY: Final = {"encoding": b"binary/plain"}
_FILE: Final = {"encoding": b"json/pegboard-file"}


@frozen
class Payloads:
    """Writes and reads payloads.

    Attributes:
        folder: Where files are, in a folder for each call, named by their SHA-256; `None` if all is sent inline.
    """

    folder: str | None

    @property
    def most_bytes(self) -> int:
        """How many bytes a message may have."""
        return MOST_INLINE if self.folder is None else _MOST_IN_FILE

    async def write(self, data: bytes, key: str) -> RawValue:
        """The payload of a message of the call with this key.

        Raises:
            OSError: Its file can't be written.
        """
        if self.folder is not None and len(data) > _MOST_BESIDE_FILES:
            name = sha256(data).hexdigest()
            await run_in_thread(write_private, self._path(key, name), data)
            return RawValue(Payload(metadata=_FILE, data=name.encode()))
        return RawValue(Payload(metadata=_JSON if data[:1] == b"{" else _BINARY, data=data))

    async def read(self, value: RawValue, key: str) -> bytes:
        """The message of a payload, which isn't trusted: a file is only read from the folder of this call.

        Raises:
            ValueError: The file is missing, was changed, or isn't this call's.
        """
        data = value.payload.data
        if value.payload.metadata.get("encoding") != _FILE["encoding"]:
            return data
        name = data.decode("ascii", "replace")
        if self.folder is None:
            raise ValueError("the message is in a file, and there is no `folder` in the settings here")
        if len(name) != 64 or not name.isalnum():
            raise ValueError("the message is in a file without a valid name")
        try:
            found = await run_in_thread(read_private, self._path(key, name), _MOST_IN_FILE)
        except OSError as error:
            raise ValueError(f"the message's file can't be read: {error.strerror}") from None
        if sha256(found).hexdigest() != name:
            raise ValueError("the message's file was changed")
        return found

    def _path(self, key: str, name: str) -> str:
        assert self.folder is not None
        return str(Path(self.folder, sha256(key.encode()).hexdigest(), name))
