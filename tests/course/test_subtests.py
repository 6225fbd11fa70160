"""A test cell is split into named tests, and every way to write one wrongly is named by its line."""

from __future__ import annotations

import pytest

from minitx.course.subtests import Part, SubtestError, checks_something, split

CELL = '''\
rng = 3
### Test: the open one (1 point)
### Hint: Look at
###   both rows.
### Belief: no-scale
assert rng == 3

### BEGIN HIDDEN TESTS
### Test: a hidden one (of two) (2.5 points)

# an ordinary comment
assert rng < 4
text = """
### Test: no test, a string (9 points)
"""
### END HIDDEN TESTS
'''


def test_a_cell_becomes_its_setup_and_its_tests():
    cell = split(CELL, points=3.5)
    assert cell.setup == "rng = 3"
    first, second = cell.parts
    assert first == Part(
        "the open one", 1.0, "Look at both rows.", "no-scale", "assert rng == 3", hidden=False, first_line=6
    )
    assert (second.title, second.points, second.hidden) == ("a hidden one (of two)", 2.5, True)
    assert (second.hint, second.belief) == ("", "")


def test_first_line_is_where_the_code_stands_in_the_cell():
    lines = CELL.split("\n")
    for part in split(CELL).parts:
        code = part.code.split("\n")
        assert lines[part.first_line - 1 : part.first_line - 1 + len(code)] == code


def test_a_test_line_inside_a_string_is_no_test():
    assert len(split(CELL).parts) == 2
    assert "### Test: no test" in split(CELL).parts[1].code


def test_a_cell_without_test_lines_is_one_test_with_all_the_points():
    source = "x = 1\n### BEGIN HIDDEN TESTS\nassert x\n### END HIDDEN TESTS"
    (part,) = split(source, grade_id="test-softmax", points=4).parts
    assert (part.title, part.points, part.hidden, part.first_line) == ("test-softmax", 4.0, True, 1)
    assert split("assert 1", grade_id="t", points=1).parts[0].hidden is False


def test_a_cell_without_test_lines_and_without_points_is_refused():
    """Or its points would be lost in silence."""
    with pytest.raises(SubtestError, match="points"):
        split("assert 1")


@pytest.mark.parametrize(
    ("source", "line", "said"),
    [
        ("### Test: a (1 point)\nassert 1\n### Test: b (1 point)\nassert 1", 1, "give 2 points .* says 3"),
        ("### Test: a (1 point)\nassert 1\n\n### Test: a (2 points)\nassert 1", 4, "unique"),
        ("### Test: (3 points)\nassert 1", 1, "expected '### Test: a title"),
        ("### Test: a\nassert 1", 1, "expected '### Test: a title"),
        ("### Test: a (-3 points)\nassert 1", 1, "expected '### Test: a title"),
        ("### Test: a (3 points)\n# nothing\n### Hint: h", 3, "directly after"),
        ("### Hint: h\n### Test: a (3 points)\nassert 1", 1, "directly after"),
        ("### Test: a (3 points)\n### Hnit: h\nassert 1", 2, "none of Test, Hint, Belief"),
        ("### Test: a (3 points)\n### Hint: h\n### Hint: h\nassert 1", 3, "twice"),
        ("### Test: a (3 points)\n# nothing", 1, "has no code"),
        ("### Test: a (3 points)\nassert 1\nassert (", 3, "not valid Python"),
        ("def f():\n    x = 1\n### Test: a (3 points)\n    return x", 4, "not valid Python"),
        ("### Test: a (3 points)\n### BEGIN HIDDEN TESTS\nassert 1", 3, "half inside"),
        ("### BEGIN HIDDEN TESTS\n### Test: a (3 points)\nassert 1", 1, "no '### END"),
        ("### Test: a (3 points)\nassert 1\n### END HIDDEN TESTS", 3, "without a '### BEGIN"),
        ("### BEGIN HIDDEN TESTS\nx = 1\n### BEGIN HIDDEN TESTS\n### END HIDDEN TESTS", 3, "inside the one"),
        (
            "### BEGIN HIDDEN TESTS\n### Test: a (3 points)\nassert 1\n### END HIDDEN TESTS\nassert 2",
            5,
            "half inside",
        ),
        ("", 1, "has no code"),
    ],
)
def test_what_cannot_be_split_is_named_by_its_line(source: str, line: int, said: str):
    with pytest.raises(SubtestError, match=said) as caught:
        split(source, points=3)
    assert caught.value.line == line
    assert f"line {line}" in str(caught.value)


@pytest.mark.parametrize(
    ("code", "can_fail"),
    [
        ("assert softmax(x) == 1", True),
        ("check.equal(softmax(x), 1)", True),
        ("np.testing.assert_allclose(softmax(x), y)", True),
        ("for x in xs:\n    check(softmax(x))", True),
        ("with pytest.raises(ValueError):\n    softmax(x)", True),
        ("if softmax(x) != 1:\n    raise AssertionError", True),
        ("softmax(x)", False),
        ("result = check(softmax(x))", False),
        ("softmax(x).sum()\nprint(3)", False),
        ("x = 3", False),
    ],
)
def test_a_test_that_cannot_fail_is_recognised(code: str, can_fail: bool):
    assert checks_something(Part("t", 1, "", "", code, False, 1), {"softmax"}) is can_fail
