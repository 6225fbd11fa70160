# ---
# jupyter:
#   kernelspec:
#     display_name: whatever the author's editor wrote
#     language: python
#     name: conda-env-7
# ---

# %% [markdown]
# # Half and spread
#
# A made-up unit, small enough to read at a glance.

# %% nbgrader={"grade_id": "imports", "locked": true}
import math

# %% [markdown]
# Write `halve`.


# %% nbgrader={"grade_id": "halve", "solution": true}
def halve(number):
    """Half of `number`."""
    ### BEGIN SOLUTION
    half_of_it = number / 2
    return half_of_it
    ### END SOLUTION


# %% nbgrader={"grade_id": "test-halve", "grade": true, "points": 3}
scale = 2
### Test: half of an even number (1 point)
### Hint: What is half of four?
assert halve(2 * scale) == 2
### BEGIN HIDDEN TESTS
### Test: half of an odd number (2 points)
### Hint: Does your division keep
###   what is left over?
### Belief: whole-division
expected_canary_4711 = 3.5
assert halve(7) == expected_canary_4711
### END HIDDEN TESTS

# %% [markdown]
# Now write `spread`; it may use `halve`.


# %% nbgrader={"grade_id": "spread", "solution": true}
def middle(numbers):
    """Halfway between the least and the greatest of `numbers`."""
    ### BEGIN SOLUTION
    return halve(min(numbers) + max(numbers))
    ### END SOLUTION


def spread(numbers):
    """How far `numbers` reach from their middle."""
    ### BEGIN SOLUTION
    return max(numbers) - middle(numbers)
    ### END SOLUTION


# %% nbgrader={"grade_id": "test-spread", "grade": true, "points": 2.5}
### BEGIN HIDDEN TESTS
assert math.isclose(spread([1, 2, 6]), 2.5)
### END HIDDEN TESTS

# %% [markdown] nbgrader={"grade_id": "why", "grade": true, "solution": true, "points": 4}
# Because the middle is as far from one end as from the other.

# %% [markdown]
# That is all.
