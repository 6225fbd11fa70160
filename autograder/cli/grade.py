"""`autograder grade`: judge what was handed in, and grade again after a test was mended."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import Progress, TaskID

from autograder.cli.app import (
    HERE,
    CourseOption,
    JobsOption,
    JsonOption,
    SandboxOption,
    StudentOption,
    UnitArgument,
    UnsafeOption,
    app,
    choose_sandbox,
    chosen,
    counted,
    notices,
    plain_table,
    refuse,
    screen,
    show,
)
from autograder.cluster.address import PATIENCE, Cluster
from autograder.errors import UsageError
from autograder.runners import default_jobs
from minitx import terminal

if TYPE_CHECKING:
    from autograder.assessing import Result
    from autograder.course import Course
    from autograder.regrade import Change

ClusterOption = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        help="Judge on the workers of a Dask cluster: the address of its scheduler, tcp://HOST:PORT or "
        "tls://HOST:PORT.",
        metavar="ADDRESS",
    ),
]
WaitOption = Annotated[
    float,
    typer.Option("--cluster-wait", min=1, help="Seconds to wait for a worker where the cluster has none."),
]
CaOption = Annotated[
    Path | None,
    typer.Option("--tls-ca", help="With tls://: the authority that signed the certificates.", metavar="FILE"),
]
CertOption = Annotated[
    Path | None, typer.Option("--tls-cert", help="With tls://: your certificate.", metavar="FILE")
]
KeyOption = Annotated[
    Path | None, typer.Option("--tls-key", help="With tls://: your certificate's key.", metavar="FILE")
]


@app.command(
    "grade",
    epilog="Examples: autograder grade attention --course my-course; "
    "autograder grade attention --course my-course --regrade --dry-run; "
    "autograder grade attention --course my-course --cluster tcp://127.0.0.1:8786",
)
def grade_command(
    unit: UnitArgument,
    course: CourseOption = HERE,
    student: StudentOption = None,
    jobs: JobsOption = None,
    as_json: JsonOption = False,
    again: Annotated[
        bool, typer.Option("--again", help="Judge anew, also what has not changed since it was graded.")
    ] = False,
    regrade: Annotated[
        bool,
        typer.Option(
            "--regrade",
            help="After a test was mended and released: show whose grade changes, ask, and write.",
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With --regrade: show whose grade would change, write nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="With --regrade: write without asking.")] = False,
    sandbox: SandboxOption = None,
    unsafe: UnsafeOption = False,
    cluster: ClusterOption = None,
    cluster_wait: WaitOption = PATIENCE,
    tls_ca: CaOption = None,
    tls_cert: CertOption = None,
    tls_key: KeyOption = None,
) -> None:
    """Grade what was handed in, and write gradebook.db, autograded notebooks, feedback and a CSV.

    What was graded before and has not changed is not judged again: a run that was stopped goes on where it
    stopped.
    """
    from autograder.course import Course

    if (dry_run or yes) and not regrade:
        raise UsageError("--dry-run and --yes belong to --regrade: autograder grade UNIT --regrade --yes.")
    if regrade and again:
        raise UsageError("Give --regrade (tests were mended) or --again (judge the same anew), not both.")
    choose_sandbox(sandbox, unsafe)
    there = None
    if cluster is not None:
        there = _cluster(Cluster(cluster, cluster_wait, tls_ca, tls_cert, tls_key), jobs, unsafe)
    elif tls_ca or tls_cert or tls_key:
        raise UsageError("--tls-ca, --tls-cert and --tls-key belong to --cluster tls://HOST:PORT.")
    opened = Course.open(course)
    opened.spec(unit)  # a unit that was never released is refused before anything else
    students = chosen(opened.students(unit), student, unit, opened.submitted)
    if regrade:
        _regrade(opened, unit, students, jobs, as_json, dry_run, yes, there)
        return
    with terminal.progress_bar(notices) as bar:
        task = bar.add_task("starting", total=None)
        results = graded(opened, unit, students, jobs, bar, task, again=again, cluster=there)
        csv = export(opened)
    results.sort(key=lambda result: result.student)
    show(results, as_json)
    if not as_json:
        screen.print(
            f"\ngradebook  {opened.gradebook}\nfeedback   {opened.feedback}\nCSV        {csv}", soft_wrap=True
        )
    _tell(results, unit)


def _cluster(there: Cluster, jobs: int | None, unsafe: bool) -> Cluster:
    """What does not go with a cluster is refused."""
    if jobs is not None:
        raise UsageError("--jobs is for this machine; a cluster has its workers' threads. Leave it out.")
    if unsafe:
        raise UsageError(
            "--unsafe is not for a cluster: student code without a sandbox could speak to the scheduler, and "
            "so to every worker and to this machine."
        )
    if there.in_the_open:
        notices.print(
            f"{there.address} is not encrypted: whoever can reach it can read hidden tests and run programs "
            "on its workers. Use tls://, except in a network of your own.",
            soft_wrap=True,
        )
    return there


def _note(text: str) -> None:
    """What student code was held by, and which workers were lost, belongs in the record of a run."""
    if text.startswith(("sandbox", "cluster")):
        notices.print(text, soft_wrap=True)


def _tell(results: list[Result], unit: str) -> None:
    """What needs the instructor's eye, on standard error; exit code 1 for what no one can have graded."""
    outdated = sum(result.state == "outdated" for result in results)
    if outdated:
        notices.print(
            f"{counted(outdated, 'submission')} of {unit} were graded by other tests or another version of "
            "the grader, and were left as they are. See whose grade would change: "
            f"autograder grade {unit} --regrade --dry-run.",
            soft_wrap=True,
        )
    unread = [result for result in results if result.status in ("unreadable", "needs review")]
    for result in unread:
        notices.print(f"{result.student}: {result.message}", soft_wrap=True)
    raise typer.Exit(1 if unread else 0)


