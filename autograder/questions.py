"""The course's questions as their author wrote them, keys and all: what is released of them, and what each
wrong option of a graded one says about the student.

A graded question has three cells in its unit's notebook, found by these names:

    answer-g4         the solution cell, answers["g4"] = "?"
    test-g4           says whether it is answered
    test-g4-hidden    compares it with the key; its test is called "the answer to question g4"
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from autograder.errors import ReleaseError
from autograder.files import write_atomically
from autograder.spec import Misconception
from minitx.course.questions import GRADED, PRACTICE, Question, question_of
from minitx.errors import CourseError

FILE = "questions.yaml"


def read_questions(path: Path) -> list[dict[str, Any]]:
    """The entries of a bank, in its order. Raises `ReleaseError` that names the file and the question."""
    try:
        items = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ReleaseError(f"{path} cannot be read: {error}") from None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise ReleaseError(f"{path}: expected a list of questions, each beginning with '- id: ...'.")
    names: set[str] = set()
    for item in items:
        try:
            question = with_key(item)
        except (CourseError, TypeError, AttributeError, KeyError) as error:
            raise ReleaseError(f"{path}: {error}") from None
        if question.id in names:
            raise ReleaseError(f"{path}: the question {question.id!r} is there twice.")
        names.add(question.id)
    return items


def with_key(item: dict[str, Any]) -> Question:
    """An entry as a question whose options say which is right, a graded one as well.

    Raises CourseError for what is missing or too much.
    """
    question = question_of({**item, "set": PRACTICE[0]} if item.get("set") == GRADED else item)
    return Question(question.id, item["set"], question.unit, question.text, question.options)


def key_of(question: Question) -> str:
    """The letter of the right option."""
    return next(letter for letter in question.letters if question.option(letter).is_right)


def released(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What students get: of a graded question nothing but the text and the options."""
    return [
        {**item, "options": [{"text": option["text"]} for option in item["options"]]}
        if item["set"] == GRADED
        else item
        for item in items
    ]


def write_released(bank: Path, target: Path) -> bool:
    """Write the released questions of a bank, where they are not what lies there; returns whether."""
    content = (json.dumps(released(read_questions(bank)), indent=1, ensure_ascii=False) + "\n").encode()
    if target.is_file() and target.read_bytes() == content:
        return False
    write_atomically(target, content, 0o644)
    return True


def wrong_choices(path: Path, unit: str) -> tuple[Misconception, ...]:
    """Each wrong option of the unit's graded questions as a misconception: the option is the belief, and what
    the bank says against it the advice. Raises `ReleaseError`.
    """
    graded = [with_key(item) for item in read_questions(path) if item["set"] == GRADED]
    return tuple(
        Misconception(
            name=f"{question.id}-{letter}",
            belief=question.option(letter).text,
            advice=question.option(letter).feedback,
            replaces=f"answer-{question.id}",
            caught_by=f"the answer to question {question.id}",
            code=f'answers["{question.id}"] = "{letter}"',
        )
        for question in graded
        if question.unit == unit
        for letter in question.letters
        if not question.option(letter).is_right
    )
