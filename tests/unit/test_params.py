"""What a request may ask for, what it gets if it doesn't say, and what it hears if it may not."""

from __future__ import annotations

import math
import random
import re
from dataclasses import replace

import pytest

from qwen_image.errors import InvalidRequest
from qwen_image.families import QWEN_IMAGE
from qwen_image.request.params import GenerationParams, validated
from qwen_image_contract import LARGEST_SEED, Limits

LIMITS = Limits()
SMALL = GenerationParams(prompt="a star", height=64, width=64, seed=0)


def with_values(**values) -> GenerationParams:
    return replace(SMALL, **values)


def test_the_defaults_are_the_documented_ones():
    params = validated(GenerationParams("a star"), LIMITS)
    assert (params.num_inference_steps, params.true_cfg_scale) == (50, 4.0)
    assert (params.height, params.width) == (1328, 1328)
    assert (params.negative_prompt, params.sigmas) == (None, None)


def test_drawn_seeds_differ_and_survive_a_json_number():
    seeds = [GenerationParams("a star").seed for _ in range(200)]
    assert len(set(seeds)) == 200
    assert all(0 <= seed < 2**53 and int(float(seed)) == seed for seed in seeds)


def test_a_seed_stays_what_it_is_through_validation():
    params = GenerationParams("a star")
    assert validated(params, LIMITS).seed == params.seed


@pytest.mark.parametrize(
    ("negative_prompt", "true_cfg_scale", "uses_guidance"),
    [
        (None, 4.0, False),
        ("", 4.0, True),
        (" ", 4.0, True),
        ("blurry", 4.0, True),
        ("blurry", 1.0, False),
        ("blurry", 1.0001, True),
        ("blurry", 0.0, False),
        (None, 1.0, False),
    ],
)
def test_guidance_needs_a_negative_prompt_and_a_scale_above_one(negative_prompt, true_cfg_scale, uses_guidance):
    params = with_values(negative_prompt=negative_prompt, true_cfg_scale=true_cfg_scale)
    assert validated(params, LIMITS).uses_guidance == uses_guidance


ALLOWED = [
    {},
    {"prompt": "."},
    {"prompt": "七颗星星 🌟\n\x00"},
    {"prompt": "x" * 100_000},
    {"prompt": "é" * 50_000},
    {"negative_prompt": ""},
    {"negative_prompt": " \n"},
    {"negative_prompt": "x" * 100_000},
    {"height": 2048, "width": 2048},
    {"height": 64, "width": 2048},
    {"num_inference_steps": 1},
    {"num_inference_steps": 200},
    {"true_cfg_scale": 0.0},
    {"true_cfg_scale": 50.0},
    {"seed": 0},
    {"seed": LARGEST_SEED},
    {"sigmas": (1.0,)},
    {"sigmas": (1e-6,)},
    {"sigmas": (1.0, 0.5, 1e-9)},
    {"sigmas": tuple((200 - step) / 200 for step in range(200))},
    {"height": 2048, "width": 2048, "num_inference_steps": 100},
]


@pytest.mark.parametrize("values", ALLOWED, ids=lambda values: ",".join(values))
def test_what_is_within_the_limits_is_kept_as_it_is(values):
    params = with_values(**values)
    expected = params if params.sigmas is None else replace(params, num_inference_steps=len(params.sigmas))
    assert validated(params, LIMITS) == expected


