"""`autograder verify` finds what is wrong with a unit: a proof that cannot fail proves nothing."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

UNIT = Path(__file__).resolve().parent / "units" / "tiny"


def verify(folder, *more):
    command = [sys.executable, "-m", "autograder.cli", "verify", "tiny", "--solutions", str(folder), *more]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr, done.stderr
    return done


@pytest.fixture
def unit(tmp_path):
    shutil.copytree(UNIT, tmp_path / "solutions" / "tiny")
    return tmp_path / "solutions" / "tiny"


def build(unit):
    exercises = unit.parents[1] / "exercises"
    command = [sys.executable, "-m", "autograder.cli", "release", "--build", "--solutions", str(unit.parent)]
    subprocess.run([*command, "--exercises", str(exercises)], check=True, capture_output=True)


def test_a_sound_unit_passes_with_its_notebook_run(unit):
    build(unit)
    done = verify(unit.parent)
    assert done.returncode == 0, done.stdout
    assert "All " in done.stdout


def found(unit):
    done = verify(unit.parent, "--no-run", "--json")
    assert done.returncode == 1
    return {row["claim"]: row["found"] for row in json.loads(done.stdout) if row["found"]}


def test_a_wrong_answer_that_is_said_to_be_right_is_found(unit):
    (unit / "other_styles.py").write_text(
        "# %% floors\n# replaces: halve\ndef halve(number):\n    return number // 2\n"
    )
    build(unit)
    said = found(unit)
    assert list(said) == ["floors"]
    assert "half of an odd number (WA)" in said["floors"]


def test_a_right_answer_that_is_said_to_be_wrong_is_found(unit):
    build(unit)
    bank = unit / "misconceptions.py"
    bank.write_text(bank.read_text().replace("return number // 2", "return number / 2"))
    said = found(unit)
    assert "passes 'half of an odd number'" in said["whole-division"]


def test_a_notebook_that_is_not_what_the_source_builds_is_found(unit):
    build(unit)
    source = unit / "tiny.py"
    source.write_text(source.read_text().replace("# %% [markdown]\n#", "# %% [markdown]\n# New words.\n#", 1))
    assert "is not what the source builds" in found(unit)["is the committed notebook"]


def test_an_unknown_unit_is_explained(tmp_path):
    done = verify(UNIT.parent.parent / "units", "nothing")
    assert done.returncode in (1, 2)
    assert "There is no unit nothing. There are: tiny." in done.stderr
