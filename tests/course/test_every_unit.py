"""What holds of every unit of the course, seen in one plain namespace.

That every misconception is caught and named and every other style accepted, in the real sandbox, is proved
in tests/autograder/test_units.py.
"""

import functools
import json

import pytest

from minitx import kernels
from minitx.course import check, quiz, workbook
from minitx.course.questions import all_questions, graded_questions

plainly = pytest.importorskip("plainly")
cells = pytest.importorskip("autograder.cells")
definitions = pytest.importorskip("minitx.course.definitions")
bank = pytest.importorskip("autograder.questions")

ROOT = plainly.SOLUTIONS.parent
NAMES = sorted(folder.name for folder in plainly.SOLUTIONS.iterdir() if folder.is_dir())
# Cells that the tests need although nothing is written in them.
HELPERS = {"cost": ["helper-peak"]}
# Cells that print a few lines under names which the tests use as well.
PRINTED = {"cost": ["watch-cameras", "demo-doubling"]}


@functools.cache
def unit_of(name):
    return plainly.Unit(name)


@pytest.fixture(params=NAMES)
def unit(request):
    kernels.use("numpy")
    return unit_of(request.param)


def helpers(unit):
    return HELPERS.get(unit.spec.unit, [])


def test_points_add_up_and_hidden_tests_are_worth_most(unit):
    parts, tested = unit.parts, sum(part.points for part in unit.parts)
    assert unit.spec.max_points == 21
    assert tested == 17
    assert sum(part.points for part in parts if part.hidden) > 0.65 * tested
    assert all(part.hint for part in parts) and len({part.title for part in parts}) == len(parts)


def test_the_bank_knows_a_dozen_wrong_ideas_over_all_cells(unit):
    names = {known.name for known in unit.spec.misconceptions}
    assert len(names) >= 12
    assert {part.belief for part in unit.parts if part.belief} <= names
    assert {known.replaces for known in unit.spec.misconceptions} == {
        cell.grade_id for cell in unit.spec.cells if cell.kind == "solution"
    }


@pytest.mark.parametrize("key", [b"practice", b"another student", b"a third one"])
def test_whatever_the_student_the_reference_passes_and_every_misconception_fails(unit, key):
    check.use_key(key)
    assert unit.failures(unit.played(*helpers(unit))) == {}
    for known in unit.spec.misconceptions:
        failed = unit.failures(unit.played(*helpers(unit), replaced={known.replaces: known.code}))
        kind, _, _ = failed.get(known.caught_by, "").partition(": ")
        assert kind == ("WrongChoice" if known.replaces.startswith("answer-") else "AssertionError"), (
            known.name
        )


def test_no_cell_that_only_shows_something_runs_in_the_grader(unit):
    """A training run or a drawing in the sandbox would take longer than all tests together."""
    kept = cells.without_shows(cells.cells_from_spec(unit.spec, reference=True), unit.spec)
    provided = {cell.grade_id for cell in unit.spec.cells if cell.kind == "provided"}
    expected = {"imports", *helpers(unit), *PRINTED.get(unit.spec.unit, [])}
    assert {cell.id for cell in kept if cell.id in provided} == expected


@functools.cache
def keyed():
    """The graded questions by unit, with their keys: the author's file, read here and not by the unit's build."""
    items = bank.read_questions(plainly.SOLUTIONS / "questions.yaml")
    found = [item for item in items if item["set"] == "graded"]
    assert sorted(item["unit"] for item in found) == NAMES
    return {item["unit"]: item for item in found}


def right_letter(item):
    (place,) = [place for place, option in enumerate(item["options"]) if option.get("right")]
    return "abcd"[place]


def test_the_graded_question_has_the_banks_key_and_names_every_wrong_option(unit):
    item = keyed()[unit.spec.unit]
    name, key = item["id"], right_letter(item)
    names = unit.played(*helpers(unit))
    assert names["answers"] == {name: key}
    for letter, option in zip("abcd", item["options"], strict=True):
        failed = unit.failures({**names, "answers": {name: letter}})
        assert set(failed) == (set() if letter == key else {f"the answer to question {name}"})
        known = [one for one in unit.spec.misconceptions if one.name == f"{name}-{letter}"]
        assert len(known) == (letter != key)
        for one in known:
            assert (one.belief, one.advice) == (option["text"], option["why"])
            assert f"{name}: {letter} is not" in failed[one.caught_by]


