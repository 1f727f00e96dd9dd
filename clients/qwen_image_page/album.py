"""The pictures of one session, as files in a private folder: each PNG has its recipe inside."""

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
_PREVIEWS = 24  # files kept of pictures on their way


@dataclass(frozen=True, slots=True)
class Shot:
    """One finished picture. It has a folder of its own, since its file has the name that a download is to have."""

    path: Path
    thumbnail: Path
    recipe: Recipe


@dataclass(slots=True)
class Album:
    """One session's pictures, the newest first, and the one on the stage. Requests that wait for each other share it.

    Attributes:
        root: the folder in which the album's own is made when there is something to write.
    """

    root: Path
    shots: list[Shot] = field(default_factory=list)
    picked: Shot | None = None
    _folder: Path | None = None
    _previews: list[Path] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        if self._folder is None:
            self.root.mkdir(mode=0o700, exist_ok=True)
            self._folder = Path(tempfile.mkdtemp(dir=self.root))
        return self._folder

    def add(self, images: Sequence[GeneratedImage], most: int) -> None:
        """Puts them before the others, the first on the stage; beyond `most` the oldest are removed."""
        self.shots[:0] = [_written(image, self.folder) for image in images]
        self.picked = self.shots[0]
        for old in self.shots[most:]:
            shutil.rmtree(old.path.parent, ignore_errors=True)
        del self.shots[most:]

    def preview(self, images: Sequence[Image.Image], side: int) -> Path:
        """A file that shows them all, `side` pixels long at most. Old ones go, once no browser fetches them."""
        sheet = contact_sheet(images)
        sheet.thumbnail((side, side))
        path = self.folder / f"{uuid.uuid4().hex}.jpg"
        sheet.save(path, "JPEG", quality=_QUALITY)
        self._previews.append(path)
        while len(self._previews) > _PREVIEWS:
            self._previews.pop(0).unlink(missing_ok=True)
        return path

    def remove(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def contact_sheet(images: Sequence[Image.Image]) -> Image.Image:
    """Pictures of one size side by side, in about as many rows as columns."""
    columns = next(number for number in range(1, len(images) + 1) if number * number >= len(images))
    width, height = images[0].size
    rows = -(-len(images) // columns)
    sheet = Image.new("RGB", (columns * width, rows * height), "white")
    for index, image in enumerate(images):
        sheet.paste(image, (index % columns * width, index // columns * height))
    return sheet


def _written(image: GeneratedImage, folder: Path) -> Shot:
    own = Path(tempfile.mkdtemp(dir=folder))
    path = image.save(own / f"{slug(image.recipe.prompt)}-seed{image.seed}.png")
    assert image.image is not None
    small = image.image.copy()
    small.thumbnail((_THUMBNAIL, _THUMBNAIL))
    thumbnail = own / "thumbnail.webp"
    small.save(thumbnail, "WEBP", quality=_QUALITY)
    return Shot(path, thumbnail, image.recipe)
