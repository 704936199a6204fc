"""read_file on images, PDFs and notebooks."""

from __future__ import annotations

import base64
import io
import json
import logging
import sys
import time

import pytest
from pypdf import PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

from pegboard import ImageContent, ToolContext, ToolError
from pegboard_files import contents

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20
IMAGES = {
    "image/png": PNG,
    "image/jpeg": b"\xff\xd8\xff\xe0" + b"\0" * 20,
    "image/gif": b"GIF89a" + b"\0" * 20,
    "image/webp": b"RIFF\0\0\0\0WEBPVP8 ",
}


def pdf(*pages: str, password: str | None = None) -> bytes:
    """A PDF with one line of text a page."""
    writer = PdfWriter()
    font = DictionaryObject(
        {NameObject("/Type"): NameObject("/Font"), NameObject("/Subtype"): NameObject("/Type1")}
        | {NameObject("/BaseFont"): NameObject("/Helvetica")}
    )
    for text in pages:
        page = writer.add_blank_page(200, 200)
        stream = DecodedStreamObject()
        stream.set_data(f"BT /F1 12 Tf 20 100 Td ({text}) Tj ET".encode() if text else b"")
        page[NameObject("/Contents")] = writer._add_object(stream)
        page[NameObject("/Resources")] = DictionaryObject(
            {NameObject("/Font"): DictionaryObject({NameObject("/F1"): font})}
        )
    if password is not None:
        writer.encrypt(password, algorithm="RC4-128")
    file = io.BytesIO()
    writer.write(file)
    return file.getvalue()


@pytest.mark.parametrize(("mime_type", "data"), IMAGES.items())
def test_an_image_is_recognised_by_its_content(write, files, mime_type, data):
    write({"a.dat": data})
    result = files.read_file("a.dat")
    assert result.text == f"'a.dat': {mime_type}, {len(data)} bytes."
    assert result.content[1] == ImageContent(data, mime_type)


def test_an_image_that_is_too_large_is_refused_with_its_size(top, write, files):
    write({"a.png": PNG})
    with (top / "a.png").open("r+b") as file:
        file.truncate(contents.MAX_IMAGE + 1)
    with pytest.raises(ToolError, match=r"an image of 3,750,001 bytes. Images of more than 3,750,000"):
        files.read_file("a.png")


def test_the_text_of_a_pdf_is_shown_page_by_page(write, files):
    write({"a.pdf": pdf("Hello", "World")})
    assert files.read_file("a.pdf").text == "1\t[Page 1 of 2]\n2\tHello\n3\t[Page 2 of 2]\n4\tWorld"
    assert files.read_file("a.pdf", 3, 1).text == "3\t[Page 2 of 2]\n[Lines 3-3 of 4. To continue, use offset=4.]"


def test_only_the_shown_pages_of_a_long_pdf_are_read(write, files, monkeypatch):
    from pypdf import PageObject

    write({"a.pdf": pdf(*(f"page {n}" for n in range(30)))})
    real, read = PageObject.extract_text, []
    monkeypatch.setattr(PageObject, "extract_text", lambda self, **options: read.append(1) or real(self, **options))
    assert files.read_file("a.pdf", limit=3).text.endswith("3\t[Page 2 of 30]\n[Lines 1-3. To continue, use offset=4.]")
    assert len(read) < 4


def test_a_page_of_a_pdf_that_would_take_too_long_is_left_out(write, files, monkeypatch):
    monkeypatch.setattr(contents, "MAX_PAGE", 100)
    write({"a.pdf": pdf("x" * 100, "short")})
    text = files.read_file("a.pdf").text
    assert "2\t[This page is too complex to be read.]\n3\t[Page 2 of 2]\n4\tshort" in text


def test_reading_a_pdf_ends_at_the_deadline(write, files):
    write({"a.pdf": pdf("x")})
    with pytest.raises(ToolError, match=r"Reading the PDF 'a\.pdf' took longer than 0 seconds"):
        files.read_file("a.pdf", call=ToolContext(deadline=time.monotonic()))


