"""Reading and writing a table as an LMS wrote it: its separator, its line ends, its byte-order mark."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path

from autograder.errors import UsageError

_MAX_BYTES = 64 * 2**20


@dataclass
class LmsTable:
    """The rows of a CSV file, all of one width, and how the file is written."""

    rows: list[list[str]]
    delimiter: str
    line_end: str
    mark: bool  # the file begins with a byte-order mark

    @property
    def header(self) -> list[str]:
        return self.rows[0]

    def text(self, rows: list[list[str]]) -> str:
        out = io.StringIO()
        csv.writer(out, delimiter=self.delimiter, lineterminator=self.line_end).writerows(rows)
        return ("\ufeff" if self.mark else "") + out.getvalue()


def read_table(path: Path, what: str) -> LmsTable:
    """Raises `UsageError` for a file that is no table with a header; `what` says which was expected."""
    try:
        data = Path(path).read_bytes()[: _MAX_BYTES + 1]
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}. Expected {what}.") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8 text. Expected {what}, as it was downloaded.") from None
    first = text.split("\n", 1)[0]
    delimiter = max(",;\t", key=first.count)
    try:
        rows = [row for row in csv.reader(io.StringIO(text), delimiter=delimiter) if any(row)]
    except csv.Error as error:
        raise UsageError(f"{path} cannot be read as a table ({error}). Expected {what}.") from None
    if len(rows) < 2 or len(rows[0]) < 2:
        raise UsageError(f"{path} holds no table with a header and students. Expected {what}.")
    width = max(map(len, rows))
    rows = [row + [""] * (width - len(row)) for row in rows]
    return LmsTable(rows, delimiter, "\r\n" if "\r\n" in text else "\n", data.startswith(b"\xef\xbb\xbf"))


def the_column(header: list[str], wanted: str, path: Path) -> int:
    """The only column with this name, or else with a name that holds it. Raises `UsageError`."""
    names = [name.strip() for name in header]
    found = [i for i, name in enumerate(names) if name == wanted]
    found = found or [i for i, name in enumerate(names) if wanted.casefold() in name.casefold()]
    if len(found) != 1:
        which = "no column is" if not found else "several columns are"
        raise UsageError(
            f"In {path}, {which} named {wanted!r}. Say which with --column. The columns are:"
            f" {', '.join(repr(name) for name in names if name)}."
        )
    return found[0]
