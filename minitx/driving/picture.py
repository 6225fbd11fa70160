"""A drive as a picture: the road from above, what was said of it, and the path."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from minitx.driving.actions import in_ego_frame
from minitx.driving.claims import Verdict
from minitx.driving.evaluate import Drive, errors
from minitx.driving.road import LANE_WIDTH
from minitx.driving.scene import NOW, Scenes
from minitx.driving.traffic import CAR_LENGTH, CAR_WIDTH

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BEFORE, AHEAD, BESIDE = -45.0, 150.0, 16.0  # metres that are always shown
ROAD, LANE_LINE, EDGE, OTHER, EGO = "#e9e9ed", "#ffffff", "#70707a", "#8a93a6", "#1f5fbf"
TRUE, STRAIGHT, WRONG = "#2f9e57", "#c98a1b", "#b3261e"


def draw(scenes: Scenes, drive: Drive) -> Figure:
    """One scene and its drive. Claims that are not true are listed in words: no colour is needed to tell."""
    from matplotlib.figure import Figure  # noqa: PLC0415 (Matplotlib is slow to import)

    figure = Figure(figsize=(11.5, 6.9), layout="constrained")
    words, road, levels = figure.subplots(3, 1, height_ratios=[0.75, 3.0, 0.95])
    _write(words, drive)
    _road(road, scenes)
    _cars(road, scenes)
    _paths(road, drive)
    _actions(levels, drive)
    return figure


def save(path: str | Path, scenes: Scenes, drive: Drive) -> None:
    """Write the picture; the ending says in which format. Raises ValueError for one that is not known."""
    draw(scenes, drive).savefig(path, dpi=110)


def _write(ax: Axes, drive: Drive) -> None:
    ax.axis("off")
    ade, fde = errors(drive.path, drive.true_path)
    straight = errors(drive.straight, drive.true_path)
    true = sum(claim.verdict == Verdict.true for claim in drive.claims)
    title = (
        f"Scene {drive.seed}: {true} of {len(drive.claims)} claims true; path off by {ade:.1f} m on average "
        f"and {fde:.1f} m after 6.4 s\n"
        f"(straight on at constant speed: {straight[0]:.1f} and {straight[1]:.1f} m)"
    )
    ax.set_title(title, loc="left", fontsize=12)
    lines = textwrap.wrap(f"\u201c{drive.text}\u201d", 128)
    ax.text(0, 0.95, "\n".join(lines), va="top", fontsize=11, transform=ax.transAxes)
    wrong = [claim for claim in drive.claims if claim.verdict != Verdict.true]
    if wrong:
        told = "Not true: " + "; ".join(f"{claim.claim} ({claim.verdict})" for claim in wrong)
        at = 0.95 - 0.3 * len(lines)
        ax.text(
            0,
            at,
            "\n".join(textwrap.wrap(told, 128)),
            va="top",
            fontsize=11,
            color=WRONG,
            transform=ax.transAxes,
        )


def _road(ax: Axes, scenes: Scenes) -> None:
    station = np.arange(BEFORE - 30, 260.0, 2.0)[None] + scenes.station[:, 0, NOW, None]
    lanes = int(scenes.roads.lanes[0])
    lines = []
    for line in range(lanes + 1):
        offset = np.full_like(station, (lanes / 2 - line) * LANE_WIDTH)
        lines.append(in_ego_frame(scenes, scenes.roads.points(station, offset))[0])
    surface = np.concatenate([lines[0], lines[-1][::-1]])
    ax.fill(*surface.T, color=ROAD, zorder=0)
    for i, line in enumerate(lines):
        edge = i in (0, lanes)
        style: dict[str, Any] = {"color": EDGE, "lw": 1.5} if edge else {"color": LANE_LINE, "lw": 1.8}
        ax.plot(*line.T, linestyle="-" if edge else (0, (6, 6)), zorder=1, **style)


def _cars(ax: Axes, scenes: Scenes) -> None:
    from matplotlib.patches import Rectangle  # noqa: PLC0415
    from matplotlib.transforms import Affine2D  # noqa: PLC0415

    places = in_ego_frame(scenes, scenes.positions())[0]
    turned = np.degrees(scenes.heading[0] - scenes.heading[0, 0, NOW])
    for car in np.flatnonzero(scenes.exists[0])[::-1]:
        colour = EGO if car == 0 else OTHER
        ax.plot(*places[car, : NOW + 1].T, color=colour, lw=2, alpha=0.45, zorder=2)
        if car:
            ax.plot(*places[car, NOW:].T, color=colour, lw=1, linestyle=":", zorder=2)
        x, y = places[car, NOW]
        body = Rectangle((-CAR_LENGTH / 2, -CAR_WIDTH / 2), CAR_LENGTH, CAR_WIDTH, facecolor=colour, zorder=5)
        body.set_transform(Affine2D().rotate_deg(turned[car, NOW]).translate(x, y) + ax.transData)
        ax.add_patch(body)
        if BEFORE < x < AHEAD:
            speed = scenes.speed[0, car, NOW]
            ax.annotate(
                f"{speed:.0f}", (x, y), (0, 7), textcoords="offset points", ha="center", fontsize=8, zorder=6
            )


def _paths(ax: Axes, drive: Drive) -> None:
    start = np.zeros((1, 2))
    for path, colour, style, label in (
        (drive.true_path, TRUE, "-", "what the ego car did"),
        (drive.straight, STRAIGHT, ":", "straight on at constant speed"),
        (drive.path, EGO, "--", "the expert's path"),
    ):
        whole = np.concatenate([start, path])
        ax.plot(*whole.T, color=colour, linestyle=style, lw=2.2, label=label, zorder=4)
        ax.plot(*whole[-1], marker="o", color=colour, markersize=5, zorder=4)
    ends = np.concatenate([start, drive.true_path, drive.path])
    ax.set_xlim(BEFORE, max(AHEAD, ends[:, 0].max() + 10))
    ax.set_ylim(min(-BESIDE, ends[:, 1].min() - 8), max(BESIDE, ends[:, 1].max() + 8))
    ax.set_aspect("equal", adjustable="box")
    ax.set_xlabel(
        "metres ahead (numbers at cars: speed in m/s; lines behind: the last 1.5 s; dots: what comes)"
    )
    ax.set_ylabel("metres to the left")
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, 1.16), ncols=3, frameon=False, fontsize=10)


def _actions(ax: Axes, drive: Drive) -> None:
    time = np.arange(1, len(drive.actions) + 1) / 10
    ax.plot(time, drive.actions[:, 0], color=EGO, lw=1.8)
    ax.set_ylabel("m/s\u00b2", color=EGO)
    ax.set_ylim(-4, 3)
    other = ax.twinx()
    other.plot(time, drive.actions[:, 1] * 1000, color=WRONG, lw=1.5, linestyle="--")
    other.set_ylabel("1/km", color=WRONG)
    other.set_ylim(-40, 30)
    ax.set_xlabel(
        "seconds from now: the expert's acceleration (line) and curvature (dashed), left is positive"
    )
    ax.axhline(0, color=EDGE, lw=0.6)
