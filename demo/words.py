"""The words that signs say: a list of common ones, made-up ones for spelling practice, and numbers."""

from __future__ import annotations

import random

from demo.glyphs import DIGITS, LETTERS
from demo.split import is_held_out

_LISTED = """
    HELLO WORLD OPEN STOP GO YES NO HI BYE EXIT SALE FREE NEW OLD HOT COLD LOVE PEACE HOPE DREAM MUSIC DANCE ART
    BOOK READ WRITE PLAY GAME FUN JOY SMILE LAUGH SUN MOON STAR SKY SEA RIVER LAKE TREE LEAF FLOWER ROSE BIRD
    FISH CAT DOG LION TIGER BEAR WOLF FOX HORSE COW PIG DUCK FROG BEE ANT APPLE LEMON PEAR PLUM GRAPE BREAD CAKE
    PIE MILK TEA COFFEE WATER JUICE SALT SUGAR RICE SOUP PIZZA PASTA KITE BALL BIKE CAR BUS TRAIN PLANE BOAT
    SHIP ROAD STREET HOUSE HOME DOOR ROOM TABLE CHAIR LAMP CLOCK PHONE RADIO CODE DATA QUEEN KING JAZZ ZOO QUIZ
    ZERO ONE TWO SIX TEN UP DOWN LEFT RIGHT NORTH SOUTH EAST WEST SPRING SUMMER AUTUMN WINTER DAY NIGHT WEEK
    YEAR NOW LATER FIRST LAST GOOD BEST HAPPY LUCKY MAGIC POWER LIGHT SOUND SPEED PAPER STONE GLASS GOLD SILVER
    IRON FIRE ICE WIND RAIN SNOW CLOUD STORM
"""
WORDS = tuple(_LISTED.split())
MAX_LETTERS = 6
_VOWELS = "AEIOU"


def _invent(rng: random.Random) -> str:
    length = rng.randint(1, MAX_LETTERS)
    if rng.random() < 0.5:
        return "".join(rng.choice(LETTERS) for _ in range(length))
    return "".join(rng.choice(_VOWELS if i % 2 else LETTERS) for i in range(length))


def _number(rng: random.Random) -> str:
    return "".join(rng.choice(DIGITS) for _ in range(rng.choice((1, 1, 2, 2, 3, 4))))


def draw_word(rng: random.Random, held_out: bool) -> str:
    """A word or number of the asked split; only training ones are ever made up."""
    while True:
        roll = rng.random()
        if roll < 0.2:
            word = _number(rng)
        elif held_out or roll < 0.5:
            word = rng.choice(WORDS)
        else:
            word = _invent(rng)
        if len(word) == 1 or is_held_out(("word", word)) == held_out:
            if held_out and len(word) == 1:
                continue
            return word
