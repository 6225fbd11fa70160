"""Roads: curvature along a centre line, and the way from road coordinates to the plane.

A place on a road is its station (metres along the centre line) and its offset (metres to the left of it).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np

LANE_WIDTH = 3.5
MOST_LANES = 4
FIRST_STATION, LAST_STATION = -400, 700  # metres; a generated scene lies inside


@dataclass(frozen=True)
class Roads:
    """B roads. The curvature is 0 at first and goes through two smooth changes (1/m, left is positive).

    lanes (B,) whole numbers; bends, starts, ramps (B, 2): change i adds bends[i] between station starts[i]
    and starts[i] + ramps[i], along the cubic 3 u^2 - 2 u^3. Stations and offsets below are (B, ...).
    """

    lanes: np.ndarray
    bends: np.ndarray
    starts: np.ndarray
    ramps: np.ndarray

    def __getitem__(self, rows: slice | np.ndarray) -> Roads:
        return Roads(*(getattr(self, field.name)[rows] for field in fields(self)))

    def curvature(self, station: np.ndarray) -> np.ndarray:
        """1 / radius at each station, (B, ...)."""
        return np.add(*(bend * (3 * u * u - 2 * u * u * u) for bend, _, u, _ in self._changes(station)))

    def heading(self, station: np.ndarray) -> np.ndarray:
        """The integral of the curvature, in radians, (B, ...)."""
        return np.add(
            *(
                bend * (ramp * (u * u * u - u * u * u * u / 2) + beyond)
                for bend, ramp, u, beyond in self._changes(station)
            )
        )

    def _changes(self, station: np.ndarray) -> Iterator[tuple[np.ndarray, ...]]:
        """Of both changes: bend, ramp, the share u that is done, and the metres since all of it was."""
        for i in (0, 1):
            bend, start, ramp = (
                a[:, i].reshape(-1, *[1] * (station.ndim - 1)) for a in (self.bends, self.starts, self.ramps)
            )
            done = station - start
            yield bend, ramp, np.clip(done / ramp, 0.0, 1.0), np.maximum(done - ramp, 0.0)

    def points(self, station: np.ndarray, offset: np.ndarray) -> np.ndarray:
        """x and y, (B, ..., 2); station 0 of the centre line is at the origin, and x points along heading 0.

        Midpoint rule on pieces of a metre: for the bends of a scene the error is below two millimetres.
        Raises ValueError for a station beyond the table.
        """
        if station.size and not (station.min() >= FIRST_STATION and station.max() <= LAST_STATION):
            raise ValueError(
                f"stations must lie in {FIRST_STATION} ... {LAST_STATION} m, "
                f"got {station.min():.1f} ... {station.max():.1f}."
            )
        middles = np.arange(FIRST_STATION, LAST_STATION) + 0.5
        angles = self.heading(np.broadcast_to(middles, (len(self.lanes), len(middles))))
        steps = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
        table = np.concatenate([np.zeros_like(steps[:, :1]), np.cumsum(steps, axis=1)], axis=1)
        table -= table[:, -FIRST_STATION, None]
        whole = np.floor(station)
        rest = station - whole
        rows = np.arange(len(self.lanes)).reshape(-1, *[1] * (station.ndim - 1))
        base = table[rows, whole.astype(np.int64) - FIRST_STATION]
        middle, here = self.heading(whole + rest / 2), self.heading(station)
        x = base[..., 0] + rest * np.cos(middle) - offset * np.sin(here)
        y = base[..., 1] + rest * np.sin(middle) + offset * np.cos(here)
        return np.stack([x, y], axis=-1)

    def lane_offset(self, lane: np.ndarray) -> np.ndarray:
        """The offset of the middle of a lane, (B, ...); lane 0 is the leftmost."""
        lanes = self.lanes.reshape(-1, *[1] * (np.ndim(lane) - 1))
        return ((lanes - 1) / 2 - lane) * LANE_WIDTH

    def lane_at(self, offset: np.ndarray) -> np.ndarray:
        """The lane that an offset lies in, (B, ...), as a whole number."""
        lanes = self.lanes.reshape(-1, *[1] * (offset.ndim - 1))
        return np.floor((lanes - 1) / 2 - offset / LANE_WIDTH + 0.5).astype(np.int64)
