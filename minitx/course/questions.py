"""The course's questions: one bank for notebooks, `minitx quiz` and the site.

A graded question is here without its key: which option is right, and why, is known to the grader alone.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources

from minitx.errors import CourseError

LETTERS = "abcdefgh"
PRACTICE = ("check", "quiz")
GRADED = "graded"


@dataclass(frozen=True)
class Option:
    """One answer and what is said to whoever chooses it; of a graded question only the text."""

    text: str
    is_right: bool
    feedback: str


@dataclass(frozen=True)
class Question:
    """A question with one right option. `group` is "check" (check yourself), "quiz" or "graded"."""

    id: str
    group: str
    unit: str
    text: str
    options: tuple[Option, ...]

    @property
    def letters(self) -> str:
        """The letters of the options, "abcd"."""
        return LETTERS[: len(self.options)]

    @property
    def is_graded(self) -> bool:
        """True when the key is not here."""
        return self.group == GRADED

    def option(self, letter: str) -> Option:
        """The option of a letter. Raises CourseError that names the letters that there are."""
        letter = str(letter).strip().lower()
        if len(letter) != 1 or letter not in self.letters:
            raise CourseError(f"{self.id}: answer with one of {', '.join(self.letters)}, got {letter!r}.")
        return self.options[self.letters.index(letter)]


def all_questions() -> tuple[Question, ...]:
    """The questions to practise with, in the bank's order."""
    return tuple(question for question in _bank() if not question.is_graded)


def graded_questions() -> tuple[Question, ...]:
    """The graded questions, one a unit, without their keys."""
    return tuple(question for question in _bank() if question.is_graded)


def _bank() -> tuple[Question, ...]:
    text = resources.files("minitx.course").joinpath("questions.json").read_text(encoding="utf-8")
    return tuple(question_of(item) for item in json.loads(text))


def question_of(item: dict) -> Question:
    """One entry of the bank. Raises CourseError for what is missing, too much or not unique."""
    name = item.get("id", "a question without an id")
    known = {"id", "set", "unit", "question", "options"}
    if set(item) != known or item["set"] not in (*PRACTICE, GRADED):
        raise CourseError(f"{name}: expected id, set (check, quiz or graded), unit, question and options.")
    keyless = item["set"] == GRADED
    options = tuple(_option(name, option, keyless) for option in item["options"])
    if len(options) < 2 or sum(option.is_right for option in options) != (0 if keyless else 1):
        raise CourseError(f"{name}: expected two options or more, exactly one of them right.")
    if len({option.text for option in options}) != len(options):
        raise CourseError(f"{name}: two options are the same.")
    return Question(name, item["set"], item["unit"], item["question"], options)


def _option(name: str, option: dict, keyless: bool) -> Option:
    if keyless:
        if set(option) != {"text"} or not str(option["text"]).strip():
            raise CourseError(f"{name}: an option of a graded question has its text and nothing else here.")
        return Option(option["text"], False, "")
    right = option.get("right", False)
    keys = {"text", "right", "note"} if right else {"text", "why"}
    if set(option) != keys or not all(str(option[key]).strip() for key in keys):
        raise CourseError(f"{name}: a right option has text, right and note; a wrong one text and why.")
    return Option(option["text"], bool(right), option["note" if right else "why"])


def find(name: str) -> Question:
    """The question with this id. Raises CourseError that lists them."""
    bank = _bank()
    for question in bank:
        if question.id == name:
            return question
    names = ", ".join(question.id for question in bank)
    raise CourseError(f"There is no question {name!r}. There are: {names}.")
