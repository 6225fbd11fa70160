"""The folder: other names, other places, more than one file, things that are no files, huge files."""

from __future__ import annotations

import copy
import os
import shutil
from pathlib import Path

from mangled.kind import UNIT, Book, Folder, Kind, dump

EXACT = f"{UNIT}.ipynb"


def renamed(kind: str, *names: str) -> Kind:
    return Kind(kind, lambda book: dict.fromkeys(names, dump(book)))


def beside(kind: str, **others: str) -> Kind:
    """Files that student code, or the grader, could import by mistake."""
    files = {name.replace("__", "."): source.encode() for name, source in others.items()}
    return Kind(kind, lambda book: {EXACT: dump(book), **files})


def several(book: Book) -> Folder:
    """An old download and the right file; the name decides."""
    old = copy.deepcopy(book)
    old["cells"] = []
    return {EXACT: dump(book), f"{UNIT} (1).ipynb": dump(old), f"old/{EXACT}": dump(old)}


def newest(book: Book) -> Folder:
    """Several names of which none is right: the newest counts."""

    def fill(folder: Path) -> None:
        for age, (name, data) in enumerate(
            [(f"{UNIT}-final.ipynb", dump(book)), (f"{UNIT}_v1.ipynb", b"{}")]
        ):
            (folder / name).write_bytes(data)
            os.utime(folder / name, (2_000_000_000 - age, 2_000_000_000 - age))

    return fill


def huge_output(book: Book) -> Folder:
    """30 MB that a loop printed, and a picture."""
    book = copy.deepcopy(book)
    printed = {"output_type": "stream", "name": "stdout", "text": ["line of output\n"] * 1_500_000}
    for cell in book["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"] = [printed]
            printed = {"output_type": "display_data", "metadata": {}, "data": {"image/png": "iVBO" * 1000}}
    return {EXACT: dump(book, indent=None)}


def too_large(book: Book) -> Folder:
    def fill(folder: Path) -> None:
        with (folder / EXACT).open("wb") as file:
            file.write(dump(book))
            file.truncate(70 * 2**20)

    return fill


def linked(book: Book) -> Folder:
    def fill(folder: Path) -> None:
        other = folder.parent / "elsewhere.ipynb"
        other.write_bytes(dump(book))
        (folder / EXACT).symlink_to(other)

    return fill


def hard_linked(book: Book) -> Folder:
    def fill(folder: Path) -> None:
        other = folder.parent / "elsewhere.ipynb"
        other.write_bytes(dump(book))
        os.link(other, folder / EXACT)

    return fill


def link_beside(book: Book) -> Folder:
    def fill(folder: Path) -> None:
        (folder / EXACT).write_bytes(dump(book))
        (folder / "secrets.ipynb").symlink_to("/etc/passwd")
        os.mkfifo(folder / "pipe.ipynb")

    return fill


def the_folder_is_a_link(book: Book) -> Folder:
    def fill(folder: Path) -> None:
        other = folder.parent.parent / ".elsewhere"
        other.mkdir(exist_ok=True)
        (other / EXACT).write_bytes(dump(book))
        shutil.rmtree(folder)
        folder.symlink_to(other)

    return fill


def many_files(book: Book) -> Folder:
    return {EXACT: dump(book), **{f"data/{number}.csv": b"1,2\n" for number in range(300)}}


KINDS: list[Kind] = [
    Kind("as-it-should-be", lambda book: {EXACT: dump(book)}),
    renamed("a-second-download", "tiny (1).ipynb"),
    renamed("a-copy", "tiny-Copy1.ipynb"),
    renamed("in-capitals", "TINY.IPYNB"),
    renamed("with-a-name", "Tiny_Jane_Doe_final_FINAL.ipynb"),
    renamed("another-name", "Untitled3.ipynb"),
    renamed("as-text", "tiny.ipynb.txt"),
    renamed("as-json", "tiny.json"),
    renamed("without-ending", "tiny"),
    renamed("letters-of-many-scripts", "Übung 作业 ☃.ipynb"),
    renamed("a-name-with-a-line-break", "tiny\n\x1b[31m.ipynb"),
    renamed("in-a-folder", f"my work/homework/{EXACT}"),
    renamed("in-a-folder-of-that-name", f"{EXACT}/{EXACT}"),
    Kind("with-an-old-download", several),
    Kind("two-wrong-names", newest),
    beside("own-numpy", numpy__py="raise SystemExit", math__py="raise SystemExit"),
    beside("own-sitecustomize", sitecustomize__py="import os; os._exit(1)", usercustomize__py="1/0"),
    beside("own-nbgrader-config", nbgrader_config__py="raise SystemExit", conftest__py="1/0"),
    Kind(
        "checkpoints", lambda book: {EXACT: dump(book), f".ipynb_checkpoints/{UNIT}-checkpoint.ipynb": b"{}"}
    ),
    Kind(
        "mac-leftovers", lambda book: {EXACT: dump(book), f"__MACOSX/._{EXACT}": b"\0\5", ".DS_Store": b"\0"}
    ),
    Kind("many-files", many_files),
    Kind("link-beside", link_beside),
    Kind("huge-output", huge_output),
    Kind("too-large", too_large, "has 70 MB; at most 64 MB"),
    Kind("a-link", linked, "is a link, not a file"),
    Kind("a-hard-link", hard_linked, "is a hard link"),
    Kind("the-folder-is-a-link", the_folder_is_a_link, "is a link"),
    Kind("nothing", lambda book: {}, "The submission is empty"),
    Kind(
        "only-a-pdf", lambda book: {"homework.pdf": b"%PDF"}, "No notebook was handed in, only 'homework.pdf'"
    ),
]
