"""`DirectoryArtifacts`: pegboard's `Artifacts` in a folder, each version a file that is written once."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Final
from uuid import uuid4

from attrs import field, frozen

from pegboard import Artifacts, ToolResult
from pegboard.errors import ArtifactError, with_name
from pegboard.threads import run_in_thread
from pegboard.tools import Content, check_artifact_name

MOST_BYTES: Final = 64 << 20
"""Bytes of one version's file."""

_USER: Final = "user:"
_VERSION: Final = re.compile(r"([1-9][0-9]*)\.json")
_MOST_TRIES: Final = 100
_ABANDONED: Final = 3_600.0  # seconds after which a draft is taken for that of a killed program


@frozen
class DirectoryArtifacts(Artifacts):
    """Artifacts in a folder, which threads and processes can share.

    The folders are named by digests of user, conversation and name, so that no name can lead out of it. A version is
    written to a temporary file, and then linked atomically under the next free number.

    Attributes:
        folder: The folder; made by the first save, for its owner alone.
        most_bytes: The size limit of one version.
    """

    folder: Path = field(converter=with_name("folder", Path))
    most_bytes: int = MOST_BYTES

    async def save(self, name: str, content: Content, *, user: str | None = None, session: str | None = None) -> int:
        """Stores a new version; the first is 1."""
        return await run_in_thread(self._save, name, content, user, session)

    async def load(
        self, name: str, version: int | None = None, *, user: str | None = None, session: str | None = None
    ) -> Content:
        """One version, the latest by default."""
        return await run_in_thread(self._load, name, version, user, session)

    async def list(self, *, user: str | None = None, session: str | None = None) -> tuple[str, ...]:
        """The names of all artifacts of the conversation and of the user, sorted."""
        return await run_in_thread(self._list, user, session)

    async def delete(self, name: str, *, user: str | None = None, session: str | None = None) -> None:
        """Deletes all versions at once; does nothing where there are none."""
        await run_in_thread(self._delete, name, user, session)

    def _save(self, name: str, content: Content, user: str | None, session: str | None) -> int:
        data = json.dumps(ToolResult(content).to_data()["content"], ensure_ascii=False).encode(errors="replace")
        if len(data) > self.most_bytes:
            raise ArtifactError(f"{name} is too large: over {self.most_bytes:,} bytes.", name=name)
        own = self._folder_of(check_artifact_name(name), user, session)
        with _as_artifact_errors(name):
            for _ in range(_MOST_TRIES):
                with suppress(FileNotFoundError):  # its versions were deleted meanwhile, with their folder
                    return self._write_version(own, name, data)
        raise ArtifactError(f"{name} can't be stored: it is deleted again and again.", name=name)

    def _write_version(self, own: Path, name: str, data: bytes) -> int:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # the mode applies to the last folder only
        with suppress(FileExistsError):  # it was there, and is deleted right now: writing finds that out
            own.mkdir(mode=0o700, parents=True, exist_ok=True)
        _delete_abandoned_drafts(own)
        _write_first_free(own, ["name"], name.encode())  # for `list`; an earlier version has the same
        following = 1 + max(_versions(own), default=0)  # unless another program saves at the same time
        return following + _write_first_free(own, (f"{number}.json" for number in count(following)), data)

    def _load(self, name: str, version: int | None, user: str | None, session: str | None) -> Content:
        own = self._folder_of(check_artifact_name(name), user, session)
        wanted = version if version is not None else max(_versions(own), default=0)  # there is no 0.json
        try:
            with _as_artifact_errors(name):
                (part,) = json.loads((own / f"{wanted}.json").read_bytes())
                return ToolResult.from_data({"content": [part]}).content[0]
        except FileNotFoundError:
            what = f"artifact {name[:80]!a}" if version is None else f"version {version} of artifact {name[:80]!a}"
            raise ArtifactError(f"There is no {what}.", name=name) from None
        except (ValueError, TypeError, KeyError) as error:
            raise ArtifactError(f"{name}, version {wanted}, is damaged and can't be read.", name=name) from error

    def _list(self, user: str | None, session: str | None) -> tuple[str, ...]:
        names: set[str] = set()
        with _as_artifact_errors(""):
            for prefix in ("", _USER):
                for file in self._owner_folder(prefix, user, session).glob("*/name"):
                    with suppress(FileNotFoundError):  # deleted meanwhile
                        names.add(file.read_text(encoding="utf-8"))
        return tuple(sorted(names))

    def _delete(self, name: str, user: str | None, session: str | None) -> None:
        own = self._folder_of(check_artifact_name(name), user, session)
        gone = self.folder / f"gone-{uuid4().hex}"
        with _as_artifact_errors(name), suppress(FileNotFoundError):
            own.rename(gone)  # atomic; what a killed program leaves of it isn't an artifact
        shutil.rmtree(gone, ignore_errors=True)

    def _owner_folder(self, name: str, user: str | None, session: str | None) -> Path:
        owner = [user] if name.startswith(_USER) else [user, session]
        return self.folder / _digest(json.dumps(owner))

    def _folder_of(self, name: str, user: str | None, session: str | None) -> Path:
        return self._owner_folder(name, user, session) / _digest(name)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:40]


def _versions(folder: Path) -> Generator[int]:
    with suppress(FileNotFoundError):
        for name in os.listdir(folder):  # noqa: PTH208  names alone
            if version := _VERSION.fullmatch(name):
                yield int(version[1])


def _write_first_free(folder: Path, names: Iterable[str], data: bytes) -> int:
    """Writes a file atomically under the first of the names that is free; returns the index of that name.

    If none is free, it writes nothing and returns -1.
    """
    draft = folder / f"draft-{uuid4().hex}"
    try:
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:  # noqa: PTH123
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        for index, name in enumerate(names):
            with suppress(FileExistsError):
                os.link(draft, folder / name)  # unlike a rename, it replaces nothing
                return index
        return -1
    finally:
        draft.unlink(missing_ok=True)


def _delete_abandoned_drafts(folder: Path) -> None:
    for draft in folder.glob("draft-*"):
        with suppress(FileNotFoundError):
            if time.time() - draft.stat().st_mtime > _ABANDONED:
                draft.unlink()


@contextmanager
def _as_artifact_errors(name: str) -> Generator[None]:
    """Turns errors of the file system into `ArtifactError`, except `FileNotFoundError`, which readers expect."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        what = f"Artifact {name[:80]!a}" if name else "The artifacts"
        raise ArtifactError(f"{what} can't be read or written: {error.strerror}.", name=name) from error
