"""The driving world: what a seed gives, and whether it is physics."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from minitx.driving import actions, features, scene, traffic
from minitx.driving.road import LANE_WIDTH, Roads
from minitx.driving.scene import FUTURE, HISTORY, NOW
from minitx.driving.traffic import CAR_LENGTH, CAR_WIDTH, DT


@pytest.fixture(scope="module")
def scenes():
    return scene.generate(range(300, 460))


def test_a_seed_gives_the_same_scene_alone_and_among_others(scenes):
    alone = scene.generate([377])
    for name in ("exists", "station", "offset", "speed", "heading"):
        np.testing.assert_array_equal(getattr(alone, name)[0], getattr(scenes, name)[77])
    mixed = scene.generate([9, 377, 8])
    np.testing.assert_array_equal(mixed.station[1], alone.station[0])
    assert (scene.generate([378]).station != alone.station).any()


def test_a_seed_gives_the_same_scene_in_another_process(scenes):
    code = "from minitx.driving import scene; print(scene.generate([377]).station.sum().hex())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == scenes[77].station.sum().hex()


def test_the_decisions_of_a_seed_are_pinned():
    """What cars do comes of +, -, *, / and sqrt on float64 alone: these digits hold on every machine."""
    one = scene.generate([2024])
    found = [one.roads.lanes[0], one.exists[0].sum(), *one.station[0, [0, 3], -1], *one.offset[0, [0, 3], -1]]
    assert [float(x).hex() for x in found] == PINNED


PINNED = [
    "0x1.0000000000000p+1",
    "0x1.4000000000000p+2",
    "0x1.16b6f32c0cea0p+7",
    "0x1.0eca65f09a040p+4",
    "0x1.c000000000000p+0",
    "0x1.c000000000000p+0",
]


def test_no_two_cars_touch(scenes):
    """Independent of the generator's own test: corners of the turned rectangles, in the plane."""
    places = scenes.positions()
    for b in range(0, len(scenes), 4):
        cars = np.flatnonzero(scenes.exists[b])
        for t in range(0, HISTORY + FUTURE, 6):
            for i in cars:
                for j in cars[cars > i]:
                    if np.hypot(*(places[b, i, t] - places[b, j, t])) < 6:
                        assert not overlap(places[b, :, t], scenes.heading[b, :, t], i, j), (b, i, j, t)


def overlap(places, headings, i, j):
    """Two rectangles overlap unless a side of one of them separates their corners."""
    corners = []
    for car in (i, j):
        cos, sin = np.cos(headings[car]), np.sin(headings[car])
        ahead, left = np.array([cos, sin]) * CAR_LENGTH / 2, np.array([-sin, cos]) * CAR_WIDTH / 2
        corners.append([places[car] + a * ahead + s * left for a in (-1, 1) for s in (-1, 1)])
    for car in (i, j):
        for angle in (headings[car], headings[car] + np.pi / 2):
            axis = np.array([np.cos(angle), np.sin(angle)])
            one, two = (np.array(c) @ axis for c in corners)
            if one.max() < two.min() or two.max() < one.min():
                return False
    return True


def test_the_check_for_overlap_finds_one():
    places = np.array([[0.0, 0.0], [4.0, 1.0], [5.0, 0.0]])
    assert overlap(places, np.zeros(3), 0, 1)
    assert not overlap(places, np.zeros(3), 0, 2)
    near = np.array([[0.0, 1.0, 9.0]]), np.array([[0.0, 1.0, 0.0]]), np.array([[True, True, True]])
    assert traffic.in_touch(*near)[0]
    assert not traffic.in_touch(near[0], near[1], np.array([[True, False, True]]))[0]
    assert not traffic.in_touch(near[0], near[1] * 2, near[2])[0]


def test_speeds_accelerations_and_curvatures_are_those_of_cars(scenes):
    cars = scenes.exists
    assert scenes.speed[cars].min() >= 0
    assert scenes.speed[cars].max() < 50
    change = np.diff(scenes.speed[cars], axis=1) / DT
    assert change.min() > -7 and change.max() < 2.5
    driven = actions.ego_actions(scenes)
    assert np.abs(driven[..., 1]).max() < 0.08
    sideways = driven[..., 1] * scenes.speed[:, 0, NOW:-1] ** 2
    assert np.abs(sideways).max() < 6


