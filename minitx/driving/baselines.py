"""What anyone can do without looking: the same text for every scene, and driving on at the same speed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minitx.driving import reasoning
from minitx.driving.actions import in_ego_frame
from minitx.driving.claims import claims_about, facts_of_one, truth_share
from minitx.driving.road import MOST_LANES
from minitx.driving.scene import FUTURE, NOW, Scenes
from minitx.driving.traffic import DT


def constant_text(scenes: Scenes) -> str:
    """Of all texts that say the same of every scene, the one with the most true claims on these.

    Found sentence by sentence, since their claims do not depend on one another; whether to speak of a lead
    car is decided by the whole.
    """
    told = [facts_of_one(scenes[i]) for i in range(len(scenes))]
    decisions = [reasoning.decision_sentence(c, s) for c in (-1, 0, 1) for s in (-1, 0, 1)]
    before = [
        [f"speed {n} m/s." for n in range(0, 46)],
        [f"lane {i} of {n} from the left." for n in range(2, MOST_LANES + 1) for i in range(1, n + 1)],
        [reasoning.turn_sentence(n) for n in range(-60, 61)],
    ]
    after = [[reasoning.side_sentence(side, state) for state in range(3)] for side in reasoning.SIDES]
    opening, closing = (
        [_best(choices, told) for choices in group] for group in (before, [*after, decisions])
    )
    lead = [
        _best([f"lead car {n} m ahead." for n in range(reasoning.SIGHT + 1)], told),
        _best([reasoning.closing_sentence(n) for n in range(-20, 21)], told),
    ]
    none = [f"no car within {reasoning.SIGHT} m ahead."]
    return _best([" ".join([*opening, *middle, *closing]) for middle in (lead, none)], told)


def _best(texts: Sequence[str], told: list[Any]) -> str:
    return max(texts, key=lambda text: sum(truth_share(list(claims_about(text, one))) for one in told))


def constant_speed(scenes: Scenes) -> np.ndarray:
    """Straight ahead at the present speed: (B, 64, 2) in the ego car's frame."""
    ahead = scenes.speed[:, 0, NOW, None] * DT * np.arange(1, FUTURE + 1)
    return np.stack([ahead, np.zeros_like(ahead)], axis=-1)


def along_the_lane(scenes: Scenes) -> np.ndarray:
    """At the present speed along the lane, whose bends the map gives away: (B, 64, 2)."""
    here, offset = scenes.station[:, 0, NOW, None], scenes.offset[:, 0, NOW, None]
    station = np.repeat(here, FUTURE, axis=1)
    pace = scenes.speed[:, 0, NOW] * DT
    place = here[:, 0]
    for k in range(FUTURE):
        # A step along the lane is shorter along the centre line where the lane lies outside of the bend.
        place = place + pace / (1 - scenes.roads.curvature(place[:, None])[:, 0] * offset[:, 0])
        station[:, k] = place
    return in_ego_frame(scenes, scenes.roads.points(station, np.broadcast_to(offset, station.shape)))
