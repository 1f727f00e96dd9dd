"""Pictures of a request: what is read, how it is converted, what is refused; sizes and arrays as diffusers has them."""

from __future__ import annotations

import base64
import random
import struct
import time
import zlib
from io import BytesIO

import numpy as np
import pytest
from diffusers.image_processor import VaeImageProcessor
from diffusers.pipelines.qwenimage.pipeline_qwenimage_edit_plus import calculate_dimensions
from PIL import Image, ImageOps

from qwen_image.errors import InvalidRequest
from qwen_image.images import (
    PictureLimits,
    checked_size,
    fitted_size,
    fitted_within,
    mask_array,
    packed,
    pixels,
    read_mask,
    read_picture,
    resized,
    unpacked,
)

LIMITS = PictureLimits()
NAME = "image 2 of row 0"
LONGEST_SECONDS = 1.0
WIDTH, HEIGHT = 24, 16
NOISE = np.random.default_rng(5).integers(0, 256, (HEIGHT, WIDTH, 4), np.uint8)
SMOOTH = np.stack(  # survives JPEG well
    np.broadcast_arrays(np.linspace(20, 230, WIDTH), np.linspace(240, 10, HEIGHT)[:, None], 90), axis=-1
).astype(np.uint8)


def saved(picture: Image.Image, file_format: str, **options) -> bytes:
    file = BytesIO()
    picture.save(file, file_format, **options)
    return file.getvalue()


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(rows: bytes, *, size=(WIDTH, HEIGHT), depth=8, colour=2, interlaced=0, extra=b"") -> bytes:
    """A PNG of filtered rows: a byte 0, then the row's samples."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", *size, depth, colour, 0, 0, interlaced))
    return b"\x89PNG\r\n\x1a\n" + header + extra + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def rows_of(samples: np.ndarray, sample_type: str = "u1") -> bytes:
    return b"".join(b"\0" + row.astype(sample_type).tobytes() for row in samples)


def png16(samples: np.ndarray, colour: int, extra: bytes = b"") -> bytes:
    return png(rows_of(samples, ">u2"), depth=16, colour=colour, extra=extra)


def webp_chunks(*chunks: tuple[bytes, bytes]) -> bytes:
    body = b"".join(kind + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2) for kind, data in chunks)
    return b"RIFF" + struct.pack("<I", len(body) + 4) + b"WEBP" + body


def over_white(layers: np.ndarray) -> np.ndarray:
    """(H, W, 4) -> (H, W, 3)."""
    colour, alpha = layers[..., :3].astype(int), layers[..., 3:].astype(int)
    return ((2 * (colour * alpha + 255 * (255 - alpha)) + 255) // 510).astype(np.uint8)


def grey_as_rgb(grey: np.ndarray) -> np.ndarray:
    return np.repeat(grey[..., None], 3, axis=-1).astype(np.uint8)


def keyed(rgb: np.ndarray, transparent: np.ndarray) -> np.ndarray:
    return np.where(transparent[..., None], 255, rgb).astype(np.uint8)


RGB, RGBA = Image.fromarray(NOISE[..., :3]), Image.fromarray(NOISE)
GREY, GREY_ALPHA = NOISE[..., 0], NOISE[..., [0, 0, 0, 3]]
LEVELS = np.arange(WIDTH * HEIGHT).reshape(HEIGHT, WIDTH)
BITS = LEVELS % 3 == 0
GREY_16 = np.concatenate([np.linspace(0, 65535, 192), np.arange(192) * 257]).reshape(HEIGHT, WIDTH).astype(np.uint16)
GREY_8 = np.round(GREY_16 / 257)
RGB_16 = np.random.default_rng(6).integers(0, 65536, (HEIGHT, WIDTH, 3), np.uint16)
TWO_BIT_ROWS = rows_of((LEVELS % 4).reshape(HEIGHT, -1, 4) @ [64, 16, 4, 1])
ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
INTERLACED_ROWS = b"".join(rows_of(NOISE[y::down, x::right, :3]) for x, y, right, down in ADAM7)
COLOURS = np.array([[255, 0, 0], [0, 255, 0], [0, 0, 255], [9, 8, 7]], np.uint8)
ALPHAS = np.array([0, 100, 200, 255], np.uint8)
PALETTE = Image.fromarray((LEVELS % 4).astype(np.uint8))
PALETTE.putpalette(COLOURS.tobytes())

EXACT = {
    "PNG": (saved(RGB, "PNG"), NOISE[..., :3]),
    "PNG interlaced": (png(INTERLACED_ROWS, interlaced=1), NOISE[..., :3]),
    "PNG with alpha": (saved(RGBA, "PNG"), over_white(NOISE)),
    "PNG one colour transparent": (
        saved(RGB, "PNG", transparency=tuple(map(int, NOISE[3, 4, :3]))),
        keyed(NOISE[..., :3], (NOISE[..., :3] == NOISE[3, 4, :3]).all(axis=-1)),
    ),
    "PNG grey": (saved(Image.fromarray(GREY), "PNG"), grey_as_rgb(GREY)),
    "PNG grey with alpha": (png(rows_of(NOISE[..., [0, 3]]), colour=4), over_white(GREY_ALPHA)),
    "PNG grey of 1 bit": (saved(Image.fromarray(BITS), "PNG"), grey_as_rgb(BITS * 255)),
    "PNG grey of 2 bits": (png(TWO_BIT_ROWS, depth=2, colour=0), grey_as_rgb(LEVELS % 4 * 85)),
    "PNG grey of 2 bits, one transparent": (
        png(TWO_BIT_ROWS, depth=2, colour=0, extra=chunk(b"tRNS", b"\0\2")),
        keyed(grey_as_rgb(LEVELS % 4 * 85), LEVELS % 4 == 2),
    ),
    "PNG grey of 16 bits": (saved(Image.fromarray(GREY_16), "PNG"), grey_as_rgb(GREY_8)),
    "PNG grey of 16 bits, one transparent": (
        png16(GREY_16, 0, chunk(b"tRNS", struct.pack(">H", 257))),
        keyed(grey_as_rgb(GREY_8), GREY_16 == 257),
    ),
    "PNG of 16 bits": (png16(RGB_16, 2), RGB_16 >> 8),
    "PNG of 16 bits, one colour transparent": (
        png16(RGB_16, 2, chunk(b"tRNS", struct.pack(">3H", *RGB_16[3, 4]))),
        keyed(RGB_16 >> 8, (RGB_16[3, 4] >> 8 == RGB_16 >> 8).all(axis=-1)),
    ),
    "PNG with palette": (saved(PALETTE, "PNG"), COLOURS[LEVELS % 4]),
    "PNG with palette, one entry transparent": (
        saved(PALETTE, "PNG", transparency=1),
        keyed(COLOURS[LEVELS % 4], LEVELS % 4 == 1),
    ),
    "PNG with palette, alphas": (
        saved(PALETTE, "PNG", transparency=ALPHAS.tobytes()),
        over_white(np.dstack([COLOURS[LEVELS % 4], ALPHAS[LEVELS % 4]])),
    ),
    "PNG then garbage": (saved(RGB, "PNG") + b"\0garbage" * 99, NOISE[..., :3]),
    "PNG animation of 1 frame": (
        png(rows_of(NOISE[..., :3]), extra=chunk(b"acTL", struct.pack(">II", 1, 0))),
        NOISE[..., :3],
    ),
    "WebP": (saved(RGB, "WEBP", lossless=True), NOISE[..., :3]),
    "WebP with alpha": (saved(RGBA, "WEBP", lossless=True, exact=True), over_white(NOISE)),
    "WebP then garbage": (saved(RGB, "WEBP", lossless=True) + b"\0garbage" * 99, NOISE[..., :3]),
}


def read(data: bytes, reader=read_picture, limits=LIMITS) -> Image.Image:
    """What the reader makes of it, in time."""
    started = time.perf_counter()
    try:
        return reader(data, NAME, limits)
    finally:
        assert time.perf_counter() - started < LONGEST_SECONDS


def refusal(data: bytes, reader=read_picture, limits=LIMITS) -> str:
    with pytest.raises(InvalidRequest) as raised:
        read(data, reader, limits)
    assert str(raised.value).startswith(f"{NAME} ")
    return str(raised.value).removeprefix(f"{NAME} ")


@pytest.mark.parametrize(("data", "expected"), EXACT.values(), ids=EXACT)
def test_a_picture_is_converted_to_the_last_bit(data, expected):
    picture = read(data)
    assert (type(picture), picture.mode, picture.info) == (Image.Image, "RGB", {})
    np.testing.assert_array_equal(pixels(picture), expected)


SMOOTH_JPEG = saved(Image.fromarray(SMOOTH), "JPEG", quality=95)
JPEGS = {
    "baseline": SMOOTH_JPEG,
    "progressive": saved(Image.fromarray(SMOOTH), "JPEG", progressive=True),
    "with restarts": saved(Image.fromarray(SMOOTH), "JPEG", restart_marker_blocks=1),
    "grey": saved(Image.fromarray(SMOOTH).convert("L"), "JPEG"),
    "RGB as it is": saved(Image.fromarray(SMOOTH), "JPEG", keep_rgb=True),
    "several pictures, as phones write": saved(
        Image.fromarray(SMOOTH), "MPO", save_all=True, append_images=[Image.fromarray(SMOOTH[::2, ::2])]
    ),
    "then garbage": SMOOTH_JPEG + b"\xff\xda\xff\xd8\xff garbage" * 99,
    "metadata and junk between": SMOOTH_JPEG[:20]
    + b"\xff\xfe\0\7\xff\xd8\xff\xda\xff"
    + b"junk\xff\xff\xd0"
    + SMOOTH_JPEG[20:],
}


@pytest.mark.parametrize("data", JPEGS.values(), ids=JPEGS)
def test_a_jpeg_is_what_pil_decodes(data):
    picture = read(data)
    assert (type(picture), picture.mode, picture.info) == (Image.Image, "RGB", {})
    np.testing.assert_array_equal(pixels(picture), pixels(Image.open(BytesIO(data)).convert("RGB")))


def cmyk_jpeg(values: np.ndarray, transform: int) -> bytes:
    """The (H, W, 4) values as PIL stores them, inverted and with Adobe's marker; 2 declares them YCCK."""
    data = saved(Image.merge("CMYK", [Image.fromarray(values[..., band]) for band in range(4)]), "JPEG", quality=100)
    stored = b"Adobe\0d\0\0\0\0"
    assert data.count(stored + b"\0") == 1
    return data.replace(stored + b"\0", stored + bytes([transform]))


