"""Scenes: what a seed stands for. A moment on a road, 1.6 s of history before it and 6.4 s that follow."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

import numpy as np

from minitx.driving import traffic
from minitx.driving.road import FIRST_STATION, LAST_STATION, MOST_LANES, Roads
from minitx.driving.traffic import CAR_LENGTH, Cars

HISTORY, FUTURE = 16, 64  # steps of 0.1 s; the last step of the history is now
NOW = HISTORY - 1
WARM_UP = 60  # steps before the history, in which the cars find their distances
PER_LANE = 3  # other cars at most: two start ahead and one behind
CARS = 1 + PER_LANE * MOST_LANES
MAX_ATTEMPTS = 20
HARDEST_IN_A_SCENE = 6.0  # m/s^2


@dataclass(frozen=True)
class Scenes:
    """B scenes of up to N = 13 cars, of which car 0 is the ego car, at T = 80 times, 0.1 s apart.

    exists (B, N) booleans; station and offset (B, N, T) in metres; speed (B, N, T) in m/s along the car's
    own path; heading (B, N, T) in radians, as the roads'. Index NOW is the present. SI units, float64.
    """

    seeds: np.ndarray
    roads: Roads
    exists: np.ndarray
    station: np.ndarray
    offset: np.ndarray
    speed: np.ndarray
    heading: np.ndarray

    def __len__(self) -> int:
        return len(self.exists)

    def __getitem__(self, rows: int | slice | np.ndarray) -> Scenes:
        """Some of the scenes, as scenes; a number gives one of them, still with the axis B."""
        if isinstance(rows, int | np.integer):
            if not -len(self) <= rows < len(self):
                raise IndexError(f"scene {rows} of {len(self)}.")
            rows = slice(rows % len(self), rows % len(self) + 1)
        return Scenes(*(getattr(self, field.name)[rows] for field in fields(self)))

    def positions(self) -> np.ndarray:
        """x and y of every car at every time, in the road's frame: (B, N, T, 2)."""
        return self.roads.points(self.station, self.offset)


def generate(seeds: Iterable[int]) -> Scenes:
    """The scenes of these seeds. What a seed gives does not depend on the others.

    A draw in which cars touch, or one must brake harder than 6 m/s^2, is drawn again from the same seed.
    Raises ValueError for a negative seed.
    """
    wanted = np.asarray(list(seeds), dtype=np.int64)
    if not len(wanted):
        raise ValueError("generate needs at least one seed, got none.")
    if (wanted < 0).any():
        raise ValueError(f"A scene's seed must be 0 or more, got {wanted.min()}.")
    parts: list[Scenes] = []
    places: list[np.ndarray] = []
    left = np.arange(len(wanted))
    for attempt in range(MAX_ATTEMPTS):
        scenes, sound = _simulate(wanted[left], attempt)
        parts.append(scenes[sound])
        places.append(left[sound])
        left = left[~sound]
        if not len(left):
            break
    if len(left):
        raise RuntimeError(f"Seeds {wanted[left]} gave no sound scene in {MAX_ATTEMPTS} draws.")
    return _join(parts, np.argsort(np.concatenate(places)))


def _join(parts: list[Scenes], order: np.ndarray) -> Scenes:
    def joined(items):
        return np.concatenate(items)[order]

    roads = Roads(*(joined([getattr(p.roads, f.name) for p in parts]) for f in fields(Roads)))
    arrays = {
        f.name: joined([getattr(p, f.name) for p in parts]) for f in fields(Scenes) if f.name != "roads"
    }
    return Scenes(roads=roads, **arrays)


class Draw:
    """Uniform numbers of B seeds, handed out in a fixed order: each seed has its own."""

    def __init__(self, seeds: np.ndarray, attempt: int, amount: int = 96):
        self.numbers = np.stack([np.random.default_rng((int(s), attempt)).random(amount) for s in seeds])
        self.used = 0

    def between(self, low, high, *shape: int) -> np.ndarray:
        """(B, *shape) numbers in [low, high); the bounds may be arrays."""
        size = int(np.prod(shape, dtype=np.int64))
        taken = self.numbers[:, self.used : self.used + size].reshape(len(self.numbers), *shape)
        self.used += size
        return low + (high - low) * taken


def _simulate(seeds: np.ndarray, attempt: int) -> tuple[Scenes, np.ndarray]:
    """One draw of each seed: the scenes, and which of them are sound."""
    draw = Draw(seeds, attempt)
    pace = draw.between(7.0, 30.0)  # what cars on this road drive, m/s
    roads = _draw_roads(draw, pace)
    cars, slowing = _draw_cars(draw, pace, roads)
    steps = WARM_UP + HISTORY + FUTURE
    record = np.zeros((4, len(seeds), CARS, HISTORY + FUTURE))
    sound = np.ones(len(seeds), bool)
    for step in range(steps):
        time = step - WARM_UP - NOW  # steps from now
        cars.wish = np.where((time >= slowing[0]), slowing[1], cars.wish)
        taken = cars.lanes_taken(roads)
        pairs = traffic.answers(cars, taken)
        car = 0 if time == 0 else 1 + step % (CARS - 1)
        started = np.flatnonzero(traffic.consider_change(cars, roads, pairs, taken, car))
        acceleration = pairs.min(axis=2)
        if len(started):
            changed = cars[started]
            acceleration[started] = traffic.answers(changed, changed.lanes_taken(roads[started])).min(axis=2)
        if step >= WARM_UP:
            record[:, :, :, step - WARM_UP] = (
                cars.station,
                cars.offset(roads),
                cars.slope(roads),
                cars.speed,
            )
        if step >= WARM_UP:
            sound &= ~traffic.in_touch(cars.station, cars.offset(roads), cars.exists)
            sound &= np.where(cars.exists, acceleration, 0.0).min(axis=1) > -HARDEST_IN_A_SCENE
        traffic.move(cars, acceleration)
    scenes = _settle(seeds, roads, cars.exists, record)
    sound &= (scenes.station.min(axis=(1, 2)) > FIRST_STATION) & (
        scenes.station.max(axis=(1, 2)) < LAST_STATION
    )
    return scenes, sound


