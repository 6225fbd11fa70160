"""What lateness costs: so much a day, some grace, a most. A plugin of nbgrader's own kind, so that
`nbgrader autograde`, formgrader and `autograder grade` come to the same penalties.

In the course's nbgrader_config.py, after `configure(c, __file__)` or before:

    c.LatePolicy.percent_per_day = 10    # of the score, for each day that has begun
    c.LatePolicy.grace_minutes = 15      # taken off the lateness before days are counted
    c.LatePolicy.most_percent = 50       # never more than this

The due date is nbgrader's (`autograder release UNIT --due`, `nbgrader db assignment add`, formgrader), an
extension for one student too. nbgrader applies the policy when a submission is graded; `autograder grade`
applies it again to what was graded before, so run it after scores were entered by hand.
"""

from __future__ import annotations

import math

from nbgrader.plugins import LateSubmissionPlugin
from traitlets import Float

DAY = 24 * 60 * 60.0


class LatePolicy(LateSubmissionPlugin):
    """percent_per_day of the score for each day begun after the grace, at most most_percent.

    With percent_per_day 0, nbgrader's own `penalty_method` decides ("none", or "zero" for no points).
    """

    percent_per_day = Float(0.0, min=0.0, max=100.0, help="Percent lost for each day begun.").tag(config=True)
    grace_minutes = Float(0.0, min=0.0, help="Minutes that do not count as late.").tag(config=True)
    most_percent = Float(100.0, min=0.0, max=100.0, help="The most that lateness can cost, in percent.").tag(
        config=True
    )

    def late_submission_penalty(
        self, student_id: str, score: float, total_seconds_late: float
    ) -> float | None:
        """The points to take off a score; None for nothing."""
        late = total_seconds_late - 60 * self.grace_minutes
        if late <= 0:
            return None
        if self.percent_per_day == 0:
            return super().late_submission_penalty(student_id, score, total_seconds_late)
        return score * min(self.percent_per_day * math.ceil(late / DAY), self.most_percent) / 100
