"""A unit's text becomes the notebook that nbgrader itself would release, and gives nothing away."""

from __future__ import annotations

import dataclasses
import os
import stat
from pathlib import Path

import nbformat
import pytest
from nbgrader.api import Gradebook
from nbgrader.nbgraderformat import MetadataValidator

from autograder.course import Course
from autograder.errors import ReleaseError, UsageError
from autograder.release import Built, build, leaks, notebook_bytes, release, write_exercise
from autograder.spec import Spec

UNITS = Path(__file__).parent / "units"
TEXT = "# %% [markdown]\n# Some text.\n\n"
SOLUTION = '# %% nbgrader={"grade_id": "f", "solution": true}\ndef f():\n    return "the very answer"\n\n'
TEST = (
    '# %% nbgrader={"grade_id": "test-f", "grade": true, "points": 1}\n'
    '### BEGIN HIDDEN TESTS\nassert f() == "a hidden value"\n### END HIDDEN TESTS\n\n'
)


def unit(folder: Path, text: str, **others: str) -> Path:
    """A unit's folder made of this text."""
    place = folder / "unit"
    place.mkdir(exist_ok=True)
    (place / "unit.py").write_text(text, encoding="utf-8")
    for name, content in others.items():
        (place / f"{name}.py").write_text(content, encoding="utf-8")
    return place


def test_kinds_points_and_ids_come_from_the_text(tiny: Built):
    assert [(cell.grade_id, cell.kind, cell.points) for cell in tiny.spec.cells] == [
        ("text-01", "text", 0),
        ("imports", "provided", 0),
        ("text-02", "text", 0),
        ("halve", "solution", 0),
        ("test-halve", "test", 3),
        ("text-03", "text", 0),
        ("spread", "solution", 0),
        ("test-spread", "test", 2.5),
        ("why", "written", 4),
        ("text-04", "text", 0),
    ]
    assert tiny.spec.max_points == 9.5
    assert [item.name for item in tiny.spec.misconceptions] == ["whole-division", "doubles"]
    assert Spec.from_json(tiny.spec.to_json()) == tiny.spec


def test_the_release_is_what_nbgraders_generate_assignment_makes(tiny: Built, course: Course):
    """The fixture `course` was released by nbgrader's own converter from our source notebook."""
    theirs = nbformat.read(course.exercises / "tiny" / "tiny.ipynb", as_version=4)
    assert len(theirs.cells) == len(tiny.released_notebook.cells)
    for their, our in zip(theirs.cells, tiny.released_notebook.cells, strict=True):
        assert their.source == our.source
        assert their.metadata == our.metadata
        assert len(our.metadata.nbgrader.checksum) == 32
    assert (course.exercises / "tiny" / "tiny.ipynb").read_bytes() == notebook_bytes(tiny.released_notebook)


def test_the_release_is_a_valid_notebook_with_valid_nbgrader_metadata(tiny: Built):
    for notebook in (tiny.source_notebook, tiny.released_notebook):
        nbformat.validate(notebook)
        MetadataValidator().validate_nb(notebook)
        assert notebook.metadata.kernelspec.name == "python3"
        assert "jupytext" not in notebook.metadata
        for cell in notebook.cells:
            assert cell.id == cell.metadata.nbgrader.grade_id
            assert "lines_to_next_cell" not in cell.metadata


def test_the_spec_holds_what_was_released(tiny: Built):
    for cell, released in zip(tiny.spec.cells, tiny.released_notebook.cells, strict=True):
        assert (cell.grade_id, cell.released, cell.cell_type) == (
            released.id,
            released.source,
            released.cell_type,
        )
    assert "half_of_it" in tiny.spec.cell("halve").source
    assert "NotImplementedError" in tiny.spec.cell("halve").released


