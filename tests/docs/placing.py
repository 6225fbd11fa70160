"""What is done about each command of the documents: it is run, or parsed by the program itself, or looked up."""

from __future__ import annotations

import importlib
import importlib.util
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path

import click
import typer
from documents import ROOT, Command, of_ours

RUN, PARSED, LOOKED_UP = "run here", "parsed by the program", "looked up"
# Commands that take long, or never end: the program parses them here, and these tests run the subcommand.
RUN_ELSEWHERE = {
    "autograder selftest": "tests/autograder/test_selftest.py",
    "autograder verify UNIT": "tests/autograder/test_verify.py",
    "autograder grade attention --course my-course --cluster": "tests/autograder/test_cluster.py",
    "minitx warmup": "tests/minitx/test_warmup.py",
    "minitx bench": "tests/minitx/test_bench.py",
    "minitx generate --model smollm2": "tests/minitx/test_real_weights.py",
    "minitx embed": "tests/minitx/test_bert.py",
}


def place(command: Command) -> tuple[str, str]:
    """What is done about a command, and where. Raises AssertionError for one that nothing is known of."""
    words = command.plain
    for beginning, test in RUN_ELSEWHERE.items():
        if words.startswith(beginning):
            return PARSED, f"run in {test}"
    if command.inline and (words.startswith(("minitx ", "autograder ")) or of_ours(words)):
        return PARSED, "named in a sentence"
    if re.match(r"\(cd [\w-]+ && nbgrader |minitx |autograder ", words):
        return RUN, "in the walk of its page"
    for beginning in LOOK_UP:
        if words.startswith(beginning):
            return LOOKED_UP, "what it names exists"
    raise AssertionError(f"{command}: say in tests/docs/placing.py how this command is followed")


def check(command: Command) -> None:
    """Parse or look up a command. Raises where it is not one that its program takes."""
    kind, _ = place(command)
    if kind == LOOKED_UP:
        beginning = next(known for known in LOOK_UP if command.plain.startswith(known))
        LOOK_UP[beginning](shlex.split(command.plain))
    elif command.inline:
        parse_mention(command.plain)
    elif not command.plain.startswith("("):
        parse(shlex.split(command.plain))


def group(program: str) -> click.Group:
    import autograder.cli
    import minitx.cli

    app = {"minitx": minitx.cli.app, "autograder": autograder.cli.app}[program]
    return typer.main.get_command(app)  # type: ignore[return-value]


def parse(words: list[str]) -> None:
    """The whole command, by the program's own parser: subcommand, options, types, missing arguments."""
    program, *rest = words
    command = group(program)
    context = command.make_context(program, rest)
    while isinstance(context.command, type(command)) and hasattr(context.command, "resolve_command"):
        left = [*context._protected_args, *context.args]
        name, inner, left = context.command.resolve_command(context, left)
        context = inner.make_context(name, left, parent=context)


def parse_mention(words: str) -> None:
    """A subcommand and options that a sentence names, without the arguments; "a|b" stands for both."""
    program, *rest = shlex.split(words.replace("|", "/"))
    if program in ("minitx", "autograder"):
        command = group(program)
    else:
        groups = [one for one in map(group, ("autograder", "minitx")) if program in one.commands]
        assert groups, f"no command of ours is named {program}"
        command = groups[0].commands[program]
    for word in rest:
        if word.startswith("--"):
            assert any(word in option.opts + option.secondary_opts for option in command.params), words
        elif inner := getattr(command, "commands", None):
            names = word.split("/")
            assert set(names) <= set(inner), f"{words}: no such subcommand"
            command = inner[names[0]]


def make(words: list[str]) -> None:
    """Make's own look at the target, with nothing run."""
    done = subprocess.run(["make", "-n", *words[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip(), f"{words} does nothing"
    for program in re.findall(r"(?:docs|benchmarks)/\w+\.py", done.stdout):
        assert (ROOT / program).is_file(), program


def pip_install(words: list[str]) -> None:
    """Extras are in pyproject.toml; other packages are named where the project uses them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    used = (ROOT / ".ci/run").read_text() + (ROOT / "pyproject.toml").read_text()
    for word in words[2:]:
        if extras := re.fullmatch(r"\.\[(.+)\]", word):
            assert set(extras[1].split(",")) <= set(project["optional-dependencies"]), word
        elif not word.startswith("-"):
            assert re.search(rf"(?<![\w-]){re.escape(re.split('[=<>[]', word)[0])}(?![\w-])", used), word


def jupyter_lab(words: list[str]) -> None:
    assert importlib.util.find_spec("jupyterlab"), "JupyterLab is not installed by the extra `grade`"
    for notebook in words[2:]:
        assert (ROOT / notebook).is_file(), notebook


def environment(words: list[str]) -> None:
    assert importlib.util.find_spec("venv")
    assert words[-1] in (ROOT / "Makefile").read_text(), (
        f"the Makefile has another environment than {words[-1]}"
    )


def debian(words: list[str]) -> None:
    """CI installs the same packages."""
    for word in words[2:]:
        assert word.startswith("-") or word in (ROOT / ".ci/run").read_text(), word


def nbgrader(words: list[str]) -> None:
    assert shutil.which("nbgrader", path=Path(__import__("sys").executable).parent)
    assert importlib.util.find_spec(f"nbgrader.apps.{words[1].replace('_', '')}app"), words


def dask(words: list[str]) -> None:
    """By Dask's own parsers; tests/autograder/test_cluster.py runs both programs."""
    module = importlib.import_module(f"distributed.cli.dask_{words[1]}")
    there = [__file__ if word.endswith(".pem") else word for word in words]  # it looks whether files exist
    module.main.make_context(" ".join(words[:2]), there[2:])


def openssl(words: list[str]) -> None:
    """tests/autograder/test_cluster.py makes an authority and a certificate with the same options."""
    used = (ROOT / "tests/autograder/test_cluster.py").read_text()
    for word in words[1:]:
        assert not word.startswith("-") or word in used, word


def helm(words: list[str]) -> None:
    """As Dask's documentation says; there is no Kubernetes here to try it on."""
    assert words[1] == "install"
    assert words[-1] == "dask-kubernetes-operator"


LOOK_UP: dict[str, Callable[[list[str]], None]] = {
    "make ": make,
    "pip install ": pip_install,
    "jupyter lab ": jupyter_lab,
    "python3 -m venv ": environment,
    "apt-get install ": debian,
    "nbgrader ": nbgrader,
    "dask ": dask,
    "openssl ": openssl,
    "helm ": helm,
}
