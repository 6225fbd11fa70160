"""Texts about scenes: what is true is found true, and nothing else is."""

import json
from dataclasses import replace

import numpy as np
import pytest

from minitx import tokenizers
from minitx.driving import reasoning, scene, vocabulary
from minitx.driving.claims import Verdict, check_claims, truth_share
from minitx.driving.road import LANE_WIDTH, Roads
from minitx.driving.scene import CARS, FUTURE, HISTORY, NOW, Scenes
from minitx.errors import CheckpointError
from minitx.tokenizers import WordTokenizer


def built(cars, ego=(1, 20.0), lanes=3, turn=0.0, after=(0, 0.0)):
    """A scene by hand on a road of constant curvature: cars as (lane, gap ahead of us in m, speed in m/s).

    The gap is from bumper to bumper, negative behind; turn in degrees within 100 m; after = (lanes to the right,
    gain in m/s) is what the ego car does.
    """
    steps = HISTORY + FUTURE
    bends = np.array([[np.radians(turn) / 100, 0.0]])
    roads = Roads(np.array([lanes]), bends, np.full((1, 2), -5000.0), np.ones((1, 2)))
    exists = np.zeros((1, CARS), bool)
    station, offset, speed = (np.zeros((1, CARS, steps)) for _ in range(3))
    everyone = [(ego[0], None, ego[1]), *cars]
    for i, (lane, gap, pace) in enumerate(everyone):
        exists[0, i] = True
        station[0, i] = 0.0 if gap is None else gap + np.sign(gap) * 4.6
        offset[0, i] = ((lanes - 1) / 2 - lane) * LANE_WIDTH
        speed[0, i] = pace
    offset[0, 0, -1] -= after[0] * LANE_WIDTH
    speed[0, 0, -1] += after[1]
    return Scenes(np.zeros(1, np.int64), roads, exists, station, offset, speed, np.zeros_like(speed))


def verdicts(text, one):
    return {claim: str(verdict) for claim, verdict in check_claims(text, one)}


SCENE = {"cars": [(1, 18.0, 16.0), (0, 40.0, 21.0), (2, -5.0, 20.0)], "turn": 12.0, "after": (-1, 3.0)}
TEXT = (
    "speed 20 m/s. lane 2 of 3 from the left. road turns left by 12 degrees within 100 m. lead car 18 m ahead. "
    "it is slower by 4 m/s. left lane free. right lane taken. therefore: change to the left lane and speed up."
)


def test_a_scene_by_hand_is_described_as_it_is():
    one = built(**SCENE)
    assert reasoning.write(one) == [TEXT]
    found = check_claims(TEXT, one)
    assert [claim.verdict for claim in found] == [Verdict.true] * 9
    assert [claim.claim for claim in found][-2:] == ["change to the left lane", "speed up"]
    assert truth_share(found) == 1


def test_what_is_not_there_is_said_and_checked():
    one = built([(1, 81.0, 10.0), (0, -30.0, 38.0)], ego=(1, 20.0), lanes=2)
    text = reasoning.write(one)[0]
    assert text == (
        "speed 20 m/s. lane 2 of 2 from the left. road straight for 100 m. no car within 80 m ahead. "
        "left lane taken. no right lane. therefore: keep the lane and keep the speed."
    )
    assert truth_share(check_claims(text, one)) == 1


WRONG = {
    "speed 20": "speed 22",
    "lane 2 of 3": "lane 1 of 3",
    "of 3": "of 4",
    "turns left by 12": "turns right by 12",
    "left by 12": "left by 15",
    "road turns left by 12 degrees within": "road straight for",
    "ahead. it is slower by 4 m/s.": "ahead. it is as fast.",
    "slower": "faster",
    "18 m": "21 m",
    "lead car 18 m ahead. it": "no car within 80 m ahead. it",
    "left lane free": "left lane taken",
    "left lane free.": "no left lane.",
    "right lane taken": "right lane free",
    "change to the left lane": "change to the right lane",
    "therefore: change to the left lane": "therefore: keep the lane",
    "speed up": "slow down",
    "and speed up": "and keep the speed",
}


@pytest.mark.parametrize("right", WRONG)
def test_a_wrong_claim_is_found_and_the_others_stay_true(right):
    text = TEXT.replace(right, WRONG[right])
    assert text != TEXT
    found = [str(claim.verdict) for claim in check_claims(text, built(**SCENE))]
    assert sorted(found) == ["false"] + ["true"] * 8


