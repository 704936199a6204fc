"""Payloads: small ones inline, large ones in files of their call."""

from __future__ import annotations

from pathlib import Path

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue

from pegboard_temporal.payloads import Payloads

LARGE = b'{"text": "' + b"x" * (300 << 10) + b'"}'


@pytest.fixture
def payloads(tmp_path):
    return Payloads(str(tmp_path))


@pytest.mark.parametrize("data", [b'{"a": 1}', b"", b"\xff\x00", LARGE])
async def test_what_is_written_is_read(payloads, data):
    assert await payloads.read(await payloads.write(data, "key"), "key") == data


async def test_only_large_messages_are_in_a_file_which_others_cant_read(payloads, tmp_path):
    await payloads.write(b'{"a": 1}', "key")
    assert not [*tmp_path.iterdir()]
    written = await payloads.write(LARGE, "key")
    assert len(written.payload.data) == 64
    (file,) = tmp_path.glob("*/*")
    assert (file.stat().st_mode & 0o077, file.parent.stat().st_mode & 0o077) == (0, 0)


async def test_without_a_folder_all_is_inline():
    written = await Payloads(None).write(LARGE, "key")
    assert written.payload.data == LARGE


async def test_a_file_of_another_call_or_user_isnt_read(payloads):
    written = await payloads.write(LARGE, "key of ann's call")
    with pytest.raises(ValueError, match="file can't be read: No such file"):
        await payloads.read(written, "key of ben's call")


async def test_a_missing_file_is_an_error(payloads, tmp_path):
    written = await payloads.write(LARGE, "key")
    next(tmp_path.glob("*/*")).unlink()
    with pytest.raises(ValueError, match="file can't be read: No such file"):
        await payloads.read(written, "key")


async def test_a_changed_file_is_an_error(payloads, tmp_path):
    written = await payloads.write(LARGE, "key")
    next(tmp_path.glob("*/*")).write_bytes(LARGE.replace(b"x", b"y"))
    with pytest.raises(ValueError, match="file was changed"):
        await payloads.read(written, "key")


@pytest.mark.parametrize("name", ["../../etc/passwd", "x" * 63, "", "/" * 64])
async def test_a_name_that_isnt_a_digest_is_an_error(payloads, name):
    forged = RawValue(Payload(metadata={"encoding": b"json/pegboard-file"}, data=name.encode()))
    with pytest.raises(ValueError, match="without a valid name"):
        await payloads.read(forged, "key")


async def test_a_file_cant_be_read_where_there_is_no_folder(payloads):
    written = await payloads.write(LARGE, "key")
    with pytest.raises(ValueError, match="no `folder` in the settings"):
        await Payloads(None).read(written, "key")


async def test_a_link_isnt_followed(payloads, tmp_path):
    written = await payloads.write(LARGE, "key")
    file, other = next(tmp_path.glob("*/*")), Path(tmp_path, "other")
    file.rename(other)
    file.symlink_to(other)
    with pytest.raises(ValueError, match="file can't be read"):
        await payloads.read(written, "key")
