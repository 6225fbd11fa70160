"""The first unit keeps its promises: right answers pass, wrong ones fail where the bank says so.

Cells run here in one plain namespace, as in a notebook. No sandbox is needed, and no grading.
"""

import copy
import re
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from minitx.course import check

release = pytest.importorskip("autograder.release", reason="the course's notebooks are built with nbgrader")
bank = pytest.importorskip("autograder.bank")
subtests = pytest.importorskip("minitx.course.subtests")

FOLDER = Path(__file__).parents[2] / "solutions" / "attention"
UNIT = release.build(FOLDER).spec
QUESTION = ("answer-g1", "test-g1", "test-g1-hidden")  # no function; see test_every_unit.py
STYLES = bank.read_styles(FOLDER / "other_styles.py")
TESTS = {
    cell.grade_id: subtests.split(cell.source, points=cell.points)
    for cell in UNIT.cells
    if cell.kind == "test" and cell.grade_id not in QUESTION
}
TITLES = [part.title for split in TESTS.values() for part in split.parts]
MISCONCEPTIONS = [known for known in UNIT.misconceptions if known.replaces not in QUESTION]
FUNCTIONS = ("softmax", "scaled_dot_product_attention", "dictionary_as_attention")
KEYS = (b"practice", b"another student", b"a third one")


@pytest.fixture(autouse=True)
def practice_key():
    yield
    check.use_key(b"practice")


def solutions(replacements=None, starter=False):
    """The source of each solution cell: the author's, the released one, or a replacement."""
    sources = {cell.grade_id: cell.released if starter else cell.source for cell in UNIT.cells}
    return [
        (replacements or {}).get(cell.grade_id, sources[cell.grade_id])
        for cell in UNIT.cells
        if cell.kind == "solution" and cell.grade_id not in QUESTION
    ]


def run(sources, key=b"practice"):
    """Run all tests against these solution cells: ({title: message, "" when passed}, calls made)."""
    check.use_key(key)
    student = namespace(sources)
    calls = []
    names = namespace([])
    names.update({name: recorded(name, student[name], calls) for name in FUNCTIONS})
    messages = {}
    for split in TESTS.values():
        exec(split.setup, names)
        for part in split.parts:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    exec(part.code, names)
                messages[part.title] = ""
            except Exception as error:
                messages[part.title] = f"{type(error).__name__}: {error}"
    return messages, calls


def namespace(sources):
    names = {"__name__": "student"}
    for source in [UNIT.cell("imports").source, *sources]:
        exec(source, names)
    return names


def recorded(name, function, calls):
    """The function, with a note of every call: its arguments before and after, and what came back."""

    def call(*args, **kwargs):
        note = SimpleNamespace(name=name, before=copy.deepcopy((args, kwargs)), result=None, after=None)
        calls.append(note)
        try:
            note.result = function(*args, **kwargs)
        except Exception as error:
            note.result = error
            raise
        finally:
            note.after = copy.deepcopy((args, kwargs))
        return note.result

    return call


def answers_alike(function, call):
    """True when the function does with the recorded call's arguments what was recorded."""
    args, kwargs = copy.deepcopy(call.before)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = function(*args, **kwargs)
        except Exception as error:
            result = error
    return alike(result, call.result) and alike((args, kwargs), call.after)


def alike(one, other):
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(one[name], other[name]) for name in one)
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        same = one.shape == other.shape and one.dtype == other.dtype
        return same and np.allclose(one, other, rtol=1e-4, atol=1e-6, equal_nan=True)
    return type(one) is type(other) and (isinstance(one, Exception) or one == other)


def test_points_add_up_and_hidden_tests_are_worth_most():
    parts = [part for split in TESTS.values() for part in split.parts]
    hidden = sum(part.points for part in parts if part.hidden)
    assert UNIT.max_points == 21
    assert sum(part.points for part in parts) == 16
    assert hidden > 0.7 * 16
    assert len(set(TITLES)) == len(TITLES)


@pytest.mark.parametrize("key", KEYS)
def test_the_reference_passes_every_test(key):
    messages, _ = run(solutions(), key)
    assert {title: text for title, text in messages.items() if text} == {}