def test_cars_stay_on_the_road_and_their_places_agree_with_their_speeds(scenes):
    half = scenes.roads.lanes[:, None, None] * LANE_WIDTH / 2 - CAR_WIDTH / 2
    assert (np.abs(scenes.offset) <= half)[scenes.exists].all()
    steps = np.linalg.norm(np.diff(scenes.positions(), axis=2), axis=-1)
    mean = (scenes.speed[:, :, 1:] + scenes.speed[:, :, :-1]) / 2 * DT
    assert np.abs(steps - mean)[scenes.exists].max() < 0.03


def test_the_ego_car_decides_now_and_then_keeps_to_it(scenes):
    offset = scenes.offset[:, 0]
    np.testing.assert_array_equal(offset[:, :HISTORY], np.repeat(offset[:, :1], HISTORY, axis=1))
    moved = np.round((offset[:, -1] - offset[:, NOW]) / LANE_WIDTH, 1)
    assert set(np.unique(moved)) >= {-1.0, 0.0, 1.0}
    assert (np.abs(np.diff(np.sign(np.diff(offset, axis=1)), axis=1)) < 2).all()  # no way back


def test_scenes_are_of_many_kinds():
    many = scene.generate(range(400))
    moved = many.offset[:, 0, -1] - many.offset[:, 0, NOW]
    assert 0.05 < (moved > 1.75).mean() < 0.3 and 0.05 < (moved < -1.75).mean() < 0.3
    gained = many.speed[:, 0, -1] - many.speed[:, 0, NOW]
    assert (gained > 1.5).mean() > 0.1 and (gained < -1.5).mean() > 0.1
    assert set(many.roads.lanes) == {2, 3, 4}
    bent = np.abs(many.roads.bends[:, 0]) > 1e-3
    assert 0.3 < bent.mean() < 0.8


@pytest.mark.parametrize(
    ("seeds", "error"), [([], "at least one seed"), ([3, -1], "0 or more, got -1")], ids=["none", "negative"]
)
def test_seeds_that_make_no_scene_are_refused(seeds, error):
    with pytest.raises(ValueError, match=error):
        scene.generate(seeds)


def test_one_scene_of_many(scenes):
    assert len(scenes[-1]) == 1 and scenes[-1].seeds[0] == 459
    assert len(scenes[10:13]) == 3
    with pytest.raises(IndexError, match="scene 160 of 160"):
        scenes[160]


# Rules of driving.


def test_idm_follows_its_formula():
    """By hand: v = 20, v0 = 30, gap 40, lead 15: s* = 2 + 24 + 20 * 5 / (2 sqrt 3) = 54.868."""
    wanted = 2 + 20 * 1.2 + 20 * 5 / (2 * 3**0.5)
    expected = 1.5 * (1 - (20 / 30) ** 4) - 1.5 * (wanted / 40) ** 2
    found = traffic.free_road(np.array(20.0), np.array(30.0)) - traffic.following(
        np.array(40.0), np.array(20.0), np.array(15.0)
    )
    assert found == pytest.approx(expected, rel=1e-12)
    assert traffic.free_road(np.array(30.0), np.array(30.0)) == 0
    assert traffic.free_road(np.array(0.0), np.array(30.0)) == 1.5


def cars_at(station, lane, speed, wish=None):
    n = len(station)
    station, speed = np.array([station], float), np.array([speed], float)
    lanes = np.array([lane])
    wish = np.array([wish], float) if wish else np.full((1, n), 30.0)
    done = np.full((1, n), -1e6)
    return traffic.Cars(
        np.ones((1, n), bool), station, speed, wish, lanes, lanes.copy(), done, np.ones((1, n))
    )


def straight(lanes=2):
    return Roads(np.array([lanes]), np.zeros((1, 2)), np.zeros((1, 2)), np.ones((1, 2)))


def decide(cars, lanes=2):
    roads = straight(lanes)
    taken = cars.lanes_taken(roads)
    traffic.consider_change(cars, roads, traffic.answers(cars, taken), taken, 0)
    return cars.lane[0, 0] - cars.old_lane[0, 0]


