"""Where a caller and its helpers meet: one call at a time, handed over without Python's lock.

The board is an array of whole numbers in memory that all threads see:

    PLACES    how many helpers the call still takes; what a helper takes away is its number
    CALL      the address of a function that runs the kernel as worker so-and-so
    VALUES    the address of the kernel's arguments, on the caller's stack
    DONE      helpers that have finished
    FAILED    whether one has ended with an error
    OWNED     whether a call uses the board
    ASLEEP    helpers that no longer look

A helper reads CALL and VALUES after it has taken a place, and the caller changes them only when all that took
one have finished. So a helper that comes late finds no place, and nothing to read.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from minitx.kernels.simd import I64, intrinsic, relax_in, yield_in

PLACES, CALL, VALUES, DONE, FAILED, OWNED, ASLEEP = (8 * i for i in range(7))  # a cache line each
SIZE = 8 * 8
LOOKS = 2000  # at a number that another thread is about to change, before the core is offered to others
ORDER = "seq_cst"
TUPLES = types.Tuple, types.UniTuple, types.NamedTuple, types.NamedUniTuple
VOID, BYTES = ir.VoidType(), ir.IntType(8).as_pointer()


def _words(context, builder, kind, array):
    """Where each number of a board lies."""
    start = context.make_array(kind)(context, builder, array).data
    return lambda index: builder.gep(start, [I64(index)])


def _read(builder, place):
    return builder.load_atomic(place, ORDER, 8)


def _write(builder, number, place):
    builder.store_atomic(number, place, ORDER, 8)


def _swapped(builder, place, before, after):
    """Whether `place` held `before`, and so holds `after` now."""
    return builder.extract_value(builder.cmpxchg(place, before, after, ORDER, ORDER), 1)


@intrinsic
def everywhere(typingctx, kernel, board, workers, taken, arguments):
    """kernel((worker, taken), *arguments) as worker 0, and as workers 1, 2, ... on helpers that come.

    Where another call uses the board, this one goes on alone. Returns when all that came have finished.
    """
    deal = types.Tuple((types.intp, taken))
    signature = kernel.get_call_type(typingctx, (deal, *arguments.types), {})

    def codegen(context, builder, sig, args):
        _, board, workers, taken, arguments = args
        compiled = kernel.dispatcher.overloads[signature.args]
        context.active_code_library.add_linking_library(compiled.library)
        at = _words(context, builder, sig.args[1], board)
        deal, *kinds = signature.args
        values = [taken, *cgutils.unpack_tuple(builder, arguments)]
        values = [_borrowed(context, builder, *pair) for pair in zip([deal[1], *kinds], values, strict=True)]
        kind = ir.LiteralStructType([at(0).type, *[value.type for value in values]])
        helper = _helper(context, builder, kind, signature, compiled.fndesc)

        owns = cgutils.alloca_once_value(builder, ir.Constant(ir.IntType(1), 0))
        with builder.if_then(builder.icmp_signed(">", workers, I64(1))):
            builder.store(_swapped(builder, at(OWNED), I64(0), I64(1)), owns)
        given = cgutils.alloca_once(builder, kind)
        with builder.if_then(builder.load(owns)):
            for place, value in enumerate([at(0), *values]):
                builder.store(value, cgutils.gep_inbounds(builder, given, 0, place))
            for word, number in (
                (CALL, builder.ptrtoint(helper, I64)),
                (VALUES, builder.ptrtoint(given, I64)),
                (DONE, I64(0)),
                (FAILED, I64(0)),
                (PLACES, builder.sub(workers, I64(1))),
            ):
                _write(builder, number, at(word))
        status = _called(context, builder, signature, compiled.fndesc, I64(0), values)
        failed = cgutils.alloca_once_value(builder, I64(0))
        with builder.if_then(builder.load(owns)):
            left = builder.atomic_rmw("xchg", at(PLACES), I64(0), ORDER)
            came = builder.sub(builder.sub(workers, I64(1)), left)
            _wait_until(context, builder, lambda: builder.icmp_signed(">=", _read(builder, at(DONE)), came))
            builder.store(_read(builder, at(FAILED)), failed)
            _write(builder, I64(0), at(OWNED))
        with builder.if_then(status.is_error, likely=False):
            context.call_conv.return_status_propagate(builder, status)
        with builder.if_then(builder.icmp_signed("!=", builder.load(failed), I64(0)), likely=False):
            context.call_conv.return_user_exc(builder, RuntimeError, ("A kernel failed on a helper thread.",))
        return context.get_dummy_value()

    return types.void(kernel, board, types.intp, taken, arguments), codegen


def _borrowed(context, builder, kind: Any, value):
    """The same without a counter of references: the caller keeps every array as long as the call lasts.

    Counting them takes an atomic addition each time that an array is passed on, at one place in memory for
    all threads: it made half of the time of a small kernel of many steps.
    """
    if isinstance(kind, TUPLES):
        parts = zip(kind.types, cgutils.unpack_tuple(builder, value), strict=True)
        return context.make_tuple(builder, kind, [_borrowed(context, builder, *part) for part in parts])
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value)
        for name in ("meminfo", "parent"):
            setattr(array, name, cgutils.get_null_value(getattr(array, name).type))
        return array._getvalue()
    return value


def _called(context, builder, signature, function, worker, values):
    """Call the kernel; the status says whether it ended with an error."""
    taken, *arguments = values
    deal = context.make_tuple(builder, signature.args[0], [worker, taken])
    callee = context.declare_function(builder.module, function)
    kinds = signature.args
    status, _ = context.call_conv.call_function(
        builder, callee, signature.return_type, kinds, [deal, *arguments]
    )
    return status


def _helper(context, builder, kind, signature, function):
    """A function (address of the arguments, worker): what a helper calls."""
    module = builder.module
    name = module.get_unique_name("help_with_" + function.llvm_func_name)
    helper = ir.Function(module, ir.FunctionType(VOID, [BYTES, I64]), name)
    helper.linkage = "internal"
    inside = ir.IRBuilder(helper.append_basic_block("entry"))
    given = inside.bitcast(helper.args[0], kind.as_pointer())
    start, *values = [
        inside.load(cgutils.gep_inbounds(inside, given, 0, place)) for place in range(len(kind.elements))
    ]
    status = _called(context, inside, signature, function, helper.args[1], values)
    with inside.if_then(status.is_error, likely=False):
        _write(inside, I64(1), inside.gep(start, [I64(FAILED)]))
    inside.atomic_rmw("add", inside.gep(start, [I64(DONE)]), I64(1), ORDER)
    inside.ret_void()
    return helper


def _wait_until(context, builder, come) -> None:
    looks = cgutils.alloca_once_value(builder, I64(0))
    test, again, end = (builder.append_basic_block(name) for name in ("wait", "again", "come"))
    builder.branch(test)
    builder.position_at_end(test)
    builder.cbranch(come(), end, again)
    builder.position_at_end(again)
    count = builder.add(builder.load(looks), I64(1))
    builder.store(count, looks)
    with builder.if_else(builder.icmp_signed("<", count, I64(LOOKS))) as (soon, late):
        with soon:
            relax_in(builder)
        with late:
            yield_in(builder)
    builder.branch(test)
    builder.position_at_end(end)


@intrinsic
def help_once(typingctx, board):
    """Take a place at the call on the board and work for it; False if there is none."""

    def codegen(context, builder, sig, args):
        at = _words(context, builder, sig.args[0], args[0])
        helped = cgutils.alloca_once_value(builder, ir.Constant(ir.IntType(1), 0))
        places = _read(builder, at(PLACES))
        with (
            builder.if_then(builder.icmp_signed(">", places, I64(0))),
            builder.if_then(_swapped(builder, at(PLACES), places, builder.sub(places, I64(1)))),
        ):
            kind = ir.FunctionType(VOID, [BYTES, I64]).as_pointer()
            call = builder.inttoptr(_read(builder, at(CALL)), kind)
            builder.call(call, [builder.inttoptr(_read(builder, at(VALUES)), BYTES), places])
            builder.store(ir.Constant(ir.IntType(1), 1), helped)
        return builder.load(helped)

    return types.boolean(board), codegen