def graded(
    opened: Course,
    unit: str,
    students: list[str],
    jobs: int | None,
    bar: Progress,
    task: TaskID,
    *,
    again: bool = False,
    cluster: Cluster | None = None,
) -> list[Result]:
    """Grade with a progress bar; return the results in the order in which they were done."""
    from autograder.engine import grade

    bar.update(task, description="looking at what is there", total=len(students), completed=0)
    results = []

    def say(text: str) -> None:
        bar.update(task, description=text)
        _note(text)

    options = {"again": again, "cluster": cluster}
    try:
        for result in grade(opened, opened.spec(unit), students, jobs or default_jobs(), say, **options):
            results.append(result)
            bar.update(task, description=f"{result.state} {result.student}", advance=1)
    except KeyboardInterrupt:
        refuse(
            f"Stopped. {len(results)} of {counted(len(students), 'submission')} are graded and stored; the "
            "same command goes on with the others."
        )
    return results


def export(opened: Course) -> Path:
    from autograder.export.nbgrader_csv import export_csv

    csv = opened.root / "grades.csv"
    export_csv(opened, csv)
    return csv


def _regrade(
    opened: Course,
    unit: str,
    students: list[str],
    jobs: int | None,
    as_json: bool,
    dry_run: bool,
    yes: bool,
    cluster: Cluster | None,
) -> None:
    """Judge again what other tests have judged; show whose grade changes; write when told to."""
    from autograder.engine import Grading
    from autograder.regrade import changes

    with terminal.progress_bar(notices) as bar, Grading(opened, opened.spec(unit), cluster) as grading:
        task = bar.add_task("looking at what is there", total=None)
        plan = grading.plan(students, regrade=True)
        bar.update(task, total=len(plan.judge), completed=0)
        judging = grading.judge(
            plan.judge, jobs or default_jobs(), lambda text: bar.update(task, description=text)
        )
        for key, judged in judging:
            plan.keys[judged.student] = key
            plan.write.append(judged.student)
            bar.update(task, description=f"judged {judged.student}", advance=1)
        plan.judge.clear()
        bar.stop()
        found = changes(grading, sorted(plan.write))
        _show_changes(found, unit, len(plan.write), as_json)
        if dry_run or not plan.write:
            return
        if not yes and not _confirmed(found):
            refuse("Nothing was written. The judgements are kept: the same command with --yes writes them.")
        for _ in grading.carry_out(plan, 1, lambda _: None):
            pass
    export(opened)
    if not as_json:
        screen.print(f"{counted(len(plan.write), 'submission')} written.")


def _confirmed(found: list[Change]) -> bool:
    moved = sum(change.moved for change in found)
    if not sys.stdin.isatty():
        return False
    return typer.confirm(f"Write these results ({counted(moved, 'changed grade')})?", err=True)


def _show_changes(found: list[Change], unit: str, judged: int, as_json: bool) -> None:
    """Whose grade changes, and by which tests."""
    moved = [change for change in found if change.moved]
    if as_json:
        print(json.dumps([asdict(change) for change in moved], indent=1))
        return
    if not moved:
        screen.print(f"No one's grade changes ({counted(judged, 'submission')} of {unit} judged again).")
        return
    table = plain_table("student", "before", "after", "change", right=["before", "after", "change"])
    table.add_column("tests that end otherwise", overflow="fold")
    for change in moved:
        before = "none" if change.before is None else f"{change.before:g}"
        difference = change.after - (change.before or 0.0)
        table.add_row(
            change.student, before, f"{change.after:g}", f"{difference:+g}", "; ".join(change.tests) or "-"
        )
    screen.print(table)
    screen.print(f"\n{counted(len(moved), 'grade')} of {judged} change.")