@pytest.mark.parametrize(
    ("others", "change"),
    [
        ([], 0),  # no reason
        ([(40, 1, 12)], -1),  # slow ahead, left lane empty
        ([(40, 1, 12), (30, 0, 12)], 0),  # slow ahead in both
        ([(40, 1, 12), (2, 0, 25)], 0),  # someone alongside
        ([(40, 1, 12), (-2, 0, 25)], 0),
        ([(40, 1, 12), (-25, 0, 38)], 0),  # someone would have to brake hard
        ([(40, 1, 12), (-60, 0, 20)], -1),  # behind, slower
    ],
)
def test_mobil_changes_for_a_gain_and_where_it_is_safe(others, change):
    station, lane, speed = zip((0, 1, 25), *others, strict=True)
    assert decide(cars_at(station, lane, speed)) == change


def test_a_car_heeds_both_lanes_while_it_changes():
    cars = cars_at([0, 30], [1, 1], [20, 20])
    traffic.start_change(cars, 0, np.array([-1]))
    taken = cars.lanes_taken(straight())
    assert taken[0, 0] == 0b11
    assert traffic.answers(cars, taken)[0, 0, 1] < traffic.free_road(np.array(20.0), np.array(30.0))
    cars.station[0, 0] += 79.9
    assert cars.lanes_taken(straight())[0, 0] == 0b01


# Roads and paths.


def test_road_points_agree_with_fine_integration():
    roads = scene.generate(range(40, 60)).roads
    station = np.sort(np.random.default_rng(0).uniform(-150, 300, (20, 7)), axis=1)
    offset = np.random.default_rng(1).uniform(-5, 5, (20, 7))
    found = roads.points(station, offset)
    for b in range(20):
        for i in range(7):
            fine = np.linspace(0, station[b, i], 20001)
            heading = roads[b : b + 1].heading(fine[None])[0]
            x, y = (np.trapezoid(f(heading), fine) for f in (np.cos, np.sin))
            x, y = x - offset[b, i] * np.sin(heading[-1]), y + offset[b, i] * np.cos(heading[-1])
            np.testing.assert_allclose(found[b, i], [x, y], atol=2e-3)
    curvature = np.gradient(roads.heading(np.arange(-50.0, 50, 0.01)[None].repeat(20, 0)), 0.01, axis=1)
    np.testing.assert_allclose(
        curvature, roads.curvature(np.arange(-50.0, 50, 0.01)[None].repeat(20, 0)), atol=1e-5
    )


def test_a_place_beyond_the_road_is_refused():
    with pytest.raises(ValueError, match="stations must lie in"):
        straight().points(np.array([[701.0]]), np.zeros((1, 1)))


def test_integration_agrees_with_a_fine_step_simulation():
    """The oracle: the unicycle's equations by the midpoint rule, 400 steps a waypoint."""
    rng = np.random.default_rng(4)
    driven = np.stack([rng.uniform(-4, 2, (5, 30)), rng.uniform(-0.03, 0.03, (5, 30))], axis=-1)
    start = np.array([0.5, 4.0, 12.0, 25.0, 33.0])
    xy, yaw, speed = actions.integrate(driven, start)
    n = 400
    h = DT / n
    for b in range(5):
        x = y = angle = 0.0
        v = start[b]
        for k, (wanted, kappa) in enumerate(driven[b]):
            a = (max(0.0, v + wanted * DT) - v) / DT
            for _ in range(n):
                mid_v = v + a * h / 2
                mid = angle + kappa * mid_v * h / 2
                x, y = x + mid_v * h * np.cos(mid), y + mid_v * h * np.sin(mid)
                angle, v = angle + kappa * mid_v * h, v + a * h
            assert speed[b, k] == pytest.approx(v, abs=1e-9)
            np.testing.assert_allclose(xy[b, k], [x, y], atol=1e-6)
            assert yaw[b, k] == pytest.approx(angle, abs=1e-9)
    assert (speed.min(axis=1) == 0).any() and (speed.min(axis=1) > 0).any()


def test_straight_and_circle_by_hand():
    still = np.zeros((2, 64, 2))
    still[1, :, 1] = 0.02
    xy, yaw, speed = actions.integrate(still, np.array([10.0, 10.0]))
    np.testing.assert_allclose(xy[0], np.stack([np.arange(1, 65), np.zeros(64)], 1), atol=1e-9)
    way = np.arange(1, 65)
    np.testing.assert_allclose(
        xy[1], np.stack([50 * np.sin(way / 50), 50 - 50 * np.cos(way / 50)], 1), atol=1e-9
    )
    np.testing.assert_allclose(yaw[1], way / 50)
    assert (speed == 10).all()


