"""The questions in a notebook: shown, and explained as soon as one is answered.

from minitx.course import quiz

quiz.show("c1")
answers["c1"] = "b"
quiz.explain("c1", answers["c1"])
"""

from __future__ import annotations

from minitx.course.questions import find


def show(name: str) -> None:
    """Print a question and its options."""
    question = find(name)
    print(question.text)
    for letter, option in zip(question.letters, question.options, strict=True):
        print(f"  {letter}) {option.text}")


def explain(name: str, answer: str) -> bool:
    """Print whether the answer is right, and why; returns whether. CourseError for another letter."""
    option = find(name).option(answer)
    print(f"{'Right.' if option.is_right else 'Not quite.'} {option.feedback}")
    return option.is_right
