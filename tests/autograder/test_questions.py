"""Questions: read from their author's file, released without a key, graded with a name for every wrong option."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import nbformat
import pytest
import yaml

from autograder.autograded import autograded_notebook
from autograder.cells import Cell, cells_of, without_shows
from autograder.course import Course
from autograder.errors import ReleaseError
from autograder.judging import Judge, Pace
from autograder.questions import read_questions, released, with_key, write_released, wrong_choices
from autograder.release import Built, build, leaks, notebook_bytes, release
from autograder.repair import repair
from autograder.sandbox.backends import ZygoteBackend
from autograder.verdict import Verdict

# The library knows the text of g4, so this one's key may be another than the course's.
QUESTION = {
    "id": "g4",
    "set": "graded",
    "unit": "small",
    "question": "Which?",
    "options": [
        {"text": "This.", "why": "Against this."},
        {"text": "That.", "why": "Against that."},
        {"text": "These.", "right": True, "note": "Indeed."},
        {"text": "Those.", "why": "Against those."},
    ],
}
PRACTICE = {**QUESTION, "id": "c4", "set": "check"}
TEXT = """\
# %% nbgrader={"grade_id": "imports", "locked": true}
from minitx.course import check, quiz

answers = {}

# %% nbgrader={"grade_id": "halve", "solution": true}
def halve(number):
    ### BEGIN SOLUTION
    return number / 2
    ### END SOLUTION

# %% nbgrader={"grade_id": "test-halve", "grade": true, "points": 1}
### BEGIN HIDDEN TESTS
### Test: half of seven (1 point)
### Belief: whole
check.array("half", halve(7), 3.5)
### END HIDDEN TESTS

# %% nbgrader={"grade_id": "show-c4", "locked": true}
quiz.show("c4")

# %% practice=true
answers["c4"] = "?"
quiz.explain("c4", answers["c4"])

# %% nbgrader={"grade_id": "show-g4", "locked": true}
quiz.show("g4")

# %% nbgrader={"grade_id": "answer-g4", "solution": true}
answers["g4"] = "?"
if answers["g4"] == "?":
    ### BEGIN SOLUTION
    answers["g4"] = "c"
    ### END SOLUTION

# %% nbgrader={"grade_id": "test-g4", "grade": true, "points": 0}
### Test: question g4 has an answer (0 points)
quiz.answered("g4", answers)

# %% nbgrader={"grade_id": "test-g4-hidden", "grade": true, "points": 1}
### BEGIN HIDDEN TESTS
### Test: the answer to question g4 (1 point)
quiz.graded("g4", answers, key="c")
### END HIDDEN TESTS

# %% [markdown] nbgrader={"grade_id": "why", "grade": true, "solution": true, "points": 1}
# Because.
"""
WHOLE = """\
# %% whole
# belief: Half of a number is whole.
# advice: And of seven?
# replaces: halve
# caught by: half of seven
def halve(number):
    return number // 2
"""


def unit(folder: Path, text: str = TEXT, questions: Any = None) -> Path:
    """The unit `small` in a folder, with its course's questions beside it."""
    place = folder / "small"
    place.mkdir(parents=True)
    (place / "small.py").write_text(text)
    (place / "misconceptions.py").write_text(WHOLE)
    (folder / "questions.yaml").write_text(
        yaml.safe_dump([PRACTICE, QUESTION] if questions is None else questions)
    )
    return place


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build(unit(tmp_path_factory.mktemp("solutions")))


@pytest.fixture(scope="module")
def judge(small: Built):
    backend = ZygoteBackend()
    yield Judge(small.spec, backend, Pace(cell=5, part=1.0, after_time_out=0.3, run=20))
    backend.close()


def handed_in(small: Built, **sources: str) -> Any:
    """The release with these cells' texts; one that is None is taken out."""
    notebook: Any = nbformat.from_dict(copy.deepcopy(small.released_notebook))
    texts = {name.replace("_", "-"): source for name, source in sources.items()}
    notebook.cells = [cell for cell in notebook.cells if texts.get(cell.id, "") is not None]
    for cell in notebook.cells:
        cell.source = texts.get(cell.id, cell.source)
    return notebook


def judged(judge: Judge, **sources: str) -> Verdict:
    """The verdict on the reference with these cells in its place."""
    cells = []
    for cell in judge.spec.cells:
        if cell.cell_type == "code":
            source = sources.get(cell.grade_id.replace("-", "_"), cell.source)
            kind = "test" if cell.kind == "test" else "student"
            cells.append(Cell(cell.grade_id, kind, "" if kind == "test" else source))
    return judge.judge(cells, b"one student")


# The author's file.


def test_every_question_is_read_with_its_key(tmp_path: Path):
    unit(tmp_path)
    items = read_questions(tmp_path / "questions.yaml")
    assert items == [PRACTICE, QUESTION]
    assert [option.is_right for option in with_key(items[1]).options] == [False, False, True, False]


