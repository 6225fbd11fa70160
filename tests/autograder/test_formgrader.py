"""nbgrader's formgrader in a real browser, on a course of ours: its buttons use the sandbox, its marks stay."""

from __future__ import annotations

import csv
import html
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest
from classroom import answer, autograder, descendants, hand_in, is_alive
from nbgrader.api import Gradebook

from autograder import demo
from autograder.course import Course
from autograder.release import build, release

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
UNIT, TOKEN, WRITTEN = "attention", "formgrader-test", "written-roles"
CLASS = ("no-scale", "hostile-spy", "no-metadata")


@dataclass
class Office:
    """The instructor's: a course with hand-ins, a server in its folder, a browser."""

    course: Course
    address: str
    browser: Any
    page: Any = None

    def open(self, path: str) -> Any:
        self.page.goto(f"{self.address}/formgrader/{path}", wait_until="load")
        return self.page

    def autograde(self, student: str) -> str:
        """Press the button of one student's submission; return what formgrader logs of it."""
        self.open(f"manage_submissions/{UNIT}")
        self.row(student).locator(".autograde a").click()
        modal = self.page.locator(".modal.in")
        modal.wait_for(timeout=100_000)
        title, said = modal.locator(".modal-title").inner_text(), modal.inner_text()
        assert title == "Success", said
        modal.locator(".modal-footer button").click()
        self.page.locator(".modal.in").wait_for(state="hidden")
        return said

    def row(self, student: str) -> Any:
        """One student's row of the table of submissions."""
        name = self.page.locator(f"td.student-id:text-is('{student}')")
        return self.page.locator("#main-table tr", has=name)

    def submission(self, student: str) -> Any:
        """The page on which one student's notebook is graded by hand, once it takes what is typed: it loads
        the grades after the page, and puts them over what stands there by then."""
        with Gradebook(self.course.database_url) as gradebook:
            number = gradebook.find_submission_notebook(UNIT, UNIT, student).id
        page = self.open(f"submissions/{number}")
        page.wait_for_function("formgrader.grades.loaded && formgrader.comments.loaded")
        return page

    def notebook(self, student: str) -> Any:
        path = self.course.notebook_path(self.course.autograded, student, UNIT)
        return nbformat.read(path, as_version=4)

    def grades(self, student: str) -> tuple[dict[str, Any], str | None]:
        """Automatic and manual score of each cell, and the comment on the written answer."""
        with Gradebook(self.course.database_url) as gradebook:
            notebook = gradebook.find_submission_notebook(UNIT, UNIT, student)
            comments = [one.manual_comment for one in notebook.comments if one.manual_comment]
            scores = {one.name: (one.auto_score, one.manual_score) for one in notebook.grades}
        return scores, comments[0] if comments else None


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    playwright = pytest.importorskip("playwright.sync_api")
    pytest.importorskip("jupyter_server")
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    course = Course.create(tmp_path_factory.mktemp("formgrader") / "course")
    built = build(ROOT / "solutions" / UNIT)
    release(course, built)
    hand_ins = [one for one in demo.make_class(built) if one.student in CLASS]
    demo.hand_in(course.submitted, UNIT, hand_ins)
    with serving(course) as address, playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        found = Office(course, address, browser)
        context = browser.new_context(viewport={"width": 1200, "height": 900})
        context.route(
            "**/*", lambda route: route.continue_() if address in route.request.url else route.abort()
        )
        found.page = context.new_page()
        found.page.goto(f"{address}/formgrader/manage_assignments?token={TOKEN}")
        yield found
        browser.close()


class serving:
    """A Jupyter server in the course's folder, as an instructor starts it."""

    def __init__(self, course: Course) -> None:
        self.course = course

    def __enter__(self) -> str:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        private = self.course.root.parent / "jupyter"
        environment = {
            **os.environ,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "JUPYTER_CONFIG_DIR": str(private / "config"),
            "JUPYTER_DATA_DIR": str(private / "data"),
            "JUPYTER_RUNTIME_DIR": str(private / "runtime"),
        }
        command = [sys.executable, "-m", "jupyter", "server", "--no-browser", "--allow-root"]
        command += [f"--port={port}", "--ServerApp.port_retries=0", f"--IdentityProvider.token={TOKEN}"]
        self.log = (self.course.root.parent / "server.log").open("wb")
        self.process = subprocess.Popen(
            command, cwd=self.course.root, env=environment, stdout=self.log, stderr=self.log
        )
        address = f"http://127.0.0.1:{port}"
        end = time.monotonic() + 60
        while True:
            try:
                urllib.request.urlopen(f"{address}/api", timeout=5).close()
                return address
            except OSError:
                assert self.process.poll() is None, Path(self.log.name).read_text()
                assert time.monotonic() < end
                time.sleep(0.1)

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(20)
        self.log.close()


