"""`autograder selftest`: what the sandbox is worth on this machine."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from autograder.cli.app import JsonOption, app, notices, plain_table, screen
from autograder.errors import UsageError
from autograder.sandbox.environment import CHOICES
from minitx import terminal

if TYPE_CHECKING:
    from autograder.selftest import Finding, Report


@app.command(
    "selftest",
    epilog="Examples: autograder selftest; autograder selftest --sandbox bwrap --json",
)
def selftest_command(
    sandbox: Annotated[
        str, typer.Option("--sandbox", help="zygote or bwrap; auto tries both.", metavar="KIND")
    ] = "auto",
    as_json: JsonOption = False,
) -> None:
    """Try hostile code in the sandbox, and say what holds on this machine and what is missing.

    Exit code 1 if anything got through, or if there is no sandbox here at all: nothing may be graded then.
    """
    from autograder.selftest import chosen, selftest

    if sandbox == "none" or sandbox not in CHOICES:
        raise UsageError(f"Expected --sandbox zygote, bwrap or auto, got {sandbox!r}.")
    reports = []
    with terminal.progress_bar(notices) as bar:
        task = bar.add_task("starting", total=None)
        for name in chosen(sandbox):
            reports.append(selftest(name, lambda text: bar.update(task, description=text)))
    if as_json:
        kept = [
            {**asdict(report), "holds": report.holds, "got_through": report.got_through} for report in reports
        ]
        print(json.dumps(kept, indent=1))
    else:
        for report in reports:
            _show(report)
        _conclude(reports)
    raise typer.Exit(0 if _may_grade(reports) else 1)


def _may_grade(reports: list[Report]) -> bool:
    """Something holds, and nothing got through anywhere: `grade` would take the first that holds."""
    return any(report.holds for report in reports) and not any(report.got_through for report in reports)


def _show(report: Report) -> None:
    screen.print(f"Sandbox {report.sandbox} on {report.machine}", soft_wrap=True)
    if report.unavailable:
        screen.print(f"  not available: {report.unavailable}\n", soft_wrap=True)
        return
    table = plain_table("layer", "holds", "what is in force, or what is missing")
    for layer in report.layers:
        table.add_row(layer.name, "yes" if layer.holds else "NO", layer.detail)
    table.columns[2].no_wrap = False
    table.columns[2].overflow = "fold"
    screen.print(table)
    _count("refused to student code", report.probes)
    _count("hostile submissions judged", report.kinds)
    screen.print()


def _count(what: str, findings: tuple[Finding, ...]) -> None:
    held = sum(one.held for one in findings)
    screen.print(f"  {what}: {held} of {len(findings)}", soft_wrap=True)
    for one in findings:
        if not one.held:
            screen.print(f"    GOT THROUGH: {one.name} {one.detail}".rstrip(), soft_wrap=True)


def _conclude(reports: list[Report]) -> None:
    holding = [report.sandbox for report in reports if report.holds]
    through = [f"{name} ({report.sandbox})" for report in reports for name in report.got_through]
    if through:
        screen.print(f"Do not grade on this machine. Got through: {'; '.join(through)}.", soft_wrap=True)
    elif not holding:
        screen.print("Do not grade on this machine: it has no sandbox.", soft_wrap=True)
    else:
        screen.print(f"Nothing got through. autograder grade will use: {holding[0]}.", soft_wrap=True)
