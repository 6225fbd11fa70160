"""Whatever state a file comes back in, a right answer gets full marks, or a message says what was lost.

Graded as one class through the whole of the grader, sandbox included. Each kind is handed in twice: with
right answers, and with wrong ones, which must stay wrong.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import nbformat
import pytest
from classroom import hand_in
from conftest import answered
from mangled import KINDS
from mangled.kind import Book
from nbgrader.api import Gradebook

from autograder import engine
from autograder.assessing import Result
from autograder.course import Course
from autograder.release import Built, release
from autograder.runners import default_jobs

WRONG = {"half_of_it = number / 2": "half_of_it = number // 3", "- middle(numbers)": "+ middle(numbers)"}
FULL = 5.5


def notebook(tiny: Built, wrong: bool) -> Book:
    book = json.loads(json.dumps(answered(tiny)))
    for cell in book["cells"]:
        for right, other in WRONG.items():
            if wrong:
                cell["source"] = cell["source"].replace(right, other)
    return book


def fill(course: Course, student: str, name: str, book: Book) -> None:
    folder = course.submitted / student / "tiny"
    folder.mkdir(parents=True)
    made = KINDS[name].make(book)
    if callable(made):
        made(folder)
        return
    for path, data in made.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)


@pytest.fixture(scope="module")
def graded(tiny: Built, tmp_path_factory: pytest.TempPathFactory) -> tuple[Course, dict[str, Result]]:
    course = Course.create(tmp_path_factory.mktemp("mangled") / "course")
    release(course, tiny)
    for name in KINDS:
        fill(course, f"right-{name}", name, notebook(tiny, wrong=False))
        fill(course, f"wrong-{name}", name, notebook(tiny, wrong=True))
    hand_in(course, "untouched", tiny.released_notebook)
    results = engine.grade(course, tiny.spec, course.students("tiny"), default_jobs())
    return course, {result.student: result for result in results}


def test_the_corpus_is_large_and_of_every_kind():
    assert len(KINDS) >= 120
    assert sum(bool(kind.told) for kind in KINDS.values()) < len(KINDS) / 3


def test_the_batch_comes_to_its_end(graded: tuple[Course, dict[str, Result]]):
    course, results = graded
    assert len(results) == 2 * len(KINDS) + 1
    for result in results.values():
        assert result.status
        assert result.message
        assert result.status != "needs review", result
    assert results["untouched"].points == 0
    with Gradebook(course.database_url, "course") as gradebook:
        scores = {one.student.id: one.score for one in gradebook.assignment_submissions("tiny")}
    assert scores == {student: result.points for student, result in results.items()}


@pytest.mark.parametrize("name", KINDS)
def test_right_code_gets_full_marks_or_a_message_that_says_what_was_lost(
    graded: tuple[Course, dict[str, Result]], name: str
):
    result = graded[1][f"right-{name}"]
    told = " ".join([result.message, *result.notes])
    if not KINDS[name].told:
        assert (result.points, result.status) == (FULL, "full marks"), told
    else:
        assert re.search(KINDS[name].told, told), told
        assert told.isprintable()


@pytest.mark.parametrize("name", KINDS)
def test_wrong_code_stays_wrong(graded: tuple[Course, dict[str, Result]], name: str):
    result = graded[1][f"wrong-{name}"]
    assert result.points == 0, result
    assert result.status in ("no points", "unreadable")


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.told])
def test_what_was_lost_is_on_the_students_page(graded: tuple[Course, dict[str, Result]], name: str):
    course, _ = graded
    page = (course.feedback / f"right-{name}/tiny/tiny.html").read_text()
    text = re.sub(r"&#39;|&#x27;", "'", page)
    assert re.search(KINDS[name].told, text)


def test_nothing_hidden_reaches_a_page_and_every_notebook_is_valid(graded: tuple[Course, dict[str, Result]]):
    course, results = graded
    for student in results:
        assert "canary_4711" not in (course.feedback / student / "tiny/tiny.html").read_text()
        nbformat.validate(nbformat.read(course.autograded / student / "tiny/tiny.ipynb", as_version=4))


def test_what_lies_beside_a_notebook_is_not_run(graded: tuple[Course, dict[str, Result]], tmp_path: Path):
    for name in ("own-numpy", "own-sitecustomize", "own-nbgrader-config"):
        assert graded[1][f"right-{name}"].points == FULL
