"""Training starts on a CPU: every script of the demo at a tiny size, and the shortcuts it takes."""

import sys
from pathlib import Path

import pytest
import torch
from diffusers import QwenImagePipeline

from demo import train, train_vae
from demo.fast_transformer import prepare_for_training
from demo.flow import TextToLatents, pack
from demo.models import TINY, build_text_encoder, build_transformer, build_vae
from demo.muon import orthogonal
from demo.pictures_only import decode_latents, encode_moments, use_picture_kernels
from demo.tokenizer import train_tokenizer

QUICK = ["--tiny", "--minutes", "0.03", "--batch", "4", "--workers", "0"]

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning")


def run(module, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", [module.__name__, *arguments])
    module.main()


def test_both_trainings_run_and_leave_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = ["--out", str(tmp_path)]
    run(train_vae, monkeypatch, *QUICK, *out, "--statistics", "1")
    run(train, monkeypatch, *QUICK, *out, "--other-batch", "2", "--pictures", "64")
    run(train, monkeypatch, *QUICK, *out, "--other-batch", "2", "--pictures", "64", "--minutes", "0.04", "--resume")
    assert {"loss.png", "sheet.png", "vae_loss.png", "vae_sheet.png"} <= {path.name for path in tmp_path.iterdir()}
    loaded = QwenImagePipeline.from_pretrained(tmp_path / "checkpoint", dtype=torch.float32)
    assert len(loaded.vae.config.latents_mean) == 16


def test_picture_kernels_change_nothing() -> None:
    vae = build_vae(TINY).eval()
    pictures = torch.rand(2, 3, 64, 32) * 2 - 1
    with torch.no_grad():
        mean = vae.encode(pictures.unsqueeze(2)).latent_dist.mean
        decoded = vae.decode(mean).sample[:, :, 0]
        use_picture_kernels(vae)
        moments = encode_moments(vae, pictures)
        torch.testing.assert_close(moments[:, :16], mean[:, :, 0], atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(decode_latents(vae, moments[:, :16]).clamp(-1, 1), decoded, atol=1e-5, rtol=1e-4)


def test_training_form_of_the_transformer_computes_the_same() -> None:
    tokenizer = train_tokenizer()
    model = TextToLatents(build_text_encoder(TINY, tokenizer), build_transformer(TINY))
    for parameter in model.transformer.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    inputs = (torch.randn(2, 24, 64), torch.tensor([0.2, 0.9]), torch.randint(0, 500, (2, 50)), torch.tensor([9, 16]))
    with torch.no_grad():
        before = model(*inputs, [4, 6])
        prepare_for_training(model, torch.device("cpu"))
        torch.testing.assert_close(model(*inputs, [4, 6]), before, atol=1e-5, rtol=1e-4)


def test_packing_is_the_pipelines() -> None:
    latents = torch.randn(2, 16, 8, 12)
    expected = QwenImagePipeline._pack_latents(latents, 2, 16, 8, 12)
    assert torch.equal(pack(latents), expected)


def test_orthogonal_evens_out_singular_values() -> None:
    values = torch.linalg.svdvals(orthogonal(torch.randn(3, 24, 60)))
    assert values.min() > 0.5
    assert values.max() < 1.5
