"""Small files of every kind, made by hand, and hostile ones."""

import io
import struct
import zlib
from collections.abc import Mapping, Sequence
from zipfile import ZIP_DEFLATED, ZipFile

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
A = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
S = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
R = 'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
O = (  # noqa: E741
    'xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
    'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" '
    'xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0"'
)


def packed(members: Mapping[str, str | bytes]) -> bytes:
    file = io.BytesIO()
    with ZipFile(file, "w", ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def pdf(*objects: bytes, trailer: bytes = b"/Root 1 0 R") -> bytes:
    """The objects, numbered from one, with the table that finds them."""
    content, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(content))
        content += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    end = b"xref\n0 %d\n0000000000 65535 f \n%s" % (len(objects) + 1, table)
    end += b"trailer\n<< /Size %d %s >>\nstartxref\n%d\n%%%%EOF" % (len(objects) + 1, trailer, len(content))
    return content + end


def stream(content: bytes, more: bytes = b"") -> bytes:
    return b"<< /Length %d %s>>\nstream\n%s\nendstream" % (len(content), more, content)


FONT = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"


def pdf_of(*pages: str) -> bytes:
    kids = b" ".join(b"%d 0 R" % (4 + 2 * number) for number in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, len(pages)),
        FONT,
    ]
    for number, text in enumerate(pages):
        page = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 200 200] /Contents %d 0 R " % (5 + 2 * number)
        objects.append(page + b"/Resources << /Font << /F1 3 0 R >> >> >>")
        words = f"BT /F1 12 Tf 10 100 Td ({text}) Tj ET" if text else ""
        objects.append(stream(words.encode()))
    return pdf(*objects)


def locked_pdf() -> bytes:
    """Says that it is locked, by a password that is not the empty one."""
    lock = b"<< /Filter /Standard /V 1 /R 2 /P -1 /O <%s> /U <%s> >>" % (b"41" * 32, b"42" * 32)
    return pdf(
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [] /Count 0 >>",
        lock,
        trailer=b"/Root 1 0 R /Encrypt 3 0 R /ID [<00> <00>]",
    )


def docx(*paragraphs: str, before: str = "", **more: str | bytes) -> bytes:
    body = "".join(f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>" for text in paragraphs)
    document = f"<?xml version='1.0'?>{before}<w:document {W}><w:body>{body}</w:body></w:document>"
    return packed({"[Content_Types].xml": "<Types/>", "word/document.xml": document, **more})


def xlsx(rows: Sequence[Sequence[str | float]], *, sheet: str = "Prices", shared: str = "") -> bytes:
    strings = [cell for row in rows for cell in row if isinstance(cell, str)]
    cells = []
    for number, row in enumerate(rows, 1):
        cells.append(f'<row r="{number}">')
        for place, cell in enumerate(row):
            name = f"{chr(65 + place)}{number}"
            if isinstance(cell, str):
                cells.append(f'<c r="{name}" t="s"><v>{strings.index(cell)}</v></c>')
            else:
                cells.append(f'<c r="{name}"><f>1+1</f><v>{cell}</v></c>')
        cells.append("</row>")
    items = shared or "".join(f"<si><t>{text}</t></si>" for text in strings)
    return packed(
        {
            "xl/workbook.xml": f'<workbook {S} {R}><sheets><sheet name="{sheet}" r:id="rId1"/></sheets></workbook>',
            "xl/_rels/workbook.xml.rels": '<Relationships><Relationship Id="rId1" Target="worksheets/sheet1.xml"/>'
            "</Relationships>",
            "xl/sharedStrings.xml": f"<sst {S}>{items}</sst>",
            "xl/worksheets/sheet1.xml": f"<worksheet {S}><sheetData>{''.join(cells)}</sheetData></worksheet>",
        }
    )


def pptx(*slides: str) -> bytes:
    members = {"ppt/presentation.xml": "<p/>"}
    for number, text in enumerate(slides, 1):
        members[f"ppt/slides/slide{number}.xml"] = f"<sld {A}><a:p><a:r><a:t>{text}</a:t></a:r></a:p></sld>"
    return packed(members)


def open_document(kind: str, body: str, **more: str) -> bytes:
    content = f"<office:document-content {O}><office:body>{body}</office:body></office:document-content>"
    return packed({"mimetype": f"application/vnd.oasis.opendocument.{kind}", "content.xml": content, **more})


def png(width: int = 2, height: int = 2) -> bytes:
    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    pixels = zlib.compress(b"\0" * min((width * 3 + 1) * height, 100_000))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def jpeg(width: int = 2, height: int = 2) -> bytes:
    about = b"\xff\xe0\x00\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0"
    size = b"\xff\xc0\x00\x0b\x08" + struct.pack(">HH", height, width) + b"\x01\x01\x11\0"
    return b"\xff\xd8" + about + size + b"\xff\xda\x00\x08\x01\x01\0\0\x3f\0\0\xff\xd9"


def gif(width: int = 2, height: int = 2) -> bytes:
    comment = b"\x21\xfe\x05hi, u\x00"
    inner = struct.pack("<HHHHB", 0, 0, width, height, 0)
    return b"GIF89a" + struct.pack("<HHBBB", width, height, 0, 0, 0) + comment + b"," + inner + b"\x02\x02L\x01\0;"


def webp(width: int = 2, height: int = 2, *, canvas: tuple[int, int] | None = None) -> bytes:
    body = b"VP8L" + struct.pack("<I", 6) + b"\x2f" + struct.pack("<I", (width - 1) | (height - 1) << 14) + b"\0"
    if canvas:
        sizes = (canvas[0] - 1).to_bytes(3, "little") + (canvas[1] - 1).to_bytes(3, "little")
        body = b"VP8X" + struct.pack("<I", 10) + b"\0\0\0\0" + sizes + body
    return b"RIFF" + struct.pack("<I", len(body) + 4) + b"WEBP" + body


OGG = b"OggS\0\x02" + b"\0" * 20 + b"\x01\x13OpusHead"
MP4 = b"\0\0\0\x18ftypisom\0\0\x02\0isommp41"
OLD_WORD = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 500 + "WordDocument".encode("utf-16-le")
LOCKED_WORD = OLD_WORD + "EncryptedPackage".encode("utf-16-le")