def test_the_bytes_are_the_same_every_time_and_everywhere(tiny: Built, tmp_path: Path):
    first = write_exercise(tiny, tmp_path / "one").read_bytes()
    second = write_exercise(build(UNITS / "tiny"), tmp_path / "two").read_bytes()
    assert first == second
    assert first.endswith(b"}\n")
    assert stat.S_IMODE(os.stat(tmp_path / "one" / "tiny" / "tiny.ipynb").st_mode) == 0o644
    assert (tmp_path / "one" / "tiny" / "tiny.ipynb").exists()


def test_no_solution_hidden_test_or_misconception_is_in_the_release(tiny: Built, course: Course):
    given = notebook_bytes(tiny.released_notebook).decode()
    for secret in (
        "canary_4711",
        "half_of_it",
        "Because the middle",
        "Hint: Does your",
        "BEGIN",
        "whole-division",
    ):
        assert secret not in given
    assert leaks(tiny) == []
    files = {path.name for path in course.exercises.rglob("*") if path.is_file()}
    assert files == {"tiny.ipynb"}
    assert {path.name for path in course.source.rglob("*") if path.is_file()} == {"tiny.ipynb"}


@pytest.mark.parametrize(
    "line", ["half_of_it = number / 2", "expected_canary_4711 = 3.5", "return max(numbers) - middle(numbers)"]
)
def test_a_line_given_away_is_found_wherever_it_stands(tiny: Built, line: str):
    """The check does not trust nbgrader: it is shown a release into which the line was put."""
    released = nbformat.from_dict(tiny.released_notebook)
    released.cells[5].source += f"\nTry `{line}` here."
    (found,) = leaks(dataclasses.replace(tiny, released_notebook=released))
    assert line in found
    assert "text-03" in found


def test_build_refuses_to_give_a_solution_away(tmp_path: Path):
    text = f'# %% [markdown]\n# Hint: return "the very answer"\n\n{SOLUTION}'
    with pytest.raises(ReleaseError, match=r"'f'.*'text-01'.*the very answer"):
        build(unit(tmp_path, text))


def test_a_hidden_line_that_is_also_open_is_not_given_away(tmp_path: Path):
    text = (
        TEXT
        + SOLUTION
        + TEST.replace("### BEGIN", 'expected = f() + "abc"\n### BEGIN').replace(
            "assert", 'expected = f() + "abc"\nassert'
        )
    )
    assert leaks(build(unit(tmp_path, text))) == []


