"""Cars that follow (IDM) and change lanes (MOBIL), a batch of scenes at a time.

Only +, -, *, /, sqrt, comparisons and running sums of float64 decide what cars do, so that a seed gives the
same traffic on every machine; sines and cosines come in with the geometry, after the decisions.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from minitx.driving.road import LANE_WIDTH, Roads

DT = 0.1  # s
CAR_LENGTH, CAR_WIDTH = 4.6, 1.9  # m
ACCELERATION, BRAKING, HEADWAY, STANDSTILL = 1.5, 2.0, 1.2, 2.0  # IDM's a, b (m/s^2), T (s), s0 (m)
HARDEST_BRAKING = 8.0  # m/s^2, the limit of the tyres
POLITENESS, ADVANTAGE, SAFE_BRAKING = 0.1, 0.2, 3.0  # MOBIL's p, threshold and b_safe (m/s^2)
CHANGE_SECONDS, SHORTEST_CHANGE, SLOWEST_CHANGE = 4.0, 25.0, 5.0  # s, m, m/s


@dataclass
class Cars:
    """The state of N cars in each of B scenes: arrays (B, N). Car 0 is the ego car."""

    exists: np.ndarray
    station: np.ndarray  # of the car's middle
    speed: np.ndarray  # along the centre line
    wish: np.ndarray  # the speed that it would like
    lane: np.ndarray  # where it is or where it is going
    old_lane: np.ndarray
    change_start: np.ndarray  # station
    change_length: np.ndarray

    def __getitem__(self, rows: np.ndarray) -> Cars:
        return Cars(*(getattr(self, field.name)[rows] for field in fields(self)))

    def progress(self) -> np.ndarray:
        """The share of the last lane change that is done."""
        return np.clip((self.station - self.change_start) / self.change_length, 0.0, 1.0)

    def offset(self, roads: Roads) -> np.ndarray:
        """Metres to the left of the centre line."""
        old, new = roads.lane_offset(self.old_lane), roads.lane_offset(self.lane)
        return old + (new - old) * ease(self.progress())

    def slope(self, roads: Roads) -> np.ndarray:
        """d(offset) / d(station)."""
        old, new = roads.lane_offset(self.old_lane), roads.lane_offset(self.lane)
        return (new - old) * ease_slope(self.progress()) / self.change_length

    def lanes_taken(self, roads: Roads) -> np.ndarray:
        """A bit for each lane that a car stands in or has set out for."""
        out_of_it = (
            np.abs(self.offset(roads) - roads.lane_offset(self.old_lane)) > (LANE_WIDTH + CAR_WIDTH) / 2
        )
        return np.where(self.exists, (1 << self.lane) | np.where(out_of_it, 0, 1 << self.old_lane), 0)


def ease(u: np.ndarray) -> np.ndarray:
    """From 0 to 1 with slope and curvature 0 at both ends: 10 u^3 - 15 u^4 + 6 u^5."""
    return u * u * u * (10 + u * (6 * u - 15))


def ease_slope(u: np.ndarray) -> np.ndarray:
    """d ease / d u."""
    return 30 * u * u * (1 - u) * (1 - u)


def free_road(speed: np.ndarray, wish: np.ndarray) -> np.ndarray:
    """IDM's acceleration without a car ahead: a (1 - (v / v0)^4), at least -b."""
    share = speed / wish
    square = share * share
    return np.maximum(ACCELERATION * (1 - square * square), -BRAKING)


def following(gap: np.ndarray, speed: np.ndarray, lead_speed: np.ndarray) -> np.ndarray:
    """What IDM takes off for a car ahead: a (s* / gap)^2, s* = s0 + v T + v (v - v_lead) / (2 sqrt(a b)).

    Treiber, Hennecke, Helbing 2000, arXiv:cond-mat/0002177.
    """
    wanted = speed * (HEADWAY + (speed - lead_speed) / (2 * np.sqrt(ACCELERATION * BRAKING)))
    ratio = (STANDSTILL + np.maximum(0.0, wanted)) / np.maximum(gap, 0.1)
    return ACCELERATION * ratio * ratio


def answers(cars: Cars, taken: np.ndarray) -> np.ndarray:
    """(B, N, N): the acceleration of car i if car j were the only one ahead; free road where j is not.

    taken (B, N): the lanes of each car as bits. A car heeds all cars ahead that share a lane with it.
    """
    gap = cars.station[:, None, :] - cars.station[:, :, None]  # (B, i, j)
    ahead = (gap > 0) & ((taken[:, :, None] & taken[:, None, :]) != 0)
    found = np.repeat(free_road(cars.speed, cars.wish)[:, :, None], gap.shape[2], axis=2)
    b, i, j = np.nonzero(ahead)  # few pairs: most cars are in other lanes or do not exist
    found[b, i, j] -= following(gap[b, i, j] - CAR_LENGTH, cars.speed[b, i], cars.speed[b, j])
    return np.maximum(found, -HARDEST_BRAKING)