@pytest.mark.parametrize(
    ("questions", "said"),
    [
        ({"id": "g4"}, "expected a list of questions"),
        (["g4"], "expected a list of questions"),
        ([{}], "a question without an id: expected id, set"),
        ([QUESTION, QUESTION], "'g4' is there twice"),
        (
            [{**QUESTION, "options": [{"text": "a"}, {"text": "b"}]}],
            "g4: a right option has text, right and note",
        ),
        ([{**QUESTION, "options": QUESTION["options"][:2]}], "g4: expected two options or more, exactly one"),
        ([{**QUESTION, "set": "exam"}], "check, quiz or graded"),
        ([{**QUESTION, "options": None}], "questions.yaml"),
        ([{**QUESTION, "options": ["this", "that"]}], "questions.yaml"),
    ],
)
def test_a_bank_that_is_no_bank_is_refused_with_its_name(tmp_path: Path, questions: Any, said: str):
    place = unit(tmp_path, questions=questions)
    with pytest.raises(ReleaseError, match=said) as error:
        build(place)
    assert "questions.yaml" in str(error.value)


@pytest.mark.parametrize("content", [b"- id: [", b"\xff\xfe"])
def test_a_bank_that_cannot_be_read_is_refused(tmp_path: Path, content: bytes):
    place = unit(tmp_path)
    (tmp_path / "questions.yaml").write_bytes(content)
    with pytest.raises(ReleaseError, match=r"questions.yaml cannot be read"):
        build(place)


def test_what_is_released_keeps_practice_whole_and_takes_the_key_out_of_the_rest(tmp_path: Path):
    unit(tmp_path)
    target = tmp_path / "questions.json"
    target.write_text("[]")
    assert write_released(tmp_path / "questions.yaml", target)
    assert not write_released(tmp_path / "questions.yaml", target), "nothing to change the second time"
    practice, graded = json.loads(target.read_text())
    assert practice == PRACTICE
    assert graded == {**QUESTION, "options": [{"text": option["text"]} for option in QUESTION["options"]]}
    assert released([QUESTION])[0] is not QUESTION and "why" in QUESTION["options"][0]


def test_each_wrong_option_is_a_misconception_and_the_right_one_none(tmp_path: Path):
    unit(tmp_path)
    found = wrong_choices(tmp_path / "questions.yaml", "small")
    assert [(one.name, one.belief, one.advice) for one in found] == [
        ("g4-a", "This.", "Against this."),
        ("g4-b", "That.", "Against that."),
        ("g4-d", "Those.", "Against those."),
    ]
    assert wrong_choices(tmp_path / "questions.yaml", "another") == ()


# The notebook.


def test_a_question_without_its_cells_is_refused(tmp_path: Path):
    text = TEXT.replace('"answer-g4"', '"answer"')
    with pytest.raises(ReleaseError, match=r"questions.yaml: .*'g4-a' says 'replaces: answer-g4'"):
        build(unit(tmp_path / "one", text))
    text = TEXT.replace("the answer to question g4", "the answer")
    with pytest.raises(ReleaseError, match=r"questions.yaml: .*'caught by: the answer to question g4'"):
        build(unit(tmp_path / "two", text))


@pytest.mark.parametrize(
    "line",
    [
        '# %% practice=true nbgrader={"grade_id": "c", "solution": true}',
        "# %% practice=false",
        '# %% practice=true tags=["a"]',
        "# %% [markdown] practice=true",
    ],
)
def test_a_practice_cell_is_nothing_else(tmp_path: Path, line: str):
    with pytest.raises(ReleaseError, match=r"small.py:\d+: a practice cell is code"):
        build(unit(tmp_path, TEXT.replace("# %% practice=true", line)))


def test_a_practice_cell_is_an_ordinary_cell_that_nbgrader_does_not_know(small: Built, tmp_path: Path):
    (practice,) = [cell for cell in small.released_notebook.cells if cell.id == "practice-01"]
    assert practice.metadata == {}
    assert practice.source == 'answers["c4"] = "?"\nquiz.explain("c4", answers["c4"])'
    assert "practice-01" not in [cell.grade_id for cell in small.spec.cells]
    course = Course.create(tmp_path / "course")
    release(course, small)  # raises where nbgrader's own release is another
    path = course.exercises / "small" / "small.ipynb"
    assert path.read_bytes() == notebook_bytes(small.released_notebook)


def test_the_release_has_no_key_and_a_key_in_a_practice_cell_is_found(small: Built):
    assert leaks(small) == []
    text = notebook_bytes(small.released_notebook).decode()
    assert "key=" not in text and "Against" not in text and "Indeed" not in text
    given = copy.deepcopy(small)
    for cell in given.released_notebook.cells:
        if cell.id == "practice-01":
            cell.source = 'answers["g4"] = "c"'
    assert leaks(given) == [
        "A line of the solution 'answer-g4' is in the released cell 'practice-01': 'answers[\"g4\"] = \"c\"'."
    ]


