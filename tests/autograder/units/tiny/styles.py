"""Right answers to the unit `tiny`, written differently."""

# %% with-numpy
# note: Arrays all the way.
# replaces: halve
import numpy as np


def halve(number):
    return np.divide(number, 2)


# %% with-numpy
# replaces: spread
def spread(numbers):
    return np.max(numbers) - (np.min(numbers) + np.max(numbers)) / 2