REFUSED = [
    ({"prompt": ""}, r"^prompt='' is empty"),
    ({"prompt": " \t\n"}, r"^prompt=' \\t\\n' is empty"),
    ({"prompt": "x" * 100_001}, r"^prompt has 100001 bytes; at most 100000 are allowed"),
    ({"prompt": "é" * 50_001}, r"^prompt has 100002 bytes"),
    ({"negative_prompt": "x" * 100_001}, r"^negative_prompt has 100001 bytes"),
    ({"height": 0}, r"^height=0 must be a multiple of 16 between 64 and 2048; the nearest is 64"),
    ({"height": -64}, r"^height=-64 .* the nearest is 64"),
    ({"height": 63}, r"^height=63 .* the nearest is 64"),
    ({"height": 48}, r"^height=48 .* the nearest is 64"),
    ({"width": 1000}, r"^width=1000 .* the nearest is (992|1008)$"),
    ({"width": 1330}, r"^width=1330 .* the nearest is 1328"),
    ({"width": 2049}, r"^width=2049 .* the nearest is 2048"),
    ({"width": 2064}, r"^width=2064 .* the nearest is 2048"),
    ({"width": 2**31 - 1}, r"^width=2147483647 .* the nearest is 2048"),
    ({"num_inference_steps": 0}, r"^num_inference_steps=0 must be between 1 and 200"),
    ({"num_inference_steps": -1}, r"^num_inference_steps=-1 "),
    ({"num_inference_steps": 201}, r"^num_inference_steps=201 "),
    ({"true_cfg_scale": -0.5}, r"^true_cfg_scale=-0.5 must be a finite number between 0 and 50"),
    ({"true_cfg_scale": 50.001}, r"^true_cfg_scale=50.001 "),
    ({"true_cfg_scale": math.nan}, r"^true_cfg_scale=nan "),
    ({"true_cfg_scale": math.inf}, r"^true_cfg_scale=inf "),
    ({"true_cfg_scale": -math.inf}, r"^true_cfg_scale=-inf "),
    ({"seed": -1}, r"^seed=-1 must be between 0 and 9223372036854775807; leave it out to have one drawn"),
    ({"seed": 2**63}, r"^seed=9223372036854775808 "),
    ({"sigmas": ()}, r"^sigmas has 0 values; between 1 and 200 are allowed"),
    ({"sigmas": tuple((201 - step) / 201 for step in range(201))}, r"^sigmas has 201 values"),
    ({"sigmas": (1.0, 0.0)}, r"^sigmas\[1\]=0 must be a finite number above 0 and at most 1"),
    ({"sigmas": (1.5, 0.5)}, r"^sigmas\[0\]=1.5 "),
    ({"sigmas": (math.nan,)}, r"^sigmas\[0\]=nan "),
    ({"sigmas": (0.9, math.nan)}, r"^sigmas\[1\]=nan "),
    ({"sigmas": (math.inf, 0.5)}, r"^sigmas\[0\]=inf "),
    ({"sigmas": (0.9, -0.1)}, r"^sigmas\[1\]=-0.1 "),
    ({"sigmas": (0.9, 0.5, 0.5)}, r"^sigmas\[2\]=0.5 must be below the one before it, 0.5: sigmas fall"),
    ({"sigmas": (0.1, 0.9)}, r"^sigmas\[1\]=0.9 must be below the one before it, 0.1"),
    (
        {"height": 2048, "width": 2048, "num_inference_steps": 101},
        r"^num_inference_steps=101 at 2048x2048 .* at most 100 steps",
    ),
    (
        {"height": 2048, "width": 2048, "sigmas": tuple((150 - step) / 150 for step in range(150))},
        r"^num_inference_steps=150 at 2048x2048 .* at most 100 steps",
    ),
]


@pytest.mark.parametrize(("values", "message"), REFUSED, ids=[",".join(values) for values, _ in REFUSED])
def test_what_is_outside_is_refused_with_field_value_and_range(values, message):
    with pytest.raises(InvalidRequest, match=message):
        validated(with_values(**values), LIMITS)


