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
_LEFT_BEHIND: Final = 3_600.0  # seconds after which an unfinished file of a killed program is deleted


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
        place = self._place(check_artifact_name(name), user, session)
        with _as_artifact_errors(name):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # the mode applies to the last folder only
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            _sweep(place)
            _put(place, ["name"], name.encode())
            latest = max(_versions(place), default=0)
            return 1 + latest + _put(place, (f"{latest + each}.json" for each in range(1, 1 << 30)), data)

    def _load(self, name: str, version: int | None, user: str | None, session: str | None) -> Content:
        place = self._place(check_artifact_name(name), user, session)
        wanted = version if version is not None else max(_versions(place), default=0)
        try:
            with _as_artifact_errors(name):
                (part,) = json.loads((place / f"{wanted}.json").read_bytes())
                return ToolResult.from_data({"content": [part]}).content[0]
        except FileNotFoundError:
            what = f"artifact {name[:80]!a}" if version is None else f"version {version} of artifact {name[:80]!a}"
            raise ArtifactError(f"There is no {what}.", name=name) from None
        except (ValueError, TypeError, KeyError) as error:
            raise ArtifactError(f"{name}, version {wanted}, is damaged and can't be read.", name=name) from error

    def _list(self, user: str | None, session: str | None) -> tuple[str, ...]:
        names: set[str] = set()
        with _as_artifact_errors(""):
            for scope in {self._scope(name, user, session) for name in ("", _USER)}:
                for place in scope.glob("*/name"):
                    with suppress(FileNotFoundError):
                        names.add(place.read_text(encoding="utf-8"))
        return tuple(sorted(names))

    def _delete(self, name: str, user: str | None, session: str | None) -> None:
        place = self._place(check_artifact_name(name), user, session)
        gone = self.folder / f"gone-{uuid4().hex}"
        with _as_artifact_errors(name), suppress(FileNotFoundError):
            place.rename(gone)  # atomic; what a killed program leaves of it isn't an artifact
        shutil.rmtree(gone, ignore_errors=True)

    def _scope(self, name: str, user: str | None, session: str | None) -> Path:
        whose = [user] if name.startswith(_USER) else [user, session]
        return self.folder / _digest(json.dumps(whose))

    def _place(self, name: str, user: str | None, session: str | None) -> Path:
        return self._scope(name, user, session) / _digest(name)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:40]


def _versions(place: Path) -> Generator[int]:
    with suppress(FileNotFoundError):
        for each in os.listdir(place):  # noqa: PTH208  names alone
            if found := _VERSION.fullmatch(each):
                yield int(found[1])


def _put(place: Path, names: Iterable[str], data: bytes) -> int:
    """Writes a file atomically under the first free one of some names; returns its index.

    Where no name is free, it returns -1, and existing files stay.
    """
    draft = place / f"draft-{uuid4().hex}"
    try:
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:  # noqa: PTH123
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        for index, each in enumerate(names):
            with suppress(FileExistsError):
                os.link(draft, place / each)  # unlike a rename, it replaces nothing
                return index
        return -1
    finally:
        draft.unlink(missing_ok=True)


def _sweep(place: Path) -> None:
    """Deletes the unfinished files of killed programs."""
    for draft in place.glob("draft-*"):
        with suppress(FileNotFoundError):
            if time.time() - draft.stat().st_mtime > _LEFT_BEHIND:
                draft.unlink()


@contextmanager
def _as_artifact_errors(name: str) -> Generator[None]:
    """Context manager that turns errors of the file system into `ArtifactError`, except `FileNotFoundError`."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        what = f"Artifact {name[:80]!a}" if name else "The artifacts"
        raise ArtifactError(f"{what} can't be read or written: {error.strerror}.", name=name) from error