def test_the_reference_warns_about_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        names = namespace(solutions())
        empty = np.zeros((1, 1, 2, 4), dtype=bool)
        q, k = np.ones((1, 1, 2, 3)), np.full((1, 1, 4, 3), 1e4)
        output, weights = names["scaled_dot_product_attention"](q, k, k, mask=empty, causal=True)
    assert not output.any() and not weights.any()


def test_more_queries_than_keys_leave_the_first_queries_with_nothing():
    attend = namespace(solutions())["scaled_dot_product_attention"]
    q, k, v = np.zeros((1, 1, 4, 3)), np.ones((1, 1, 2, 3)), np.ones((1, 1, 2, 5))
    _, weights = attend(q, k, v, causal=True)
    assert np.array_equal(weights[0, 0], [[0, 0], [0, 0], [1, 0], [0.5, 0.5]])


def test_the_starter_fails_every_test():
    messages, _ = run(solutions(starter=True))
    assert [title for title, text in messages.items() if not text] == []
    assert list(messages) == TITLES


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("known", MISCONCEPTIONS, ids=lambda known: known.name)
def test_a_misconception_fails_the_test_named_for_it(known, key):
    messages, _ = run(solutions({known.replaces: known.code}), key)
    assert messages[known.caught_by].startswith("AssertionError: ")


@pytest.fixture(scope="module")
def wrong_namespaces():
    return {known.name: namespace(solutions({known.replaces: known.code})) for known in MISCONCEPTIONS}


@pytest.mark.parametrize("known", MISCONCEPTIONS, ids=lambda known: known.name)
def test_a_misconception_is_unlike_all_others_on_the_calls_of_the_tests(known, wrong_namespaces):
    _, calls = run(solutions({known.replaces: known.code}))
    for other in MISCONCEPTIONS:
        if other.replaces != known.replaces or other.name == known.name:
            continue
        names = wrong_namespaces[other.name]
        asked = [call for call in calls if call.name in other.code]
        assert not all(answers_alike(names[call.name], call) for call in asked), other.name


def test_a_wrong_scale_costs_the_tests_of_the_scale_alone():
    code = {known.name: known.code for known in MISCONCEPTIONS}["no-scale"]
    messages, _ = run(solutions({"attention": code}))
    assert [title for title, text in messages.items() if text] == [
        "one query and two keys, worked out by hand",
        "scores are scaled by the square root of the key size",
    ]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("style", STYLES.values(), ids=lambda style: style.name)
def test_a_right_answer_in_another_style_passes_every_test(style, key):
    assert set(style.codes) == {"softmax", "attention", "dictionary"}
    messages, _ = run(solutions(style.codes), key)
    assert {title: text for title, text in messages.items() if text} == {}


def test_the_bank_is_as_large_as_the_course_asks_and_names_what_it_must():
    names = {known.name for known in MISCONCEPTIONS}
    assert len(names) >= 14 and len(STYLES) >= 6
    assert names >= {
        "no-scale", "scale-by-d-k", "softmax-over-queries", "mask-polarity", "diagonal-masked",
        "mask-after-softmax", "top-left-causal", "zero-masked-scores", "softmax-without-shift",
        "empty-rows-nan", "empty-rows-mean", "average-keys", "causal-ignored", "mask-or-causal",
        "softmax-over-everything", "hard-lookup",
    }  # fmt: skip


def test_advice_is_a_sentence_or_a_question_and_no_code():
    for known in MISCONCEPTIONS:
        assert known.advice.endswith((".", "?")) and known.belief.endswith("."), known.name
        assert not re.search(r"np\.|\w\(\w+=|axis=", known.advice), known.name


def test_every_hint_is_there_and_every_task_has_three_folded_hints():
    assert all(part.hint for split in TESTS.values() for part in split.parts)
    text = "\n".join(cell.source for cell in UNIT.cells if cell.kind == "text")
    for step in ("Hint 1: the idea", "Hint 2: the shapes", "Hint 3: almost the code"):
        assert text.count(step) == 3
    assert text.count("<details>") == text.count("</details>") == 9
