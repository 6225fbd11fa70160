"""The walk back through the graph: right sums, right shapes, right dtypes, bounded time and memory."""

import gc
import threading

import numpy as np
import pytest

import minitx
import minitx.functional as F
from minitx import GraphError, Tensor, graph, nn, optim
from minitx.ops import table
from minitx.tensor import apply


def leaf(*shape, dtype=np.float32):
    return Tensor(
        np.arange(1, 1 + np.prod(shape, dtype=int)).reshape(shape).astype(dtype), requires_grad=True
    )


def test_a_value_doubled_25_times_has_gradient_2_to_the_25_and_each_node_is_visited_once():
    x = leaf(2, 3)
    y = x
    for _ in range(25):
        y = y + y
    assert len(graph.order_from(y._node)) == 25
    y.sum().backward()
    np.testing.assert_array_equal(x.grad, np.full((2, 3), 2.0**25))


def test_a_chain_of_50000_operations_works_in_both_directions():
    x = leaf(2)
    y = x
    for _ in range(50_000):
        y = y + 1.0
    y.sum().backward()
    np.testing.assert_array_equal(x.grad, [1, 1])


def test_a_long_chain_that_is_dropped_without_backward_does_not_overflow_the_stack():
    y = leaf(2)
    for _ in range(100_000):
        y = -y
    del y


def test_a_second_backward_explains_itself_and_adds_nothing():
    x = leaf(3)
    y = (x * x).sum()
    y.backward()
    before = x.grad.copy()
    with pytest.raises(GraphError, match=r"already gone through.*Run the forward pass again"):
        y.backward()
    np.testing.assert_array_equal(x.grad, before)


def test_a_second_loss_through_a_freed_part_of_the_graph_explains_itself():
    x = leaf(3)
    shared = x * x
    shared.sum().backward()
    with pytest.raises(GraphError, match="once on the sum"):
        (shared * 2).sum().backward()


def test_gradients_of_several_forward_passes_add_up():
    x = leaf(3)
    for _ in range(3):
        (x * 2).sum().backward()
    np.testing.assert_array_equal(x.grad, [6, 6, 6])
    x.zero_grad()
    assert x.grad is None


def test_a_broadcast_operand_gets_a_gradient_of_its_own_shape():
    for shape in [(), (1,), (4,), (3, 1), (1, 4), (2, 1, 4), (1, 1, 1)]:
        x, y = leaf(*shape), leaf(2, 3, 4)
        (x * y).sum().backward()
        assert x.grad.shape == x.shape
        assert y.grad.shape == y.shape
        np.testing.assert_allclose(x.grad.sum(), y.numpy().sum())


def test_gradients_of_two_leaves_are_two_arrays():
    """Both get the same gradient from `a + b`; scaling one must not scale the other."""
    a, b = leaf(2, 3), leaf(2, 3)
    (a + b).backward(np.ones((2, 3)))
    a.grad *= 5
    np.testing.assert_array_equal(b.grad, np.ones((2, 3)))


def test_a_rule_that_gives_one_array_to_two_inputs_does_not_tie_them_together(monkeypatch):
    monkeypatch.setitem(table.OPS, "twice", None)
    table.define_joint("twice", lambda a, b: a + b, "a b", lambda grad: (grad * 3,) * 2)
    a, b = leaf(3), leaf(3)
    loss = apply("twice", a, b * 1).sum() + a.sum()
    loss.backward()
    np.testing.assert_array_equal(a.grad, [4, 4, 4])
    np.testing.assert_array_equal(b.grad, [3, 3, 3])
    a, b = leaf(3), leaf(3)
    apply("twice", a, b).sum().backward()
    a.grad *= 5
    np.testing.assert_array_equal(b.grad, [3, 3, 3])


def test_the_given_gradient_is_not_kept_by_the_leaf():
    x, seed = leaf(3), np.ones(3, np.float32)
    x.backward(seed)
    seed[:] = 9
    np.testing.assert_array_equal(x.grad, [1, 1, 1])