def test_a_pdf_without_text_says_so(write, files):
    write({"a.pdf": pdf("", "")})
    assert files.read_file("a.pdf").text == "[This PDF has 2 pages and no text. Its pages are probably images.]"


@pytest.mark.parametrize("data", [b"%PDF-1.7\nnothing", b"%PDF-", pdf("secret", password="x")])
def test_a_damaged_or_encrypted_pdf_is_refused(write, files, data, monkeypatch, capsys):
    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # as in a program that has set up no log
    write({"a.pdf": data})
    with pytest.raises(ToolError, match="damaged or encrypted"):
        files.read_file("a.pdf")
    assert capsys.readouterr().err == ""


def test_without_its_extra_a_pdf_says_what_to_install(write, files, monkeypatch):
    monkeypatch.setitem(sys.modules, "pypdf", None)
    write({"a.pdf": pdf("Hello")})
    with pytest.raises(ToolError, match=r"pip install 'pegboard-files\[pdf\]'"):
        files.read_file("a.pdf")


NOTEBOOK = {
    "cells": [
        {"cell_type": "markdown", "source": ["# Title\n", "text"]},
        {
            "cell_type": "code",
            "source": "print(1)",
            "outputs": [
                {"output_type": "stream", "text": ["1\n"]},
                {"output_type": "display_data", "data": {"image/png": base64.b64encode(PNG).decode()}},
                {"output_type": "execute_result", "data": {"text/plain": ["42"]}},
                {"output_type": "error", "ename": "ValueError", "evalue": "no"},
            ],
        },
    ]
}


def test_a_notebook_is_shown_by_its_cells_with_outputs(write, files):
    write({"a.ipynb": json.dumps(NOTEBOOK)})
    result = files.read_file("a.ipynb")
    rows = [row.partition("\t")[2] for row in result.text.split("\n")[:-1]]
    assert rows == [
        *("[Cell 1, markdown]", "# Title", "text", "[Cell 2, code]", "print(1)"),
        *("[Output]", "1", "[Output]", "42", "[Output]", "ValueError: no"),
    ]
    assert result.text.endswith("\n[This is a notebook, shown cell by cell. To edit it, read it with raw=true.]")
    assert result.content[1:] == (ImageContent(PNG, "image/png"),)
    assert files.read_file("a.ipynb", raw=True).startswith('1\t{"cells"')


@pytest.mark.parametrize(
    "text",
    ["", "no json", "[]", '{"cells": 1}', "[" * 10_000, '{"a": 1}'],
)
def test_an_invalid_notebook_is_shown_as_text(write, files, text):
    write({"a.ipynb": text})
    assert isinstance(files.read_file("a.ipynb"), str)


@pytest.mark.parametrize(
    "cells",
    [
        [1, None, "x"],
        [{"cell_type": 5, "source": 7, "outputs": [1, {"data": 3}, {"data": {"image/png": "%%"}}]}],
        [{"source": ["a", 5], "outputs": {"x": 1}}, {"outputs": [{"data": {"image/png": "AAAA"}}]}],
    ],
)
def test_a_damaged_notebook_is_shown_as_far_as_it_goes(write, files, cells):
    write({"a.ipynb": json.dumps({"cells": cells})})
    assert len(files.read_file("a.ipynb").content) == 1


def test_the_first_images_of_a_notebook_are_shown(write, files):
    output = {"data": {"image/png": base64.b64encode(PNG).decode()}}
    write({"a.ipynb": json.dumps({"cells": [{"source": "", "outputs": [output] * 20}]})})
    assert len(files.read_file("a.ipynb").content) == 1 + contents.MAX_IMAGES


@pytest.mark.parametrize("head", [b"%PDF-1.7", b"{"])
def test_a_huge_document_is_refused_without_being_read(top, files, head):
    with (top / "a.ipynb").open("wb") as file:
        file.write(head)
        file.truncate(1 << 30)
    with pytest.raises(ToolError, match=r"1,073,741,824 bytes.*more than 33,554,432"):
        files.read_file("a.ipynb")
