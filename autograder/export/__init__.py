"""Grades on their way out: nbgrader's CSV, Canvas's and Moodle's own tables, Gradescope's results."""