def test_cmyk_and_ycck_jpegs_become_rgb_without_a_profile():
    black = np.full((HEIGHT, WIDTH), 40, np.uint8)
    luminance = np.array(Image.fromarray(255 - SMOOTH).convert("YCbCr"))
    expected = SMOOTH.astype(float) * (255 - 40) / 255
    for data in (
        cmyk_jpeg(np.dstack([255 - SMOOTH, black]), 0),
        cmyk_jpeg(np.dstack([255 - luminance, black]), 2),
    ):
        assert np.abs(pixels(read(data)) - expected).max() < 4


ORIENTED = {"PNG": {}, "JPEG": {}, "WEBP": {"lossless": True}}


@pytest.mark.parametrize("file_format", ORIENTED)
@pytest.mark.parametrize("endian", "<>")
@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_picture_is_turned_upright_as_pil_does(file_format, endian, orientation):
    exif = Image.Exif()
    exif.endian = endian
    exif[0x10E], exif[0x112] = "a description, which comes first", orientation
    data = saved(RGB, file_format, exif=exif, **ORIENTED[file_format])
    expected = ImageOps.exif_transpose(Image.open(BytesIO(data))).convert("RGB")
    np.testing.assert_array_equal(pixels(read(data)), pixels(expected))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_size_is_that_of_the_picture_upright_and_no_pixel_is_decoded_for_it(orientation):
    exif = b"Exif\0\0" + tiff(struct.pack("<HHII", 0x112, 3, 1, orientation), 1)
    whole = saved(RGB, "JPEG", exif=exif)
    assert checked_size(whole, NAME, LIMITS) == read(whole).size
    cut_off = whole[:-60]
    assert checked_size(cut_off, NAME, LIMITS) == read(whole).size
    assert "can't be read" in refusal(cut_off)


