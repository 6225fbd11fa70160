"""`autograder verify`: every unit proves itself, printed as a matrix."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated

import typer

from autograder.cli.app import (
    JsonOption,
    SolutionsOption,
    app,
    counted,
    notices,
    plain_table,
    screen,
    solutions_folder,
)
from minitx import terminal

KINDS = ("release", "answers", "misconceptions", "other styles", "notebook")


@app.command(epilog="Examples: autograder verify; autograder verify attention --no-run")
def verify(
    units: Annotated[
        list[str] | None, typer.Argument(metavar="[UNIT]...", help="Units; by default all.")
    ] = None,
    solutions: SolutionsOption = None,
    exercises: Annotated[
        Path | None,
        typer.Option(
            "--exercises", help="The released notebooks; by default those beside the sources.", metavar="DIR"
        ),
    ] = None,
    run: Annotated[bool, typer.Option(help="Run each notebook from top to bottom, too.")] = True,
    as_json: JsonOption = False,
) -> None:
    """Prove that units grade as they should: right answers pass, each wrong idea is caught and named."""
    from autograder.sandbox.backends import choose
    from autograder.verify import Unit, units_in

    folder = solutions_folder(solutions)
    released = exercises or folder.parent / "exercises"
    rows = []
    backend = choose()
    try:
        with terminal.progress_bar(notices) as bar:
            for path in units_in(folder, units):
                claims = list(Unit(path, backend).claims(released, run))
                task = bar.add_task(path.name, total=len(claims))
                for claim in claims:
                    bar.update(task, description=f"{path.name}: {claim.name}"[:40])
                    start = time.perf_counter()
                    rows.append(
                        {
                            "unit": path.name,
                            "kind": claim.kind,
                            "claim": claim.name,
                            "found": claim.prove(),
                            "seconds": time.perf_counter() - start,
                        }
                    )
                    bar.advance(task)
                bar.remove_task(task)
    finally:
        backend.close()
    if as_json:
        print(json.dumps(rows, indent=1))
    else:
        _show(rows)
    raise typer.Exit(1 if any(row["found"] for row in rows) else 0)


def _show(rows) -> None:
    table = plain_table("unit", *KINDS, "seconds", right=[*KINDS, "seconds"])
    units = list(dict.fromkeys(row["unit"] for row in rows))
    for unit in [*units, "all"]:
        mine = [row for row in rows if unit in (row["unit"], "all")]
        cells = []
        for kind in KINDS:
            of_kind = [row for row in mine if row["kind"] == kind]
            cells.append(f"{sum(not row['found'] for row in of_kind)} of {len(of_kind)}" if of_kind else "")
        table.add_row(unit, *cells, f"{sum(row['seconds'] for row in mine):.0f}")
    screen.print(table)
    failed = [row for row in rows if row["found"]]
    for row in failed:
        screen.print(f"{row['unit']}, {row['kind']}, {row['claim']}: {row['found']}", soft_wrap=True)
    if failed:
        screen.print(f"{counted(len(failed), 'claim')} of {len(rows)} do not hold.")
    else:
        screen.print(f"All {len(rows)} claims hold.")