BAD_UNITS = {
    "code without metadata": (TEXT + "# %%\nx = 1\n", r"unit.py:5: .*'x = 1' has no nbgrader metadata"),
    "metadata no JSON": ('# %% nbgrader={"grade_id": "f"\nx = 1\n', r"unit.py:2: the metadata is no JSON"),
    "metadata no object": ("# %% nbgrader=5\nx = 1\n", r"unit.py:2: expected nbgrader=\{"),
    "no grade_id": ('# %% nbgrader={"locked": true}\nx = 1\n', r"unit.py:2: a grade_id is .* got None"),
    "bad grade_id": ('# %% nbgrader={"grade_id": "a b", "locked": true}\nx = 1\n', "got 'a b'"),
    "long grade_id": (f'# %% nbgrader={{"grade_id": "{"a" * 65}", "locked": true}}\nx = 1\n', "1 to 64"),
    "same grade_id": (SOLUTION * 2, r"unit.py:6: the grade_id 'f' was used in line 2"),
    "taken text id": (TEXT + SOLUTION.replace('"f"', '"text-01"'), "'text-01' was used in line 2"),
    "unknown field": (SOLUTION.replace("solution", "solutoin"), "unknown nbgrader fields: solutoin"),
    "flag no boolean": (SOLUTION.replace("true", '"yes"'), "must be true or false, got 'yes'"),
    "no flags": (SOLUTION.replace('"solution": true', '"solution": false'), "says nothing"),
    "graded code by hand": (
        SOLUTION.replace("true", 'true, "grade": true, "points": 1'),
        "says grade, solution",
    ),
    "task": (TEXT.replace("]", '] nbgrader={"grade_id": "t", "task": true, "points": 1}'), "says task"),
    "no points": (TEST.replace(', "points": 1', ""), "needs its points"),
    "points text": (TEST.replace('"points": 1', '"points": "1"'), "needs its points"),
    "points negative": (TEST.replace('"points": 1', '"points": -1'), "needs its points"),
    "points NaN": (TEST.replace('"points": 1', '"points": NaN'), "needs its points|no JSON"),
    "points on a solution": (SOLUTION.replace("true", 'true, "points": 1'), "would count for nothing"),
    "raw cell": ("# %% [raw]\n# x\n", "a raw cell cannot be released"),
    "autotest": (TEST.replace("assert", "### AUTOTEST f()\nassert"), "'AUTOTEST', which is not supported"),
    "solution unclosed": (
        SOLUTION.replace("    return", "    ### BEGIN SOLUTION\n    return"),
        "ClearSolutions",
    ),
    "solution in a test": (
        TEST.replace("assert", "### BEGIN SOLUTION\n### END SOLUTION\nassert"),
        "ClearSol",
    ),
    "hidden unclosed": (SOLUTION + TEST.replace("### END HIDDEN TESTS", ""), "ClearHiddenTests"),
    "hidden in a solution": (
        '# %% nbgrader={"grade_id": "f", "solution": true}\n### BEGIN SOLUTION\nx = 1\n### END SOLUTION\n'
        "### BEGIN HIDDEN TESTS\n### END HIDDEN TESTS\n",
        "ClearHiddenTests",
    ),
    "hidden not begun": (
        SOLUTION + TEST.replace("### BEGIN HIDDEN TESTS", ""),
        r"unit.py:8: in the test cell 'test-f': '### END HIDDEN TESTS' without",
    ),
    "points do not sum": (
        SOLUTION + TEST.replace("assert", "### Test: a (2 points)\nassert"),
        r"unit.py:7: in the test cell 'test-f': its tests give 2 points together",
    ),
    "titles twice in a unit": (
        SOLUTION
        + TEST.replace("assert", "### Test: a (1 point)\nassert")
        + TEST.replace("assert", "### Test: a (1 point)\nassert").replace("test-f", "test-g"),
        r"unit.py:14: .*'test-g', the test 'a' has the title of a test in 'test-f'",
    ),
    "test that cannot fail": (SOLUTION + TEST.replace("assert f()", "f()"), "cannot fail"),
    "belief without bank": (
        SOLUTION + TEST.replace("assert", "### Test: a (1 point)\n### Belief: none\nassert"),
        "names the belief 'none', which is not in",
    ),
    "empty": ("", "holds no cells"),
}


@pytest.mark.parametrize("name", BAD_UNITS)
def test_a_bad_unit_is_refused_with_its_file_and_cell(tmp_path: Path, name: str):
    text, said = BAD_UNITS[name]
    with pytest.raises(ReleaseError, match=said) as caught:
        build(unit(tmp_path, text))
    assert "unit.py" in str(caught.value) or "misconceptions.py" in str(caught.value)


@pytest.mark.parametrize(
    ("bank", "said"),
    [
        ("# replaces: g\n# caught by: test-f", "'replaces: g', but the unit has: f"),
        ("# replaces: f\n# caught by: nothing", "'caught by: nothing', but the unit has: test-f"),
    ],
)
def test_a_misconception_that_points_nowhere_is_refused(tmp_path: Path, bank: str, said: str):
    text = f"# %% wrong\n# belief: b\n# advice: a\n{bank}\nx = 1\n"
    with pytest.raises(ReleaseError, match=said):
        build(unit(tmp_path, SOLUTION + TEST, misconceptions=text))