def _draw_roads(draw: Draw, pace: np.ndarray) -> Roads:
    lanes = 2 + np.floor(draw.between(0.0, 3.0)).astype(np.int64)
    tightest = np.minimum(1 / 90, 2.2 / (1.2 * pace * pace))  # a sideways acceleration that people accept
    first = draw.between(-1.0, 1.0) * tightest
    first = np.where(draw.between(0.0, 1.0) < 0.35, 0.0, first)
    kind = draw.between(0.0, 1.0)  # it goes on; it ends; it turns the other way
    second = np.where(kind < 0.4, 0.0, np.where(kind < 0.7, -first, -1.8 * first))
    starts = draw.between(-120.0, 60.0)
    apart = draw.between(60.0, 160.0)
    ramps = draw.between(25.0, 60.0, 2)
    return Roads(lanes, np.stack([first, second], 1), np.stack([starts, starts + apart], 1), ramps)


def _draw_cars(draw: Draw, pace: np.ndarray, roads: Roads) -> tuple[Cars, tuple[np.ndarray, np.ndarray]]:
    """Two cars ahead and one behind in every lane, some of which exist; and which slow down, and when."""
    ego_lane = np.floor(draw.between(0.0, 1.0) * roads.lanes).astype(np.int64)
    density = draw.between(0.25, 0.8)
    lanes = np.repeat(np.arange(MOST_LANES), PER_LANE)
    exists = draw.between(0.0, 1.0, CARS - 1) < density[:, None]
    exists &= lanes < roads.lanes[:, None]
    wish = pace[:, None] * draw.between(0.6, 1.1, CARS - 1)
    ego_wish = pace * draw.between(0.95, 1.45)
    ego_speed = np.where(draw.between(0.0, 1.0) < 0.3, pace * draw.between(0.4, 0.7), ego_wish * 0.92)
    speed = np.concatenate([ego_speed[:, None], wish * 0.92], axis=1)
    spread = draw.between(0.0, 40.0, CARS - 1)
    middle = draw.between(-20.0, 20.0, MOST_LANES)
    station = np.zeros((len(pace), CARS))
    for lane in range(MOST_LANES):
        ahead, second, behind = (1 + PER_LANE * lane + i for i in range(PER_LANE))
        here = ego_lane == lane
        first = np.where(here, 0.0, middle[:, lane])
        lead = np.where(here, 0, behind)  # who drives right behind the car ahead
        lead_speed = np.take_along_axis(speed, lead[:, None], axis=1)[:, 0]
        station[:, ahead] = first + _apart(lead_speed, speed[:, ahead]) * here + spread[:, ahead - 1]
        station[:, second] = (
            station[:, ahead] + _apart(speed[:, ahead], speed[:, second]) + spread[:, second - 1]
        )
        front, front_speed = (
            np.where(here, 0.0, station[:, ahead]),
            np.where(here, speed[:, 0], speed[:, ahead]),
        )
        station[:, behind] = front - _apart(speed[:, behind], front_speed) - spread[:, behind - 1]
    lane = np.concatenate([ego_lane[:, None], np.broadcast_to(lanes, exists.shape)], axis=1)
    slow = draw.between(0.0, 1.0, CARS - 1) < 0.12
    begins = np.where(slow, np.floor(draw.between(-40.0, 0.0, CARS - 1)), 10**6)
    slower = np.where(slow, wish * draw.between(0.25, 0.6, CARS - 1), wish)
    never = np.full((len(pace), 1), 10**6)
    slowing = np.concatenate([never, begins], 1), np.concatenate([ego_wish[:, None], slower], 1)
    exists = np.concatenate([np.ones((len(pace), 1), bool), exists], axis=1)
    wish = np.concatenate([ego_wish[:, None], wish], axis=1)
    done = np.full(wish.shape, -1e6)
    return Cars(exists, station, speed, wish, lane, lane.copy(), done, np.ones_like(wish)), slowing


def _apart(speed: np.ndarray, lead_speed: np.ndarray) -> np.ndarray:
    """Middle to middle, enough to fall to the lead car's speed at 3 m/s^2."""
    closing = np.maximum(0.0, speed * speed - lead_speed * lead_speed) / 6.0
    return CAR_LENGTH + 2.0 + 0.9 * speed + closing


def _settle(seeds: np.ndarray, roads: Roads, exists: np.ndarray, record: np.ndarray) -> Scenes:
    """Put station 0 where the ego car is now, and find speeds and headings along the cars' own paths."""
    station, offset, slope, pace = record
    here = station[:, 0, NOW].copy()
    station = np.where(exists[:, :, None], station - here[:, None, None], 0.0)
    roads = Roads(roads.lanes, roads.bends, roads.starts - here[:, None], roads.ramps)
    forward = 1 - roads.curvature(station) * offset
    speed = pace * np.sqrt(forward * forward + slope * slope)
    heading = roads.heading(station) + np.arctan2(slope, forward)
    return Scenes(seeds, roads, exists, station, offset, speed, heading)
