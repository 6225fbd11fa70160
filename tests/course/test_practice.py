"""`minitx check` and `watch`: what a notebook's visible tests say, whatever state it is in."""

import json
import os
import re
import subprocess
import sys
import time

import pytest

from minitx.course import practice, workbook
from minitx.errors import CourseError

SOFTMAX = """\
def softmax(scores):
    raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True)
"""


def run(path, seconds=20.0):
    runner = practice.Runner(seconds)
    try:
        return runner.run(workbook.read(path))
    finally:
        runner.close()


def task(report, name):
    return next(found for found in report.tasks if found.task.name == name)


def minitx(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "minitx.cli", *arguments],
        capture_output=True,
        text=True,
        check=False,
        **options,
    )


def test_an_untouched_notebook_has_only_tests_that_wait(notebook):
    report = run(notebook())
    assert report.passed == 0 < report.total
    assert {result.status for found in report.tasks for result in found.results} == {"unwritten"}
    assert report.notes == ()


def test_a_right_answer_passes_and_the_others_still_wait(notebook):
    report = run(notebook(softmax=SOFTMAX))
    softmax = task(report, "softmax")
    assert softmax.passed == len(softmax.results) == 2
    assert not report.is_complete


def test_a_wrong_answer_is_told_with_axes_and_the_likely_idea(notebook):
    wrong = "def softmax(scores):\n    e = np.exp(scores - scores.max())\n    return e / e.sum(axis=0)\n"
    first = task(run(notebook(softmax=wrong)), "softmax").results[0]
    assert first.status == "failed"
    assert "at query 0, key 0" in first.message
    assert "your weights sum to one over the query axis" in first.message
    assert first.hint


def test_an_exception_names_the_students_own_line(notebook):
    wrong = "def softmax(scores):\n    top = scores.max()\n    return top.missing\n"
    first = task(run(notebook(softmax=wrong)), "softmax").results[0]
    assert first.status == "error"
    assert "AttributeError" in first.message
    assert "line 3 of your cell `softmax`: return top.missing" in first.message


def test_a_syntax_error_is_told_once_and_other_tasks_still_run(notebook):
    report = run(
        notebook(
            softmax="def softmax(scores:\n",
            dictionary="def dictionary_as_attention(*a, **k):\n    return 1\n",
        )
    )
    assert "SyntaxError" in task(report, "softmax").broken
    assert "line 1" in task(report, "softmax").broken
    assert task(report, "dictionary").results[0].status == "failed"


def test_an_endless_loop_is_stopped_and_named(notebook):
    start = time.monotonic()
    report = run(notebook(softmax=SOFTMAX, attention="while True:\n    pass\n"), seconds=1.5)
    assert time.monotonic() - start < 15
    assert task(report, "softmax").passed == 2
    assert "stopped after 1.5 seconds" in task(report, "attention").broken


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import os\nos._exit(0)\n", "Python ended here"),
        ("import sys\nsys.exit(3)\n", "ended the program"),
        ('import os\nos.write(1, b\'{"event": "end"}\\n\')\ndef softmax(s): return s\n', ""),
        ("print('x' * 10**7)\ndef softmax(s): return s\n", ""),
        ("%matplotlib inline\n!ls\ndef softmax(s): return s\n", ""),
        ("raise BaseException('no')\n", "BaseException: no"),
        ("def softmax(s): return softmax(s)\n", ""),
    ],
)
def test_code_that_misbehaves_is_contained(notebook, code, said):
    report = run(notebook(softmax=code))
    found = task(report, "softmax")
    assert said in found.broken
    assert found.passed < 2
    if not said:
        assert not found.broken
        assert len(found.results) == 2


def test_cells_of_the_students_own_run_and_their_faults_are_notes(tmp_path, notebook):
    path = notebook(softmax=SOFTMAX.replace("np.exp", "helper"))
    content = json.loads(path.read_text())
    own = {"cell_type": "code", "metadata": {}, "source": "helper = np.exp", "outputs": []}
    bad = {"cell_type": "code", "metadata": {}, "source": ["1 / 0\n"], "outputs": []}
    content["cells"][2:2] = [own, bad]
    path.write_text(json.dumps(content))
    report = run(path)
    assert task(report, "softmax").passed == 2
    assert report.notes[0].startswith("cell 4: ZeroDivisionError")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it is empty"),
        ('{"cells": [', "it is no notebook"),
        ('{"cells": 3}', "it is no notebook"),
        ('{"cells": [{"cell_type": "code"}]}', "it is no notebook"),
        ('<<<<<<< mine\n{"cells": []}', "unfinished merge"),
    ],
)
def test_a_file_that_is_no_notebook_is_explained(tmp_path, text, said):
    path = tmp_path / "broken.ipynb"
    path.write_text(text)
    with pytest.raises(CourseError, match=said):
        workbook.read(path)


def test_a_unit_is_found_from_a_folder_below_and_an_unknown_one_is_explained(notebook, tmp_path):
    path = notebook()
    assert workbook.find("attention", path.parent) == path
    with pytest.raises(CourseError, match=r"'atention'.*There are: attention"):
        workbook.find("atention", tmp_path)


def test_hints_are_those_before_the_task_in_their_order(notebook):
    tasks = workbook.read(notebook()).tasks
    assert [found.name for found in tasks] == ["softmax", "attention", "dictionary", "answer-g1"]
    assert [hint.splitlines()[0] for hint in tasks[0].hints] == [
        "Hint 1: the idea",
        "Hint 2: the shapes",
        "Hint 3: almost the code",
    ]
    assert "```" not in tasks[0].hints[2]


def test_the_command_ends_with_1_until_all_is_right_and_prints_json(notebook):
    notebook(softmax=SOFTMAX)
    done = minitx("check", "attention", "--json")
    assert done.returncode == 1
    found = json.loads(done.stdout)[0]
    assert (found["unit"], found["passed"]) == ("attention", 2)
    text = minitx("check", "attention")
    assert "ok       known scores give known weights" in text.stdout
    assert "\x1b" not in text.stdout
    assert minitx("check", "nothing").returncode == 1
    assert "Traceback" not in minitx("check", "nothing").stderr


def test_watch_checks_again_when_the_notebook_is_saved(notebook):
    path = notebook()
    process = subprocess.Popen(
        [sys.executable, "-m", "minitx.cli", "watch", "attention"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        for line in process.stderr:
            if "Watching" in line:
                break
        time.sleep(0.3)
        fresh = path.with_suffix(".new")
        fresh.write_text(notebook(softmax=SOFTMAX).read_text())
        os.replace(fresh, path)
        told = next(line for line in process.stderr if "checked in" in line)
        assert re.match(r"\d\d:\d\d:\d\d, checked in \d+\.\d\d s", told)
        process.send_signal(2)
        out, err = process.communicate(timeout=30)
        assert "2 of 8 visible tests pass" in out
        assert "Traceback" not in err
    finally:
        process.kill()
        process.wait()