def test_a_car_that_brakes_stops_and_does_not_roll_back():
    braking = np.zeros((1, 64, 2))
    braking[..., 0] = -5
    xy, _, speed = actions.integrate(braking, np.array([10.0]))
    assert speed[0, -1] == 0 and xy[0, -1, 0] == pytest.approx(10.0, abs=0.3)
    assert (np.diff(xy[0, :, 0]) >= 0).all()


def test_the_ego_cars_actions_lead_along_its_path(scenes):
    xy, yaw, speed = actions.integrate(actions.ego_actions(scenes), scenes.speed[:, 0, NOW])
    assert np.abs(xy - actions.ego_path(scenes)).max() < 0.02
    np.testing.assert_allclose(speed, scenes.speed[:, 0, NOW + 1 :], atol=1e-9)
    turned = scenes.heading[:, 0, NOW + 1 :] - scenes.heading[:, 0, NOW, None]
    np.testing.assert_allclose(yaw, turned, atol=1e-9)


def test_a_car_that_stands_has_no_curvature():
    np.testing.assert_array_equal(actions.invert(np.zeros((1, 3)), np.zeros((1, 3))), np.zeros((1, 2, 2)))


@pytest.mark.parametrize("shape", [(64, 2), (1, 64, 3)])
def test_actions_of_a_wrong_shape_are_refused(shape):
    with pytest.raises(ValueError, match=r"actions must have shape \(B, T, 2\)"):
        actions.integrate(np.zeros(shape), np.zeros(1))
    with pytest.raises(ValueError, match=r"speed must have shape \(B = 1,\)"):
        actions.integrate(np.zeros((1, 64, 2)), np.zeros(2))


# What the models see.


def test_the_observation_holds_the_past_only(scenes):
    future = scenes.station.copy()
    future[:, :, HISTORY:] += 50
    after = replace(scenes, station=future, speed=np.where(np.arange(80) < HISTORY, scenes.speed, 0.0))
    for seen, same in zip(
        vars(features.observe(scenes)).values(), vars(features.observe(after)).values(), strict=True
    ):
        np.testing.assert_array_equal(seen, same)


def test_the_observation_is_in_the_ego_cars_frame_and_padding_is_zero(scenes):
    seen = features.observe(scenes)
    assert seen.agents.dtype == seen.lines.dtype == np.float32
    np.testing.assert_allclose(seen.agents[:, 0, NOW, :2], 0, atol=1e-6)
    np.testing.assert_allclose(seen.agents[:, 0, NOW, 2], 1)
    assert seen.agents_real[:, 0].all()
    driven = np.diff(scenes.speed[:, 0, :HISTORY], axis=1) / DT
    np.testing.assert_allclose(seen.agents[:, 0, 1:, 6] * 2, driven, atol=1e-4)
    assert not seen.agents[~seen.agents_real].any() and not seen.lines[~seen.lines_real].any()
    counts = seen.lines_real.any(axis=2).sum(axis=1)
    np.testing.assert_array_equal(counts, (scenes.roads.lanes + 2) * features.PIECES)
    assert np.abs(seen.agents).max() < 12 and np.abs(seen.lines).max() < 25


def test_a_scene_turned_and_moved_looks_the_same(scenes):
    """The road's own frame must not show: shift the stations of everything."""
    roads = scenes.roads
    moved = Roads(roads.lanes, roads.bends, roads.starts + 40, roads.ramps)
    heading = scenes.heading + (
        moved.heading(scenes.station[:, :1] + 40) - roads.heading(scenes.station[:, :1])
    )
    other = replace(
        scenes,
        roads=moved,
        station=np.where(scenes.exists[..., None], scenes.station + 40, 0),
        heading=heading,
    )
    seen, same = features.observe(scenes), features.observe(other)
    np.testing.assert_array_equal(seen.agents_real, same.agents_real)
    np.testing.assert_allclose(seen.agents, same.agents, atol=1e-3)
    np.testing.assert_allclose(seen.lines, same.lines, atol=1e-3)
