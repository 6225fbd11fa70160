"""Every unit of the course proves itself in the real sandbox: right answers pass, wrong ideas are named."""

from pathlib import Path

import pytest

from autograder.bank import read_misconceptions, read_styles
from autograder.questions import wrong_choices
from autograder.sandbox.backends import ZygoteBackend
from autograder.verify import IDLE, Unit

ROOT = Path(__file__).resolve().parents[2]
SOLUTIONS = ROOT / "solutions"
UNITS = sorted(path.name for path in SOLUTIONS.iterdir() if (path / f"{path.name}.py").is_file())
WRONG = [
    (unit, item.name)
    for unit in UNITS
    for item in (
        *read_misconceptions(SOLUTIONS / unit / "misconceptions.py"),
        *wrong_choices(SOLUTIONS / "questions.yaml", unit),
    )
]
RIGHT = [(unit, name) for unit in UNITS for name in read_styles(SOLUTIONS / unit / "other_styles.py")]


@pytest.fixture(scope="module")
def units():
    backend = ZygoteBackend()
    yield {unit: Unit(SOLUTIONS / unit, backend) for unit in UNITS}
    backend.close()


@pytest.mark.parametrize("unit", UNITS)
def test_the_reference_gets_every_point_and_the_untouched_release_none(units, unit):
    assert units[unit].reference() == ""
    assert units[unit].untouched() == ""


@pytest.mark.parametrize("unit", UNITS)
def test_the_committed_notebook_is_what_the_source_builds_and_gives_nothing_away(units, unit):
    assert units[unit].is_committed(ROOT / "exercises") == ""
    assert units[unit].gives_nothing_away() == ""


@pytest.mark.parametrize("unit", UNITS)
def test_a_unit_has_at_least_12_misconceptions_and_5_other_styles(units, unit):
    assert len(units[unit].built.spec.misconceptions) >= 12
    assert len(units[unit].styles) >= 5


@pytest.mark.parametrize(("unit", "name"), WRONG)
def test_a_misconception_fails_the_test_that_it_names_and_is_recognised(units, unit, name):
    (known,) = [item for item in units[unit].built.spec.misconceptions if item.name == name]
    assert units[unit].misconception(known) == ""


@pytest.mark.parametrize(("unit", "name"), RIGHT)
def test_a_right_answer_in_another_style_gets_every_point(units, unit, name):
    assert units[unit].style(units[unit].styles[name]) == ""


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("body", IDLE.values(), ids=IDLE)
def test_code_that_computes_nothing_gets_nothing(units, unit, body):
    assert units[unit].idle(body) == ""