@pytest.mark.parametrize(
    ("limits", "values", "message"),
    [
        ({"min_side": 256}, {}, r"height=64 .* between 256 and 2048; the nearest is 256"),
        ({"max_side": 32, "min_side": 16}, {}, r"height=64 .* the nearest is 32"),
        ({"max_pixels": 4095}, {}, r"height=64 x width=64 is 4096 pixels; at most 4095 are allowed"),
        ({"max_inference_steps": 49}, {}, r"num_inference_steps=50 must be between 1 and 49"),
        ({"max_inference_steps": 2}, {"sigmas": (0.9, 0.5, 0.1), "num_inference_steps": 2}, r"sigmas has 3 values"),
        ({"max_pixel_steps": 64 * 64 * 50 - 1}, {}, r"num_inference_steps=50 at 64x64 .* at most 49 steps"),
        ({"max_true_cfg_scale": 3.5}, {}, r"true_cfg_scale=4 must be a finite number between 0 and 3.5"),
        ({"max_prompt_bytes": 5}, {}, r"prompt has 6 bytes; at most 5"),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else None,
)
def test_every_limit_is_the_servers_own(limits, values, message):
    validated(with_values(**values), LIMITS)
    with pytest.raises(InvalidRequest, match=message):
        validated(with_values(**values), Limits(**limits))


@pytest.mark.parametrize(
    "limits", [LIMITS, Limits(min_side=100, max_side=1000), Limits(min_side=16, max_side=31), Limits(min_side=1)]
)
def test_the_nearest_size_is_always_valid_and_none_is_nearer(limits):
    chance = random.Random(0)
    refused = 0
    for value in [*range(-40, 140), *(chance.randint(-5000, 9000) for _ in range(500)), 2**31 - 1, -(2**31)]:
        try:
            validated(with_values(height=value, width=_any_valid_side(limits)), limits)
        except InvalidRequest as error:
            refused += 1
            nearest = int(re.search(r"the nearest is (\d+)$", str(error))[1])
            validated(with_values(height=nearest, width=nearest), limits)
            for other in (nearest - 16, nearest + 16):
                is_allowed = limits.min_side <= other <= limits.max_side and other > 0
                assert not is_allowed or abs(other - value) >= abs(nearest - value)
    assert refused > 500


def _any_valid_side(limits: Limits) -> int:
    return -(-limits.min_side // 16) * 16


def anything(chance: random.Random) -> GenerationParams:
    """Mostly allowed, now and then at or over an edge."""

    def pick(usual, *odd):
        return usual if chance.random() < 0.8 else chance.choice(odd)

    count = chance.randint(1, 6)
    falling = tuple(sorted((chance.uniform(0.01, 1) for _ in range(count)), reverse=True))
    return GenerationParams(
        prompt=pick("a star", "", " ", "x" * 40, "é" * 20, "é" * 21, "x" * 41),
        negative_prompt=pick(None, "", " ", "blurry", "x" * 41),
        height=pick(chance.randrange(64, 513, 16), 0, -16, 48, 65, 512, 528, chance.randint(-100, 700)),
        width=pick(chance.randrange(64, 513, 16), 63, 80, 512, 513, 2**31 - 1, chance.randint(-100, 700)),
        num_inference_steps=pick(chance.randint(1, 20), -1, 0, 1, 20, 21, 2**31 - 1),
        true_cfg_scale=pick(chance.uniform(0, 10), -0.1, 0.0, 10.0, 10.01, math.nan, math.inf),
        seed=pick(chance.randrange(2**63), -1, 0, 2**63 - 1, 2**63),
        sigmas=pick(None, falling, falling[::-1], (*falling, 0.0), (1.2, *falling), (), (math.nan,)),
    )


def is_allowed(params: GenerationParams, limits: Limits) -> bool:
    """The contract once more, in other words."""
    texts = [params.prompt] + ([] if params.negative_prompt is None else [params.negative_prompt])
    sigmas = params.sigmas
    steps = params.num_inference_steps if sigmas is None else len(sigmas)
    falls = sigmas is None or (
        0 < len(sigmas) <= 20 and list(sigmas) == sorted(set(sigmas), reverse=True) and 0 < sigmas[-1] <= sigmas[0] <= 1
    )
    return (
        params.prompt.strip() != ""
        and max(len(text.encode()) for text in texts) <= limits.max_prompt_bytes
        and all(side in range(64, 513, 16) for side in (params.height, params.width))
        and params.num_inference_steps in range(1, 21)
        and 0.0 <= params.true_cfg_scale <= 10.0
        and 0 <= params.seed < 2**63
        and falls
        and params.height * params.width <= limits.max_pixels
        and params.height * params.width * steps <= limits.max_pixel_steps
    )


def test_any_parameters_are_kept_or_refused_by_name_and_never_crash():
    limits = Limits(
        max_side=512,
        max_pixels=500 * 400,
        max_inference_steps=20,
        max_pixel_steps=400 * 300 * 15,
        max_true_cfg_scale=10.0,
        max_prompt_bytes=40,
    )
    chance = random.Random(7)
    kept = 0
    for _ in range(3000):
        params = anything(chance)
        if is_allowed(params, limits):
            kept += 1
            steps = params.num_inference_steps if params.sigmas is None else len(params.sigmas)
            assert validated(params, limits) == replace(params, num_inference_steps=steps)
        else:
            with pytest.raises(InvalidRequest, match=r"^(prompt|negative_prompt|height|width|num_|true_|seed|sigmas)"):
                validated(params, limits)
    assert 300 < kept < 2700


def test_sizes_of_another_family_follow_its_own_multiple():
    coarse = replace(QWEN_IMAGE, vae_scale_factor=16)
    assert validated(with_values(height=96, width=96), LIMITS, coarse).height == 96
    with pytest.raises(InvalidRequest, match=r"height=80 must be a multiple of 32 .* the nearest is (64|96)$"):
        validated(with_values(height=80, width=96), LIMITS, coarse)


def test_a_result_and_its_pictures_have_a_budget_together():
    three_photos = 3 * 1184 * 896  # as the VAE sees three of 4:3
    edit = GenerationParams(prompt="a", height=896, width=1184, reference_pixels=three_photos)
    assert validated(edit, Limits()) == edit
    with pytest.raises(InvalidRequest, match=r"and 4243456 pixels of pictures are 5304320 together; at most 4505600"):
        validated(replace(edit, reference_pixels=4 * 1184 * 896), Limits())


def test_a_picture_alone_has_the_budget_of_a_picture():
    with pytest.raises(InvalidRequest, match=r"is 4325376 pixels; at most 4194304 are allowed"):
        validated(GenerationParams(prompt="a", height=2048, width=2112), Limits(max_side=4096))