def totals(path: Path, assignment: str = UNIT) -> dict[str, tuple[str, ...]]:
    with path.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["assignment"] == assignment]
    return {row["student_id"]: (row["raw_score"], row["score"], row["max_score"]) for row in rows}


def test_formgrader_lists_the_unit_with_what_was_handed_in(office: Office):
    page = office.open("manage_assignments")
    row = page.locator("#main-table tr", has_text=UNIT)
    row.wait_for()
    assert row.locator(".num-submissions").inner_text() == str(len(CLASS))


def test_its_autograde_button_repairs_and_uses_the_sandbox(office: Office):
    """nbgrader's own Execute reads hidden tests for `hostile-spy`, and without metadata finds no points."""
    for student in CLASS:
        office.autograde(student)
    automatic = {
        student: sum(auto or 0 for auto, _ in office.grades(student)[0].values()) for student in CLASS
    }
    assert automatic["no-metadata"] == 17  # right, and everything that a computer can mark
    assert 0 < automatic["no-scale"] < 17
    assert automatic["hostile-spy"] < automatic["no-scale"]
    shown = str([cell.get("outputs") for cell in office.notebook("hostile-spy").cells])
    assert set(re.findall(r"found \d+", shown)) == {"found 0"}, "it has looked, and says what it found"
    assert "HIDDEN TESTS" not in shown
    for cell in office.notebook("no-metadata").cells:
        if cell.cell_type == "code" and cell.metadata.get("nbgrader", {}).get("grade"):
            assert [one.metadata.get("autograder") for one in cell.outputs] == [True, True], cell.id


def test_what_is_given_by_hand_stays_through_both_ways_to_grade_again(office: Office):
    """And `nbgrader export` and `autograder export nbgrader` then say the same of everyone."""
    office.autograde("no-scale")
    page = office.submission("no-scale")
    with page.expect_response(lambda answer: "/api/grade/" in answer.url and answer.request.method == "PUT"):
        page.locator(f"input#{WRITTEN}").fill("3")
        page.locator(f"input#{WRITTEN}").blur()
    with page.expect_response(
        lambda answer: "/api/comment/" in answer.url and answer.request.method == "PUT"
    ):
        page.locator(f"textarea#{WRITTEN}-comment").fill("Keys and values are mixed up.")
        page.locator(f"textarea#{WRITTEN}-comment").blur()
    given, comment = office.grades("no-scale")
    assert given[WRITTEN][1] == 3
    assert comment == "Keys and values are mixed up."

    office.autograde("no-scale")
    assert office.grades("no-scale") == (given, comment)
    done = autograder("grade", UNIT, "--course", office.course.root, "--again")
    assert done.returncode in (0, 1), done.stderr
    assert office.grades("no-scale") == (given, comment)

    ours, theirs = office.course.root / "ours.csv", office.course.root / "theirs.csv"
    assert autograder("export", "nbgrader", "--to", ours, "--course", office.course.root).returncode == 0
    nbgrader = [sys.executable, "-m", "nbgrader", "export", f"--to={theirs}"]
    subprocess.run(nbgrader, cwd=office.course.root, check=True, capture_output=True)
    assert totals(ours) == totals(theirs)
    assert set(totals(ours)) == set(CLASS)


def test_its_feedback_button_writes_pages_without_a_hidden_test(office: Office):
    office.autograde("no-scale")
    page = office.open(f"manage_submissions/{UNIT}")
    office.row("no-scale").locator(".generate-feedback a").click()
    modal = page.locator(".modal.in")
    modal.wait_for(timeout=100_000)
    assert modal.locator(".modal-title").inner_text() == "Success"
    path = office.course.notebook_path(office.course.feedback, "no-scale", UNIT, ".html")
    shown = html.unescape(path.read_text())
    assert "autograder-tests" in shown
    assert "HIDDEN TESTS" not in shown
    for cell in office.course.spec(UNIT).cells:
        if cell.kind == "test":
            secret = set(cell.source.splitlines()) - set(cell.released.splitlines())
            assert [line for line in secret if line.startswith("assert ") and line in shown] == []


def test_the_runner_that_formgrader_starts_ends_with_the_server(course: Course, right: Any):
    """Whoever stops the server in the evening leaves no process with hidden tests behind."""
    hand_in(course, "ada", answer(right))
    server = serving(course)
    with server as address:
        press = urllib.request.Request(
            f"{address}/formgrader/api/submission/tiny/ada/autograde",
            method="POST",
            headers={"Authorization": f"token {TOKEN}"},
        )
        with urllib.request.urlopen(press, timeout=100) as answered:
            assert json.loads(answered.read())["success"]
        held = [pid for pid, line in descendants(server.process.pid).items() if "-m autograder." in line]
        assert len(held) >= 2, "a runner and its zygote"
    end = time.monotonic() + 15
    while any(map(is_alive, held)):
        assert time.monotonic() < end
        time.sleep(0.1)
