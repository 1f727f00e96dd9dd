"""Latents to pixels against diffusers' VAE and image processor."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from qwen_image.errors import NotFinite
from qwen_image.vae.vae import VaeDecoder


@pytest.fixture(scope="module")
def decoder(checkpoint) -> VaeDecoder:
    return VaeDecoder(checkpoint)


def latents_of(rows: int, height: int, width: int, spread: float = 1.0) -> np.ndarray:
    return spread * np.random.default_rng(0).standard_normal((rows, 16, 1, height, width), np.float32)


def reference(pipeline, latents: np.ndarray) -> np.ndarray:
    """The end of QwenImagePipeline.__call__, up to PIL's bytes."""
    vae, z = pipeline.vae, torch.from_numpy(latents)
    mean = torch.tensor(vae.config.latents_mean).view(1, vae.config.z_dim, 1, 1, 1)
    std = 1.0 / torch.tensor(vae.config.latents_std).view(1, vae.config.z_dim, 1, 1, 1)
    with torch.no_grad():
        decoded = vae.decode(z / std + mean, return_dict=False)[0][:, :, 0]
    return np.stack([np.asarray(image) for image in pipeline.image_processor.postprocess(decoded, output_type="pil")])


@pytest.mark.parametrize("spread", [0.1, 1.0, 30.0])
@pytest.mark.parametrize(("rows", "height", "width"), [(1, 8, 8), (1, 8, 20), (3, 16, 12)])
def test_pixels_equal_the_pipelines(decoder, pipeline, rows, height, width, spread):
    latents = latents_of(rows, height, width, spread)
    pixels, expected = decoder.decode(latents), reference(pipeline, latents)
    assert pixels.dtype == np.uint8
    assert pixels.shape == expected.shape == (rows, height * 8, width * 8, 3)
    unequal = np.abs(pixels.astype(int) - expected)
    assert unequal.max() <= 1  # a byte on the edge of rounding
    assert (unequal > 0).mean() < 1e-3


def test_other_latents_are_other_pixels(decoder):
    first, second = decoder.decode(latents_of(2, 8, 8))
    assert not np.array_equal(first, second)


def test_a_row_decodes_the_same_alone_and_in_company(decoder):
    latents = latents_of(3, 8, 12)
    together = decoder.decode(latents)
    for row in range(3):
        alone = decoder.decode(latents[row : row + 1])[0]
        assert np.array_equal(alone, together[row])


def test_given_latents_are_left_as_they_are(decoder):
    latents = latents_of(1, 8, 8)
    latents.setflags(write=False)
    decoder.decode(latents)
    assert np.array_equal(latents, latents_of(1, 8, 8))


def test_pixels_that_are_not_finite_are_an_error_that_names_the_row(decoder):
    latents = latents_of(2, 8, 8)
    latents[1, 0, 0, 0, 0] = np.nan
    with pytest.raises(NotFinite, match=r"vae_decoder computed pixels of row 1 that are not finite"):
        decoder.decode(latents)
