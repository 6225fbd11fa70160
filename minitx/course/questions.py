"""The course's questions: one bank for notebooks, `minitx quiz` and the site."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources

from minitx.errors import CourseError

LETTERS = "abcdefgh"


@dataclass(frozen=True)
class Option:
    """One answer and what is said to whoever chooses it."""

    text: str
    is_right: bool
    feedback: str


@dataclass(frozen=True)
class Question:
    """A question with one right option. `group` is "check" (check yourself) or "quiz"."""

    id: str
    group: str
    unit: str
    text: str
    options: tuple[Option, ...]

    @property
    def letters(self) -> str:
        """The letters of the options, "abcd"."""
        return LETTERS[: len(self.options)]

    def option(self, letter: str) -> Option:
        """The option of a letter. Raises CourseError that names the letters that there are."""
        letter = str(letter).strip().lower()
        if len(letter) != 1 or letter not in self.letters:
            raise CourseError(f"{self.id}: answer with one of {', '.join(self.letters)}, got {letter!r}.")
        return self.options[self.letters.index(letter)]


def all_questions() -> tuple[Question, ...]:
    """The bank, in its order."""
    text = resources.files("minitx.course").joinpath("questions.json").read_text(encoding="utf-8")
    return tuple(question_of(item) for item in json.loads(text))


def question_of(item: dict) -> Question:
    """One entry of the bank. Raises CourseError for what is missing, too much or not unique."""
    name = item.get("id", "a question without an id")
    if set(item) != {"id", "set", "unit", "question", "options"} or item["set"] not in ("check", "quiz"):
        raise CourseError(f"{name}: expected id, set (check or quiz), unit, question and options.")
    options = tuple(_option(name, option) for option in item["options"])
    if len(options) < 2 or sum(option.is_right for option in options) != 1:
        raise CourseError(f"{name}: expected two options or more, exactly one of them right.")
    if len({option.text for option in options}) != len(options):
        raise CourseError(f"{name}: two options are the same.")
    return Question(name, item["set"], item["unit"], item["question"], options)


def _option(name: str, option: dict) -> Option:
    right = option.get("right", False)
    keys = {"text", "right", "note"} if right else {"text", "why"}
    if set(option) != keys or not all(str(option[key]).strip() for key in keys):
        raise CourseError(f"{name}: a right option has text, right and note; a wrong one text and why.")
    return Option(option["text"], bool(right), option["note" if right else "why"])


def find(name: str) -> Question:
    """The question with this id. Raises CourseError that lists them."""
    for question in all_questions():
        if question.id == name:
            return question
    names = ", ".join(question.id for question in all_questions())
    raise CourseError(f"There is no question {name!r}. There are: {names}.")
