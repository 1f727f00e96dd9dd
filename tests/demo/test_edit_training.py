"""Training the editor starts on a CPU, and computes what the edit pipeline computes."""

import random
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from diffusers.pipelines.qwenimage.pipeline_qwenimage_edit_plus import calculate_dimensions
from transformers import Qwen2Tokenizer

from build.tiny_checkpoint import EDIT_AREAS
from demo import train_edit
from demo.editing.arrangement import SIDE, paint_arrangement
from demo.editing.bank import changed_patches
from demo.editing.checkpoint import assemble_editor, open_editor, save_editor
from demo.editing.dataset import Collector, paint_batch
from demo.editing.edits import draw_edit
from demo.editing.exam import Question, exam
from demo.editing.model import GRID, EditToLatents
from demo.editing.sampling import BatchSampler, through_diffusers
from demo.editing.tokens import tokenize_instructions
from demo.editing.vision import to_patches
from demo.models import TINY, build_text_encoder, build_transformer, build_vae

CHECKPOINT = Path(__file__).parents[2] / "demo" / "checkpoint"
QUICK = ["--tiny", "--batch", "4", "--workers", "0", "--pairs", "32", "--fill-seconds", "1", "--questions", "2"]

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning")


@pytest.fixture(scope="module")
def tokenizer() -> Qwen2Tokenizer:
    return Qwen2Tokenizer.from_pretrained(CHECKPOINT / "tokenizer")


@pytest.fixture(scope="module")
def folder(tokenizer: Qwen2Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny editor whose weights are random everywhere: no modulation is zero, as it is before training."""
    torch.manual_seed(0)
    model = EditToLatents(build_text_encoder(TINY, tokenizer), build_transformer(TINY), tokenizer)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    made = tmp_path_factory.mktemp("editor") / "checkpoint"
    save_editor(assemble_editor(model, build_vae(TINY), tokenizer), made)
    return made


@pytest.fixture(scope="module")
def pipeline(folder: Path):
    return open_editor(folder)


@pytest.fixture
def model(pipeline) -> EditToLatents:
    return EditToLatents(pipeline.text_encoder, pipeline.transformer, pipeline.tokenizer)


def question_of(references: int) -> Question:
    return next(each for each in exam() if len(each.edit.sources) == references)


def pictures_of(question: Question) -> torch.Tensor:
    return torch.from_numpy(np.stack([np.asarray(paint_arrangement(each)) for each in question.edit.sources]))[None]


def conditions(pipeline, question: Question) -> list:
    """The pictures as the pipeline shows them to the text encoder."""
    width, height = calculate_dimensions(EDIT_AREAS["QwenImageEditPlusPipeline"]["_condition_area"], 1.0)
    return [pipeline.image_processor.resize(paint_arrangement(each), height, width) for each in question.edit.sources]


@pytest.mark.parametrize("references", [1, 2])
def test_patches_are_the_preprocessors_within_one_level(pipeline, references: int) -> None:
    question = question_of(references)
    images = conditions(pipeline, question)
    expected = pipeline.processor.image_processor(images, return_tensors="pt")["pixel_values"]
    ours = to_patches(pictures_of(question))[0].flatten(0, 1)
    assert (ours - expected).abs().max() < 1.1 / 255 / 0.26


@pytest.mark.parametrize("references", [1, 2])
def test_text_states_are_the_pipelines(pipeline, model: EditToLatents, references: int) -> None:
    question = question_of(references)
    images = conditions(pipeline, question)
    patches = pipeline.processor.image_processor(images, return_tensors="pt")["pixel_values"]
    tokens, lengths = tokenize_instructions(pipeline.tokenizer, [question.prompt], references)
    with torch.no_grad():
        expected, _ = pipeline.encode_prompt(question.prompt, images)
        states = model.read(tokens.long(), patches.view(1, references, 100, -1))
    assert expected.shape[1] == lengths.item()
    torch.testing.assert_close(states[:, : lengths.item()], expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("references", [1, 2])
def test_velocity_is_the_transformers_for_the_target_alone(model: EditToLatents, references: int) -> None:
    torch.manual_seed(1)
    noisy, pictures = torch.randn(2, 64, 64), torch.randn(2, references, 64, 64)
    states, sigmas = torch.randn(2, 20, 64), torch.tensor([0.3, 0.8])
    with torch.no_grad():
        velocity = model(noisy, pictures, sigmas, states, torch.tensor([20, 20]))
        expected = model.transformer(
            hidden_states=torch.cat([noisy, *pictures.unbind(1)], dim=1),
            encoder_hidden_states=states,
            timestep=sigmas,
            img_shapes=[[(1, GRID, GRID)] * (1 + references)] * 2,
            return_dict=False,
        )[0][:, :64]
    torch.testing.assert_close(velocity, expected, atol=1e-5, rtol=1e-4)


def test_sampling_in_batches_paints_what_the_pipeline_paints(folder: Path, pipeline, model: EditToLatents) -> None:
    questions = [question_of(1), question_of(2)]
    ours = BatchSampler(model, pipeline.vae, pipeline.tokenizer, steps=3)(questions)
    theirs = through_diffusers(folder, steps=3)(questions)
    for mine, expected in zip(ours, theirs, strict=True):
        assert np.abs(np.asarray(mine, int) - np.asarray(expected, int)).max() <= 8  # a level of what it sees apart


def test_changed_patches_are_those_that_no_picture_brought_has(tokenizer: Qwen2Tokenizer) -> None:
    rng = random.Random(3)
    edit = draw_edit(rng, 1, kind="add")
    batch = paint_batch(rng, [edit], tokenizer)
    [changed] = changed_patches(batch.pixels)
    [added] = edit.touched
    x, y = (int(value) // 16 for value in added.centre)
    assert changed.view(SIDE // 16, SIDE // 16)[y, x]
    assert 1 <= changed.sum() <= 9


def test_every_instruction_fits_into_the_tokens_trained_on(tokenizer: Qwen2Tokenizer) -> None:
    rng = random.Random(4)
    for references in (1, 2):
        batch = paint_batch(rng, [draw_edit(rng, references) for _ in range(300)], tokenizer)
        assert batch.references == references
        assert batch.tokens.shape[1:] == (3, 120 if references == 1 else 160)


def test_a_collector_passes_on_what_painting_raised(tokenizer: Qwen2Tokenizer) -> None:
    collector = Collector(0, 1, 0, tokenizer, most=2)
    with pytest.raises(RuntimeError, match="painting failed"):
        collector.take()
    collector.stop()


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", ["train_edit", *QUICK, *arguments])
    train_edit.main()


def test_training_leaves_an_editor_and_goes_on_from_its_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(monkeypatch, "--out", str(tmp_path), "--minutes", "0.03")
    before = torch.load(tmp_path / "edit_state.pt", weights_only=True)
    more = before["seconds"] / 60 + 0.03  # the first run may have taken longer than it was given
    run(monkeypatch, "--out", str(tmp_path), "--minutes", str(more), "--resume")
    after = torch.load(tmp_path / "edit_state.pt", weights_only=True)
    assert after["losses"][: before["steps"]] == before["losses"]
    assert after["steps"] > before["steps"] > 0
    assert {"edit-checkpoint", "edit_loss.png", "edit-exam"} <= {path.name for path in tmp_path.iterdir()}
    assert open_editor(tmp_path / "edit-checkpoint").processor is not None