def test_orientation_6_is_a_quarter_turn_clockwise():
    exif = Image.Exif()
    exif[0x112] = 6
    np.testing.assert_array_equal(pixels(read(saved(RGB, "PNG", exif=exif))), np.rot90(NOISE[..., :3], -1))


def test_a_webp_may_begin_its_exif_as_a_jpeg_does():
    twice = b"Exif\0\0" * 2 + tiff(struct.pack("<HHII", 0x112, 3, 1, 3), 1)  # PIL takes one off
    data = saved(RGB, "WEBP", lossless=True, exif=twice)
    assert data.count(b"Exif\0\0") == 1
    np.testing.assert_array_equal(pixels(read(data)), NOISE[::-1, ::-1, :3])


def tiff(entries: bytes, count: int, start: int = 8) -> bytes:
    return struct.pack("<4sIH", b"II*\0", start, count) + entries


PIXELS = rows_of(NOISE[..., :3])
BOMB = zlib.compress(bytes(2**20 - 1), 9)
PLAIN_PNG = png(PIXELS)
METADATA = {
    "EXIF without entries": saved(RGB, "PNG", exif=tiff(b"", 0)),
    "a broken colour profile": saved(RGB, "PNG", icc_profile=b"no profile"),
    "a text that inflates to 64 MB": png(PIXELS, extra=chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(2**26), 9))),
    "texts without names": png(PIXELS, extra=chunk(b"zTXt", b"\0\0" + BOMB) * 5000),
    "colour profiles": png(PIXELS, extra=chunk(b"iCCP", b"a\0\0" + BOMB) * 5000),
    "text of a wrong checksum": png(PIXELS, extra=chunk(b"tEXt", b"a\0b")[:-1] + b"?"),
    "EXIF that is none": png(PIXELS, extra=chunk(b"eXIf", b"not EXIF")),
    "EXIF cut off": png(PIXELS, extra=chunk(b"eXIf", b"II*\0\x08")),
    "EXIF that begins beyond its end": png(PIXELS, extra=chunk(b"eXIf", tiff(b"", 1, 2**32 - 1))),
    "EXIF of entries that are not there": png(PIXELS, extra=chunk(b"eXIf", tiff(bytes(12), 9999))),
    "an orientation that is none": png(PIXELS, extra=chunk(b"eXIf", tiff(struct.pack("<HHII", 0x112, 3, 1, 9), 1))),
    "EXIF of 65,535 entries of 12 MB each": png(
        PIXELS,
        extra=chunk(
            b"eXIf",
            tiff(b"".join(struct.pack("<HHII", tag, 7, 12_000_000, 8) for tag in range(65535)), 65535)
            + bytes(12_000_000),
        ),
    ),
}


