"""What the project's pages tell a reader to type: every command, with its page and line."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MADE = {"docs/benchmarks.md"}  # written while the site is built, from what is tested elsewhere
PAGES = sorted(
    str(path.relative_to(ROOT))
    for pattern in ("*.md", "docs/*.md", "docs/guides/*.md", "exercises/*/*.ipynb")
    for path in ROOT.glob(pattern)
    if str(path.relative_to(ROOT)) not in MADE
)
SHELL = ("bash", "sh", "console", "shell")
# Fences whose content is no text to type: directives of the site, and files shown.
OTHER = (
    "yaml",
    "text",
    "json",
    "toml",
    "literalinclude",
    "include",
    "eval-rst",
    "toctree",
    "quiz",
    "playground",
)
OTHER += ("dropdown", "course-figure", "latex")
# The first word of a command; a path before it is taken off.
PROGRAMS = (
    "autograder",
    "minitx",
    "nbgrader",
    "jupyter",
    "python",
    "python3",
    "pip",
    "make",
    "git",
    "npm",
    "npx",
)
PROGRAMS += (
    "apt-get",
    "dask",
    "dask-scheduler",
    "dask-worker",
    "openssl",
    "sbatch",
    "srun",
    "kubectl",
    "helm",
    "cd",
)
PROGRAMS += ("docker", "systemctl", "sudo")


@dataclass(frozen=True)
class Command:
    """One command of a page. `inline` where it stands within a sentence."""

    page: str
    line: int
    section: str
    text: str
    inline: bool = False

    @property
    def plain(self) -> str:
        """Without the environment's path, without a comment, in single spaces."""
        text = re.sub(r"(?<!\S)#.*", "", self.text)
        return " ".join(re.sub(r"(?:\.\./)?\.venv/bin/", "", text).split())

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.plain}"


@dataclass(frozen=True)
class Block:
    """Code that a page shows. `kind` is "shell", "python", or the word behind the fence."""

    page: str
    line: int
    section: str
    kind: str
    text: str


def text_of(page: str) -> str:
    """A page's Markdown; of a notebook, that of its text cells."""
    text = (ROOT / page).read_text(encoding="utf-8")
    if not page.endswith(".ipynb"):
        return text
    cells = [cell["source"] for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown"]
    return "\n\n".join("".join(source) for source in cells)


def read(page: str) -> tuple[list[Block], list[tuple[int, str, str]]]:
    """The page's blocks of code, and its other lines as (number, section, text)."""
    blocks, prose, section, fence = [], [], "", None
    start, kind, inside = 0, "", []
    for number, line in enumerate([*text_of(page).split("\n"), ""], 1):
        opened = re.match(r"\s*(`{3,}|~{3,})\s*\{?([\w-]*)\}?", line)
        if fence is not None:
            if line.strip() == fence:
                blocks.append(Block(page, start, section, kind, "\n".join(inside)))
                fence, inside = None, []
            else:
                inside.append(line)
        elif opened:
            fence, kind, start = opened[1], opened[2], number + 1
        elif re.match(r" {4}\S", line) and (inside or _blank_before(prose)):
            start = start if inside else number
            inside.append(line[4:])
        elif inside and not line.strip() and not _ends(page, number):
            inside.append("")
        else:
            if inside:
                text = "\n".join(inside).rstrip()
                blocks.append(Block(page, start, section, "", text))
                inside = []
            if heading := re.match(r"#+ (.*)", line):
                section = heading[1]
            prose.append((number, section, line))
    assert fence is None, f"{page}: the fence from line {start} on is not closed"
    return [_named(block) for block in blocks], prose


def _blank_before(prose: list[tuple[int, str, str]]) -> bool:
    return not prose or not prose[-1][2].strip()


def _ends(page: str, number: int) -> bool:
    """Whether the indented block is over at this empty line."""
    following = text_of(page).split("\n")[number:]
    return not following or not following[0].startswith("    ")


def _named(block: Block) -> Block:
    """The block with its kind found out, where no word stands behind its fence."""
    kind = block.kind
    if kind in SHELL:
        kind = "shell"
    elif not kind:
        kind = "shell" if program_of(block.text) in PROGRAMS else "python"
    if kind == "python":
        ast.parse(block.text)  # raises SyntaxError with what it took for Python
    assert kind in ("shell", "python", *OTHER), f"{block.page}:{block.line}: what is a block of {kind}?"
    return Block(block.page, block.line, block.section, kind, block.text)


def program_of(text: str) -> str:
    """The first word of the first line that is no comment, without its folder."""
    for line in text.split("\n"):
        if words := line.lstrip("($ ").split("#")[0].split():
            return words[0].rsplit("/", 1)[-1]
    return ""


def commands(page: str) -> list[Command]:
    """All that the page says to type, in its order."""
    blocks, prose = read(page)
    found = [command for block in blocks if block.kind == "shell" for command in _lines(block)]
    text = "\n".join(line for _, _, line in prose)
    for span in re.finditer(r"(?<!`)`([^`]+)`(?!`)", text):
        at = text[: span.start()].count("\n")
        words = " ".join(span[1].split())
        if " " in words and (program_of(words) in PROGRAMS or of_ours(words)):
            found.append(Command(page, prose[at][0], prose[at][1], words, inline=True))
    return sorted(found, key=lambda command: command.line)


def of_ours(words: str) -> bool:
    """`grade --regrade`, `export canvas|moodle`: a subcommand of ours, without the program."""
    return bool(re.match(r"[a-z]+ (--[a-z]|\w+\|)", words))


def _lines(block: Block) -> list[Command]:
    """The commands of a block; a line that ends with a backslash goes on, comments are left out."""
    found, held, first = [], "", 0
    console = block.text.lstrip().startswith("$ ")
    for number, line in enumerate(block.text.split("\n"), block.line):
        if console and not held and not line.startswith("$ "):
            continue  # what the command printed
        first = first if held else number
        held += line.removeprefix("$ ")
        if held.endswith("\\"):
            held = held[:-1] + " "
            continue
        if held.strip() and not held.lstrip().startswith("#"):
            found.append(Command(block.page, first, block.section, held.strip()))
        held = ""
    return found


if __name__ == "__main__":
    for one in PAGES:
        for command in commands(one):
            print("named  " if command.inline else "typed  ", command)
