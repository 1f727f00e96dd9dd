"""Clients that behave as people's do: they paint, watch, leave early, ask for what there is not, and come again."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from scripts.load_http import Answer, asked
from scripts.progress import show

PROMPTS = ("a red circle", "a blue square", "three green stars", "a purple heart on a white background")
SEEDS = (1, 2)
STEPS = 4
STEPS_OF_LEAVERS = 30
BEHAVIOURS = {"paint": 55, "stream": 15, "leave": 10, "wrong": 10, "edit": 10}
WRONG: tuple[Mapping[str, Any], ...] = ({"steps": 4}, {"size": "17x17"}, {"n": 0}, {"seed": "x"})
STREAMED = ["image_generation.partial_image"] * 2 + ["image_generation.completed"]
ROUNDING = 3  # of 255: how far a picture may be from the one painted alone
SEED = 19

Pixels = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One request: what was done, how it ended ("right", "refused", "left", or what was wrong), how long it took."""

    behaviour: str
    ending: str
    seconds: float


@dataclass(slots=True)
class Load:
    """`clients` of them against a gateway, each with one request out at a time."""

    url: str
    clients: int
    seconds: float
    _right: dict[str, Pixels] = field(default_factory=dict)  # what is painted when nobody else asks
    _picture: bytes = b""

    async def run(self) -> list[Outcome]:
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(self.url, connector=connector) as http:
            await self._learn_what_is_right(http)
            show(f"{self.clients} clients for {self.seconds:.0f} s\n")
            end = time.monotonic() + self.seconds
            done = await asyncio.gather(*(self._client(http, number, end) for number in range(self.clients)))
        return [outcome for outcomes in done for outcome in outcomes]

    async def _learn_what_is_right(self, http: aiohttp.ClientSession) -> None:
        """Every picture that will be asked for, painted alone."""
        for prompt in PROMPTS:
            for seed in SEEDS:
                body = _body(prompt, seed)
                self._right[_key(body)] = _pixels((await asked(http, body)).pictures[0])
        self._picture = _png(self._right[_key(_body(PROMPTS[0], SEEDS[0]))])
        for prompt in PROMPTS:
            self._right[f"edit {prompt}"] = _pixels((await asked(http, self._form(prompt))).pictures[0])

    async def _client(self, http: aiohttp.ClientSession, number: int, end: float) -> list[Outcome]:
        chance = random.Random(f"{SEED}/{number}")
        outcomes = []
        while time.monotonic() < end:
            behaviour = chance.choices(list(BEHAVIOURS), list(BEHAVIOURS.values()))[0]
            start, pause_s = time.monotonic(), 0.0
            try:
                answer = await getattr(self, f"_{behaviour}")(http, chance)
                ending = (
                    answer if isinstance(answer, str) else answer.refusal or f"status {answer.status}: {answer.text}"
                )
                pause_s = 0.0 if isinstance(answer, str) else answer.retry_after_s
            except Exception as error:  # whatever happens to a client is a finding
                ending = f"{type(error).__name__}: {error}"
            outcomes.append(Outcome(behaviour, ending, time.monotonic() - start))
            await asyncio.sleep(pause_s * chance.uniform(1, 2))
        return outcomes

    async def _paint(self, http: aiohttp.ClientSession, chance: random.Random) -> Answer | str:
        body = _body(chance.choice(PROMPTS), chance.choice(SEEDS))
        answer = await asked(http, body)
        return answer if answer.status != 200 else self._compared(answer.pictures[0], _key(body))

    async def _edit(self, http: aiohttp.ClientSession, chance: random.Random) -> Answer | str:
        prompt = chance.choice(PROMPTS)
        answer = await asked(http, self._form(prompt))
        return answer if answer.status != 200 else self._compared(answer.pictures[0], f"edit {prompt}")

    async def _wrong(self, http: aiohttp.ClientSession, chance: random.Random) -> Answer | str:
        answer = await asked(http, {"prompt": "a star", **chance.choice(WRONG)})
        return "right" if answer.status in (400, 422) else answer

    async def _leave(self, http: aiohttp.ClientSession, chance: random.Random) -> Answer | str:
        """Asks for much, and goes before it is there."""
        body = {**_body(chance.choice(PROMPTS), 3), "num_inference_steps": STEPS_OF_LEAVERS}
        try:
            answer = await asyncio.wait_for(asked(http, body), chance.uniform(0.05, 2))
        except TimeoutError:
            return "left"
        return answer if answer.status != 200 else "right"

    async def _stream(self, http: aiohttp.ClientSession, chance: random.Random) -> Answer | str:
        body = _body(chance.choice(PROMPTS), chance.choice(SEEDS))
        answer = await asked(http, {**body, "stream": True, "partial_images": 2})
        if answer.status != 200 or answer.refusal:
            return answer
        kinds = [event["type"] for event in answer.events]
        return f"a stream of {kinds}" if kinds != STREAMED else self._compared(answer.events[-1], _key(body))

    def _form(self, prompt: str) -> aiohttp.FormData:
        form = aiohttp.FormData({"prompt": prompt, "num_inference_steps": str(STEPS), "seed": "5", "strength": "0.7"})
        form.add_field("image", self._picture, filename="picture.png", content_type="image/png")
        return form

    def _compared(self, item: Mapping[str, Any], key: str) -> str:
        pixels, right = _pixels(item), self._right[key]
        if pixels.shape != right.shape:
            return f"a picture of {pixels.shape} instead of {right.shape}"
        away = int(np.abs(pixels.astype(np.int16) - right).max())
        return "right" if away <= ROUNDING else f"a wrong picture: {away} of 255 away"


def _body(prompt: str, seed: int) -> dict[str, Any]:
    return {"prompt": prompt, "seed": seed, "num_inference_steps": STEPS, "negative_prompt": " ", "size": "128x128"}


def _key(body: Mapping[str, Any]) -> str:
    return json.dumps(body, sort_keys=True)


def _pixels(item: Mapping[str, Any]) -> Pixels:
    with Image.open(io.BytesIO(base64.b64decode(item["b64_json"]))) as image:
        return np.asarray(image.convert("RGB"))


def _png(pixels: Pixels) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()
