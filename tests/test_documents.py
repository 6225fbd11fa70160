"""What the documents say is so: their commands, links and examples are tried."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")
TEXT = {name: (ROOT / name).read_text() for name in DOCUMENTS}


def blocks(text):
    """The indented code blocks of a document, each as one string."""
    return [
        "\n".join(line[4:] for line in block.splitlines())
        for block in re.findall(r"(?:^ {4}.*\n(?:\n(?= {4}))?)+", text, flags=re.MULTILINE)
    ]


COMMANDS = [line.split("#")[0].strip() for block in blocks(TEXT["README.md"]) for line in block.splitlines()]


def test_every_make_target_that_is_named_exists():
    named = set(re.findall(r"`make (\w+)`", "".join(TEXT.values()))) | {
        c[5:] for c in COMMANDS if c.startswith("make ")
    }
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    assert {"demo", "test", "lint", "exercises"} <= named
    assert named <= targets


def test_every_notebook_and_room_that_is_named_exists():
    for path in re.findall(r"exercises/\S+\.ipynb", TEXT["README.md"]):
        assert (ROOT / path).is_file()
    rooms = re.findall(r"`((?:\w+/)*\w+\.py)`", TEXT["ARCHITECTURE.md"])
    assert len(rooms) > 20
    homes = ["minitx", "minitx/kernels", "autograder", "autograder/sandbox", "solutions/attention", ""]
    for room in rooms:
        if not room.startswith("solutions/"):
            assert any((ROOT / home / room).is_file() for home in homes), room


def test_every_room_of_the_grader_is_on_the_map():
    for path in (ROOT / "autograder").rglob("*.py"):
        if path.name != "__init__.py":
            assert re.search(rf"\b{path.name}`", TEXT["ARCHITECTURE.md"]), (
                f"{path.name} is not in ARCHITECTURE.md"
            )


def test_the_example_for_readers_of_the_code_runs():
    (example,) = [block for block in blocks(TEXT["README.md"]) if "import minitx" in block]
    names = {}
    exec(compile(example, "README.md", "exec"), names)
    assert names["q"].grad.shape == (1, 2, 5, 4)
