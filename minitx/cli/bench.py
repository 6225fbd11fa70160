"""`minitx bench`: minitx beside its peers."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.table import Table

from minitx import terminal
from minitx.cli.app import app, notices, refuse, screen


class Selection(StrEnum):
    """What `minitx bench` can measure."""

    attention = "attention"
    decode = "decode"
    train = "train"
    layers = "layers"
    all = "all"


@app.command(epilog="Examples: minitx bench attention; minitx bench all --json")
def bench(
    what: Annotated[Selection, typer.Argument(help="What to measure.")] = Selection.attention,
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON.")] = False,
) -> None:
    """Time minitx beside its peers, in turn, in one run: ratio = the peer's time over minitx's."""
    from minitx import bench as benchmarks

    try:
        steps, missing = benchmarks.plan(what.value)
    except ImportError as error:
        refuse(f"There is nothing to measure without Numba ({error}): pip install 'minitx[fast]'.")
    except ValueError as error:
        refuse(f"There is nothing to measure: {error}")
    for peer in missing:
        notices.print(f"{peer} is not installed: its rows are left out.")
    rows: list[dict[str, Any]] = []
    with terminal.progress_bar(notices) as bar:
        task = bar.add_task("", total=len(steps))
        for name, measure in steps:
            bar.update(task, description=name)
            rows += measure()
            bar.advance(task)
    if as_json:
        print(json.dumps(rows, indent=1))
    elif rows:
        screen.print(table_of(rows))
    raise typer.Exit(0 if rows else 1)


def table_of(rows: list[dict[str, Any]]) -> Table:
    """The rows for a person; a row that falls short of its goal says so."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading in ("workload", "size", "peer"):
        table.add_column(heading)
    for heading in ("minitx ms", "peer ms", "ratio", "goal", "of limit", "error"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("")
    for row in rows:
        numbers = [
            shown(row["minitx_ms"], ".3f"),
            shown(row["peer_ms"], ".3f"),
            shown(row["ratio"], ".2f"),
            shown(row["goal"], ".2f"),
            shown(row["limit_share"], ".0%"),
            shown(row["max_error"], ".0e"),
        ]
        short = row["goal"] is not None and row["ratio"] < row["goal"]
        table.add_row(row["workload"], row["size"], row["peer"], *numbers, "short" if short else "")
    return table


def shown(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)
