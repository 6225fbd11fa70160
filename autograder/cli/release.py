"""`autograder release`: a unit becomes an assignment; and the student notebooks are built."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autograder.cli.app import SolutionsOption, app, screen, solutions_folder
from autograder.errors import UsageError


@app.command(
    "release", epilog="Examples: autograder release attention --course my-course; autograder release --build"
)
def release_command(
    unit: Annotated[
        str | None, typer.Argument(help="The unit's name; with --build, all units when left out.")
    ] = None,
    course: Annotated[
        Path | None, typer.Option("--course", help="The course folder; made when new.", metavar="DIR")
    ] = None,
    build_only: Annotated[
        bool, typer.Option("--build", help="Only build the student notebooks into exercises/.")
    ] = False,
    exercises: Annotated[
        Path | None, typer.Option("--exercises", help="Where --build writes.", metavar="DIR")
    ] = None,
    due: Annotated[
        str | None,
        typer.Option(
            "--due", help='The due date, as "2030-05-31 23:59 Europe/Berlin"; "none" takes it away.'
        ),
    ] = None,
    solutions: SolutionsOption = None,
) -> None:
    """Make a unit an nbgrader assignment of a course, or build the student notebooks."""
    from autograder.course import Course
    from autograder.deadlines import parse_due, set_due_date
    from autograder.locking import CourseLock
    from autograder.questions import write_released
    from autograder.release import build, release, write_exercise

    folder = solutions_folder(solutions)
    units = (
        [unit]
        if unit
        else sorted(path.parent.name for path in folder.glob("*/*.py") if path.stem == path.parent.name)
    )
    if build_only:
        for name in units:
            screen.print(
                str(write_exercise(build(folder / name), exercises or folder.parent / "exercises")),
                soft_wrap=True,
            )
        bank, released = folder / "questions.yaml", folder.parent / "minitx/course/questions.json"
        if exercises is None and bank.exists() and released.exists() and write_released(bank, released):
            screen.print(str(released), soft_wrap=True)
        return
    if unit is None or course is None:
        raise UsageError("A release needs a unit and a course: autograder release UNIT --course DIR.")
    when = parse_due(due) if due is not None else None
    opened = Course.create(course)
    with CourseLock(opened.private):  # not while someone grades by the tests of before
        release(opened, build(folder / unit))
        if due is not None:
            set_due_date(opened, unit, when)
    screen.print(f"released {unit}: {opened.exercises / unit}", soft_wrap=True)