def test_backward_of_more_than_one_number_needs_a_gradient_of_the_same_shape():
    x = leaf(2, 3)
    with pytest.raises(ValueError, match=r"starts from one number.*\(2, 3\)"):
        (x * 2).backward()
    with pytest.raises(ValueError, match=r"\(2, 3\), got \(3,\)"):
        (x * 2).backward(np.ones(3))
    (x * 2).backward(np.full((2, 3), 3.0))
    np.testing.assert_array_equal(x.grad, np.full((2, 3), 6))


def test_backward_without_a_graph_says_how_graphs_are_lost():
    with pytest.raises(GraphError, match="requires_grad=True"):
        Tensor(np.ones(())).backward()
    with minitx.no_grad():
        y = leaf(3).sum()
    with pytest.raises(GraphError, match="no_grad"):
        y.backward()


def test_detach_cuts_the_graph_and_shares_the_values():
    x = leaf(3)
    y = (x * x).detach()
    assert not y.requires_grad
    z = (x * y).sum()
    z.backward()
    np.testing.assert_array_equal(x.grad, [1, 4, 9])


def test_no_grad_is_restored_after_an_error_and_holds_for_one_thread_only():
    with pytest.raises(KeyError), minitx.no_grad():
        raise KeyError
    assert minitx.is_recording()
    seen = []
    with minitx.no_grad():
        thread = threading.Thread(target=lambda: seen.append(minitx.is_recording()))
        thread.start()
        thread.join()
        assert not minitx.is_recording()
    assert seen == [True]


def test_no_grad_works_as_a_decorator():
    @minitx.no_grad()
    def double(x):
        return x * 2

    assert not double(leaf(2)).requires_grad


def test_an_intermediate_tensor_keeps_its_gradient_when_asked():
    x = leaf(3)
    y = x * x
    y.retain_grad()
    (y * 3).sum().backward()
    np.testing.assert_array_equal(y.grad, [3, 3, 3])
    np.testing.assert_array_equal(x.grad, [6, 12, 18])


def test_gradients_do_not_flow_to_tensors_that_do_not_ask():
    x, fixed = leaf(3), Tensor(np.ones(3, np.float32))
    (x * fixed).sum().backward()
    assert fixed.grad is None


@pytest.mark.parametrize(
    "expression",
    [
        lambda x: x * 2.0,
        lambda x: 2.0 / x,
        lambda x: x / np.sqrt(16),
        lambda x: np.float64(3) * x,
        lambda x: x + np.ones(4),
        lambda x: np.ones(4) - x,
        lambda x: x**2,
        lambda x: x**0.5,
        lambda x: x.mean(),
        lambda x: x.max(axis=0),
        lambda x: x.var(),
        lambda x: x * np.arange(4),
        lambda x: x * Tensor(np.arange(4)),
        lambda x: F.where(x > 2, x, 0.0),
        lambda x: x @ np.ones((4, 2)),
        lambda x: F.dropout(x, 0.5, rng=1),
    ],
)
def test_float32_stays_float32_beside_numbers_and_arrays(expression):
    x = leaf(3, 4)
    y = expression(x)
    assert y.dtype == np.float32
    y.sum().backward()
    assert x.grad.dtype == np.float32


def test_numbers_beside_a_float64_tensor_keep_all_their_digits():
    x = leaf(1, dtype=np.float64)
    assert (x * 0.1).item() == 0.1
    assert F.where(x > 2, x, 0.1).item() == 0.1


def test_dtypes_of_new_tensors():
    assert Tensor([1.5, 2.0]).dtype == np.float32
    assert Tensor(2.0).dtype == np.float32
    assert Tensor(np.zeros(2)).dtype == np.float64
    assert Tensor(np.zeros(2, np.float16)).dtype == np.float32
    assert Tensor([1, 2]).dtype == np.int64
    assert Tensor(np.zeros(2, np.int32)).dtype == np.int32
    assert Tensor([True]).dtype == np.bool_
    assert (Tensor([1, 2]) / 2).dtype == np.float32
    assert (Tensor([1, 2]) * 0.5).numpy().tolist() == [0.5, 1.0]


def test_a_float32_and_a_float64_tensor_meet_in_float64_and_keep_their_own_gradients():
    x, y = leaf(3), leaf(3, dtype=np.float64)
    z = x * y
    assert z.dtype == np.float64
    z.sum().backward()
    assert (x.grad.dtype, y.grad.dtype) == (np.float32, np.float64)