@pytest.mark.parametrize("data", METADATA.values(), ids=METADATA)
def test_metadata_are_not_read(data):
    picture = read(data)
    assert picture.info == {}
    np.testing.assert_array_equal(pixels(picture), NOISE[..., :3])


def unfilled_png(width: int, height: int) -> bytes:
    return png(b"", size=(width, height), depth=1, colour=0)


def jpeg_that_claims(width: int, height: int) -> bytes:
    return SMOOTH_JPEG.replace(struct.pack(">HH", HEIGHT, WIDTH), struct.pack(">HH", height, width))


def webp_that_claims(width: int, height: int) -> bytes:
    size = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    return webp_chunks((b"VP8X", bytes(4) + size), (b"VP8L", b"/"))


def picture_of(width: int, height: int) -> bytes:
    return saved(Image.new("L", (width, height), 77), "PNG")


SEND = "send the bytes of a PNG or JPEG or WEBP file"
REFUSED = {
    "20 MB": (PLAIN_PNG + bytes(20_000_000), "bytes; at most 16777216 are allowed: scale it down"),
    "100000x100000": (
        unfilled_png(100_000, 100_000),
        "is 100000x100000, 10000000000 pixels; at most 16777216 are allowed: scale it down",
    ),
    "a size that PIL warns of": (unfilled_png(10_000, 9_500), "is 10000x9500, 95000000 pixels; at most 16777216"),
    "one row too many": (unfilled_png(4096, 4097), "is 4096x4097, 16781312 pixels; at most 16777216"),
    "a large JPEG": (jpeg_that_claims(65_500, 65_500), "is 65500x65500, 4290250000 pixels; at most 16777216"),
    "a large WebP": (webp_that_claims(2**24, 2**8), "has over 16777216 pixels, the most allowed: scale it down"),
    "too narrow": (picture_of(7, 8), "is 7x8; each side must have 8 pixels or more"),
    "too long": (picture_of(129, 8), "is 129x8; its longer side may be 16 times its shorter side at most: crop it"),
    "too high": (picture_of(8, 129), "is 8x129; its longer side may be 16 times"),
    "PNG animation": (saved(RGB, "PNG", save_all=True, append_images=[RGB, RGBA]), "has 3 frames; send one picture"),
    "WebP animation": (saved(RGB, "WEBP", save_all=True, append_images=[RGBA]), "has 2 frames; send one picture"),
    "nothing": (b"", f"is empty; {SEND}"),
    "text": (b"a lighthouse", f"is no picture that is known here (it begins with b'a lighth'); {SEND}"),
    "GIF": (saved(RGB, "GIF"), f"is a GIF; {SEND}"),
    "TIFF": (saved(RGB, "TIFF"), f"is a TIFF; {SEND}"),
    "TIFF, big-endian": (b"MM\0*\0\0\0\x08", f"is a TIFF; {SEND}"),
    "BMP": (saved(RGB, "BMP"), f"is a BMP; {SEND}"),
    "AVIF": (b"\0\0\0 ftypavif", f"is an AVIF; {SEND}"),
    "HEIC": (b"\0\0\0$ftypheic", f"is a HEIC; {SEND}"),
    "SVG": (b'<svg xmlns="http://www.w3.org/2000/svg"/>', f"is an SVG or other XML; {SEND}"),
    "XML": (b'\xef\xbb\xbf\n<?xml version="1.0"?>', f"is an SVG or other XML; {SEND}"),
    "PDF": (b"%PDF-1.7", f"is a PDF; {SEND}"),
    "base64": (base64.b64encode(PLAIN_PNG), f"is base64 text; {SEND}"),
    "a data URL": (b"data:image/png;base64,", f"is base64 text; {SEND}"),
    "a URL": (b"https://example.com/a.png", f"is a URL; {SEND}"),
    "a RIFF of sounds": (b"RIFF\0\0\0\0WAVEfmt ", "is no picture that is known here"),
}


