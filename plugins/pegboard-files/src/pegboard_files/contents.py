"""Readers for files that aren't plain text: images, the text of PDFs, the cells of notebooks."""

from __future__ import annotations

import base64
import binascii
import io
import json
import logging
import os
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeAlias

from pegboard import ImageContent, TextContent, ToolError
from pegboard.json import is_array, is_object
from pegboard.tools import media_type
from pegboard_files.reading import page_of
from pegboard_files.root import Deadline
from pegboard_files.text import Text, number_of

if TYPE_CHECKING:
    from pypdf import PageObject

MAX_IMAGE: Final = 3_750_000
"""Bytes of an image: 5 MB in base64, the limit of the large providers."""

MAX_DOCUMENT: Final = 32 << 20
"""Bytes of a PDF or a notebook."""

MAX_PAGE: Final = 1 << 20
"""Bytes of what one page of a PDF draws, decompressed."""

MAX_IMAGES: Final = 8
"""Images in the outputs of a notebook that are shown."""

_HEAD: Final = 16
_IMAGES: Final = frozenset({"image/gif", "image/jpeg", "image/png", "image/webp"})

Shown: TypeAlias = tuple[TextContent | ImageContent, ...]


def image_type(head: bytes) -> str | None:
    """The media type of an image that models accept, by its first bytes; else `None`."""
    kind = media_type(head)
    return kind if kind in _IMAGES else None


def read_contents(file: BinaryIO, name: str, offset: int, limit: int, deadline: Deadline) -> Shown | None:
    """The content of an image, a PDF or a notebook for a model; `None` for any other file.

    Args:
        file: The file, just opened.
        name: Its path, as the model knows it.
        offset: The number of the first line of the text, 1-based.
        limit: The maximum number of lines.
        deadline: When to give up.

    Raises:
        ToolError: It is too large, damaged or encrypted, or the package that reads PDFs isn't installed.
    """
    head = file.read(_HEAD)
    file.seek(0)
    size = os.fstat(file.fileno()).st_size
    mime_type = image_type(head)
    if mime_type is not None:
        if size > MAX_IMAGE:
            raise ToolError(
                f"{name!r} is an image of {size:,} bytes. Images of more than {MAX_IMAGE:,} bytes can't be shown: "
                "make it smaller."
            )
        return TextContent(f"{name!r}: {mime_type}, {size:,} bytes."), ImageContent(file.read(MAX_IMAGE), mime_type)
    is_pdf = head.startswith(b"%PDF-")
    if not is_pdf and not name.endswith(".ipynb"):
        return None
    if size > MAX_DOCUMENT:
        raise ToolError(
            f"{name!r} has {size:,} bytes. PDFs and notebooks of more than {MAX_DOCUMENT:,} bytes can't be read."
        )
    if is_pdf:
        return (TextContent(_pdf_page(file, name, offset, limit, deadline)),)
    cells = _cells(file.read(MAX_DOCUMENT))
    file.seek(0)
    if cells is None:
        return None
    lines = [line for number, cell in enumerate(cells, 1) for line in _cell_lines(number, cell)]
    page = page_of(_as_text(lines), name, offset, limit, deadline)
    note = "[This is a notebook, shown cell by cell. To edit it, read it with raw=true.]"
    return (TextContent(f"{page}\n{note}"), *islice(_images(cells), MAX_IMAGES))


def _as_text(lines: Iterable[str]) -> Text:
    return Text(io.BytesIO("".join(f"{line}\n" for line in lines).encode(errors="replace")))


