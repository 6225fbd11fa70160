"""The student's command. Exit code 0: done; 1: the work says no; 2: wrong use."""

from minitx.cli import bench, course, doctor, drive, embed, generate, practice, quiz, train, warmup
from minitx.cli.app import app

__all__ = [
    "bench",
    "course",
    "doctor",
    "drive",
    "embed",
    "generate",
    "main",
    "practice",
    "quiz",
    "train",
    "warmup",
]


def main() -> None:
    app()
