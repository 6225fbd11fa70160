"""The bank of named answers is read from text, and every way to write it wrongly is named by its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograder.bank import Style, read_misconceptions, read_styles
from autograder.errors import ReleaseError

UNITS = Path(__file__).parent / "units"
KEYS = "# belief: b\n# advice: a\n# replaces: softmax\n# caught by: rows: all of them\n"


def written(folder: Path, text: str) -> Path:
    path = folder / "bank.py"
    path.write_text(text, encoding="utf-8")
    return path


def test_misconceptions_are_read_in_the_files_order():
    whole, doubles = read_misconceptions(UNITS / "tiny" / "misconceptions.py")
    assert (whole.name, whole.replaces, whole.caught_by) == (
        "whole-division",
        "halve",
        "half of an odd number",
    )
    assert whole.belief == "Half of a number is a whole number."
    assert whole.advice == "What does 7 // 2 leave out?"
    assert whole.code == "def halve(number):\n    return number // 2"
    assert doubles.name == "doubles"


def test_a_value_may_hold_a_colon_and_code_may_begin_with_a_comment(tmp_path: Path):
    (one,) = read_misconceptions(written(tmp_path, f"# %% a\n{KEYS}\n# note: not a key, but code\nx = 1\n"))
    assert one.caught_by == "rows: all of them"
    assert one.code == "# note: not a key, but code\nx = 1"


def test_entries_of_one_style_are_gathered():
    styles = read_styles(UNITS / "tiny" / "styles.py")
    assert styles == {
        "with-numpy": Style(
            "with-numpy",
            "Arrays all the way.",
            {
                "halve": "import numpy as np\n\n\ndef halve(number):\n    return np.divide(number, 2)",
                "spread": (
                    "def spread(numbers):\n"
                    "    return np.max(numbers) - (np.min(numbers) + np.max(numbers)) / 2"
                ),
            },
        )
    }


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        (f"# %% a\n{KEYS}x = 1\n# %% a\n{KEYS}x = 1\n", 7, "there twice"),
        (f"# %% Two words\n{KEYS}x = 1\n", 1, "small letters"),
        (f"# %%\n{KEYS}x = 1\n", 1, "small letters"),
        (f"# %% [markdown]\n{KEYS}x = 1\n", 1, "small letters"),
        ("# %% a\n# belief: b\n# advice: a\n# replaces: s\nx = 1\n", 1, "no '# caught by: ...'"),
        ("# %% a\n# belief:\n# advice: a\n# replaces: s\n# caught by: c\nx = 1\n", 1, "no '# belief: ...'"),
        (f"# %% a\n{KEYS}# advise: twice\nx = 1\n", 1, "unknown line '# advise:'"),
        (f"# %% a\n{KEYS}# advice: twice\nx = 1\n", 6, "given twice"),
        (f"# %% a\n{KEYS}\n\nx = (\n", 8, "no valid Python"),
        (f"# %% a\n{KEYS}# only a comment\n", 1, "has no code"),
        (f"x = 1\n# %% a\n{KEYS}x = 1\n", 1, "belongs to no entry"),
    ],
)
def test_a_bad_bank_is_refused_with_file_and_line(tmp_path: Path, text: str, line: int, said: str):
    with pytest.raises(ReleaseError, match=said) as caught:
        read_misconceptions(written(tmp_path, text))
    assert f"bank.py:{line}:" in str(caught.value)


def test_a_style_that_replaces_a_cell_twice_is_refused(tmp_path: Path):
    entry = "# %% a\n# replaces: softmax\nx = 1\n"
    with pytest.raises(ReleaseError, match=r"bank.py:4: .* a second time"):
        read_styles(written(tmp_path, entry * 2))


def test_a_file_that_is_missing_or_no_text_is_refused(tmp_path: Path):
    with pytest.raises(ReleaseError, match="cannot be read"):
        read_styles(tmp_path / "nowhere.py")
    (tmp_path / "bank.py").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ReleaseError, match="cannot be read"):
        read_misconceptions(tmp_path / "bank.py")