def test_what_is_no_number_is_refused():
    with pytest.raises(minitx.DtypeError, match="object"):
        Tensor([object(), 3])
    with pytest.raises(minitx.DtypeError, match="int64"):
        Tensor([1, 2], requires_grad=True)
    with pytest.raises(TypeError, match="detach"):
        Tensor(Tensor([1.0]))
    with pytest.raises(TypeError, match=r"F\.stack"):
        Tensor([leaf(2), leaf(2)])
    with pytest.raises(ValueError, match="same length"):
        Tensor([[1.0, 2.0], [3.0]])


def test_repeated_embedding_ids_add_up_their_gradients():
    weight = leaf(5, 2)
    F.embedding(np.array([[1, 3, 1], [1, 0, 3]]), weight).sum().backward()
    np.testing.assert_array_equal(weight.grad, [[1, 1], [3, 3], [0, 0], [2, 2], [0, 0]])


def test_slice_assignment_names_the_alternatives():
    x = leaf(3)
    with pytest.raises(TypeError, match=r"F\.where.*x\.data\[\.\.\.\] = value"):
        x[0] = 1.0


def test_numpy_functions_on_a_tensor_fail_and_do_not_leave_the_graph_silently():
    with pytest.raises(TypeError):
        np.exp(leaf(3))


def test_a_new_tensor_has_memory_of_its_own_unless_asked_to_share():
    array = np.ones((3, 2))
    own, own_part, shared = Tensor(array), Tensor(array[1:]), Tensor(array, copy=False)
    array[:] = 9
    assert (own.numpy() == 1).all()
    assert (own_part.numpy() == 1).all()
    assert (shared.numpy() == 9).all()


def test_numpy_gives_a_copy_and_data_the_array():
    x = leaf(3)
    x.numpy()[0] = 50
    assert x.numpy()[0] == 1
    x.data[0] = 50
    assert x.numpy()[0] == 50
    with pytest.raises(ValueError, match=r"\(3,\), got \(2,\)"):
        x.data = np.zeros(2)


def test_shapes_that_do_not_fit_are_named():
    with pytest.raises(ValueError, match=r"add .*\(2, 3\), \(4,\)"):
        leaf(2, 3) + leaf(4)
    with pytest.raises(ValueError, match=r"matmul .*\(2, 3\), \(4, 3\).*transposed"):
        leaf(2, 3) @ leaf(4, 3)
    with pytest.raises(ValueError, match=r"reshape .*\(2, 3\)"):
        leaf(2, 3).reshape(4, 2)
    with pytest.raises(IndexError, match=r"slice .*\(2, 3\)"):
        leaf(2, 3)[5]


def tensors_and_nodes():
    kinds = (Tensor, graph.Node, graph.Storage)
    return sum(issubclass(type(thing), kinds) for thing in gc.get_objects())


def test_1000_training_steps_hold_memory_flat_without_the_cyclic_collector(rng):
    model = nn.Linear(6, 8, rng=0), nn.LayerNorm(8), nn.Linear(8, 5, rng=1)
    optimizer = optim.AdamW([p for part in model for p in part.parameters()], lr=1e-3)
    x, targets = rng.standard_normal((2, 3, 6)).astype(np.float32), rng.integers(0, 5, (2, 3))

    def step():
        optimizer.zero_grad()
        hidden = model[1](F.gelu(model[0](Tensor(x))))
        heads = hidden.reshape(2, 3, 2, 4).permute(0, 2, 1, 3)
        seen = F.attention(heads, heads, heads, causal=True).permute(0, 2, 1, 3).reshape(2, 3, 8)
        F.cross_entropy(model[2](hidden + seen), targets).backward()
        optimizer.step()

    step()
    gc.collect()
    gc.disable()
    try:
        before = tensors_and_nodes()
        for _ in range(1000):
            step()
        assert tensors_and_nodes() == before
    finally:
        gc.enable()


def test_backward_frees_what_the_operations_kept():
    x = leaf(3)
    y = x * x
    node = y._node
    y.sum().backward()
    assert node.values is None
    assert node.parents == ()
