"""Hostile submissions, graded as a class: none gets a point, reads a hidden test or leaves its sandbox.

The corpus lies in `hostile/`, a file a kind, a submission for each `# %% name`.
"""

import functools
import json
import os
import re
import socket
import sysconfig
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import numpy as np
import pytest

from autograder import engine
from autograder.course import Course
from autograder.demo import dump, filled
from autograder.pace import Pace
from autograder.release import build, release
from autograder.runners import Runner, default_jobs

CORPUS = Path(__file__).parent / "hostile"
UNIT = "guarded"
# What stands in the hidden tests: a name, a comment, messages, and a number that student code is given.
CANARIES = ("canary_c41d", "canary-c41d", "4711.0815")
STATUSES = {"no points", "timed out", "out of memory", "too much output", "crashed"}
SHORT = Pace(cell=1.0, part=0.7, after_time_out=0.15, run=6.0)


def submissions():
    """Every submission of the corpus: (name, source)."""
    found = {}
    for path in sorted(CORPUS.glob("*.py")):
        _, *sections = re.split(r"^# %% ", path.read_text(), flags=re.MULTILINE)
        for section in sections:
            name, _, source = section.partition("\n")
            assert f"{path.stem}-{name}" not in found
            found[f"{path.stem}-{name}"] = source
    return found


SUBMISSIONS = submissions()


class Page(HTMLParser):
    """Finds what a browser would run of a submission's: its scripts say `owned`."""

    def __init__(self):
        super().__init__()
        self.active = []
        self.inside = ""

    def handle_starttag(self, tag, attributes):
        self.inside = tag
        for name, value in attributes:
            if name.startswith("on") or "javascript:" in (value or ""):
                self.active.append((tag, name, value))

    def handle_data(self, data):
        if self.inside in ("script", "style") and "owned" in data:
            self.active.append((self.inside, data))


class Outside:
    """What a submission must not touch: a folder open to everyone, two sockets, the libraries."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()
        folder.chmod(0o777)
        (folder / "witness").write_text("as it was")
        (folder / "witness").chmod(0o666)
        self.tcp = socket.create_server(("127.0.0.1", 0))
        self.port = self.tcp.getsockname()[1]
        self.local = socket.socket(socket.AF_UNIX)
        self.local.bind(f"\0minitx-hostile-{self.port}")
        self.local.listen()
        self.before = self.state()

    def state(self):
        libraries = sorted({sysconfig.get_paths()["purelib"], sysconfig.get_paths()["stdlib"]})
        places = [self.folder, self.folder / "witness", *map(Path, libraries), Path(np.__file__)]
        places += [path for library in libraries for path in sorted(Path(library).glob("*.p*"))]
        return {str(path): (path.stat().st_mode, path.stat().st_mtime_ns) for path in places}

    def visitors(self):
        found = []
        for sock in (self.tcp, self.local):
            sock.setblocking(False)
            try:
                found.append(sock.accept())
            except BlockingIOError:
                continue
        return found


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """The whole corpus and one right answer as a class, graded with short limits."""
    built = build(CORPUS / "unit" / UNIT)
    folder = tmp_path_factory.mktemp("hostile")
    outside = Outside(folder / "outside")
    course = Course.create(folder / "course")
    release(course, built)
    right = next(cell.source for cell in built.spec.cells if cell.grade_id == "answer")
    sources = dict(SUBMISSIONS, right=right)
    places = {"@COURSE@": course.root, "@OUTSIDE@": outside.folder, "@PORT@": outside.port}
    for student, template in sources.items():
        source = functools.reduce(
            lambda text, token: text.replace(token, str(places[token])), places, template
        )
        place = course.submitted / student / UNIT
        place.mkdir(parents=True)
        (place / f"{UNIT}.ipynb").write_bytes(dump(filled(built, {"answer": source})))
    handed_in = {
        student: (course.submitted / student / UNIT / f"{UNIT}.ipynb").read_bytes() for student in sources
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "Runner", functools.partial(Runner, pace=SHORT))
        results = list(engine.grade(course, course.spec(UNIT), list(sources), default_jobs()))
    return course, outside, {result.student: result for result in results}, handed_in


def test_the_corpus_holds_several_of_every_kind():
    kinds = [name.partition("-")[0] for name in SUBMISSIONS]
    assert len(SUBMISSIONS) >= 80
    assert all(kinds.count(kind) >= 8 for kind in kinds)


def test_the_same_way_gives_a_right_answer_full_marks(graded):
    _, _, results, _ = graded
    assert results["right"].status == "full marks"
    assert results["right"].points == 7


@pytest.mark.parametrize("name", SUBMISSIONS)
def test_it_gets_no_point_and_ends_with_a_status_and_a_message(graded, name):
    _, _, results, _ = graded
    assert results[name].points == 0
    assert results[name].status in STATUSES
    assert results[name].message


@pytest.mark.parametrize("name", [*SUBMISSIONS, "right"])
def test_nothing_that_leaves_the_grader_holds_a_hidden_test(graded, name):
    """Feedback, the outputs of the autograded notebook, and the row that is printed."""
    course, _, results, _ = graded
    page = (course.feedback / name / UNIT / f"{UNIT}.html").read_text()
    notebook = nbformat.read(course.autograded / name / UNIT / f"{UNIT}.ipynb", as_version=4)
    assert any(CANARIES[0] in cell.source for cell in notebook.cells), "it must be there to be found"
    # Its own source is shown to whoever wrote it; a submission may name what it looks for.
    own = SUBMISSIONS.get(name, "")
    shown = [json.dumps(cell.get("outputs", [])) for cell in notebook.cells]
    shown += [str(results[name])]
    for canary in CANARIES:
        assert canary not in "".join(shown), shown
        assert canary not in page or canary in own


@pytest.mark.parametrize("name", [name for name in SUBMISSIONS if name.startswith("floods")])
def test_nothing_of_a_student_s_runs_in_a_browser_or_on_a_terminal(graded, name):
    course, _, _, _ = graded
    page = (course.feedback / name / UNIT / f"{UNIT}.html").read_text()
    reader = Page()
    reader.feed(page)
    assert reader.active == []
    assert len(page) < 5 << 20
    notebook = nbformat.read(course.autograded / name / UNIT / f"{UNIT}.ipynb", as_version=4)
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if "autograder" not in output.get("metadata", {}):
                assert not {"text/html", "image/svg+xml", "application/javascript"} & set(
                    output.get("data", {})
                )


def test_nothing_outside_was_touched(graded):
    course, outside, _, handed_in = graded
    assert [path.name for path in outside.folder.iterdir()] == ["witness"]
    assert outside.state() == outside.before
    assert outside.visitors() == []
    for student, content in handed_in.items():
        folder = course.submitted / student / UNIT
        assert [path.name for path in folder.iterdir()] == [f"{UNIT}.ipynb"]
        assert (folder / f"{UNIT}.ipynb").read_bytes() == content


def test_the_message_of_a_frequent_kind_names_what_happened(graded):
    _, _, results, _ = graded
    for name, status in {
        "loops-loop-in-cell": "timed out",
        "loops-loop-in-c": "timed out",
        "bombs-array-of-75-gigabytes": "out of memory",
        "floods-endless-output": "too much output",
        "answers-too-large-to-send": "too much output",
        "forging-crash": "crashed",
        "forging-abort": "crashed",
    }.items():
        assert results[name].status == status, name


def test_no_test_runner_is_left(graded):
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    commands = [Path("/proc", pid, "cmdline").read_text() for pid in children]
    assert not [command for command in commands if "autograder.runner" in command]
