"""The instructor's command. Exit code 0: done; 1: the work says no; 2: wrong use."""

from __future__ import annotations

import io
import json
import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import Progress, TaskID
from rich.table import Table

from autograder.errors import UsageError
from autograder.runners import default_jobs
from minitx import terminal

if TYPE_CHECKING:
    from autograder.course import Course
    from autograder.engine import Result

HERE = Path()
app = typer.Typer(
    help="Release assignments, grade what comes back in a sandbox, write gradebook and feedback.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    add_completion=False,
)
screen = terminal.screen(width=120)
notices = terminal.plain_console(stderr=True)

CourseOption = Annotated[Path, typer.Option("--course", help="The course folder.", metavar="DIR")]
SolutionsOption = Annotated[
    Path | None,
    typer.Option(
        "--solutions", help="The folder of unit sources; by default the checkout's own.", metavar="DIR"
    ),
]
JobsOption = Annotated[
    int | None,
    typer.Option("--jobs", min=1, help="Test runners at work side by side; by default one a processor."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the results as JSON, for a program to read.")]


def solutions_folder(given: Path | None) -> Path:
    """The folder that holds the units' sources: the one given, or the one beside this package."""
    folder = given or Path(__file__).resolve().parent.parent / "solutions"
    if not folder.is_dir():
        raise UsageError(
            f"There is no folder of unit sources at {folder}. Expected a folder that holds UNIT/UNIT.py "
            "for each unit. Give it with --solutions DIR, or run the command from an editable install of "
            "the checkout."
        )
    return folder


@app.command(epilog="Example: autograder demo --course my-course")
def demo(
    course: Annotated[
        Path | None,
        typer.Option("--course", help="Make the course in this new or empty folder.", metavar="DIR"),
    ] = None,
    solutions: SolutionsOption = None,
    jobs: JobsOption = None,
    as_json: JsonOption = False,
    svg: Annotated[
        Path | None, typer.Option("--svg", help="Draw the table as a picture, too.", metavar="FILE")
    ] = None,
) -> None:
    """Release a unit, hand in a small class of right, wrong, hostile and mangled notebooks, and grade it."""
    from autograder import demo as demo_class
    from autograder.course import Course
    from autograder.release import build, release

    unit = "attention"
    folder = course or Path(tempfile.mkdtemp(prefix="autograder-demo-"))
    with terminal.progress_bar(notices) as bar:
        task = bar.add_task("building and releasing the unit", total=None)
        built = build(solutions_folder(solutions) / unit)
        opened = Course.create(folder)
        release(opened, built)
        hand_ins = demo_class.make_class(built)
        demo_class.hand_in(opened.submitted, unit, hand_ins)
        results = graded(opened, unit, [one.student for one in hand_ins], jobs, bar, task)
        bar.update(task, description="writing the CSV")
        csv = export(opened)
    order = {one.student: place for place, one in enumerate(hand_ins)}
    results.sort(key=lambda result: order[result.student])
    show(results, as_json)
    if svg is not None:
        draw(results, svg)
    surprises = [
        text
        for one, result in zip(hand_ins, results, strict=True)
        if (text := demo_class.unexpected(one, result.points, result.max_points, name_of(result)))
    ]
    if not as_json:
        screen.print(
            f"\ngradebook  {opened.gradebook}\nfeedback   {opened.feedback}\nCSV        {csv}", soft_wrap=True
        )
    for text in surprises:
        notices.print(f"Not as expected: {text}.", soft_wrap=True)
    raise typer.Exit(1 if surprises else 0)


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
    solutions: SolutionsOption = None,
) -> None:
    """Make a unit an nbgrader assignment of a course, or build the student notebooks."""
    from autograder.course import Course
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
        return
    if unit is None or course is None:
        raise UsageError("A release needs a unit and a course: autograder release UNIT --course DIR.")
    opened = Course.create(course)
    release(opened, build(folder / unit))
    screen.print(f"released {unit}: {opened.exercises / unit}", soft_wrap=True)


@app.command("grade", epilog="Example: autograder grade attention --course my-course")
def grade_command(
    unit: Annotated[str, typer.Argument(help="The unit's name.")],
    course: CourseOption = HERE,
    student: Annotated[
        list[str] | None, typer.Option("--student", help="Only this student; may be repeated.")
    ] = None,
    jobs: JobsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Grade what was handed in, and write gradebook.db, autograded notebooks, feedback and a CSV."""
    from autograder.course import Course

    opened = Course.open(course)
    opened.spec(unit)  # a unit that was never released is refused before anything else
    students = chosen(opened.students(unit), student, unit, opened.submitted)
    with terminal.progress_bar(notices) as bar:
        results = graded(opened, unit, students, jobs, bar, bar.add_task("starting", total=None))
        csv = export(opened)
    results.sort(key=lambda result: result.student)
    show(results, as_json)
    if not as_json:
        screen.print(
            f"\ngradebook  {opened.gradebook}\nfeedback   {opened.feedback}\nCSV        {csv}", soft_wrap=True
        )
    unread = [result for result in results if result.status in ("unreadable", "needs review")]
    for result in unread:
        notices.print(f"{result.student}: {result.message}", soft_wrap=True)
    raise typer.Exit(1 if unread else 0)


def chosen(known: list[str], wanted: list[str] | None, unit: str, submitted: Path) -> list[str]:
    """The students to grade. Raises `UsageError` when there is none, or one that did not hand in."""
    if not known:
        raise UsageError(
            f"Nobody has handed in {unit}: {submitted} holds no STUDENT/{unit} folder. Put the submissions "
            f"there first, one folder for each student, the notebook inside as {unit}/{unit}.ipynb."
        )
    missing = sorted(set(wanted or ()) - set(known))
    if missing:
        raise UsageError(
            f"No submission of {unit} by {', '.join(missing)}. Those who handed in: {', '.join(known)}."
        )
    return sorted(wanted) if wanted else known


def graded(
    opened: Course, unit: str, students: list[str], jobs: int | None, bar: Progress, task: TaskID
) -> list[Result]:
    """Grade with a progress bar; return the results in the order in which they were done."""
    from autograder.engine import grade

    bar.update(task, description="starting the test runners", total=len(students), completed=0)
    results = []

    def say(text: str) -> None:
        bar.update(task, description=text)

    for result in grade(opened, opened.spec(unit), students, jobs or default_jobs(), say):
        results.append(result)
        bar.update(task, description=f"graded {result.student}", advance=1)
    return results


def export(opened: Course) -> Path:
    from autograder.gradebook import export_csv

    csv = opened.root / "grades.csv"
    export_csv(opened, csv)
    return csv


def show(results: list[Result], as_json: bool) -> None:
    """Print the results as a table, or as JSON."""
    if as_json:
        print(json.dumps([asdict(result) for result in results], indent=1))
    else:
        screen.print(table_of(results))


def draw(results: list[Result], path: Path) -> None:
    """The table as an SVG picture that needs no font from elsewhere."""
    console = terminal.plain_console(record=True, width=112, file=io.StringIO())
    console.print(table_of(results))
    picture = console.export_svg(title="autograder demo")
    path.write_text(re.sub(r"@font-face\s*{[^}]*}\s*", "", picture))


def table_of(results: list[Result]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading in ("student", "status", "points", "looks like"):
        table.add_column(heading, justify="right" if heading == "points" else "left", no_wrap=True)
    table.add_column("repairs", overflow="fold")
    for result in results:
        points = f"{result.points:g} / {result.max_points:g}"
        table.add_row(
            result.student, result.status, points, name_of(result, say_perhaps=True), summary(result.notes)
        )
    return table


def name_of(result: Result, say_perhaps: bool = False) -> str:
    """The misconception's name; one that is only suggested by a failed test says so."""
    guess = result.looks_like
    if guess is None:
        return ""
    return guess.name if guess.certain or not say_perhaps else f"perhaps {guess.name}"


def summary(notes: Sequence[str]) -> str:
    """The repairs in short: the beginning of the first, and how many more there are."""
    if not notes:
        return ""
    more = f" (and {len(notes) - 1} more)" if len(notes) > 1 else ""
    return shorten(notes[0], 90, placeholder=" ...") + more


def main() -> None:
    """Run the command; a user's mistake ends in one paragraph and exit code 2, never in a traceback."""
    try:
        app()
    except UsageError as error:
        notices.print(
            str(error),
            style="red" if notices.is_terminal else None,
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
        sys.exit(2)


if __name__ == "__main__":
    main()