MUTATIONS = {
    "lead car": {"cars": [(1, 30.0, 16.0), (0, 40.0, 21.0), (2, -5.0, 20.0)]},
    "it is slower": {"cars": [(1, 18.0, 22.0), (0, 40.0, 21.0), (2, -5.0, 20.0)]},
    "left lane": {"cars": [(1, 18.0, 16.0), (0, 7.0, 21.0), (2, -5.0, 20.0)]},
    "right lane": {"cars": [(1, 18.0, 16.0), (0, 40.0, 21.0), (2, -9.0, 20.0)]},
    "road": {"turn": -12.0},
    "change": {"after": (0, 3.0)},
    "speed up": {"after": (-1, 0.0)},
}


@pytest.mark.parametrize("topic", MUTATIONS)
def test_a_true_text_turns_false_with_the_scene(topic):
    found = check_claims(TEXT, built(**{**SCENE, **MUTATIONS[topic]}))
    wrong = [claim.claim for claim in found if claim.verdict != Verdict.true]
    assert len(wrong) == 1 and wrong[0].startswith(topic)


def test_generated_scenes_are_mutated_one_fact_at_a_time():
    """Moving a car, or our own speed, must show, whatever the scene."""
    scenes = scene.generate(range(50, 90))
    for i, text in enumerate(reasoning.write(scenes)):
        one = scenes[i]
        assert truth_share(check_claims(text, one)) == 1
        faster = one.speed.copy()
        faster[:, 0] += 3
        assert verdicts(text, replace(one, speed=faster))[text.split(".")[0]] == "false"
        gap = reasoning.facts_of(one).gap[0]
        if gap < 60:
            station = one.station.copy()
            station[:, 1:] += 12
            later = verdicts(text, replace(one, station=station))
            assert next(v for claim, v in later.items() if claim.startswith("lead car")) == "false"


def test_the_right_scene_is_told_from_the_wrong_one():
    scenes = scene.generate(range(120))
    texts = reasoning.write(scenes)
    shares = [truth_share(check_claims(text, scenes[(i + 1) % 120])) for i, text in enumerate(texts)]
    assert np.mean(shares) < 0.4


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("banana.", {"banana": "unparsable"}),
        ("speed 20 m/s", {"speed 20 m/s": "true"}),
        ("speed 20.5 m/s.", {"speed 20": "unparsable", "5 m/s": "unparsable"}),
        ("speed -20 m/s.", {"speed -20 m/s": "unparsable"}),
        ("speed 9999 m/s.", {"speed 9999 m/s": "unparsable"}),
        ("speed 20 m/s and speed 30 m/s.", {"speed 20 m/s and speed 30 m/s": "unparsable"}),
        ("lead car 18 m ahead ahead.", {"lead car 18 m ahead ahead": "unparsable"}),
        ("SPEED 20 m/s.", {"SPEED 20 m/s": "unparsable"}),
        ("it is faster by 0 m/s.", {"it is faster by 0 m/s": "false"}),
        (
            "road turns left by 0 degrees within 100 m.",
            {"road turns left by 0 degrees within 100 m": "false"},
        ),
        ("therefore: fly and speed up.", {"therefore: fly and speed up": "unparsable"}),
        ("<start> speed 20 m/s. \x00.", {"<start> speed 20 m/s": "unparsable", "\x00": "unparsable"}),
    ],
)
def test_malformed_text_is_no_truth_and_no_crash(text, expected):
    found = verdicts(text, built(**SCENE))
    said = {claim: verdict for claim, verdict in found.items() if verdict != "missing"}
    assert said == expected
    assert list(found.values()).count("missing") == 9 - list(expected.values()).count("true") - list(
        expected.values()
    ).count("false")


def test_saying_the_same_truth_often_does_not_help():
    one = built(**SCENE)
    often = "speed 20 m/s. " * 50
    found = check_claims(often, one)
    assert [str(c.verdict) for c in found].count("true") == 1
    assert truth_share(found) < 0.02
    both = TEXT + " left lane taken."
    assert truth_share(check_claims(both, one)) == 0.9


def test_an_answer_about_a_lead_car_that_is_not_there_is_false():
    one = built([], ego=(0, 20.0))
    found = verdicts("lead car 18 m ahead. it is as fast.", one)
    assert found["lead car 18 m ahead"] == found["it is as fast"] == "false"
    assert "(closing)" not in verdicts("no car within 80 m ahead.", one)


@pytest.mark.parametrize(
    ("said", "fact", "verdict"),
    [
        (18, 20.0, "true"),
        (18, 20.5, "false"),
        (54, 60.0, "true"),
        (53, 60.0, "false"),
        (65, 60.0, "true"),
        (67, 60.0, "false"),
    ],
)
def test_tolerances_are_two_metres_or_a_tenth(said, fact, verdict):
    one = built([(1, fact, 16.0)])
    assert verdicts(f"lead car {said} m ahead.", one)[f"lead car {said} m ahead"] == verdict