def _pdf_page(file: BinaryIO, name: str, offset: int, limit: int, deadline: Deadline) -> str:
    try:
        from pypdf import PdfReader
    except ImportError:
        raise ToolError(
            f"{name!r} is a PDF, and support for PDFs isn't installed. Ask the user to run: "
            "pip install 'pegboard-files[pdf]'"
        ) from None
    logging.getLogger("pypdf").addHandler(logging.NullHandler())  # otherwise its warnings are printed to stderr
    lines: list[str] = []
    number = 0
    try:
        pages = PdfReader(file).pages
        total = len(pages)
        for number, page in enumerate(pages, 1):
            lines += [f"[Page {number} of {total}]", *_page_text(page, deadline).split("\n")]
            if len(lines) > offset + limit:
                break
    except _DeadlineError:
        raise ToolError(f"Reading the PDF {name!r} took longer than {deadline.seconds:.3g} seconds.") from None
    except Exception as error:  # a damaged file may raise anything
        raise ToolError(f"{name!r} can't be read: the PDF is damaged or encrypted.") from error
    if all(line.startswith("[Page ") or not line.strip() for line in lines):
        return f"[This PDF has {number_of(total, 'page')} and no text. Its pages are probably images.]"
    return page_of(_as_text(lines), name, offset, limit, deadline, counted=number == total)


class _DeadlineError(BaseException):
    """Passes through pypdf, which catches every `Exception` in some places."""


def _page_text(page: PageObject, deadline: Deadline) -> str:
    """The text of a page.

    Raises:
        _DeadlineError: The deadline passed.
    """

    def check(*_: object) -> None:
        if deadline.is_over:
            raise _DeadlineError

    check()
    if sum(_drawn_sizes(page)) > MAX_PAGE:  # parsing them can't be ended, and takes seconds for a megabyte
        return "[This page is too complex to be read.]"
    return page.extract_text(visitor_operand_before=check)


def _drawn_sizes(page: PageObject) -> Iterator[int]:
    """The bytes of what a page draws: its own content, and the forms in it."""
    content = page.get_contents()
    yield 0 if content is None else len(content.get_data())
    todo: list[Any] = [page]
    seen = set[int]()
    while todo:
        for reference in _entry(_entry(todo.pop(), "/Resources"), "/XObject").values():
            drawn = reference.get_object()
            if drawn.get("/Subtype") == "/Form" and id(drawn) not in seen:
                seen.add(id(drawn))
                todo.append(drawn)
                yield len(drawn.get_data())


def _entry(holder: Any, key: str) -> Any:
    """An entry of a PDF's dictionary, or an empty one."""
    entry = holder.get(key)
    return {} if entry is None else entry.get_object()


def _cells(data: bytes) -> list[dict[str, Any]] | None:
    """The cells of a notebook; `None` if the data isn't one."""
    try:
        notebook: Any = json.loads(data)
    except (ValueError, RecursionError):
        return None
    cells = notebook.get("cells") if is_object(notebook) else None
    return list(filter(is_object, cells)) if is_array(cells) else None


def _join_lines(text: object) -> str:
    """A text of a notebook, which may be stored as a list of its lines."""
    if is_array(text):
        return "".join(part for part in text if isinstance(part, str))
    return text if isinstance(text, str) else ""


def _cell_lines(number: int, cell: dict[str, Any]) -> Iterator[str]:
    yield f"[Cell {number}, {str(cell.get('cell_type', 'unknown'))[:20]}]"
    yield from _join_lines(cell.get("source")).split("\n")
    for output in _outputs(cell):
        text = _join_lines(output.get("text")) or _join_lines(_data(output).get("text/plain"))
        if output.get("output_type") == "error":
            text = f"{output.get('ename')}: {output.get('evalue')}"
        if text:
            yield "[Output]"
            yield from text.rstrip("\n").split("\n")


def _outputs(cell: dict[str, Any]) -> Iterator[dict[str, Any]]:
    outputs = cell.get("outputs")
    yield from filter(is_object, outputs if is_array(outputs) else ())


def _data(output: dict[str, Any]) -> dict[str, Any]:
    data = output.get("data")
    return data if is_object(data) else {}


def _images(cells: Iterable[dict[str, Any]]) -> Iterator[ImageContent]:
    for cell in cells:
        for output in _outputs(cell):
            for mime_type in ("image/png", "image/jpeg"):
                try:
                    data = base64.b64decode(_join_lines(_data(output).get(mime_type)))
                except (binascii.Error, ValueError):
                    continue
                if image_type(data[:_HEAD]) == mime_type and len(data) <= MAX_IMAGE:
                    yield ImageContent(data, mime_type)