@pytest.mark.parametrize(
    ("answer", "said"),
    [("?", "not answered yet"), ("e", "got 'e'"), (3, "got 3"), (None, "got None"), ([], "something else")],
)
def test_an_answer_that_is_no_letter_fails_both_tests_and_is_told_so(unit, answer, said):
    name = keyed()[unit.spec.unit]["id"]
    failed = unit.failures({**unit.played(*helpers(unit)), "answers": {name: answer}})
    assert list(failed) == [f"question {name} has an answer", f"the answer to question {name}"]
    assert all(said in message for message in failed.values())


def test_nothing_but_the_notebooks_first_cell_makes_the_answers(unit):
    """A test cell that used the name would hide the student's answers from the tests of the question."""
    for cell in unit.spec.cells:
        if cell.cell_type == "code":
            defines = "answers" in definitions.defined_names(cell.source)
            assert defines == (cell.grade_id == "imports"), cell.grade_id


def test_the_right_letter_is_not_at_the_same_place_everywhere():
    letters = [right_letter(item) for item in keyed().values()]
    assert len(set(letters)) == 4
    assert max(map(letters.count, letters)) <= 3


def test_no_released_file_holds_a_key_or_what_speaks_against_an_option(unit):
    item = keyed()[unit.spec.unit]
    secrets = [option.get("why") or option["note"] for option in item["options"]]
    assert len(secrets) == 4
    secrets += [f'{item["id"]}"] = "{right_letter(item)}"', "key=", "quiz.graded"]
    exercise = json.loads((ROOT / f"exercises/{item['unit']}/{item['unit']}.ipynb").read_text())
    texts = {"exercise": "\n".join("".join(cell["source"]) for cell in exercise["cells"])}
    for place in ("minitx", "docs"):
        for path in (ROOT / place).rglob("*"):
            if path.suffix in (".py", ".json", ".md", ".js") and "_build" not in path.parts:
                texts[str(path)] = path.read_text()
    for where, text in texts.items():
        for secret in secrets if where == "exercise" else secrets[:5]:
            assert secret not in text, where


def test_graded_questions_lie_in_the_library_without_their_keys():
    raw = json.loads((ROOT / "minitx/course/questions.json").read_text())
    kept = [item for item in raw if item["set"] == "graded"]
    assert [item["id"] for item in kept] == [question.id for question in graded_questions()]
    assert {item["unit"] for item in kept} == set(NAMES)
    for item in kept:
        assert [set(option) for option in item["options"]] == [{"text"}] * 4
        wanted = keyed()[item["unit"]]
        assert [option["text"] for option in wanted["options"]] == [o["text"] for o in item["options"]]


def test_a_notebook_practises_its_units_questions_in_cells_of_the_students_own(unit):
    name = unit.spec.unit
    book = workbook.read(ROOT / f"exercises/{name}/{name}.ipynb")
    asked = [question.id for question in all_questions() if question.unit == name]
    practice = [cell.source for cell in book.cells if cell.kind == "own"]
    assert practice == [f'answers["{one}"] = "?"\nquiz.explain("{one}", answers["{one}"])' for one in asked]
    shown = [cell.source for cell in book.cells if cell.source.startswith("quiz.show(")]
    assert shown == [f'quiz.show("{one}")' for one in (*asked, keyed()[name]["id"])]


def test_practice_goes_on_whatever_is_answered(unit, capsys):
    for question in all_questions():
        if question.unit == unit.spec.unit:
            for answer in ("?", "a", "e", 3, None, float("nan"), [], {}, object(), "a" * 1000, 10**9999):
                quiz.explain(question.id, answer)
                assert capsys.readouterr().out.startswith(("Right.", "Not quite.", f"{question.id}: "))
