"""The images of one session, as files in a private folder; each PNG has its recipe inside."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from PIL import Image

from qwen_image_client import GeneratedImage, Recipe
from qwen_image_client.integration import slug

_THUMBNAIL = 320  # pixels a side
_QUALITY = 85
_MAX_PREVIEWS = 24  # preview files kept


@dataclass(frozen=True, slots=True)
class GalleryItem:
    """One finished image. It has a folder of its own, since its file has the name for the download."""

    path: Path
    thumbnail: Path
    recipe: Recipe


@dataclass(slots=True)
class SessionGallery:
    """One session's images, the newest first, and the selected one. The session's queued requests share it.

    Attributes:
        root: the folder that will hold the gallery's own, which is made when there is something to write.
    """

    root: Path
    items: list[GalleryItem] = field(default_factory=list)
    selected: GalleryItem | None = None
    _folder: Path | None = None
    _previews: list[Path] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        if self._folder is None:
            self.root.mkdir(mode=0o700, exist_ok=True)
            self._folder = Path(tempfile.mkdtemp(dir=self.root))
        return self._folder

    def add(self, images: Sequence[GeneratedImage], max_items: int) -> None:
        """Puts them before the others and selects the first; beyond `max_items` the oldest are removed."""
        self.items[:0] = [_save(image, self.folder) for image in images]
        self.selected = self.items[0]
        for old in self.items[max_items:]:
            shutil.rmtree(old.path.parent, ignore_errors=True)
        del self.items[max_items:]

    def save_preview(self, images: Sequence[Image.Image], side: int) -> Path:
        """Saves one file that shows them all, at most `side` pixels long. The oldest previews are removed."""
        sheet = make_contact_sheet(images)
        sheet.thumbnail((side, side))
        path = self.folder / f"{uuid.uuid4().hex}.jpg"
        sheet.save(path, "JPEG", quality=_QUALITY)
        self._previews.append(path)
        while len(self._previews) > _MAX_PREVIEWS:
            self._previews.pop(0).unlink(missing_ok=True)
        return path

    def remove(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def make_contact_sheet(images: Sequence[Image.Image]) -> Image.Image:
    """Images of one size side by side, in about as many rows as columns."""
    columns = next(number for number in range(1, len(images) + 1) if number * number >= len(images))
    width, height = images[0].size
    rows = -(-len(images) // columns)
    sheet = Image.new("RGB", (columns * width, rows * height), "white")
    for index, image in enumerate(images):
        sheet.paste(image, (index % columns * width, index // columns * height))
    return sheet


def _save(image: GeneratedImage, folder: Path) -> GalleryItem:
    own = Path(tempfile.mkdtemp(dir=folder))
    path = image.save(own / f"{slug(image.recipe.prompt)}-seed{image.seed}.png")
    assert image.image is not None
    small = image.image.copy()
    small.thumbnail((_THUMBNAIL, _THUMBNAIL))
    thumbnail = own / "thumbnail.webp"
    small.save(thumbnail, "WEBP", quality=_QUALITY)
    return GalleryItem(path, thumbnail, image.recipe)
