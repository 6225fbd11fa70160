"""`minitx quiz`: the course's questions, one at a time, each explained as soon as it is answered."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

import typer
from rich.text import Text

from minitx.cli.app import app, notices, screen
from minitx.errors import CourseError


@app.command(epilog="Examples: minitx quiz; minitx quiz --set check; minitx quiz --again")
def quiz(
    group: Annotated[
        Literal["quiz", "check", "all"],
        typer.Option("--set", help="The five quiz questions, the five to check yourself with, or all."),
    ] = "quiz",
    again: Annotated[bool, typer.Option("--again", help="Forget the answers given so far.")] = False,
) -> None:
    """Answer questions; answers are kept, so that you can stop with ctrl-C and go on later."""
    from minitx.course.progress import Progress
    from minitx.course.questions import all_questions

    chosen = [question for question in all_questions() if group in (question.group, "all")]
    progress = Progress()
    answers = progress.section("quiz")
    if again:
        for question in chosen:
            answers.pop(question.id, None)
    try:
        for question in chosen:
            if question.id not in answers:
                _print_count(chosen, answers)
                answers[question.id] = _ask(question)
                progress.save()
    except (KeyboardInterrupt, EOFError):
        _print_count(chosen, answers)
        notices.print("Your answers are kept: `minitx quiz` goes on where you stopped.")
        raise typer.Exit(1) from None
    if progress.problem:
        notices.print(progress.problem, soft_wrap=True)
    right = sum(question.option(answers[question.id]).is_right for question in chosen)
    _print_count(chosen, answers)
    screen.print(f"{right} of {len(chosen)} right.", style="bold")
    wrong = [question for question in chosen if not question.option(answers[question.id]).is_right]
    if wrong:
        screen.print(f"Units to look at again: {', '.join(dict.fromkeys(q.unit for q in wrong))}.")


def _print_count(chosen, answers) -> None:
    done = sum(question.id in answers for question in chosen)
    screen.print(f"\n{done} of {len(chosen)} answered", style="dim")


def _ask(question) -> str:
    screen.print(question.text, style="bold", soft_wrap=True)
    for letter, option in zip(question.letters, question.options, strict=True):
        screen.print(f"  {letter}) {option.text}", soft_wrap=True)
    while True:
        screen.print("your answer: ", end="")
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        try:
            option = question.option(line)
        except CourseError:
            screen.print(f"Type one of the letters {', '.join(question.letters)}.")
            continue
        word, style = ("Right.", "green") if option.is_right else ("Not quite.", "red")
        screen.print(Text.assemble((word, style), f" {option.feedback}"), soft_wrap=True)
        return line.strip().lower()
