"""Which names a code cell defines at its top level, by reading its lines, not by parsing it.

Students' cells may hold a syntax error, IPython magics, or text made to break a parser (a deeply nested
expression can end the whole process), so the lines are matched one by one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_FUNCTION = re.compile(r"(?:async\s+def|def|class)\s+(\w+)")
_ASSIGNMENT = re.compile(r"(\w++(?:\s*+,\s*+\w++)*+)\s*+(?::[^=\n]{0,200})?=(?!=)")
_IMPORT = re.compile(r"import\s+(.+)|from\s+[\w.]+\s+import\s+(.+)")
_IDENTIFIER = re.compile(r"[^\W\d]\w*$")
_QUESTION = re.compile(r"""quiz\.show\(["'](\w{1,20})["']\)\s*$""")
_COMMENT = re.compile(r"^[^\S\n]*+#.*$", re.MULTILINE)
_LONGEST = 2_000  # longer lines are data


def defined_names(source: str) -> set[str]:
    """Functions, classes and variables that the top level of `source` defines; imports are left out."""
    return defined_functions(source) | _matches(source, _ASSIGNMENT)


def defined_functions(source: str) -> set[str]:
    """Functions and classes that the top level of `source` defines."""
    return _matches(source, _FUNCTION)


def imported_names(source: str) -> set[str]:
    """Names that the top level of `source` imports."""
    found = set()
    for line in top_level_lines(source):
        if match := _IMPORT.match(line):
            listed = (match[1] or match[2]).split("#")[0].strip("() ")
            found |= {item.split(" as ")[-1].strip().split(".")[0] for item in listed.split(",")}
    return {name for name in found if _IDENTIFIER.match(name)}


def words(source: str) -> set[str]:
    """Every word in `source`, but for its lines of comment: what it may use of others."""
    return set(re.findall(r"\w+", _COMMENT.sub("", source)))


def _matches(source: str, pattern: re.Pattern[str]) -> set[str]:
    found = set()
    for line in top_level_lines(source):
        if match := pattern.match(line):
            found |= {name.strip() for name in match[1].split(",")}
    return {name for name in found if _IDENTIFIER.match(name)}


def top_level_lines(source: str) -> list[str]:
    """The lines at the least indentation: IPython takes a common indentation off before it runs a cell."""
    lines = [line.expandtabs() for line in source.split("\n") if line.strip() and len(line) <= _LONGEST]
    code = [line for line in lines if not line.lstrip().startswith(("#", "%", "!"))]
    margin = min((len(line) - len(line.lstrip()) for line in code), default=0)
    return [line[margin:] for line in code if not line[margin : margin + 1].isspace()]


def only_shown(sources: Sequence[str], provided: Sequence[bool]) -> set[int]:
    """Which of these cells, all of one notebook and in order, only show something.

    Such a cell was provided by the author and defines names (a figure, a table) that no other kept cell
    uses, or does nothing but show a question. Drawing it takes longer than all the tests together.
    """
    used: set[str] = set()
    for source, given in zip(sources, provided, strict=True):
        if not given:
            used |= words(source)
    found = set()
    for place in reversed(range(len(sources))):
        if provided[place]:
            names = (defined_names(sources[place]) | imported_names(sources[place])) - {"_"}
            if (names and not names & used) or questions_shown(sources[place]):
                found.add(place)
            else:
                used |= words(sources[place]) - names
    return found


def questions_shown(source: str) -> list[str]:
    """The names of the questions that a cell shows, where it does nothing else; else none."""
    lines = [_QUESTION.match(line) for line in top_level_lines(source)]
    found = [line[1] for line in lines if line]
    return found if len(found) == len(lines) else []
