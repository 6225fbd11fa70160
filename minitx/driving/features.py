"""A scene as the models see it: cars and map lines as polylines in the ego car's frame, of size about 1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from minitx.driving.actions import in_ego_frame
from minitx.driving.road import LANE_WIDTH, MOST_LANES
from minitx.driving.scene import HISTORY, NOW, Scenes
from minitx.driving.traffic import DT

RANGE = 130.0  # metres to the farthest car that is seen
LINE_POINTS, SPACING, PIECES, FIRST = 20, 4.0, 3, -20.0  # a line is cut into pieces that share their ends
AGENT_FEATURES, LINE_FEATURES = 11, 7
LINES = (MOST_LANES + 2) * PIECES


@dataclass(frozen=True)
class Observation:
    """What is seen of B scenes, float32, and where it is real (True) or padding.

    agents (B, N, 16, 11): x, y, cos and sin of the direction, speed, speed less the ego car's,
    acceleration, time, whether it is the ego car; and, matched to the map, metres ahead of the ego car along
    the road and lanes to the left of it. lines (B, P, 20, 7): x, y, direction, and the kind of line (middle
    of a lane, left or right edge). Masks (B, N, 16) and (B, P, 20).
    """

    agents: np.ndarray
    agents_real: np.ndarray
    lines: np.ndarray
    lines_real: np.ndarray

    def __getitem__(self, rows: slice | np.ndarray) -> Observation:
        return Observation(*(array[rows] for array in vars(self).values()))

    def __len__(self) -> int:
        return len(self.agents)


def observe(scenes: Scenes) -> Observation:
    """Only the present and the 1.6 s before it are looked at."""
    agents, agents_real = _agents(scenes)
    lines, lines_real = _lines(scenes)
    return Observation(agents, agents_real, lines, lines_real)


def _agents(scenes: Scenes) -> tuple[np.ndarray, np.ndarray]:
    past = slice(0, HISTORY)
    places = in_ego_frame(scenes, scenes.roads.points(scenes.station[:, :, past], scenes.offset[:, :, past]))
    direction = scenes.heading[:, :, past] - scenes.heading[:, :1, NOW, None]
    speed = scenes.speed[:, :, past]
    ego_speed = speed[:, :1, NOW, None]
    acceleration = np.diff(speed, axis=2, prepend=2 * speed[:, :, :1] - speed[:, :, 1:2]) / DT
    time = np.broadcast_to((np.arange(HISTORY) - NOW) * DT, speed.shape)
    ego = np.zeros(speed.shape)
    ego[:, 0] = 1.0
    columns = (
        places[..., 0] / 50,
        places[..., 1] / 10,
        np.cos(direction),
        np.sin(direction) * 3,
        speed / 15,
        (speed - ego_speed) / 5,
        acceleration / 2,
        time,
        ego,
        (scenes.station[:, :, past] - scenes.station[:, :1, NOW, None]) / 30,
        (scenes.offset[:, :, past] - scenes.offset[:, :1, NOW, None]) / LANE_WIDTH,
    )
    seen = scenes.exists & (np.linalg.norm(places[:, :, NOW], axis=-1) < RANGE)
    return _padded(np.stack(columns, axis=-1), np.broadcast_to(seen[:, :, None], speed.shape))


def _lines(scenes: Scenes) -> tuple[np.ndarray, np.ndarray]:
    roads, batch = scenes.roads, len(scenes)
    lanes = np.broadcast_to(np.arange(MOST_LANES), (batch, MOST_LANES))
    half = roads.lanes[:, None] * LANE_WIDTH / 2
    offsets = np.concatenate([roads.lane_offset(lanes), half, -half], axis=1)  # (B, lines)
    steps = PIECES * (LINE_POINTS - 1) + 1
    station = scenes.station[:, 0, NOW, None] + FIRST + SPACING * np.arange(steps)
    shape = batch, offsets.shape[1], steps
    along = np.broadcast_to(station[:, None], shape)
    places = in_ego_frame(scenes, roads.points(along, np.broadcast_to(offsets[:, :, None], shape)))
    direction = roads.heading(station) - scenes.heading[:, 0, NOW, None]
    kinds = np.concatenate([np.repeat([[1.0, 0, 0]], MOST_LANES, axis=0), [[0, 1.0, 0]], [[0, 0, 1.0]]])
    columns = (
        places[..., 0] / 50,
        places[..., 1] / 10,
        np.broadcast_to(np.cos(direction)[:, None], shape),
        np.broadcast_to(np.sin(direction)[:, None] * 3, shape),
        *(np.broadcast_to(kinds[:, i, None], shape) for i in range(3)),
    )
    whole = np.stack(columns, axis=-1)
    starts = np.arange(PIECES) * (LINE_POINTS - 1)
    cut = np.stack([whole[:, :, start : start + LINE_POINTS] for start in starts], axis=2)
    real = np.concatenate([lanes < roads.lanes[:, None], np.ones((batch, 2), bool)], axis=1)
    cut = cut.reshape(batch, LINES, LINE_POINTS, LINE_FEATURES)
    return _padded(cut, np.broadcast_to(np.repeat(real, PIECES, axis=1)[:, :, None], cut.shape[:3]))


def _padded(features: np.ndarray, real: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.where(real[..., None], features, 0.0).astype(np.float32), real.copy()
