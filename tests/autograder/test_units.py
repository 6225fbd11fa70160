"""Every unit of the course proves itself in the real sandbox: right answers pass, wrong ideas are named."""

from pathlib import Path

import pytest

from autograder.bank import read_misconceptions, read_styles
from autograder.cells import Cell, cells_from_spec
from autograder.judging import Judge
from autograder.release import build
from autograder.sandbox.client import ZygoteBackend

SOLUTIONS = Path(__file__).resolve().parents[2] / "solutions"
UNITS = sorted(path.name for path in SOLUTIONS.iterdir() if (path / f"{path.name}.py").is_file())
WRONG = [
    (unit, item.name)
    for unit in UNITS
    for item in read_misconceptions(SOLUTIONS / unit / "misconceptions.py")
]
RIGHT = [(unit, name) for unit in UNITS for name in read_styles(SOLUTIONS / unit / "other_styles.py")]


@pytest.fixture(scope="module")
def judges():
    backend = ZygoteBackend()
    yield {unit: Judge(build(SOLUTIONS / unit).spec, backend) for unit in UNITS}
    backend.close()


def judged(judge, codes, seed=b"one student"):
    cells = cells_from_spec(judge.spec, reference=True)
    return judge.judge([Cell(c.id, c.kind, codes.get(c.id, c.source)) for c in cells], seed)


def full(judge):
    return sum(cell.points for cell in judge.spec.cells if cell.kind == "test")


@pytest.mark.parametrize("unit", UNITS)
def test_the_reference_gets_every_point_and_the_untouched_release_none(judges, unit):
    judge = judges[unit]
    assert judged(judge, {}).total == full(judge)
    assert judge.judge(cells_from_spec(judge.spec, reference=False), b"one student").total == 0


@pytest.mark.parametrize(("unit", "name"), WRONG)
def test_a_misconception_fails_the_test_that_it_names_and_is_recognised(judges, unit, name):
    judge = judges[unit]
    (known,) = [item for item in judge.spec.misconceptions if item.name == name]
    verdict = judged(judge, {known.replaces: known.code})
    failed = {test.title for tests in verdict.tests.values() for test in tests if test.outcome != "OK"}
    assert known.caught_by in failed
    assert verdict.total < full(judge)
    assert (verdict.looks_like.name, verdict.looks_like.certain) == (name, True)


@pytest.mark.parametrize(("unit", "name"), RIGHT)
def test_a_right_answer_in_another_style_gets_every_point(judges, unit, name):
    judge = judges[unit]
    style = read_styles(SOLUTIONS / unit / "other_styles.py")[name]
    assert judged(judge, style.codes).total == full(judge)


IDLE = {
    "nothing": "return None",
    "its first argument": "return arguments[0]",
    "its arguments": "return arguments",
    "zeros": "return np.zeros_like(arguments[0])",
    "a pair of zeros": "return np.zeros_like(arguments[0]), np.zeros_like(arguments[0])",
}


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("body", IDLE.values(), ids=IDLE)
def test_code_that_computes_nothing_gets_nothing(judges, unit, body):
    """A test such as "the input stays as it was" must not be passed by doing nothing."""
    from minitx.course.definitions import defined_functions

    judge = judges[unit]
    codes = {
        cell.grade_id: "\n".join(
            f"def {name}(*arguments, **named):\n    {body}" for name in defined_functions(cell.source)
        )
        for cell in judge.spec.cells
        if cell.kind == "solution"
    }
    verdict = judged(judge, codes)
    assert [test.title for tests in verdict.tests.values() for test in tests if test.points] == []