@pytest.mark.parametrize(("data", "message"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("reader", [read_picture, read_mask, checked_size])
def test_what_is_not_allowed_is_refused_with_what_to_do(data, message, reader):
    assert message in refusal(data, reader)


def test_what_is_just_allowed_is_read():
    for width, height in ((128, 8), (8, 128), (4096, 4096)):
        data = picture_of(width, height)
        limits = PictureLimits(max_bytes=len(data))
        assert read(data, limits=limits).size == (width, height)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (PictureLimits(max_bytes=len(PLAIN_PNG) - 1), f"has {len(PLAIN_PNG)} bytes; at most {len(PLAIN_PNG) - 1} are"),
        (PictureLimits(max_pixels=383), "is 24x16, 384 pixels; at most 383 are"),
        (PictureLimits(min_side=17), "is 24x16; each side must have 17 pixels"),
        (PictureLimits(max_aspect_ratio=1.4), "is 24x16; its longer side may be 1.4 times its shorter side at most"),
        (PictureLimits(formats=("JPEG",)), "is a PNG; send the bytes of a JPEG file"),
    ],
)
def test_each_limit_can_be_set(limits, message):
    assert message in refusal(PLAIN_PNG, limits=limits)
    assert read(PLAIN_PNG).size == (WIDTH, HEIGHT)