@pytest.mark.parametrize(
    "practised", ['answers["c4"] = "d"\nquiz.explain("c4", answers["c4"])', "1 / 0", None]
)
@pytest.mark.parametrize("answer", ['answers["g4"] = "c"', None, ""])
def test_practice_is_kept_as_the_students_own_and_is_no_answer(small: Built, practised: Any, answer: Any):
    repaired = repair(handed_in(small, practice_01=practised, answer_g4=answer), small.spec)
    texts = {cell.id: cell.source for cell in repaired.notebook.cells}
    own = [cell.source for cell in repaired.notebook.cells if "nbgrader" not in cell.metadata]
    assert own == ([practised] if practised else [])
    assert texts["answer-g4"] == (small.spec.cell("answer-g4").released if answer is None else answer)
    assert not any("extra" in note or "g4" in note for note in repaired.notes if answer)


def test_a_cell_that_only_shows_a_question_costs_the_grader_nothing(small: Built):
    cells = cells_of(repair(small.released_notebook, small.spec).notebook, small.spec)
    kept = [cell.id for cell in without_shows(cells, small.spec)]
    assert [cell.id for cell in cells if cell.id not in kept] == ["show-c4", "show-g4"]


def test_the_students_page_has_the_question_all_the_same(small: Built, judge: Judge):
    page = autograded_notebook(
        repair(small.released_notebook, small.spec).notebook, judged(judge), small.spec
    )
    (shown,) = next(cell.outputs for cell in page.cells if cell.id == "show-g4")
    lines = shown["text"].splitlines()
    assert lines[0].startswith("g4: ")
    assert [line[:5] for line in lines if line[3:4] == ")"] == ["  a) ", "  b) ", "  c) ", "  d) "]


# The grade.


def test_the_right_letter_gets_its_point_however_it_is_written(judge: Judge):
    for written in ("c", " C "):
        assert judged(judge, answer_g4=f'answers["g4"] = "{written}"').total == 2
    defaults = 'from collections import defaultdict\nanswers = defaultdict(str)\nanswers["g4"] = "c"'
    assert judged(judge, answer_g4=defaults).total == 2


@pytest.mark.parametrize(("letter", "belief"), [("a", "This."), ("b", "That."), ("D", "Those.")])
def test_a_wrong_letter_is_named_with_what_speaks_against_it(
    small: Built, judge: Judge, letter: str, belief: str
):
    verdict = judged(judge, answer_g4=f'answers["g4"] = "{letter}"')
    (hidden,) = verdict.tests["test-g4-hidden"]
    assert (hidden.outcome, hidden.points, hidden.belief) == ("WA", 0, f"g4-{letter.lower()}")
    assert hidden.message == ""
    assert verdict.looks_like is not None and verdict.looks_like.certain
    assert (verdict.looks_like.name, verdict.looks_like.belief) == (hidden.belief, belief)
    page = autograded_notebook(repair(small.released_notebook, small.spec).notebook, verdict, small.spec)
    shown = str([cell.outputs for cell in page.cells if cell.id == "test-g4-hidden"])
    assert f"Perhaps you think (g4-{letter.lower()}): {belief} Against {belief.lower()}" in shown
    assert "These." not in shown and "key" not in shown and "Indeed" not in shown


def test_with_a_wrong_function_too_each_test_has_its_own_belief(judge: Judge):
    wrong = "def halve(number):\n    return number // 2"
    verdict = judged(judge, halve=wrong, answer_g4='answers["g4"] = "a"')
    assert verdict.total == 0
    assert verdict.looks_like is not None and verdict.looks_like.name == "whole"
    assert [test.belief for name in ("test-halve", "test-g4-hidden") for test in verdict.tests[name]] == [
        "whole",
        "g4-a",
    ]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ('answers["g4"] = "?"', "not answered yet"),
        ("pass", 'there is no answers["g4"] yet'),
        ('answers["g4"] = "cc"', "got 'cc'"),
        ('answers["g4"] = 3', "got 3"),
        ('answers["g4"] = lambda: "c"', "something else"),
        ('answers["g4"] = ["c"]', "something else"),
        ('answers = ["c"]', "no dictionary any more"),
        ("answers = None", "no dictionary any more"),
        ("del answers", "answers is not defined"),
        (
            "class Any(str):\n    __eq__ = lambda a, b: True\n    __hash__ = str.__hash__\nanswers['g4'] = Any('a')",
            "",
        ),
        (
            "class Any:\n    def __getitem__(self, key):\n        raise RuntimeError('c')\nanswers = Any()",
            "no dict",
        ),
        (
            "class Any:\n    def __getitem__(self, key):\n        while True: pass\nanswers = Any()",
            "too long",
        ),
        ("from minitx.course import quiz\nquiz.graded = quiz.answered = lambda *a, **k: None", ""),
    ],
)
def test_what_is_no_letter_gets_no_point_and_is_told_without_a_traceback(judge: Judge, code: str, said: str):
    verdict = judged(judge, answer_g4=code)
    (visible,), (hidden,) = verdict.tests["test-g4"], verdict.tests["test-g4-hidden"]
    assert visible.outcome != "OK" and hidden.outcome != "OK" and verdict.total == 1
    assert said in visible.message
    assert "Traceback" not in visible.message and hidden.belief == ""
