"""Scenes to pixels."""

from __future__ import annotations

import random

import numpy as np
from PIL import Image, ImageDraw

from demo.colours import PALETTE, Rgb, jittered, tint_for
from demo.glyphs import glyph_mask
from demo.layout import place_things, place_word
from demo.scenes import Scene
from demo.shapes import shape_mask


def paint(scene: Scene, seed: int, height: int = 128, width: int = 128) -> Image.Image:
    """The scene as a picture; the seed chooses everything that a caption leaves open."""
    rng = random.Random(seed)
    canvas = _background(rng, scene, height, width)
    if scene.word:
        _letter(rng, canvas, scene)
    else:
        _draw_things(rng, canvas, scene)
    return canvas


def _background(rng: random.Random, scene: Scene, height: int, width: int) -> Image.Image:
    if not scene.background:
        inks = {thing.colour for thing in scene.things} | {scene.board or scene.ink if scene.word else "black"}
        return Image.new("RGB", (width, height), tint_for(rng, inks))
    shades = [jittered(rng, PALETTE[name]) for name in scene.background]
    if len(shades) == 1:
        return Image.new("RGB", (width, height), shades[0])
    return _gradient(shades[0], shades[1], height, width)


def _gradient(top: Rgb, bottom: Rgb, height: int, width: int) -> Image.Image:
    rows = np.linspace(np.array(top), np.array(bottom), height).round().astype(np.uint8)
    return Image.fromarray(np.ascontiguousarray(np.broadcast_to(rows[:, None, :], (height, width, 3))))


def _draw_things(rng: random.Random, canvas: Image.Image, scene: Scene) -> None:
    boxes = place_things(rng, scene, canvas.height, canvas.width) if scene.things else []
    for thing, box in zip(scene.things, boxes, strict=True):
        canvas.paste(jittered(rng, PALETTE[thing.colour]), (box.left, box.top), shape_mask(thing.shape, box.side))


def _letter(rng: random.Random, canvas: Image.Image, scene: Scene) -> None:
    lettering = place_word(rng, scene, canvas.height, canvas.width)
    if lettering.board:
        shade = jittered(rng, PALETTE[scene.board])
        ImageDraw.Draw(canvas).rounded_rectangle(lettering.board, radius=5, fill=shade)
    ink = jittered(rng, PALETTE[scene.ink])
    for i, character in enumerate(scene.word):
        mask = glyph_mask(character, lettering.height)
        left = lettering.left + lettering.pitch * (i + 0.5) - mask.width / 2
        canvas.paste(ink, (round(left), lettering.top), mask)
