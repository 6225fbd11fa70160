"""Errors that say what was expected, what came, and what to try."""


class DtypeError(TypeError, ValueError):
    """An array of the wrong dtype. Both a TypeError and a ValueError, so either handler catches it."""


class GraphError(RuntimeError):
    """Gradients cannot be computed: the graph is freed, missing, or its arrays have changed."""


class GradientError(AssertionError):
    """A derivative rule disagrees with finite differences."""


class CourseError(ValueError):
    """A notebook, a unit or a question that cannot be used; the message is written for a person."""


class CheckpointError(ValueError):
    """A file of weights cannot be read or does not fit; the message is written for a person."""


def shape_error(argument: str, expected: str, got: tuple[int, ...], hint: str = "") -> ValueError:
    """The error for a wrong shape: names the argument, the axes expected and the shape that came."""
    message = f"{argument} must have shape {expected}, got {tuple(got)}."
    return ValueError(f"{message} {hint}" if hint else message)
