"""`{quiz}`: the questions of one set, from the course's bank; a list to unfold without JavaScript."""

from __future__ import annotations

import html
import json

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from minitx.course.questions import Question, all_questions


class Quiz(SphinxDirective):
    """The set named by the argument, "quiz" or "check"."""

    required_arguments = 1

    def run(self):
        chosen = [question for question in all_questions() if question.group == self.arguments[0]]
        data = json.dumps([as_dict(question) for question in chosen]).replace("</", "<\\/")
        plain = "".join(unfolded(question) for question in chosen)
        return [
            nodes.raw(
                "",
                f'<div class="quiz" data-name="{self.arguments[0]}">'
                f'<script type="application/json">{data}</script>{plain}</div>',
                format="html",
            )
        ]


def as_dict(question: Question) -> dict:
    options = [
        {"text": option.text, "right": option.is_right, "feedback": option.feedback}
        for option in question.options
    ]
    return {"id": question.id, "text": question.text, "options": options}


def unfolded(question: Question) -> str:
    options = "".join(f"<li>{html.escape(option.text)}</li>" for option in question.options)
    right = next(option for option in question.options if option.is_right)
    answer = html.escape(f"{right.text} {right.feedback}")
    return (
        f"<p>{html.escape(question.text)}</p><ol type='a'>{options}</ol>"
        f"<details><summary>Answer</summary><p>{answer}</p></details>"
    )


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("quiz", Quiz)
    app.add_js_file("quiz.js", loading_method="defer")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