def test_a_folder_without_its_file_or_with_a_file_that_is_no_text_is_refused(tmp_path: Path):
    with pytest.raises(ReleaseError, match="does not exist"):
        build(tmp_path / "nowhere")
    (unit(tmp_path, "") / "unit.py").write_bytes(b"\xff\xfe\x00\x00")
    with pytest.raises(ReleaseError, match="cannot be read"):
        build(tmp_path / "unit")


def test_the_gradebook_holds_the_assignment_and_its_hidden_tests(tiny: Built, course: Course):
    with Gradebook(course.database_url, "course") as gradebook:
        notebook = gradebook.find_notebook("tiny", "tiny")
        assert {cell.name: cell.max_score for cell in notebook.grade_cells} == {
            "test-halve": 3,
            "test-spread": 2.5,
            "why": 4,
        }
        assert {cell.name for cell in notebook.solution_cells} == {"halve", "spread", "why"}
        sources = {cell.name: cell.source for cell in notebook.source_cells}
    for cell in tiny.spec.cells:
        assert sources[cell.grade_id] == (cell.source if cell.kind == "test" else cell.released)


def test_the_spec_is_kept_for_the_instructor_alone(tiny: Built, course: Course):
    assert course.spec("tiny") == tiny.spec
    for path in (
        course.private / "tiny.spec.json",
        course.private / "key",
        course.source / "tiny" / "tiny.ipynb",
    ):
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(course.private).st_mode) == 0o700


def test_releasing_again_updates_what_was_released(tiny: Built, course: Course, tmp_path: Path):
    changed = (UNITS / "tiny" / "tiny.py").read_text().replace("That is all.", "That was all.")
    place = tmp_path / "tiny"
    place.mkdir()
    (place / "tiny.py").write_text(changed.replace("### Belief: whole-division\n", ""))
    release(course, build(place))
    assert b"That was all." in (course.exercises / "tiny" / "tiny.ipynb").read_bytes()
    assert course.spec("tiny") != tiny.spec


def test_cells_cannot_be_added_once_there_are_submissions(tiny: Built, course: Course, tmp_path: Path):
    """nbgrader refuses too, but deletes the release first; here everything stays as it was."""
    with Gradebook(course.database_url, "course") as gradebook:
        gradebook.add_student("ada")
        gradebook.add_submission("tiny", "ada")
    place = tmp_path / "tiny"
    place.mkdir()
    text = (UNITS / "tiny" / "tiny.py").read_text().replace("### Belief: whole-division\n", "")
    (place / "tiny.py").write_text(f'{text}\n# %% nbgrader={{"grade_id": "new", "locked": true}}\nx = 1\n')
    before = {path: path.read_bytes() for path in course.root.rglob("*.ipynb")}
    with pytest.raises(ReleaseError, match="added or removed: new"):
        release(course, build(place))
    assert {path: path.read_bytes() for path in course.root.rglob("*.ipynb")} == before
    assert course.spec("tiny") == tiny.spec
    release(course, tiny)  # the same cells again are welcome


def test_a_course_whose_settings_change_the_release_is_refused(tiny: Built, course: Course):
    """Or students would be graded against cells that they never got."""
    before = (course.exercises / "tiny" / "tiny.ipynb").read_bytes()
    with (course.root / "nbgrader_config.py").open("a") as file:
        file.write('c.ClearSolutions.code_stub = {"python": "pass"}\n')
    with pytest.raises(ReleaseError, match=r"nbgrader_config.py changes the release"):
        release(Course.open(course.root), tiny)
    assert (course.exercises / "tiny" / "tiny.ipynb").read_bytes() == before


def test_a_misconception_bank_in_nbgraders_source_folder_stops_the_release(tiny: Built, course: Course):
    (course.source / "tiny" / "misconceptions.py").write_text("x = 1")
    with pytest.raises(ReleaseError, match="gives students every file"):
        release(course, tiny)


