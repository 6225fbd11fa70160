"""How well a driver does: the share of its claims that is true, and how far its path is from the true one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from minitx.driving import baselines, scene
from minitx.driving.actions import ego_path, in_ego_frame, integrate
from minitx.driving.claims import CHANGES, Claim, Verdict, check_claims, recognise, sentences_of, truth_share
from minitx.driving.driver import Driver
from minitx.driving.features import observe
from minitx.driving.road import LANE_WIDTH
from minitx.driving.scene import NOW, Scenes

BATCH = 50
SAMPLE_SEEDS = range(
    800_000_000, 800_000_300
)  # from which the constant text is made; evaluated ones come before


@dataclass(frozen=True)
class Drive:
    """One scene driven: the text and its claims, the path (64, 2) in the ego car's frame, and errors in m."""

    seed: int
    text: str
    claims: list[Claim]
    truth: float
    actions: np.ndarray
    path: np.ndarray
    true_path: np.ndarray
    straight: np.ndarray
    along: np.ndarray
    lanes_moved: int

    @property
    def keeps_its_word(self) -> bool:
        """Whether the path ends in the lane that the text decided for."""
        return self.decided is not None and self.decided == self.lanes_moved

    @property
    def decided(self) -> int | None:
        """Lanes to the right that the text decides to move; None where it does not say."""
        for sentence in sentences_of(self.text):
            _, said = recognise(sentence)
            if said and sentence.startswith("therefore"):
                return CHANGES[said[1]]
        return None


def errors(path: np.ndarray, true: np.ndarray) -> tuple[float, float]:
    """Mean and final distance of two paths (T, 2) in metres: ADE and FDE."""
    apart = np.linalg.norm(path - true, axis=-1)
    return float(apart.mean()), float(apart[-1])


def drive(driver: Driver, scenes: Scenes, *, seed: int = 0, texts: list[str] | None = None) -> list[Drive]:
    """Let a driver reason about scenes and drive; with `texts` it believes those in place of its own."""
    seen = observe(scenes)
    if texts is None:
        texts, actions = driver.drive(seen, seed=seed)
    else:
        actions = driver.act(driver.reasoner.recite(seen, texts), seed=seed)
    paths = integrate(actions, scenes.speed[:, 0, NOW])[0]
    moved = _lanes_moved(scenes, paths[:, -1])
    true, straight, along = (
        ego_path(scenes),
        baselines.constant_speed(scenes),
        baselines.along_the_lane(scenes),
    )
    drives = []
    for i, text in enumerate(texts):
        claims = check_claims(text, scenes[i])
        drives.append(
            Drive(
                seed=int(scenes.seeds[i]),
                text=text,
                claims=claims,
                truth=truth_share(claims),
                actions=actions[i],
                path=paths[i],
                true_path=true[i],
                straight=straight[i],
                along=along[i],
                lanes_moved=int(moved[i]),
            )
        )
    return drives


def _lanes_moved(scenes: Scenes, ends: np.ndarray) -> np.ndarray:
    """By how many lanes to the right paths that end at `ends` (B, 2) have moved, as whole numbers."""
    here = scenes.station[:, 0, NOW, None]
    station = here + np.arange(-10.0, 350.0, 0.5)
    line = in_ego_frame(scenes, scenes.roads.points(station, np.zeros_like(station)))
    nearest = np.linalg.norm(line - ends[:, None], axis=-1).argmin(axis=1)
    rows = np.arange(len(ends))
    foot, heading = (
        line[rows, nearest],
        scenes.roads.heading(station)[rows, nearest] - scenes.heading[:, 0, NOW],
    )
    apart = ends - foot
    offset = apart[:, 1] * np.cos(heading) - apart[:, 0] * np.sin(heading)
    return np.round((scenes.offset[:, 0, NOW] - offset) / LANE_WIDTH)


def evaluate(
    driver: Driver, seeds: range, *, on_batch: Callable[[int], None] | None = None, seed: int = 0
) -> dict[str, float]:
    """The figures of many scenes, as `summary` gives them; `on_batch` hears how many scenes are done."""
    drives: list[Drive] = []
    constant = baselines.constant_text(scene.generate(SAMPLE_SEEDS))
    shares: list[float] = []
    for batch in _in_batches(seeds):
        scenes = scene.generate(batch)
        drives += drive(driver, scenes, seed=seed)
        shares += [truth_share(check_claims(constant, scenes[i])) for i in range(len(scenes))]
        if on_batch is not None:
            on_batch(len(drives))
    return {**summary(drives), "constant_text_truth": float(np.mean(shares))}


def _in_batches(seeds: range) -> Iterator[range]:
    for first in range(0, len(seeds), BATCH):
        yield seeds[first : first + BATCH]


def summary(drives: list[Drive]) -> dict[str, float]:
    """Means over scenes: truth (share of true claims), paths' ADE and FDE in m beside those of the baselines,
    and the share of scenes whose path ends in the lane that the text decided for.
    """
    figures = {
        "scenes": float(len(drives)),
        "truth": float(np.mean([one.truth for one in drives])),
        "whole_texts_true": float(np.mean([one.truth == 1 for one in drives])),
    }
    for name in ("path", "straight", "along"):
        ade, fde = np.mean([errors(getattr(one, name), one.true_path) for one in drives], axis=0)
        label = {"path": "", "straight": "constant_speed_", "along": "along_lane_"}[name]
        figures[f"{label}ade"], figures[f"{label}fde"] = float(ade), float(fde)
    figures["keeps_its_word"] = float(np.mean([one.keeps_its_word for one in drives]))
    return figures


def verdict_counts(drives: list[Drive]) -> dict[str, int]:
    """How many claims of all texts got each verdict."""
    counts = Counter(str(claim.verdict) for one in drives for claim in one.claims)
    return {str(verdict): counts[str(verdict)] for verdict in Verdict}
