"""What can be said of a scene in words, and the text that says it.

A text is a chain of sentences of a few fixed forms, each about one topic:

    speed 24 m/s. lane 2 of 3 from the left. road turns left by 12 degrees within 100 m.
    lead car 18 m ahead. it is slower by 4 m/s. left lane free. right lane taken.
    therefore: change to the left lane and speed up.

The last sentence says what the ego car will do; the 6.4 s that follow in the scene show whether it did.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from minitx.driving.road import LANE_WIDTH
from minitx.driving.scene import NOW, Scenes
from minitx.driving.traffic import CAR_LENGTH, CAR_WIDTH

SIGHT = 80  # metres: a lead car farther off is not spoken of
LOOK_AHEAD = 100  # metres of road whose turn is spoken of
CLOSE, CLOSING_SECONDS = 8.0, 4.0  # what makes a lane taken
NOTABLE = 1.5  # m/s of change over the 6.4 s that count as speeding up or slowing down

NO_LANE, FREE, TAKEN = 0, 1, 2
SIDES = ("left", "right")


@dataclass(frozen=True)
class Facts:
    """What is true of B scenes, each (B,). Lengths in m, speeds in m/s, the turn in degrees (left > 0)."""

    speed: np.ndarray
    lane: np.ndarray  # from the left, 1 ... lanes
    lanes: np.ndarray
    turn: np.ndarray
    gap: np.ndarray  # bumper to bumper, to the nearest car ahead that reaches into the lane; inf: none
    closing: np.ndarray  # the lead car's speed minus the ego car's; 0 where there is none
    left: np.ndarray  # NO_LANE, FREE or TAKEN
    right: np.ndarray
    change: np.ndarray  # -1 to the left, 0, 1 to the right
    speeding: np.ndarray  # -1 slows down, 0, 1 speeds up


def facts_of(scenes: Scenes) -> Facts:
    """Found from where the cars are, not from the rules that moved them."""
    roads = scenes.roads
    station, offset, speed = (a[:, :, NOW] for a in (scenes.station, scenes.offset, scenes.speed))
    lane = roads.lane_at(offset[:, 0])
    own = roads.lane_offset(lane)
    others = scenes.exists.copy()
    others[:, 0] = False
    ahead = station - station[:, :1]
    in_lane = others & _reaches(offset, own) & (ahead > 0)
    gaps = np.where(in_lane, ahead - CAR_LENGTH, np.inf)
    lead = gaps.argmin(axis=1)[:, None]
    gap = np.take_along_axis(gaps, lead, axis=1)[:, 0]
    lead_speed = np.take_along_axis(speed, lead, axis=1)[:, 0]
    here = station[:, 0]
    sides = [_side(scenes, others, lane + step) for step in (-1, 1)]
    moved = scenes.offset[:, 0, -1] - offset[:, 0]
    gained = scenes.speed[:, 0, -1] - speed[:, 0]
    return Facts(
        speed=speed[:, 0],
        lane=lane + 1,
        lanes=roads.lanes,
        turn=np.degrees(roads.heading(here + LOOK_AHEAD) - roads.heading(here)),
        gap=gap,
        closing=np.where(np.isfinite(gap), lead_speed - speed[:, 0], 0.0),
        left=sides[0],
        right=sides[1],
        change=np.where(moved > LANE_WIDTH / 2, -1, np.where(moved < -LANE_WIDTH / 2, 1, 0)),
        speeding=np.where(gained > NOTABLE, 1, np.where(gained < -NOTABLE, -1, 0)),
    )


def _reaches(offset: np.ndarray, lane_offset: np.ndarray) -> np.ndarray:
    """Whether a car's body reaches into the lane with its middle at lane_offset (B,): (B, N)."""
    return np.abs(offset - lane_offset[:, None]) < (LANE_WIDTH + CAR_WIDTH) / 2


def _side(scenes: Scenes, others: np.ndarray, lane: np.ndarray) -> np.ndarray:
    """A lane is taken where a car in it is within 8 m of ours, or they would touch within 4 s."""
    station, offset, speed = (a[:, :, NOW] for a in (scenes.station, scenes.offset, scenes.speed))
    there = others & _reaches(offset, scenes.roads.lane_offset(lane))
    ahead = station - station[:, :1]
    gap = np.abs(ahead) - CAR_LENGTH
    closing = np.where(ahead > 0, speed[:, :1] - speed, speed - speed[:, :1])
    near = there & ((gap < CLOSE) | (gap < CLOSING_SECONDS * closing))
    exists = (lane >= 0) & (lane < scenes.roads.lanes)
    return np.where(exists, np.where(near.any(axis=1), TAKEN, FREE), NO_LANE)


def rounded(value: float) -> int:
    """To the nearest whole number, halves away from zero."""
    return int(np.floor(abs(value) + 0.5)) * (1 if value >= 0 else -1)


def write(scenes: Scenes) -> list[str]:
    """The true text of each scene."""
    facts = facts_of(scenes)
    return [_write(facts, i) for i in range(len(scenes))]


def _write(facts: Facts, i: int) -> str:
    sentences = [
        f"speed {rounded(facts.speed[i])} m/s.",
        f"lane {facts.lane[i]} of {facts.lanes[i]} from the left.",
        turn_sentence(rounded(facts.turn[i])),
    ]
    if facts.gap[i] <= SIGHT:
        sentences.append(f"lead car {rounded(facts.gap[i])} m ahead.")
        sentences.append(closing_sentence(rounded(facts.closing[i])))
    else:
        sentences.append(f"no car within {SIGHT} m ahead.")
    sentences += [
        side_sentence(side, state) for side, state in zip(SIDES, (facts.left[i], facts.right[i]), strict=True)
    ]
    sentences.append(decision_sentence(facts.change[i], facts.speeding[i]))
    return " ".join(sentences)


def turn_sentence(degrees: int) -> str:
    if degrees == 0:
        return f"road straight for {LOOK_AHEAD} m."
    side = SIDES[0] if degrees > 0 else SIDES[1]
    return f"road turns {side} by {abs(degrees)} degrees within {LOOK_AHEAD} m."


def closing_sentence(closing: int) -> str:
    if closing == 0:
        return "it is as fast."
    return f"it is {'faster' if closing > 0 else 'slower'} by {abs(closing)} m/s."


def side_sentence(side: str, state: int) -> str:
    return f"no {side} lane." if state == NO_LANE else f"{side} lane {'free' if state == FREE else 'taken'}."


def decision_sentence(change: int, speeding: int) -> str:
    lane = {-1: "change to the left lane", 0: "keep the lane", 1: "change to the right lane"}[int(change)]
    speed = {-1: "slow down", 0: "keep the speed", 1: "speed up"}[int(speeding)]
    return f"therefore: {lane} and {speed}."
