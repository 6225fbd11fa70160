"""Whether a text about a scene is true, claim by claim."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from minitx.driving.reasoning import FREE, LOOK_AHEAD, NO_LANE, SIGHT, TAKEN, facts_of
from minitx.driving.scene import Scenes


class Verdict(StrEnum):
    """What becomes of a claim. Only `true` counts for a text."""

    true = "true"
    false = "false"
    unparsable = "unparsable"  # a sentence of no known form
    repeated = "repeated"  # its topic has been spoken of before
    missing = "missing"  # a topic that the text should speak of and does not


class Claim(NamedTuple):
    """A part of a text and what became of it."""

    claim: str
    verdict: Verdict


@dataclass(frozen=True)
class Form:
    """A form of sentence: what it looks like, and for each topic that it speaks of whether it is true.

    A test takes what the sentence says (the pattern's groups) and the facts of one scene.
    """

    pattern: re.Pattern[str]
    topics: dict[str, Callable[[re.Match[str], Any], bool]]


NUMBER = r"([0-9]{1,3})"
CHANGES = {"change to the left lane": -1, "keep the lane": 0, "change to the right lane": 1}
SPEEDS = {"slow down": -1, "keep the speed": 0, "speed up": 1}


def near(said: float, fact: float, least: float, share: float = 0.0) -> bool:
    """Whether a number that was said is within `least`, or within a share of the fact, of the fact."""
    return abs(said - fact) <= max(least, share * abs(fact))


def _form(pattern: str, **topics: Callable[[re.Match[str], Any], bool]) -> Form:
    return Form(re.compile(pattern), topics)


def _signed(side: str, number: str, positive: str) -> int:
    return int(number) if side == positive else -int(number)


FORMS = (
    _form(rf"speed {NUMBER} m/s", speed=lambda m, f: near(int(m[1]), f.speed, 1.0)),
    _form(
        r"lane ([0-9]) of ([0-9]) from the left",
        lane=lambda m, f: (int(m[1]), int(m[2])) == (f.lane, f.lanes),
    ),
    _form(rf"road straight for {LOOK_AHEAD} m", road=lambda m, f: near(0, f.turn, 2.0)),
    _form(
        rf"road turns (left|right) by {NUMBER} degrees within {LOOK_AHEAD} m",
        road=lambda m, f: int(m[2]) > 0 and near(_signed(m[1], m[2], "left"), f.turn, 2.0, 0.1),
    ),
    _form(
        rf"lead car {NUMBER} m ahead", lead=lambda m, f: near(int(m[1]), f.gap, 2.0, 0.1) and f.gap < np.inf
    ),
    _form(rf"no car within {SIGHT} m ahead", lead=lambda m, f: f.gap > SIGHT),
    _form(r"it is as fast", closing=lambda m, f: f.gap < np.inf and near(0, f.closing, 1.0)),
    _form(
        rf"it is (faster|slower) by {NUMBER} m/s",
        closing=lambda m, f: (
            f.gap < np.inf and int(m[2]) > 0 and near(_signed(m[1], m[2], "faster"), f.closing, 1.0)
        ),
    ),
    _form(r"no left lane", left=lambda m, f: f.left == NO_LANE),
    _form(r"left lane (free|taken)", left=lambda m, f: f.left == (FREE if m[1] == "free" else TAKEN)),
    _form(r"no right lane", right=lambda m, f: f.right == NO_LANE),
    _form(r"right lane (free|taken)", right=lambda m, f: f.right == (FREE if m[1] == "free" else TAKEN)),
    _form(
        rf"therefore: ({'|'.join(CHANGES)}) and ({'|'.join(SPEEDS)})",
        change=lambda m, f: CHANGES[m[1]] == f.change,
        speeding=lambda m, f: SPEEDS[m[2]] == f.speeding,
    ),
)


def check_claims(text: str, scene: Scenes) -> list[Claim]:
    """What each sentence of `text` claims of a scene, and whether it is true; then what it left out.

    The sentence with "therefore" makes two claims. Distances may be off by 2 m or a tenth, speeds by 1 m/s,
    the road's turn by 2 degrees or a tenth; the rest must be exact. Saying less or more does not help: a
    topic left out is missing, one spoken of twice repeated, and a sentence of no known form unparsable.

    `scene` is one scene: scenes[i], or generate([seed]). Raises ValueError for more.
    """
    if len(scene) != 1:
        raise ValueError(f"check_claims looks at one scene, got {len(scene)}: pass scenes[i].")
    return list(claims_about(text, facts_of_one(scene)))


def facts_of_one(scene: Scenes) -> Any:
    """The facts of one scene, each a plain number."""
    return SimpleNamespace(**{name: value[0].item() for name, value in vars(facts_of(scene)).items()})


def claims_about(text: str, facts: Any) -> Iterator[Claim]:
    """`check_claims` for facts that are known; `facts_of_one` gives them."""
    wanted = ["speed", "lane", "road", "lead", "left", "right", "change", "speeding"]
    if facts.gap <= SIGHT:
        wanted.insert(4, "closing")
    spoken: set[str] = set()
    for sentence in sentences_of(text):
        form, said = recognise(sentence)
        if form is None or said is None:
            yield Claim(sentence, Verdict.unparsable)
            continue
        for topic, holds in form.topics.items():
            if topic in spoken:
                yield Claim(sentence, Verdict.repeated)
            else:
                yield Claim(_part(topic, said), Verdict.true if holds(said, facts) else Verdict.false)
            spoken.add(topic)
    for topic in wanted:
        if topic not in spoken:
            yield Claim(f"({topic})", Verdict.missing)


def sentences_of(text: str) -> list[str]:
    """The sentences without their full stops; what follows the last stop is a sentence too."""
    return [part.strip() for part in text.split(".") if part.strip()]


def recognise(sentence: str) -> tuple[Form | None, re.Match[str] | None]:
    """The form that a sentence has, and what it says."""
    for form in FORMS:
        said = form.pattern.fullmatch(sentence)
        if said:
            return form, said
    return None, None


def _part(topic: str, said: re.Match[str]) -> str:
    return {"change": said[1], "speeding": said[2]}[topic] if topic in ("change", "speeding") else said[0]


def truth_share(claims: list[Claim]) -> float:
    """The share of true ones among all claims, what is missing, repeated and unparsable included."""
    return sum(claim.verdict == Verdict.true for claim in claims) / len(claims)
