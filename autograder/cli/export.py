"""`autograder export`: grades for nbgrader, Canvas, Moodle and Gradescope."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autograder.cli.app import HERE, CourseOption, UnitArgument, app, counted, notices, screen
from autograder.errors import StoppedError, UsageError
from autograder.files import write_atomically

if TYPE_CHECKING:
    from autograder.export.grades import Filled

exports = typer.Typer(help="Send grades on their way.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(exports, name="export")

TableOption = Annotated[
    Path, typer.Option("--csv", help="The table as you downloaded it from there.", metavar="FILE")
]
ToOption = Annotated[Path | None, typer.Option("--to", help="The file to write.", metavar="FILE")]
ColumnOption = Annotated[
    str | None, typer.Option("--column", help="The column to fill, where its name cannot be guessed.")
]
UnfinishedOption = Annotated[
    bool, typer.Option("--unfinished", help="Also grades that wait for a person's part.")
]
ScaleOption = Annotated[bool, typer.Option("--scale", help="Multiply the scores to the points there.")]


@exports.command("nbgrader", epilog="Example: autograder export nbgrader --course my-course --to grades.csv")
def nbgrader_command(course: CourseOption = HERE, to: ToOption = None) -> None:
    """The whole gradebook as CSV, by nbgrader's own exporter."""
    from autograder.course import Course
    from autograder.export.nbgrader_csv import export_csv

    opened = Course.open(course)
    screen.print(str(export_csv(opened, to or opened.root / "grades.csv")), soft_wrap=True)


@exports.command(
    "canvas", epilog="Example: autograder export canvas attention --csv gradebook.csv --to import.csv"
)
def canvas_command(
    unit: UnitArgument,
    table: TableOption,
    course: CourseOption = HERE,
    to: ToOption = None,
    column: ColumnOption = None,
    unfinished: UnfinishedOption = False,
    scale: ScaleOption = False,
) -> None:
    """Fill one column of the gradebook that you exported from Canvas; import the result there."""
    from autograder.course import Course
    from autograder.export.canvas import fill
    from autograder.export.grades import grades_of

    opened = Course.open(course)
    opened.spec(unit)
    filled = fill(table, unit, grades_of(opened, unit), column=column, unfinished=unfinished, scale=scale)
    _write_table(filled, to or opened.root / f"{unit}-canvas.csv")


@exports.command(
    "moodle", epilog="Example: autograder export moodle attention --csv worksheet.csv --to upload.csv"
)
def moodle_command(
    unit: UnitArgument,
    table: TableOption,
    course: CourseOption = HERE,
    to: ToOption = None,
    column: ColumnOption = None,
    unfinished: UnfinishedOption = False,
    scale: ScaleOption = False,
    comments: Annotated[
        bool, typer.Option("--comments", help="Fill empty feedback comments with a line on the result.")
    ] = False,
) -> None:
    """Fill the grading worksheet that you downloaded from Moodle; upload the result there."""
    from autograder.course import Course
    from autograder.export.grades import grades_of
    from autograder.export.moodle import fill
    from autograder.report.standing import results_in

    opened = Course.open(course)
    spec = opened.spec(unit)
    said = {result.student: result.message for result in results_in(opened, spec)} if comments else None
    filled = fill(
        table, grades_of(opened, unit), column=column, unfinished=unfinished, scale=scale, comments=said
    )
    _write_table(filled, to or opened.root / f"{unit}-moodle.csv")


@exports.command(
    "gradescope",
    epilog="Examples: autograder export gradescope attention --zip --to autograder.zip; "
    "autograder export gradescope attention --to results",
)
def gradescope_command(
    unit: UnitArgument,
    course: CourseOption = HERE,
    to: ToOption = None,
    archive: Annotated[
        bool, typer.Option("--zip", help="Write the archive that grades this unit on Gradescope.")
    ] = False,
    unsafe: Annotated[
        bool,
        typer.Option("--unsafe", help="With --zip: grade there also where no sandbox can be made."),
    ] = False,
) -> None:
    """One results.json for each graded student; or, with --zip, the autograder to upload."""
    from autograder.course import Course
    from autograder.export.gradescope import results_of, write_zip
    from autograder.report.standing import judged_in

    if unsafe and not archive:
        raise UsageError("--unsafe belongs to --zip.")
    opened = Course.open(course)
    spec = opened.spec(unit)
    if archive:
        path = write_zip(spec, opened.key, to or opened.root / f"{unit}-gradescope.zip", unsafe=unsafe)
        screen.print(f"{path}: holds the hidden tests; give it to Gradescope only.", soft_wrap=True)
        return
    folder = to or opened.root / f"{unit}-gradescope"
    judged = [one for one in judged_in(opened, spec) if not one.unfinished]
    for one in judged:
        text = json.dumps(results_of(one, spec), indent=1)
        _write(folder / one.student / "results.json", text)
    screen.print(f"{counted(len(judged), 'file')} below {folder}", soft_wrap=True)


def _write_table(filled: Filled, path: Path) -> None:
    """Write the table, and say of whom there is no grade in it; exit code 1 where someone is missing."""
    _write(path, filled.text)
    screen.print(f"{path}: {counted(len(filled.written), 'grade')}", soft_wrap=True)
    for names, why in (
        (
            filled.waiting,
            "not in it, since a person has to grade first (--unfinished writes them now)",
        ),
        (filled.locked, "left as they are there: excused, or not to be changed"),
        (filled.unknown, "graded here, but not found in the table"),
    ):
        if names:
            notices.print(f"{', '.join(names)}: {why}.", soft_wrap=True)
    for note in filled.notes:
        notices.print(f"Note: {note}.", soft_wrap=True)
    raise typer.Exit(1 if filled.unknown or not filled.written else 0)


def _write(path: Path, text: str) -> None:
    try:
        write_atomically(path, text.encode("utf-8", "replace"), 0o600)
    except OSError as error:
        raise StoppedError(f"{path} cannot be written: {error.strerror}. Choose another place.") from None
