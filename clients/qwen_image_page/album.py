"""The pictures of one session, as files in a private folder: each PNG has its recipe inside."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from PIL import Image

from qwen_image_client import GeneratedImage, Recipe
from qwen_image_client.cli.file_names import slug

_THUMBNAIL = 320  # pixels a side
_QUALITY = 85


@dataclass(frozen=True, slots=True)
class Shot:
    """One finished picture. It has a folder of its own, since its file has the name that a download is to have."""

    path: Path
    thumbnail: Path
    recipe: Recipe


@dataclass(frozen=True, slots=True)
class Album:
    """One session's folder and pictures, the newest first."""

    folder: Path
    shots: tuple[Shot, ...] = ()

    @classmethod
    def new(cls, root: Path) -> Album:
        root.mkdir(mode=0o700, exist_ok=True)
        return cls(Path(tempfile.mkdtemp(dir=root)))

    def added(self, images: Sequence[GeneratedImage], most: int) -> Album:
        """With these before the others, their files written; beyond `most` the oldest are removed."""
        shots = (*(_written(image, self.folder) for image in images), *self.shots)
        for old in shots[most:]:
            shutil.rmtree(old.path.parent, ignore_errors=True)
        return replace(self, shots=shots[:most])

    def preview(self, images: Sequence[Image.Image], side: int) -> Path:
        """A file that shows them all, `side` pixels long at most."""
        sheet = contact_sheet(images)
        sheet.thumbnail((side, side))
        path = self._previews / f"{uuid.uuid4().hex}.jpg"
        sheet.save(path, "JPEG", quality=_QUALITY)
        return path

    def forget_previews(self) -> None:
        """A stopped run's last preview stays on the page, so this is for the next run to do."""
        shutil.rmtree(self.folder / "previews", ignore_errors=True)

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def _previews(self) -> Path:
        folder = self.folder / "previews"
        folder.mkdir(parents=True, exist_ok=True)
        return folder


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
