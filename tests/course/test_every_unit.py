"""What holds of every unit of the course, seen in one plain namespace.

That every misconception is caught and named and every other style accepted, in the real sandbox, is proved
in tests/autograder/test_units.py.
"""

import functools

import pytest

from minitx import kernels
from minitx.course import check

plainly = pytest.importorskip("plainly")
cells = pytest.importorskip("autograder.cells")

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
    assert unit.spec.max_points == 20
    assert tested == 16
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
        assert failed.get(known.caught_by, "").startswith("AssertionError: "), known.name


def test_no_cell_that_only_shows_something_runs_in_the_grader(unit):
    """A training run or a drawing in the sandbox would take longer than all tests together."""
    kept = cells.without_shows(cells.cells_from_spec(unit.spec, reference=True), unit.spec)
    provided = {cell.grade_id for cell in unit.spec.cells if cell.kind == "provided"}
    expected = {"imports", *helpers(unit), *PRINTED.get(unit.spec.unit, [])}
    assert {cell.id for cell in kept if cell.id in provided} == expected