def test_pils_own_limit_stays_as_it_is_and_sets_none(monkeypatch):
    before = Image.MAX_IMAGE_PIXELS
    refusal(unfilled_png(100_000, 100_000))
    assert before == Image.MAX_IMAGE_PIXELS
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    assert "at most 16777216" in refusal(unfilled_png(100_000, 100_000))


WEBP = saved(RGB, "WEBP", lossless=True)
SCAN = JPEGS["progressive"][JPEGS["progressive"].rindex(b"\xff\xda") : -2]
SPLIT_PIXELS = b"".join(chunk(b"IDAT", b"") for _ in range(1_000_000))
DAMAGED = {
    **{f"PNG cut at {at}": PLAIN_PNG[:at] for at in (8, 20, 33, 60, len(PLAIN_PNG) - 12, len(PLAIN_PNG) - 1)},
    **{f"JPEG cut at {at}": SMOOTH_JPEG[:at] for at in (3, 30, 200, len(SMOOTH_JPEG) - 60)},
    **{f"WebP cut at {at}": WEBP[:at] for at in (12, 16, 30, 100, len(WEBP) - 1)},
    "checksum of the header": PLAIN_PNG[:29] + b"????" + PLAIN_PNG[33:],
    "checksum of the pixels": PLAIN_PNG[:-16] + b"????" + PLAIN_PNG[-12:],
    "pixels that do not inflate": png(PIXELS).replace(
        chunk(b"IDAT", zlib.compress(PIXELS)), chunk(b"IDAT", zlib.compress(PIXELS)[:-4] + b"????")
    ),
    "no pixels": png(b""),
    "no IDAT": PLAIN_PNG[:33] + chunk(b"IEND", b""),
    "no header": PLAIN_PNG[:8] + PLAIN_PNG[33:],
    "unknown filter": png(b"\7" + PIXELS[1:]),
    "unknown depth": png(PIXELS, depth=3),
    "a million chunks": png(PIXELS, extra=SPLIT_PIXELS),
    "a million segments": SMOOTH_JPEG[:2] + b"\xff\xfe\0\2" * 1_000_000 + SMOOTH_JPEG[2:],
    "16 MB of 0xff": SMOOTH_JPEG[:2] + b"\xff" * 16_000_000,
    "a thousand scans": JPEGS["progressive"][:-2] + SCAN * 1000 + b"\xff\xd9",
    "a thousand scans behind an end mark in a comment": JPEGS["progressive"][:-2]
    + b"\xff\xfe\0\4\xff\xd9"
    + SCAN * 1000
    + b"\xff\xd9",
    "a million segments among the scans": JPEGS["progressive"][:-2] + b"\xff\xfe\0\2" * 1_000_000 + b"\xff\xd9",
    "JPEG of a wrong size": jpeg_that_claims(65_500, 2**13),
    "JPEG of 12 bits": SMOOTH_JPEG.replace(b"\x08" + struct.pack(">H", HEIGHT), b"\x0c" + struct.pack(">H", HEIGHT)),
    "JPEG without tables": SMOOTH_JPEG[:2] + SMOOTH_JPEG[SMOOTH_JPEG.index(b"\xff\xc0") :],
    "WebP of nothing": webp_chunks(),
    "WebP of a wrong size": webp_that_claims(100, 100),
}


