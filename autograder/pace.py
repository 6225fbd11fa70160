"""How long one step of a submission may take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Pace:
    """In seconds, measured in the test runner and not in the sandbox."""

    cell: float = 20.0
    part: float = 5.0
    after_time_out: float = 0.5  # for every later step of a submission that ran out of time once
    run: float = 60.0
