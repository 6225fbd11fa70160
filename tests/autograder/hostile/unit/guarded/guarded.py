# %% [markdown]
# # Guarded
#
# A made-up unit. What stands in its hidden tests is looked for in everything that leaves the grader.

# %% nbgrader={"grade_id": "imports", "locked": true}
import numpy as np
from minitx.course import check


# %% nbgrader={"grade_id": "answer", "solution": true}
def total(x):
    """The sum of all numbers in the array `x`."""
    ### BEGIN SOLUTION
    running_sum = x.sum()
    return running_sum
    ### END SOLUTION


def scaled(x, by):
    """`by` times `x`, as a new array."""
    ### BEGIN SOLUTION
    bigger_copy = x * by
    return bigger_copy
    ### END SOLUTION


# %% nbgrader={"grade_id": "test-total", "grade": true, "points": 4}
### Test: the sum of two numbers (1 point)
assert total(np.array([1.0, 2.0])) == 3.0, "expected 3.0"
### BEGIN HIDDEN TESTS
### Test: the sum of a table (2 points)
### Hint: How many axes are there?
hidden_canary_c41d = np.append(check.rng("table").random((3, 4)), 4711.0815)  # canary-c41d-comment
expected = hidden_canary_c41d.sum()  # before the call, which may change the argument
np.testing.assert_allclose(
    np.asarray(total(hidden_canary_c41d)), expected, err_msg="canary-c41d-message", strict=True
)
### Test: the sum of six ones (1 point)
assert total(np.ones((3, 2))) == 6, "canary-c41d-assert"
### END HIDDEN TESTS

# %% nbgrader={"grade_id": "test-scaled", "grade": true, "points": 3}
### Test: twice three numbers (1 point)
check.array("scaled", scaled(np.array([1.0, -2.0, 4.0]), 2.0), np.array([2.0, -4.0, 8.0]), axes=("number",))
### BEGIN HIDDEN TESTS
### Test: a new array (2 points)
x_canary_c41d = np.array([4711.0815, 5.5])
before = x_canary_c41d.copy()
got = scaled(x_canary_c41d, 3.0)
assert x_canary_c41d.tolist() == before.tolist(), "canary-c41d-unchanged"
check.array("scaled", got, 3.0 * before, axes=("number",))
### END HIDDEN TESTS