@pytest.mark.parametrize("data", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_file_is_refused(data):
    assert refusal(data)


def test_a_refusal_keeps_its_cause():
    with pytest.raises(InvalidRequest, match=r"can't be read: .*; save it again with another program$") as raised:
        read(SMOOTH_JPEG[:-60])
    assert isinstance(raised.value.__cause__, OSError)


def mutated(data: bytes, draw: random.Random) -> bytes:
    """A few bytes changed, dropped, put in or doubled; a PNG's checksums sometimes made right again."""
    changed = bytearray(data)
    for _ in range(draw.randint(1, 4)):
        at, length = draw.randrange(len(changed)), draw.randint(1, 12)
        piece = draw.choice([b"", draw.randbytes(length), bytes(changed[at : at + length]) * 2, b"\xff" * length])
        changed[at : at + draw.randint(0, length)] = piece
    return mended(bytes(changed)) if draw.random() < 0.7 else bytes(changed)


def mended(data: bytes) -> bytes:
    whole, position = [data[:8]], 8
    while data.startswith(b"\x89PNG") and position + 12 <= len(data):
        length = int.from_bytes(data[position : position + 4], "big")
        whole.append(chunk(data[position + 4 : position + 8], data[position + 8 : position + 8 + length]))
        position += 12 + length
    return b"".join(whole) if len(whole) > 1 else data


FUZZED = [
    *(EXACT[name][0] for name in ("PNG", "PNG with palette, alphas", "PNG grey of 16 bits, one transparent")),
    *(EXACT[name][0] for name in ("WebP", "WebP with alpha")),
    *(JPEGS[name] for name in ("baseline", "progressive", "grey")),
    saved(RGB, "PNG", exif=tiff(struct.pack("<HHII", 0x112, 3, 1, 6), 1)),
    saved(RGB, "JPEG", exif=b"Exif\0\0" + tiff(struct.pack("<HHII", 0x112, 3, 1, 6), 1)),
    saved(RGB, "PNG", save_all=True, append_images=[RGB]),
    saved(RGB, "WEBP", save_all=True, append_images=[RGB]),
]


def test_300_mutated_files_are_read_or_refused():
    draw, outcomes = random.Random(11), set()
    for _ in range(300):
        data, reader = mutated(draw.choice(FUZZED), draw), draw.choice([read_picture, read_mask])
        try:
            found = read(data, reader)
            assert read(data, checked_size) == found.size
            outcomes.add(found.mode)
        except InvalidRequest:
            outcomes.add("refused")
    assert outcomes == {"RGB", "L", "refused"}


MASKS = {
    "grey": (saved(Image.fromarray(GREY), "PNG"), GREY),
    "1 bit": (saved(Image.fromarray(BITS), "PNG"), BITS * 255),
    "16 bits": (saved(Image.fromarray(GREY_16), "PNG"), GREY_8),
    "colour": (saved(RGB, "PNG"), np.array(RGB.convert("L"))),
    "palette": (saved(PALETTE, "PNG"), np.array(Image.fromarray(COLOURS[LEVELS % 4]).convert("L"))),
    "opaque alpha": (saved(Image.fromarray(GREY).convert("RGBA"), "PNG"), GREY),
    "WebP": (saved(Image.fromarray(grey_as_rgb(GREY)), "WEBP", lossless=True), GREY),
}


@pytest.mark.parametrize(("data", "expected"), MASKS.values(), ids=MASKS)
def test_a_mask_is_grey(data, expected):
    mask = read(data, read_mask)
    assert (type(mask), mask.mode, mask.info) == (Image.Image, "L", {})
    np.testing.assert_array_equal(np.array(mask), expected)


@pytest.mark.parametrize(
    "name", ["PNG with alpha", "WebP with alpha", "PNG grey of 16 bits, one transparent", "PNG with palette, alphas"]
)
def test_a_mask_with_transparent_pixels_is_refused(name):
    assert refusal(EXACT[name][0], read_mask) == (
        "has transparent pixels; send a mask without, white where to paint and black where to keep"
    )


def test_a_fitted_size_is_diffusers():
    draw = random.Random(3)
    sizes = [(draw.randint(8, 4096), draw.randint(8, 4096)) for _ in range(2000)]
    for area in (1024 * 1024, 384 * 384):
        for width, height in [*sizes, (4096, 256), (256, 4096), (1, 1)]:
            if max(width, height) <= 16 * min(width, height):
                assert fitted_size(area, width, height, 32) == calculate_dimensions(area, width / height)


def test_a_fitted_size_has_no_side_of_0():
    assert calculate_dimensions(384 * 384, 1000)[1] == 0
    assert fitted_size(384 * 384, 1000, 1, 32) == (12_128, 32)
    assert fitted_size(384 * 384, 1, 1000, 32) == (32, 12_128)


SIZES = [(WIDTH, HEIGHT), (64, 96), (16, 16), (48, 16), (160, 112)]


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_a_resized_picture_is_diffusers(width, height):
    processor = VaeImageProcessor(vae_scale_factor=16)
    stretched = resized(RGB, width, height)
    assert stretched.tobytes() == processor.resize(RGB, height, width).tobytes()


@pytest.mark.parametrize(("width", "height"), SIZES[1:])
def test_pixels_are_those_that_diffusers_encodes(width, height):
    expected = VaeImageProcessor(vae_scale_factor=16).preprocess(RGB, height, width)[0].numpy()
    scaled = 2 * (pixels(resized(RGB, width, height)).astype(np.float32) / 255) - 1
    assert (scaled.transpose(2, 0, 1) == expected).all()


@pytest.mark.parametrize(("width", "height"), SIZES[1:])
@pytest.mark.parametrize("levels", [GREY, LEVELS % 256, BITS * 255, np.full((HEIGHT, WIDTH), 127)])
def test_a_mask_array_is_diffusers(width, height, levels):
    processor = VaeImageProcessor(vae_scale_factor=16, do_normalize=False, do_binarize=True, do_convert_grayscale=True)
    mask = Image.fromarray(levels.astype(np.uint8))
    expected = processor.preprocess(mask, height, width)[0, 0].numpy()
    array = mask_array(mask, width, height)
    assert (array.dtype, array.shape) == (np.uint8, (height, width))
    np.testing.assert_array_equal(array, expected * 255)


def test_a_mask_is_painted_from_128_on():
    levels = np.repeat(np.arange(256, dtype=np.uint8)[None], 16, axis=0)
    assert (mask_array(Image.fromarray(levels), 256, 16) == np.where(levels >= 128, 255, 0)).all()


@pytest.mark.parametrize(
    "array", [NOISE[..., :3], NOISE[::2, ::3, :3], NOISE[..., :3].transpose(1, 0, 2), np.zeros((1, 1, 3), np.uint8)]
)
def test_an_array_survives_its_journey(array):
    travelled = np.array([packed(array)], dtype=object)[0]
    arrived = unpacked(travelled)
    assert arrived.flags.writeable
    np.testing.assert_array_equal(arrived, array)


@pytest.mark.parametrize("array", [NOISE, GREY, NOISE[..., :3] / 255, NOISE[0, 0], NOISE[None]])
def test_what_is_no_picture_is_not_packed(array):
    with pytest.raises(ValueError, match=r"^a picture is uint8 \(H, W, 3\), not "):
        packed(array)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        packed(NOISE[..., :3])[:7],
        packed(NOISE[..., :3])[:-1],
        packed(NOISE[..., :3]) + b"\0",
        struct.pack("<II", 0, 0),
        struct.pack("<II", 2, 2) + bytes(4),
        struct.pack("<II", 2**32 - 1, 2**32 - 1) + bytes(9),
    ],
)
def test_a_packed_picture_of_another_length_is_refused(data):
    with pytest.raises(InvalidRequest, match=r"^a packed picture "):
        unpacked(data)


@pytest.mark.parametrize(
    ("width", "height", "expected"),
    [(1000, 1000, (1328, 1328)), (1600, 1000, (1680, 1056)), (2500, 1000, (2048, 816)), (100, 1600, (128, 2048))],
)
def test_a_size_is_of_less_area_where_a_side_would_be_over_the_limit(width, height, expected):
    assert fitted_within(2048, 1328 * 1328, width, height, 16) == expected
