"""The selftest says what holds, and says no when anything gets through."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from autograder import hostile, selftest
from autograder.hostile import Kind
from autograder.sandbox.probes import PROBES

UNITS = Path(__file__).parent / "units"


def autograder(*arguments):
    command = [sys.executable, "-m", "autograder.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)


def test_nothing_gets_through_on_this_machine():
    done = autograder("selftest", "--sandbox", "zygote", "--json")
    (report,) = json.loads(done.stdout)
    assert report["got_through"] == []
    assert report["holds"]
    assert done.returncode == 0
    assert {layer["name"] for layer in report["layers"]} == {
        *("namespaces", "privileges", "limits", "seccomp", "Landlock", "cgroup")
    }
    assert len(report["probes"]) == len(PROBES)
    assert len(report["kinds"]) == len(hostile.KINDS) + 1
    assert all(finding["held"] for finding in (*report["probes"], *report["kinds"]))


def test_a_kind_that_gets_points_has_got_through(monkeypatch):
    monkeypatch.setattr(
        selftest, "KINDS", (Kind("a right answer after all", "def total(x): return x.sum()"),)
    )
    report = selftest.selftest("zygote")
    assert report.got_through == ["a right answer after all"]
    assert not report.holds


def test_a_kind_that_shows_a_hidden_test_has_got_through(monkeypatch):
    shown = Kind("a leak", f"print('{hostile.CANARY[1]}')\ndef total(x): return None")
    monkeypatch.setattr(selftest, "KINDS", (shown,))
    assert selftest.selftest("zygote").got_through == ["a leak"]


def test_a_kind_that_ends_otherwise_than_it_must_has_got_through(monkeypatch):
    monkeypatch.setattr(selftest, "KINDS", (Kind("no loop", "def total(x): return None", ("TO",)),))
    assert selftest.selftest("zygote").got_through == ["no loop"]


def test_where_a_probe_works_no_hostile_code_is_run(monkeypatch):
    monkeypatch.setattr(selftest, "leaks", lambda sandbox: ["mount"])
    report = selftest.selftest("zygote")
    assert report.got_through == ["mount"]
    assert report.kinds == ()


def test_a_right_answer_that_gets_nothing_is_a_finding_too(monkeypatch):
    """A sandbox that refuses everything holds, and is of no use."""
    monkeypatch.setattr(selftest, "KINDS", ())
    monkeypatch.setattr(selftest, "_cells", lambda source: [])
    with pytest.raises(KeyError):
        selftest.SPEC.cell("nothing")
    report = selftest.selftest("zygote")
    assert report.got_through == ["a right answer gets every point"]


def test_a_sandbox_that_is_not_there_is_told_and_ends_in_no(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    done = autograder("selftest", "--sandbox", "bwrap")
    assert done.returncode == 1
    assert "not installed" in done.stdout
    assert "Do not grade on this machine" in done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("kind", ["none", "docker"])
def test_a_kind_that_cannot_be_tested_is_wrong_use(kind):
    done = autograder("selftest", "--sandbox", kind)
    assert done.returncode == 2
    assert kind in done.stderr
    assert "Traceback" not in done.stderr


# ---- the options of `grade`


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    root = tmp_path_factory.mktemp("course") / "course"
    done = autograder("release", "tiny", "--course", root, "--solutions", UNITS)
    assert done.returncode == 0, done.stderr
    place = root / "submitted" / "ada" / "tiny"
    place.mkdir(parents=True)
    (place / "tiny.ipynb").write_bytes((root / "exercises/tiny/tiny.ipynb").read_bytes())
    return root


def test_grade_prints_the_sandbox_in_use_and_what_holds(course):
    done = autograder("grade", "tiny", "--course", course, "--again")
    assert done.returncode == 0, done.stderr
    assert "sandbox: zygote (namespaces, privileges, limits, seccomp" in done.stderr


def test_grade_without_a_sandbox_must_be_asked_for_twice(course):
    done = autograder("grade", "tiny", "--course", course, "--sandbox", "none")
    assert done.returncode == 2
    assert "--unsafe" in done.stderr


def test_grade_unsafe_says_that_nothing_holds(course):
    done = autograder("grade", "tiny", "--course", course, "--again", "--unsafe")
    assert done.returncode == 0, done.stderr
    assert "sandbox: none" in done.stderr


@pytest.mark.parametrize(
    "options",
    [("--sandbox", "docker"), ("--sandbox", "zygote", "--unsafe")],
    ids=["unknown", "contradiction"],
)
def test_grade_refuses_a_sandbox_that_makes_no_sense(course, options):
    done = autograder("grade", "tiny", "--course", course, *options)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_grade_refuses_where_the_sandbox_asked_for_is_not_there(course, monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    done = autograder("grade", "tiny", "--course", course, "--again", "--sandbox", "bwrap")
    assert done.returncode == 2
    assert "nothing was graded" in done.stderr
    assert "not installed" in done.stderr
    assert "Traceback" not in done.stderr
