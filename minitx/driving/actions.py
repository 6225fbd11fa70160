"""A path as what the driver does: acceleration and curvature at 10 Hz, and back (the unicycle model)."""

from __future__ import annotations

import numpy as np

from minitx.driving.scene import NOW, Scenes
from minitx.driving.traffic import DT
from minitx.errors import shape_error

STANDING = 1e-6  # metres in a step, below which the direction of a path means nothing
SCALE = np.array([0.55, 0.0035])  # m/s^2 and 1/m that count as one: the spread over generated scenes


def integrate(actions: np.ndarray, speed: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where actions lead from the origin, heading along x: running sums, no loop.

    v_k+1 = max(0, v_k + a dt);  ds = (v_k + v_k+1) / 2 dt;  yaw_k+1 = sum kappa ds;
    xy_k+1 = sum chord (cos, sin)((yaw_k + yaw_k+1) / 2),  chord = 2 / kappa sin(kappa ds / 2)

    actions (B, T, 2): acceleration (m/s^2) and curvature (1/m, left is positive), each held for 0.1 s, so
    that the pieces are arcs; speed (B,) at the start -> xy (B, T, 2), yaw (B, T) and speed (B, T) after each
    step. Curvature in place of a steering angle: what a path looks like does not depend on the car.

    Raises ValueError for a wrong shape.
    """
    if actions.ndim != 3 or actions.shape[2] != 2:
        raise shape_error("actions", "(B, T, 2)", actions.shape)
    if speed.shape != actions.shape[:1]:
        raise shape_error("speed", f"(B = {len(actions)},)", speed.shape)
    after = speed[:, None] + np.cumsum(actions[..., 0], axis=1) * DT
    after -= np.minimum(0.0, np.minimum.accumulate(after, axis=1))  # a car that stands does not roll back
    before = np.concatenate([speed[:, None], after[:, :-1]], axis=1)
    way = (before + after) / 2 * DT
    yaw = np.cumsum(actions[..., 1] * way, axis=1)
    half = actions[..., 1] * way / 2
    chord = way * np.sinc(half / np.pi)
    middle = yaw - half
    xy = np.cumsum(np.stack([np.cos(middle), np.sin(middle)], axis=-1) * chord[..., None], axis=1)
    return xy, yaw, after


def invert(speed: np.ndarray, yaw: np.ndarray) -> np.ndarray:
    """The actions (B, T, 2) that give these speeds and yaws (B, T + 1) again, exactly."""
    acceleration = np.diff(speed, axis=1) / DT
    way = (speed[:, :-1] + speed[:, 1:]) / 2 * DT
    turn = np.diff(yaw, axis=1)
    curvature = np.where(way > STANDING, turn / np.maximum(way, STANDING), 0.0)
    return np.stack([acceleration, curvature], axis=-1)


def ego_actions(scenes: Scenes) -> np.ndarray:
    """What the ego car does in the 6.4 s that follow: (B, 64, 2)."""
    return invert(scenes.speed[:, 0, NOW:], scenes.heading[:, 0, NOW:])


def in_ego_frame(scenes: Scenes, points: np.ndarray) -> np.ndarray:
    """Points (B, ..., 2) of the road's frame, seen from the ego car now: x ahead, y to the left."""
    shape = len(scenes), *[1] * (points.ndim - 2)
    origin = scenes.roads.points(scenes.station[:, 0, NOW], scenes.offset[:, 0, NOW])
    yaw = scenes.heading[:, 0, NOW].reshape(shape)
    moved = points - origin.reshape(*shape, 2)
    cos, sin = np.cos(yaw), np.sin(yaw)
    x = moved[..., 0] * cos + moved[..., 1] * sin
    y = moved[..., 1] * cos - moved[..., 0] * sin
    return np.stack([x, y], axis=-1)


def ego_path(scenes: Scenes) -> np.ndarray:
    """The ego car's true way in its own frame: x and y at the 64 waypoints, (B, 64, 2)."""
    true = scenes.roads.points(scenes.station[:, 0, NOW + 1 :], scenes.offset[:, 0, NOW + 1 :])
    return in_ego_frame(scenes, true)
