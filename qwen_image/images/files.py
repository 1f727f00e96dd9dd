"""PNG, JPEG and WebP files: told apart by content, then opened without decoding pixels or reading metadata.

Metadata never reaches PIL, but for a WebP's. It inflates every colour profile and text of a PNG, seconds of work in a
file of 1 MB; it warns of odd EXIF in the server's log. PIL's classes of the three formats are called by name because
`Image.open` warns of large pictures before their size can be refused.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BytesIO

from PIL.ImageFile import ImageFile
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.WebPImagePlugin import WebPImageFile

from qwen_image.images.colours import inflated

MOST_PARTS = 20_000  # chunks or segments of a file: an encoder needs one per some kB, and each costs time
MOST_SCANS = 32  # of a progressive JPEG: an encoder writes about 10, and each is a pass over every pixel

_MAGIC = {
    "PNG": re.compile(rb"\x89PNG\r\n\x1a\n"),
    "JPEG": re.compile(rb"\xff\xd8\xff"),
    "WEBP": re.compile(rb"RIFF.{4}WEBP", re.DOTALL),
}
_OTHER_KINDS = {
    "a GIF": re.compile(rb"GIF8[79]a"),
    "a TIFF": re.compile(rb"II\*\0|MM\0\*"),
    "a BMP": re.compile(rb"BM.{4}\0{4}", re.DOTALL),
    "an AVIF": re.compile(rb".{4}ftypavi[fs]", re.DOTALL),
    "a HEIC": re.compile(rb".{4}ftyp(hei[cmsx]|hev[cmsx]|mif1|msf1)", re.DOTALL),
    "an SVG or other XML": re.compile(rb"(\xef\xbb\xbf)?\s*<(svg|\?xml)"),
    "a PDF": re.compile(rb"%PDF"),
    "base64 text": re.compile(rb"data:|iVBORw0KGgo|/9j/|UklGR"),
    "a URL": re.compile(rb"(https?|file)://"),
}

_PNG_CHUNK = struct.Struct(">I4s")  # length of the content, kind; content and checksum follow
_PNG_KEPT = (b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND")
_GREY_STEPS = {"L;2": 85, "L;4": 17}  # what PIL multiplies grey values of so many bits with

_JPEG_MARKER = re.compile(rb"\xff([^\x00\xff])")
_JPEG_SEGMENT = re.compile(rb"\xff+([\x02-\xcf\xd8-\xfe])")  # among pixels: no stuffed byte, no restart
_JPEG_KEPT = (*range(0xC0, 0xD0), 0xDB, 0xDD, 0xE0, 0xEE)  # frame, tables, restarts, JFIF and Adobe (colour space)
_JPEG_BARE = (0x01, *range(0xD0, 0xD9))  # markers that no length follows
_SCAN, _END, _EXIF, _ICC = 0xDA, 0xD9, 0xE1, 0xE2


@dataclass(frozen=True, slots=True)
class Opened:
    """A file that is open but not decoded."""

    picture: ImageFile
    exif: bytes  # from its TIFF header on; empty if there is none
    profile: bytes  # ICC's; empty if there is none
    frames: int = 1


def format_of(data: bytes) -> str | None:
    """PNG, JPEG or WEBP, or None."""
    return next((name for name, magic in _MAGIC.items() if magic.match(data)), None)


def kind_of(data: bytes) -> str:
    """What something else than a PNG, JPEG or WebP seems to be, as a phrase after 'is'."""
    known = next((name for name, magic in _OTHER_KINDS.items() if magic.match(data)), None)
    return known or ("empty" if not data else f"no picture that is known here (it begins with {data[:8]!r})")


def open_file(data: bytes, file_format: str) -> Opened:
    """Open a file of a format that `format_of` names. A broken one raises whatever it makes PIL raise."""
    return _OPENERS[file_format](data)


def _open_png(data: bytes) -> Opened:
    kept, exif, profile, frames = [data[:8]], b"", b"", 1
    for kind, whole, content in _png_chunks(data):
        if kind in _PNG_KEPT:
            if zlib.crc32(whole[4:-4]).to_bytes(4, "big") != whole[-4:]:
                raise ValueError(f"the checksum of its {kind.decode()} chunk is wrong")  # PIL ignores those of pixels
            kept.append(whole)
        elif kind == b"acTL":
            frames = int.from_bytes(content[:4], "big")
        elif kind == b"eXIf":
            exif = content
        elif kind == b"iCCP" and not profile:
            profile = content
    return Opened(_with_colour_key(PngImageFile(BytesIO(b"".join(kept)))), exif, inflated(profile), frames)


def _png_chunks(data: bytes) -> Iterator[tuple[bytes, bytes, bytes]]:
    """(kind, the chunk, what it contains) up to the end of the picture, which must be there."""
    position = 8
    for _ in range(MOST_PARTS):
        start = position + _PNG_CHUNK.size
        if start > len(data):
            raise ValueError("it is cut off")
        length, kind = _PNG_CHUNK.unpack_from(data, position)
        end = start + length + 4  # behind the checksum
        if end > len(data):
            raise ValueError("it is cut off")
        yield kind, data[position:end], data[start : end - 4]
        if kind == b"IEND":
            return
        position = end
    raise ValueError(f"it has over {MOST_PARTS} chunks")


def _with_colour_key(picture: PngImageFile) -> PngImageFile:
    """The same; the colour that stands for transparent is in the file's bits and becomes one of PIL's 8."""
    key = picture.info.get("transparency")
    if key is None or not picture.tile:
        return picture
    raw_mode = str(picture.tile[0].args)
    if raw_mode in _GREY_STEPS:
        picture.info["transparency"] = key * _GREY_STEPS[raw_mode]
    elif raw_mode == "RGB;16B":
        picture.info["transparency"] = tuple(value >> 8 for value in key)
    return picture


def _open_jpeg(data: bytes) -> Opened:
    kept, exif, position = [data[:2]], b"", 2
    profile: list[bytes] = []
    for _ in range(MOST_PARTS):
        found = _JPEG_MARKER.search(data, position)
        if found is None or found[1][0] == _END:
            raise ValueError("it has no pixels")
        marker, position = found[1][0], found.end()
        if marker == _SCAN:
            _check_scans(data, found.start())
            return Opened(JpegImageFile(BytesIO(b"".join([*kept, data[found.start() :]]))), exif, _joined(profile))
        if marker in _JPEG_BARE:
            continue
        position += int.from_bytes(data[position : position + 2], "big")
        segment = data[found.start() : position]
        if marker in _JPEG_KEPT:
            kept.append(segment)
        elif marker == _EXIF and segment[4:10] == b"Exif\0\0" and not exif:
            exif = segment[10:]
        elif marker == _ICC and segment[4:16] == b"ICC_PROFILE\0":
            profile.append(segment[16:])
    raise ValueError(f"it has over {MOST_PARTS} segments")


def _joined(parts: list[bytes]) -> bytes:
    """A profile out of its segments: number, how many there are, content. Empty if one is missing."""
    parts.sort(key=lambda part: part[:1])
    is_whole = [part[:2] for part in parts] == [
        bytes((number, len(parts) % 256)) for number in range(1, min(len(parts), 255) + 1)
    ]
    return b"".join(part[2:] for part in parts) if is_whole else b""


def _check_scans(data: bytes, position: int) -> None:
    """Follow the segments from the first scan on as a decoder does: an end mark inside one of them ends nothing."""
    scans = 0
    for _ in range(MOST_PARTS):
        found = _JPEG_SEGMENT.search(data, position)
        if found is None or found[1][0] == _END:
            return
        scans += found[1][0] == _SCAN
        if scans > MOST_SCANS:
            raise ValueError(f"it has over {MOST_SCANS} scans")
        position = found.end() + int.from_bytes(data[found.end() : found.end() + 2], "big")
    raise ValueError(f"it has over {MOST_PARTS} segments")


def _open_webp(data: bytes) -> Opened:
    picture = WebPImageFile(BytesIO(data))
    profile = picture.info.get("icc_profile", b"")
    return Opened(picture, picture.info.get("exif", b"").removeprefix(b"Exif\0\0"), profile, picture.n_frames)


_OPENERS: dict[str, Callable[[bytes], Opened]] = {"PNG": _open_png, "JPEG": _open_jpeg, "WEBP": _open_webp}
