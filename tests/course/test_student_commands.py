"""`minitx hint`, `status`, `quiz` and `doctor`, as a student calls them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from minitx.course import questions, quiz
from minitx.course.progress import Progress
from minitx.errors import CourseError

ROOT = Path(__file__).resolve().parents[2]

SOFTMAX = """\
def softmax(scores):
    raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True)
"""


def minitx(*arguments, **options):
    command = [sys.executable, "-m", "minitx.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def test_the_map_has_the_units_in_the_order_in_which_they_need_each_other():
    units = json.loads(minitx("status", "--json", cwd=ROOT).stdout)["units"]
    names = [row["unit"] for row in units]
    assert set(names) == {path.name for path in (ROOT / "solutions").iterdir() if path.is_dir()}
    needed = {
        "causal": "attention",
        "cache": "causal",
        "heads": "attention",
        "gpt": "heads",
        "expert": "cache",
    }
    for unit, before in needed.items():
        assert names.index(before) < names.index(unit)


def test_hints_come_one_at_a_time_for_the_next_task_that_is_unsolved(notebook):
    notebook(softmax=SOFTMAX)
    minitx("check", "attention")
    first, second = minitx("hint", "attention"), minitx("hint", "attention")
    assert first.stdout.startswith("scaled_dot_product_attention\nHint 1: the idea")
    assert "2 more" in first.stderr
    assert "Hint 2: the shapes" in second.stdout
    assert "Hint 1" in minitx("hint", "attention", "softmax").stdout
    for _ in range(3):
        last = minitx("hint", "attention", "softmax")
    assert "Hint 3" in last.stdout
    assert "last hint" in last.stderr
    assert "Hint 1" in minitx("hint", "attention", "softmax", "--again").stdout
    wrong = minitx("hint", "attention", "nothing")
    assert wrong.returncode == 1
    assert "It has: softmax, attention, dictionary, answer-g1." in wrong.stderr


def test_the_map_shows_the_last_check_and_what_changed_since(notebook):
    path = notebook(softmax=SOFTMAX)
    assert "not checked yet" in minitx("status").stdout
    minitx("check")
    row = json.loads(minitx("status", "--json").stdout)["units"][0]
    assert (row["unit"], row["passed"], row["total"], row["state"]) == ("attention", 2, 8, "begun")
    os.utime(path, (2e9, 2e9))
    shown = minitx("status").stdout
    assert "changed since" in shown
    assert "#####" in shown
    path.write_text("{")
    assert "unreadable" in minitx("status").stdout


def test_a_quiz_is_explained_at_once_kept_and_gone_on_with(notebook):
    notebook()
    first = minitx("quiz", input="d\nz\na\n")
    assert first.returncode == 1
    assert "Right. The weights are positive" in first.stdout
    assert "Type one of the letters a, b, c, d." in first.stdout
    assert "2 of 5 answered" in first.stdout
    rest = minitx("quiz", input="b\na\na\n")
    assert rest.returncode == 0
    assert rest.stdout.lstrip().startswith("2 of 5 answered")
    assert "4 of 5 right" in rest.stdout
    assert "Units to look at again: cache" in rest.stdout
    assert "0 of 5 answered" in minitx("quiz", "--again", input="").stdout


def test_progress_that_cannot_be_read_is_put_aside_and_told(tmp_path):
    path = tmp_path / "progress.json"
    path.write_text("[1, 2")
    progress = Progress(path)
    assert "begins anew" in progress.problem
    assert path.with_suffix(".unreadable").read_text() == "[1, 2"
    progress.section("quiz")["q1"] = "a"
    progress.save()
    assert Progress(path).section("quiz") == {"q1": "a"}


def test_a_folder_that_cannot_be_written_is_told_and_is_no_error(notebook):
    notebook()
    done = minitx("check", "attention", env={**os.environ, "MINITX_STATE_DIR": "/dev/null/nowhere"})
    assert "of 8 visible tests" in done.stdout
    assert "progress is not kept" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_bank_has_ten_questions_each_with_one_right_answer_and_a_reason_for_every_option():
    bank = questions.all_questions()
    assert [question.id for question in bank] == [
        *(f"c{i}" for i in range(1, 6)),
        *(f"q{i}" for i in range(1, 6)),
    ]
    for question in bank:
        assert len(question.options) == 4
        assert sum(option.is_right for option in question.options) == 1
        assert all(option.feedback for option in question.options)
    right = [q.letters[[o.is_right for o in q.options].index(True)] for q in bank]
    assert len(set(right)) == 4, "the right letter must not be the same everywhere"


def test_the_bank_is_the_courses_source():
    yaml = pytest.importorskip("yaml")
    source = yaml.safe_load((ROOT / "solutions/questions.yaml").read_text())
    built = json.loads((ROOT / "minitx/course/questions.json").read_text())
    for item in source:
        if item["set"] == "graded":
            item["options"] = [{"text": option["text"]} for option in item["options"]]
    assert built == source, "autograder release --build"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"set": "exam"}, "expected id, set"),
        ({"set": "graded"}, "text and nothing else"),
        ({"set": "graded", "options": [{"text": "a"}]}, "two options or more"),
        ({"set": "graded", "options": [{"text": "a"}, {"text": "a"}]}, "the same"),
        ({"options": [{"text": "a", "right": True, "note": "n"}]}, "two options or more"),
        ({"options": [{"text": "a", "why": "n"}, {"text": "b", "why": "n"}]}, "exactly one of them right"),
        ({"options": [{"text": "a", "right": True, "note": "n"}, {"text": "b"}]}, "a wrong one text and why"),
        ({"options": [{"text": "a", "right": True, "note": "n"}, {"text": "a", "why": "w"}]}, "the same"),
    ],
)
def test_a_faulty_question_is_refused(change, said):
    good = {
        "id": "x",
        "set": "quiz",
        "unit": "cost",
        "question": "?",
        "options": [{"text": "a", "right": True, "note": "n"}, {"text": "b", "why": "w"}],
    }
    questions.question_of(good)
    with pytest.raises(CourseError, match=said):
        questions.question_of({**good, **change})


def test_a_notebook_shows_and_explains_a_question(capsys):
    quiz.show("c4")
    assert "b) That a position reads later positions" in capsys.readouterr().out
    for answer in ("b", "A", "?", "e", 3, None):
        assert quiz.explain("c4", answer) is None, "a notebook would show what comes back"
    right, wrong, still_open, *others = capsys.readouterr().out.splitlines()
    assert right.startswith("Right.")
    assert wrong.startswith("Not quite. A token may read itself")
    assert still_open == "c4: not answered yet. Put a, b, c or d in place of the question mark."
    expected = 'c4: expected one letter between quotation marks, a, b, c or d, as in "a"; got '
    assert others == [f"{expected}{came}." for came in ("'e'", "3", "None")]
    with pytest.raises(CourseError, match="There is no question 'q9'"):
        quiz.show("q9")


def test_a_graded_question_is_shown_and_explained_by_no_one(notebook, capsys):
    assert {question.group for question in questions.all_questions()} == {"check", "quiz"}
    for question in questions.graded_questions():
        quiz.show(question.id)
        shown = " ".join(capsys.readouterr().out.split())
        assert question.text in shown and all(option.text in shown for option in question.options)
        for letter in question.letters:
            quiz.explain(question.id, letter)
        said = capsys.readouterr().out.splitlines()
        assert said == [f"{question.id}: this one is graded; the explanation comes with your feedback."] * 4
    notebook()
    for group in ("quiz", "check", "all"):
        assert "of 10 answered" in minitx("quiz", "--set", "all", input="").stdout
        assert "g1" not in minitx("quiz", "--set", group, input="").stdout
    assert json.loads(minitx("status", "--json").stdout)["quiz"]["questions"] == 10


def test_a_graded_answer_is_compared_and_a_wrong_one_named():
    assert quiz.answered("g4", {"g4": " B "}) == "b"
    quiz.graded("g4", {"g4": "c"}, key="c")
    with pytest.raises(quiz.WrongChoice) as wrong:
        quiz.graded("g4", {"g4": "D"}, key="c")
    assert wrong.value.belief == "g4-d"
    with pytest.raises(quiz.NotAnswered, match="not answered yet"):
        quiz.graded("g4", {"g4": "?"}, key="c")
    with pytest.raises(AssertionError, match="Run the cell below the question"):
        quiz.answered("g4", {})
    for lost in (None, [], 7, "abc"):
        with pytest.raises(AssertionError, match="no dictionary any more"):
            quiz.answered("g4", lost)
    for key in ("e", "C", "", None):
        with pytest.raises(ValueError, match="expected the key"):
            quiz.graded("g4", {"g4": "a"}, key=key)


def test_the_doctor_finds_this_place_well_and_names_what_is_missing(notebook):
    notebook()
    done = minitx("doctor", "--json")
    found = {row["subject"]: row for row in json.loads(done.stdout)}
    assert done.returncode == 0
    assert found["numpy"]["state"] == "ok"
    assert found["attention"]["message"].startswith("computes what NumPy does")
    assert found["units"]["message"] == "attention"
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "import importlib.util as u; found = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'matplotlib' else found(name, *a)\n"
        "import sys; sys.argv = ['minitx', 'doctor']\n"
        "from minitx.cli import main; main()\n"
    )
    without = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert without.returncode == 1
    assert "PROBLEM  matplotlib     missing; pip install matplotlib" in without.stdout
