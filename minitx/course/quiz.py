"""The questions in a notebook: shown, and explained as soon as one is answered.

    from minitx.course import quiz

    answers = {}
    quiz.show("c4")
    answers["c4"] = "?"                     # a letter in place of the question mark
    quiz.explain("c4", answers["c4"])       # right or not, and why; never raises for what was answered

A graded question is shown in the same way. Its tests are

    quiz.answered("g4", answers)            # visible: one of the letters was given
    quiz.graded("g4", answers, key="b")     # hidden: the right one
"""

from __future__ import annotations

import textwrap
from typing import Any

from minitx.course.questions import Question, find

OPEN = "?"  # what stands in a notebook until a question is answered
WIDTH = 96


class NotAnswered(AssertionError):
    """A graded question is as it was released."""


class WrongChoice(AssertionError):
    """A wrong option of a graded question. `belief` names it: "g4-a"."""

    def __init__(self, name: str, letter: str) -> None:
        super().__init__(f"{name}: {letter} is not the right answer.")
        self.belief = f"{name}-{letter}"


def show(name: str) -> None:
    """Print a question and its options. Raises CourseError that lists the questions when there is none."""
    print(text_of(name))


def text_of(name: str) -> str:
    """A question and its options in lines. Raises CourseError that lists the questions when there is none."""
    question = find(name)
    lines = [_wrapped(f"{name}: {question.text}", "")]
    for letter, option in zip(question.letters, question.options, strict=True):
        lines.append(_wrapped(f"  {letter}) {option.text}", "     "))
    return "\n".join(lines)


def explain(name: str, answer: object) -> None:
    """Print whether the answer to a question for practice is right, and why.

    Whatever `answer` is, this prints a sentence and raises nothing, so that a notebook goes on. Raises
    CourseError when there is no question of that name.
    """
    question = find(name)
    letter = _letter(question, answer)
    if letter is None:
        print(_wrapped(_no_letter(question, answer), ""))
    elif question.is_graded:
        print(f"{name}: this one is graded; the explanation comes with your feedback.")
    else:
        option = question.option(letter)
        print(_wrapped(f"{'Right.' if option.is_right else 'Not quite.'} {option.feedback}", ""))


def answered(name: str, answers: Any) -> str:
    """The letter given to a question, in small. Raises NotAnswered, or AssertionError for what is none of the
    letters.
    """
    __tracebackhide__ = True
    question = find(name)
    answer = _given(name, answers)
    letter = _letter(question, answer)
    if letter is None:
        raise (NotAnswered if _is_open(answer) else AssertionError)(_no_letter(question, answer))
    return letter


def graded(name: str, answers: Any, key: str) -> None:
    """Check an answer against the key, a letter. Raises WrongChoice, which names the option that was chosen,
    or AssertionError when no option was; ValueError when the key is none of the letters.
    """
    __tracebackhide__ = True
    letters = find(name).letters
    if key not in tuple(letters):
        raise ValueError(f"{name}: expected the key as one of {', '.join(letters)}, got {key!r}.")
    letter = answered(name, answers)
    if letter != key:
        raise WrongChoice(name, letter)


def _given(name: str, answers: Any) -> Any:
    """What stands in `answers`, which a notebook makes and a student may have changed into anything."""
    __tracebackhide__ = True
    try:
        return answers[name]
    except KeyError:
        raise AssertionError(
            f'{name}: there is no answers["{name}"] yet. Run the cell below the question.'
        ) from None
    except Exception:
        raise AssertionError(
            f"{name}: answers is no dictionary any more. Run the notebook's first cell again, and then the"
            " cell below the question."
        ) from None


def _letter(question: Question, answer: object) -> str | None:
    """The answer as one of the question's letters; None when it is none."""
    letter = answer.strip().lower() if isinstance(answer, str) else ""
    return letter if len(letter) == 1 and letter in question.letters else None


def _is_open(answer: object) -> bool:
    return isinstance(answer, str) and answer.strip() in ("", OPEN)


def _no_letter(question: Question, answer: object) -> str:
    """What to say of an answer that is none of the letters."""
    choice = f"{', '.join(question.letters[:-1])} or {question.letters[-1]}"
    if _is_open(answer):
        return f"{question.id}: not answered yet. Put {choice} in place of the question mark."
    plain = answer is None or isinstance(answer, bool | float | str)
    came = repr(answer) if plain or (isinstance(answer, int) and abs(answer) < 10**9) else "something else"
    came = came if len(came) <= 30 else "a longer text"
    return f'{question.id}: expected one letter between quotation marks, {choice}, as in "a"; got {came}.'


def _wrapped(text: str, indent: str) -> str:
    return textwrap.fill(text, WIDTH, subsequent_indent=indent, break_on_hyphens=False)