def consider_change(cars: Cars, roads: Roads, pairs: np.ndarray, taken: np.ndarray, car: int) -> np.ndarray:
    """Let one car of each scene start a lane change where MOBIL finds it safe and worth it.

    Worth it: own gain + p (gains of the new and the old follower) > threshold; safe: no one must brake
    harder than b_safe (Kesting, Treiber, Helbing 2007, Transportation Research Record 1999).
    `pairs` are the `answers` for the lanes `taken`. Returns in which scenes it starts one, (B,).
    """
    now = pairs.min(axis=2)
    ready = cars.exists[:, car] & (cars.progress()[:, car] >= 1.0) & (cars.speed[:, car] > SLOWEST_CHANGE)
    best, choice = np.full(len(ready), ADVANTAGE), np.zeros(len(ready), np.int64)
    without = pairs.copy()
    without[:, :, car] = free_road(cars.speed, cars.wish)
    relieved = without.min(axis=2)  # what the others would do if the car were gone
    for side in (-1, 1):
        lane = cars.lane[:, car] + side
        there = ready & (lane >= 0) & (lane < roads.lanes)
        moved = taken.copy()
        moved[:, car] = 1 << np.where(there, lane, 0)
        after = answers_around(cars, moved, car, relieved)
        behind = (cars.station < cars.station[:, car, None]) & cars.exists
        touched = behind & ((moved & moved[:, car, None]) != 0)
        left_behind = behind & ((taken & taken[:, car, None]) != 0)
        gain = after[:, car] - now[:, car]
        gain = gain + POLITENESS * (_of_nearest(after - now, touched, cars.station))
        gain = gain + POLITENESS * (_of_nearest(relieved - now, left_behind & ~touched, cars.station))
        worst = np.minimum(after[:, car], np.where(touched, after, 0.0).min(axis=1))
        better = there & (worst > -SAFE_BRAKING) & (gain > best)
        best, choice = np.where(better, gain, best), np.where(better, side, choice)
    start_change(cars, car, choice)
    return choice != 0


def answers_around(cars: Cars, taken: np.ndarray, car: int, relieved: np.ndarray) -> np.ndarray:
    """(B, N): the acceleration of every car if `car` stood in the lanes `taken` (B, N) says."""
    shares = ((taken & taken[:, car, None]) != 0) & cars.exists
    ahead_of_us = cars.station - cars.station[:, car, None]  # > 0: that car is in front
    ours, theirs = cars.speed[:, car, None], cars.speed
    free = free_road(cars.speed, cars.wish)
    heeding = free[:, car, None] - following(ahead_of_us - CAR_LENGTH, ours, theirs)
    own = np.where(shares & (ahead_of_us > 0), heeding, free[:, car, None]).min(axis=1)
    heeded = free - following(-ahead_of_us - CAR_LENGTH, theirs, ours)
    after = np.where(shares & (ahead_of_us < 0), np.minimum(relieved, heeded), relieved)
    after[:, car] = own
    return np.maximum(after, -HARDEST_BRAKING)


def _of_nearest(gain: np.ndarray, candidates: np.ndarray, station: np.ndarray) -> np.ndarray:
    """The gain (B,) of the candidate with the largest station; 0 where there is none."""
    nearest = np.where(candidates, station, -np.inf).argmax(axis=1)[:, None]
    chosen = np.take_along_axis(gain, nearest, axis=1)[:, 0]
    return np.where(candidates.any(axis=1), chosen, 0.0)


def start_change(cars: Cars, car: int, side: np.ndarray) -> None:
    """Send one car of each scene to the next lane: side (B,), -1 left, 1 right, 0 stays."""
    goes = side != 0
    cars.old_lane[:, car] = np.where(goes, cars.lane[:, car], cars.old_lane[:, car])
    cars.lane[:, car] += side
    cars.change_start[:, car] = np.where(goes, cars.station[:, car], cars.change_start[:, car])
    length = np.maximum(CHANGE_SECONDS * cars.speed[:, car], SHORTEST_CHANGE)
    cars.change_length[:, car] = np.where(goes, length, cars.change_length[:, car])


def move(cars: Cars, acceleration: np.ndarray) -> None:
    """One step of DT; speeds do not go below 0."""
    after = np.maximum(cars.speed + acceleration * DT, 0.0)
    cars.station += (cars.speed + after) / 2 * DT
    cars.speed = after


def in_touch(station: np.ndarray, offset: np.ndarray, exists: np.ndarray) -> np.ndarray:
    """Whether any two cars overlap, in road coordinates: stations and offsets (B, N) -> (B,)."""
    first, second = np.triu_indices(station.shape[1], 1)  # every pair once
    near = np.abs(station[:, first] - station[:, second]) < CAR_LENGTH
    near &= np.abs(offset[:, first] - offset[:, second]) < CAR_WIDTH
    return np.asarray((near & exists[:, first] & exists[:, second]).any(axis=1))
