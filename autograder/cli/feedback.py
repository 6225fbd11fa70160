"""`autograder feedback`: write the pages again, and hand them back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autograder.cli.app import (
    HERE,
    CourseOption,
    StudentOption,
    UnitArgument,
    app,
    counted,
    notices,
    refuse,
    screen,
)
from autograder.errors import UsageError
from minitx import terminal


@app.command(
    "feedback",
    epilog="Examples: autograder feedback attention --course my-course; "
    "autograder feedback attention --zip feedback.zip; autograder feedback attention --exchange",
)
def feedback_command(
    unit: UnitArgument,
    course: CourseOption = HERE,
    student: StudentOption = None,
    archive: Annotated[
        Path | None,
        typer.Option(
            "--zip", help="Pack the pages for upload, under the names Moodle or Canvas gave.", metavar="FILE"
        ),
    ] = None,
    exchange: Annotated[
        bool, typer.Option("--exchange", help="Hand the pages back through nbgrader's exchange.")
    ] = False,
) -> None:
    """Write everyone's feedback page anew, with the scores and comments that were entered by hand."""
    from autograder.course import Course
    from autograder.feedback import FeedbackWriter
    from autograder.returning import graded_students, pack, release_to_exchange

    opened = Course.open(course)
    opened.spec(unit)
    known = graded_students(opened, unit)
    if not known:
        raise UsageError(f"No submission of {unit} is graded yet. Grade first: autograder grade {unit}.")
    if missing := sorted(set(student or ()) - set(known)):
        raise UsageError(f"No graded submission of {unit} by {', '.join(missing)}.")
    chosen = sorted(set(student)) if student else known
    with terminal.progress_bar(notices) as bar, FeedbackWriter(opened) as writer:
        task = bar.add_task("writing pages", total=len(chosen))
        for name in chosen:
            bar.update(task, description=f"page of {name}", advance=1)
            writer.write(unit, name)
    screen.print(f"{counted(len(chosen), 'page')} below {opened.feedback}", soft_wrap=True)
    if archive is not None:
        pack(opened, unit, chosen, archive)
        screen.print(f"packed in {archive}", soft_wrap=True)
    if exchange:
        returned, without = release_to_exchange(opened, unit, chosen)
        screen.print(f"{counted(len(returned), 'page')} given back through the exchange")
        if without:
            refuse(
                f"{', '.join(without)}: not given back. The exchange finds a page by the secret that"
                " `nbgrader submit` puts beside the notebook, and there is none in what was collected."
            )
