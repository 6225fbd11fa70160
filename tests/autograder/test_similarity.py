"""Winnowing finds what was copied and disguised, and leaves alone what everyone has."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autograder.similarity import K, W, fingerprints, similar_pairs, tokens_of

ONE = '''
import numpy as np

def softmax(scores, axis=-1):
    """Weights that sum to one."""
    shifted = scores - scores.max(axis=axis, keepdims=True)
    powers = np.exp(shifted)
    return powers / powers.sum(axis=axis, keepdims=True)


def attention(query, key, value, mask=None):
    size = query.shape[-1]
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(size)
    if mask is not None:
        scores = np.where(mask, scores, -1e30)
    weights = softmax(scores)
    return weights @ value, weights
'''
OTHER = """
from math import sqrt
import numpy

def softmax(x, axis=-1):
    e = numpy.exp(x)
    total = e.sum(axis=axis)
    return e / numpy.expand_dims(total, axis)

def attention(q, k, v, mask=None):
    out, all_weights = [], []
    for i in range(len(q)):
        row = []
        for j in range(len(k)):
            row.append(sum(a * b for a, b in zip(q[i], k[j])) / sqrt(len(q[i])))
        w = softmax(numpy.array(row))
        all_weights.append(w)
        out.append(sum(w[j] * v[j] for j in range(len(v))))
    return numpy.array(out), numpy.array(all_weights)
"""


def renamed(source: str) -> str:
    """Other names, other comments, other numbers, other layout, functions in another order."""
    names = {"shifted": "tmp", "scores": "s2", "powers": "ee", "query": "a", "key": "b", "value": "c"}
    for old, new in names.items():
        source = re.sub(rf"\b{old}\b", new, source)
    source = source.replace("-1e30", "-9e99").replace('"""Weights that sum to one."""', "# my own idea")
    head, *functions = re.split(r"(?m)^(?=def )", source)
    return head + "\n\n".join(reversed(functions)).replace("    ", "  ").replace(" - ", "-")


def pairs(answers: dict[str, str], *known: str) -> dict[tuple[str, str], float]:
    return {(pair.one, pair.other): pair.share for pair in similar_pairs(answers, known)[0]}


def test_a_copy_is_found_however_it_is_disguised():
    found = pairs({"ada": ONE, "bob": renamed(ONE), "eve": OTHER})
    assert set(found) == {("ada", "bob")}
    assert found["ada", "bob"] > 0.7


def test_two_answers_of_their_own_are_no_pair():
    assert pairs({"ada": ONE, "eve": OTHER}) == {}


def test_a_copied_function_among_own_code_is_found():
    own = OTHER + ONE.split("def attention")[1].replace("query", "x")
    found = pairs({"ada": ONE, "bob": "def attention" + own})
    assert ("ada", "bob") in found


def test_what_was_released_or_is_in_the_bank_is_no_sign():
    assert pairs({"ada": ONE, "bob": ONE}, ONE) == {}
    assert pairs({"ada": ONE, "bob": renamed(ONE)}, OTHER, ONE) == {}


def test_what_many_have_is_common_knowledge():
    crowd = {f"s{number:02}": ONE for number in range(10)}
    assert pairs(crowd) == {}
    found, common = similar_pairs({**crowd, "x": OTHER, "y": OTHER})
    assert [(pair.one, pair.other) for pair in found] == [("x", "y")]
    assert common == 3


def test_the_lines_of_a_pair_are_those_that_are_shared():
    added = "def unrelated(q):\n    return {w: [i ** 2 for i in w] for w in q}\n\n\n"
    (pair,) = similar_pairs({"ada": ONE, "bob": added + ONE})[0]
    lines = (added + ONE).split("\n")
    assert all(
        "unrelated" not in lines[number - 1] and "** 2" not in lines[number - 1] for number in pair.lines[1]
    )
    assert {line + added.count("\n") for line in pair.lines[0]} == pair.lines[1]


@pytest.mark.parametrize(
    "source", ["", "\n\n", "x", "'''open", '"open', "(" * 3000, "\\", "\x00\xff", "# only"]
)
def test_any_text_has_fingerprints(source: str):
    fingerprints(source)
    assert similar_pairs({"a": source, "b": source})[0] == [] or len(source) > 100


@given(
    prefix=st.lists(st.sampled_from("a + b ( ) if 1 'x' . c [ ]".split()), max_size=30),
    suffix=st.lists(st.sampled_from("a - b { } for 2 'y' , d : =".split()), max_size=30),
    seed=st.integers(0, 10_000),
)
@settings(max_examples=200, deadline=None)
def test_a_shared_passage_of_w_plus_k_minus_1_tokens_is_always_found(prefix: list, suffix: list, seed: int):
    """The guarantee of winnowing, whatever stands around the passage."""
    dice = random.Random(seed)
    words = ["while", "lambda", "return", "yield", "+", "-", "*", "/", "(", ")", "[", "]", ".", ",", "x"]
    passage = " ".join(dice.choice(words) for _ in range(W + K - 1))
    assert len(tokens_of(f"{passage}")) == W + K - 1
    one, other = " ".join([*prefix, passage]), " ".join([passage, *suffix])
    if passage.split()[0] == "." or (prefix and prefix[-1] == "."):
        return  # a name after a dot is another token than the same name elsewhere
    assert set(fingerprints(one)) & set(fingerprints(other))


def test_hashes_are_the_same_in_every_process_and_under_every_name():
    program = "from autograder.similarity import fingerprints; print(fingerprints('x=y+z*u-v/w**q'))"
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == str(fingerprints("a = b + c * d - e / f ** g  # as it is"))
