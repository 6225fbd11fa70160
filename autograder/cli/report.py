"""`autograder report`: one page on what the class made of a unit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from autograder.cli.app import HERE, CourseOption, JsonOption, UnitArgument, app, screen
from autograder.errors import StoppedError
from autograder.files import write_atomically


@app.command("report", epilog="Example: autograder report attention --course my-course --to report.html")
def report_command(
    unit: UnitArgument,
    course: CourseOption = HERE,
    to: Annotated[
        Path | None, typer.Option("--to", help="The page to write; by default in the course.", metavar="FILE")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write a page on the class: scores, tests, misconceptions, submissions to look at, similar pairs."""
    from autograder.course import Course
    from autograder.report.page import as_data, report_html

    opened = Course.open(course)
    opened.spec(unit)
    if as_json:
        print(json.dumps(as_data(opened, unit), indent=1))
        return
    path = to or opened.root / "reports" / f"{unit}.html"
    page = report_html(opened, unit)
    try:
        write_atomically(path, page.encode("utf-8", "replace"), 0o600)  # names, and hidden tests
    except OSError as error:
        raise StoppedError(f"{path} cannot be written: {error.strerror}. Choose another place.") from None
    screen.print(str(path), soft_wrap=True)
