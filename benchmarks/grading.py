"""How long it takes to grade a class of right answers to one unit, beside nbgrader's own autograde.

    python benchmarks/grading.py                 # 60 hand-ins of `attention`, every way in turn; minutes
    python benchmarks/grading.py --large 2000    # and a long run: does it stay linear, does memory stay flat

Every way is the whole command on a fresh copy of the course: start-up and all that it writes are counted.
"""

import argparse
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from autograder import demo
from autograder.assessing import assess
from autograder.course import Course
from autograder.intake import Intake
from autograder.release import Built, build, release
from autograder.runners import Runner

ROOT = Path(__file__).resolve().parents[1]
STOCK = """c = get_config()
c.CourseDirectory.course_id = 'course'
c.CourseDirectory.release_directory = 'exercises'
"""
GOALS = {"autograder grade": 20.0, "nbgrader autograde, our preprocessors": 5.0}
STEPS = 10  # of a long run, each looked at for itself


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--unit", default="attention")
    parser.add_argument("--size", type=int, default=60, help="hand-ins (60)")
    parser.add_argument("--rounds", type=int, default=1, help="of all ways, in turn (1)")
    parser.add_argument("--large", type=int, help="hand-ins of the long run; none by default")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    arguments = parser.parse_args()
    built = build(ROOT / "solutions" / arguments.unit)
    with tempfile.TemporaryDirectory() as folder:
        rows = compared(built, Path(folder), arguments.size, arguments.rounds)
        rows.append(alone(built))
        if arguments.large:
            rows.append(long_run(built, Path(folder), arguments.large))
    print(json.dumps(rows, indent=1) if arguments.json else "\n".join(map(told, rows)))


def told(row: dict) -> str:
    return ", ".join(f"{name}: {value:.4g}" if isinstance(value, float) else f"{name}: {value}"
                     for name, value in row.items())  # fmt: skip


def made(built: Built, folder: Path, size: int) -> Course:
    """A course with the unit and so many copies of the right answer."""
    course = Course.create(folder)
    release(course, built)
    right = next(one for one in demo.make_class(built) if one.expect == "full")
    for number in range(size):
        place = course.submitted / f"student-{number:05d}" / built.spec.unit
        place.mkdir(parents=True)
        (place / f"{built.spec.unit}.ipynb").write_bytes(right.content)
    return course


def compared(built: Built, folder: Path, size: int, rounds: int) -> list[dict]:
    """A row for each way: seconds, hand-ins a minute, and how often as fast as nbgrader alone."""
    unit = built.spec.unit
    ours = [sys.executable, "-m", "autograder.cli", "grade", unit, "--course", "."]
    theirs = [sys.executable, "-m", "nbgrader", "autograde", unit]
    ways = {
        "nbgrader autograde": (theirs, STOCK),
        "nbgrader autograde, our preprocessors": (theirs, ""),
        "autograder grade": (ours, ""),
    }
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way, (command, config) in ways.items():
            course = made(built, folder / "course", size)
            if config:
                (course.root / "nbgrader_config.py").write_text(config)
            begun = time.perf_counter()
            run(command, course.root)
            seconds[way].append(time.perf_counter() - begun)
            written = len(list(course.autograded.glob(f"*/{unit}/{unit}.ipynb")))
            if written != size:
                sys.exit(f"{way} wrote {written} of {size} notebooks")
            shutil.rmtree(course.root)
    base = statistics.median(seconds["nbgrader autograde"])
    return [
        {
            "way": way,
            "hand-ins": size,
            "seconds": statistics.median(times),
            "a minute": 60 * size / statistics.median(times),
            "ratio": base / statistics.median(times),
            "goal": GOALS.get(way, 1.0),
        }
        for way, times in seconds.items()
    ]


def run(command: list[str], folder: Path) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):  # 1: what a person has yet to look at, the written answers
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-2000:]}")


def alone(built: Built, rounds: int = 40) -> dict:
    """One hand-in from its bytes to the verdict, when the runner is warm."""
    right = next(one for one in demo.make_class(built) if one.expect == "full")
    runner, times = Runner(built.spec), []
    try:
        for number in range(rounds + 3):
            begun = time.perf_counter()
            assess("student", Intake(right.content), built.spec, number.to_bytes(4), runner)
            times.append(1000 * (time.perf_counter() - begun))
    finally:
        runner.stop()
    return {"way": "one hand-in alone, warm", "median ms": statistics.median(times[3:]), "goal ms": 60.0}


def long_run(built: Built, folder: Path, size: int) -> dict:
    """One run over many: how long each tenth takes, and the most memory that a process has in it."""
    course = made(built, folder / "large", size)
    command = [sys.executable, "-m", "autograder.cli", "grade", built.spec.unit, "--course", "."]
    marks, memory, most = [time.perf_counter()], [], 0
    with started(command, course.root) as process:
        while process.poll() is None:
            most = max(most, largest(process.pid))
            done = sum(1 for _ in course.autograded.glob("*"))
            if done * STEPS >= size * len(marks):
                marks.append(time.perf_counter())
                memory.append(most)
                most = 0
            time.sleep(0.2)
    tenths = [after - before for before, after in itertools.pairwise(marks)]
    return {
        "way": f"autograder grade, {size} hand-ins",
        "seconds": time.perf_counter() - marks[0],
        "seconds of each tenth": [round(one, 1) for one in tenths],
        "MB of the largest process": [round(one / 1024) for one in memory],
    }


@contextmanager
def started(command: list[str], folder: Path) -> Iterator[subprocess.Popen]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, cwd=folder, env=environment, **quiet)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def largest(process: int) -> int:
    """Resident kilobytes of the largest of a process and those below it."""
    parents, sizes = {}, {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = dict(
                line.split(":\t", 1) for line in (entry / "status").read_text().splitlines() if ":\t" in line
            )
        except OSError:  # it has just ended
            continue
        parents[int(entry.name)] = int(fields["PPid"])
        sizes[int(entry.name)] = int(fields.get("VmRSS", "0 kB").split()[0])
    family = {process}
    while more := {one for one, parent in parents.items() if parent in family} - family:
        family |= more
    return max(sizes.get(one, 0) for one in family)


if __name__ == "__main__":
    main()