@pytest.mark.parametrize(
    ("gap", "speed", "taken"),
    [
        (7.9, 20.0, True),
        (8.1, 20.0, False),
        (-7.9, 20.0, True),
        (-8.1, 20.0, False),
        (30.0, 12.4, True),
        (30.0, 12.6, False),
        (-30.0, 27.6, True),
        (-30.0, 27.4, False),
        (30.0, 28.0, False),
    ],
)
def test_a_lane_is_taken_where_a_car_is_close_or_would_be_soon(gap, speed, taken):
    one = built([(0, gap, speed)])
    assert reasoning.facts_of(one).left[0] == (reasoning.TAKEN if taken else reasoning.FREE)


def test_a_car_between_two_lanes_is_in_both():
    one = built([(0, 20.0, 20.0)])
    offset = one.offset.copy()
    offset[0, 1] -= 1.0
    between = replace(one, offset=offset)
    assert reasoning.facts_of(one).gap[0] == np.inf
    assert reasoning.facts_of(between).gap[0] == pytest.approx(20.0)


def test_several_scenes_at_once_are_refused():
    with pytest.raises(ValueError, match="looks at one scene, got 2"):
        check_claims(TEXT, scene.generate([1, 2]))


# Tokens.


def test_texts_survive_encoding_and_fit():
    texts = reasoning.write(scene.generate(range(200)))
    ids = [vocabulary.encode(text) for text in texts]
    assert [vocabulary.decode(row) for row in ids] == texts
    assert max(len(row) for row in ids) + 2 <= 64
    assert max(max(row) for row in ids) < vocabulary.TOKENIZER.vocab_size == 162


def test_a_text_ends_at_its_end_and_unknown_words_and_ids_are_refused():
    ids = [*vocabulary.encode("left lane free."), vocabulary.END_ID, *vocabulary.encode("speed")]
    assert vocabulary.decode(ids) == "left lane free."
    with pytest.raises(ValueError, match="'banana' is none of the 159 words"):
        vocabulary.encode("banana.")
    with pytest.raises(ValueError, match=r"'121' is none of .* Numbers go up to 120"):
        vocabulary.encode("speed 121 m/s.")
    with pytest.raises(ValueError, match="Id -1 is outside the vocabulary"):
        vocabulary.decode([-1])
    with pytest.raises(ValueError, match="'<end>' is none"):
        vocabulary.encode("<end>")


WORDS = ["a", "bc", ".", "m/s", "7"]


def test_a_word_tokenizer_comes_back_from_what_it_stores_and_streams():
    tokenizer = WordTokenizer(WORDS, ["<s>", "</s>"])
    again = tokenizers.from_dict(json.loads(json.dumps(tokenizer.as_dict())))
    ids = again.encode(" a bc.  7 m/s\na.")
    assert ids == [2, 3, 4, 6, 5, 2, 4] == tokenizer.encode("a bc. 7 m/s a.")
    assert again.decode(ids) == " a bc. 7 m/s a."
    assert again.decode([0, *ids, 1], skip_special=True) == again.decode(ids)
    assert again.encode("<s> a", allow_special=True) == [0, 2]
    decoder = again.streaming_decoder()
    assert [decoder.push(i) for i in ids[:3]] == [" a", " bc", "."]
    assert (again.vocab_size, again.beginning_of_text, again.end_of_text) == (7, 0, 1)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["a", "a"], "'a' comes twice"),
        (["a b"], "'a b' is not one word"),
        (["a."], "not one word"),
        ([""], "not one"),
    ],
)
def test_words_that_cannot_be_told_apart_are_refused(words, said):
    with pytest.raises(ValueError, match=said):
        WordTokenizer(words, ["<s>", "</s>"])
    with pytest.raises(CheckpointError, match=said):
        tokenizers.from_dict({"kind": "words", "words": words, "special_tokens": ["<s>", "</s>"]})
    with pytest.raises(ValueError, match="At least two special tokens"):
        WordTokenizer(["a"], ["<s>"])
    with pytest.raises(CheckpointError, match='has "words" and "special_tokens"'):
        tokenizers.from_dict({"kind": "words", "words": "ab"})


def test_rounding_is_to_the_nearest_whole_number():
    assert [reasoning.rounded(x) for x in (0.4, 0.5, 2.5, -0.5, -2.4)] == [0, 1, 3, -1, -2]
    assert NOW == HISTORY - 1