def test_a_course_is_opened_only_where_there_is_one(tmp_path: Path):
    with pytest.raises(UsageError, match="does not exist"):
        Course.open(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="is a file"):
        Course.open(tmp_path / "file")
    with pytest.raises(UsageError, match="is not a course"):
        Course.open(tmp_path)
    with pytest.raises(UsageError, match="cannot be made"):
        Course.create(tmp_path / "file" / "below")
    with pytest.raises(UsageError, match="id is made of"):
        Course.create(tmp_path / "c", course_id="a/b")


def test_making_a_course_twice_keeps_its_key_and_configuration(tmp_path: Path):
    key = Course.create(tmp_path / "c", "driving").key
    (tmp_path / "c" / "nbgrader_config.py").open("a").write("# mine\n")
    again = Course.create(tmp_path / "c", "other")
    assert again.key == key
    assert len(key) == 32
    assert again.directory.course_id == "driving"
    assert "# mine" in (tmp_path / "c" / "nbgrader_config.py").read_text()
    assert Course.create(tmp_path / "d").key != key


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("c = get_config(\n", "cannot be read as nbgrader's configuration: SyntaxError"),
        ("c = get_config()\nc.CourseDirectory.directory_structure = 'x'\n", "directory_structure"),
    ],
)
def test_a_broken_configuration_is_a_clear_error(course: Course, text: str, said: str):
    (course.root / "nbgrader_config.py").write_text(text)
    with pytest.raises(UsageError, match=said):
        Course.open(course.root)


def test_a_damaged_key_or_spec_is_a_clear_error(course: Course):
    with pytest.raises(UsageError, match=r"'other' was not released .* Released are: tiny"):
        course.spec("other")
    (course.private / "tiny.spec.json").write_text("{")
    with pytest.raises(UsageError, match="cannot be read"):
        course.spec("tiny")
    (course.private / "key").write_bytes(b"short")
    with pytest.raises(UsageError, match="should hold 32 bytes, but holds 5"):
        _ = course.key


def test_students_are_those_who_handed_something_in(course: Course):
    assert course.students("tiny") == []
    for name in ("zoe", "ada", ".hidden", "bob"):
        (course.submitted / name / "tiny").mkdir(parents=True)
    (course.submitted / "other-unit" / "huge").mkdir(parents=True)
    (course.submitted / "stray.txt").write_text("")
    (course.submitted / "bob" / "tiny").rmdir()
    (course.submitted / "bob" / "tiny").symlink_to("/etc")
    assert course.students("tiny") == ["ada", "bob", "zoe"]


def test_names_cannot_lead_out_of_the_course(course: Course):
    for name in ("..", "", "a/b", ".git", "a\0b"):
        with pytest.raises(UsageError, match="cannot be the name"):
            course.notebook_path(course.autograded, name, "tiny")
        with pytest.raises(UsageError, match="cannot be the name"):
            course.write_log("tiny", name, "{}")


@pytest.mark.parametrize("text", ["", "yesterday", "9" * 5000, "\udcff"])
def test_a_timestamp_that_says_nothing_is_none(course: Course, text: str):
    place = course.submitted / "ada" / "tiny"
    place.mkdir(parents=True)
    assert course.timestamp("tiny", "ada") is None
    (place / "timestamp.txt").write_text(text, errors="surrogateescape")
    assert course.timestamp("tiny", "ada") is None


def test_a_timestamp_is_read_as_nbgrader_writes_it_but_not_through_a_link(course: Course):
    place = course.submitted / "ada" / "tiny"
    place.mkdir(parents=True)
    (place / "timestamp.txt").write_text("2031-02-03 04:05:06.5 UTC\n")
    stamp = course.timestamp("tiny", "ada")
    assert stamp is not None
    assert stamp.isoformat() == "2031-02-03T04:05:06.500000"
    (place / "timestamp.txt").rename(place / "elsewhere")
    (place / "timestamp.txt").symlink_to(place / "elsewhere")
    assert course.timestamp("tiny", "ada") is None
