"""Sixteen floats at once, inside Numba kernels.

Numba's compiler does not turn our inner loops into vector instructions by itself (signed index
wrap-around stops it; a factor of six). So the inner loops are written as Numba intrinsics: Python
functions that, at compile time, emit LLVM instructions on the type <16 x float>. LLVM lowers them
to what the machine has (one AVX-512, two AVX, four SSE or NEON registers); no C compiler is used.

Sixteen lanes are the data's unit (a block of Gaussians, a block of 4x4 pixels). A loop that keeps
many vectors alive should work on REGISTER_LANES at a time, the width of one register: on AVX2, the
blend with sixteen lanes in two registers each ran out of registers and took twice as long.

`Vec` and `Mask` make emitting read like arithmetic. They hold instructions, not numbers:

    x = floats.vec(0)              # load 16 floats
    y = (x * x + 1.0).sqrt()       # Python numbers become constants in all lanes
    y = (y > 2.0).select(y, x)     # per lane: y where the condition holds, else x

Multiplications and additions may be fused (contract), nothing may be reordered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic as numba_intrinsic

from scene.render.cpu.records import LANES

FLOAT = ir.FloatType()
BIT = ir.IntType(1)
INT16 = ir.IntType(16)
INT32 = ir.IntType(32)
INT64 = ir.IntType(64)
FLOATS = ir.VectorType(FLOAT, LANES)
INTS = ir.VectorType(INT32, LANES)

Builder = Any
Value = Any
Number = float | int

REGISTER_LANES = 16 if llvm.get_host_cpu_features().get("avx512f", False) else 8
"""Lanes that a loop with many live vectors should use; SSE and NEON take two registers for 8."""

_FUSE = ("contract",)


def intrinsic(function: Callable[..., Any]) -> Any:
    """Numba's decorator; its own type hints miscount the arguments of what it returns."""
    return numba_intrinsic(function)


def int32(value: int) -> Value:
    """A 32-bit constant."""
    return ir.Constant(INT32, value)


def int64(value: int) -> Value:
    """A 64-bit constant; array offsets are 64 bits wide."""
    return ir.Constant(INT64, value)


class Vec:
    """Float32 lanes: sixteen, or REGISTER_LANES."""

    __slots__ = ("builder", "value")

    def __init__(self, builder: Builder, value: Value) -> None:
        self.builder, self.value = builder, value

    @staticmethod
    def constant(builder: Builder, value: float, count: int = LANES) -> Vec:
        """The same number in all lanes."""
        return Vec(builder, _constant(value, count))

    @staticmethod
    def lanes(builder: Builder, values: list[float]) -> Vec:
        """A constant with its own number in each lane."""
        kind = ir.VectorType(FLOAT, len(values))
        return Vec(builder, ir.Constant(kind, [ir.Constant(FLOAT, float(v)) for v in values]))

    @staticmethod
    def splat(builder: Builder, scalar: Value, count: int = LANES) -> Vec:
        """A run-time scalar in all lanes."""
        undefined = ir.Constant(ir.VectorType(FLOAT, count), ir.Undefined)
        first = builder.insert_element(undefined, scalar, int32(0))
        return Vec(builder, builder.shuffle_vector(first, undefined, int_constant(0, count)))

    @property
    def count(self) -> int:
        """Number of lanes."""
        return self.value.type.count

    def __add__(self, other: Vec | Number) -> Vec:
        return Vec(self.builder, self.builder.fadd(self.value, self._operand(other), flags=_FUSE))

    def __sub__(self, other: Vec | Number) -> Vec:
        return Vec(self.builder, self.builder.fsub(self.value, self._operand(other), flags=_FUSE))

    def __rsub__(self, other: Number) -> Vec:
        return Vec(self.builder, self.builder.fsub(self._operand(other), self.value, flags=_FUSE))

    def __mul__(self, other: Vec | Number) -> Vec:
        return Vec(self.builder, self.builder.fmul(self.value, self._operand(other), flags=_FUSE))

    def __truediv__(self, other: Vec | Number) -> Vec:
        return Vec(self.builder, self.builder.fdiv(self.value, self._operand(other)))

    def __rtruediv__(self, other: Number) -> Vec:
        return Vec(self.builder, self.builder.fdiv(self._operand(other), self.value))

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self) -> Vec:
        return Vec(self.builder, self.builder.fneg(self.value))

    def __gt__(self, other: Vec | Number) -> Mask:
        return self._compare(">", other)

    def __ge__(self, other: Vec | Number) -> Mask:
        return self._compare(">=", other)

    def __lt__(self, other: Vec | Number) -> Mask:
        return self._compare("<", other)

    def _compare(self, how: str, other: Vec | Number) -> Mask:
        # ordered: false in lanes where either side is NaN
        return Mask(self.builder, self.builder.fcmp_ordered(how, self.value, self._operand(other)))

    def minimum(self, other: Vec | Number) -> Vec:
        """The smaller of the two, per lane."""
        return (self < other).select(self, other)

    def maximum(self, other: Vec | Number) -> Vec:
        """The larger of the two, per lane."""
        return (self > other).select(self, other)

    def clamp(self, low: Vec | Number, high: Vec | Number) -> Vec:
        """The nearest value in [low, high], per lane."""
        return self.maximum(low).minimum(high)

    def sqrt(self) -> Vec:
        """Square root, correctly rounded."""
        return self._call("sqrt")

    def floor(self) -> Vec:
        """The next whole number below."""
        return self._call("floor")

    def ceil(self) -> Vec:
        """The next whole number above."""
        return self._call("ceil")

    def _call(self, function: str) -> Vec:
        kind = ir.FunctionType(self.value.type, [self.value.type])
        name = f"llvm.{function}.v{self.count}f32"
        declared = cgutils.get_or_insert_function(self.builder.module, kind, name)
        return Vec(self.builder, self.builder.call(declared, [self.value]))

    def with_sign_set(self) -> Vec:
        """Minus the absolute value."""
        bits = self.builder.or_(self.as_ints(), int_constant(-(2**31), self.count))
        return Vec(self.builder, self.builder.bitcast(bits, self.value.type))

    def sign_clear(self) -> Mask:
        """True in lanes that are not negative."""
        zero = int_constant(0, self.count)
        return Mask(self.builder, self.builder.icmp_signed(">=", self.as_ints(), zero))

    def as_ints(self) -> Value:
        """The bits of the lanes, as a vector of 32-bit integers."""
        return self.builder.bitcast(self.value, ir.VectorType(INT32, self.count))

    def sum(self) -> Value:
        """Sum over the lanes, a scalar, by halving."""
        builder, value = self.builder, self.value
        width = self.count // 2
        while width:
            low, high = (
                ir.Constant(ir.VectorType(INT32, width), [int32(start + i) for i in range(width)])
                for start in (0, width)
            )
            value = builder.fadd(
                builder.shuffle_vector(value, value, low),
                builder.shuffle_vector(value, value, high),
            )
            width //= 2
        return builder.extract_element(value, int32(0))

    def _operand(self, other: Vec | Number) -> Value:
        return other.value if isinstance(other, Vec) else _constant(other, self.count)


class Mask:
    """Truth values, one per lane."""

    __slots__ = ("builder", "value")

    def __init__(self, builder: Builder, value: Value) -> None:
        self.builder, self.value = builder, value

    def __and__(self, other: Mask) -> Mask:
        return Mask(self.builder, self.builder.and_(self.value, other.value))

    def __or__(self, other: Mask) -> Mask:
        return Mask(self.builder, self.builder.or_(self.value, other.value))

    def __invert__(self) -> Mask:
        return Mask(self.builder, self.builder.not_(self.value))

    def select(self, yes: Vec | Number, no: Vec | Number) -> Vec:
        """`yes` in true lanes, `no` in false ones."""
        chosen, other = (
            value.value if isinstance(value, Vec) else _constant(value, self.value.type.count)
            for value in (yes, no)
        )
        return Vec(self.builder, self.builder.select(self.value, chosen, other))

    def bits(self) -> Value:
        """A 32-bit integer: bit i is lane i."""
        return self.builder.zext(self._packed(), INT32)

    def any(self) -> Value:
        """One bit: whether any lane is true."""
        packed = self._packed()
        return self.builder.icmp_unsigned("!=", packed, ir.Constant(packed.type, 0))

    def _packed(self) -> Value:
        return self.builder.bitcast(self.value, ir.IntType(self.value.type.count))


class Floats:
    """A pointer to float32 in memory; offsets count floats and are 64-bit values or Python ints."""

    __slots__ = ("builder", "pointer")

    def __init__(self, builder: Builder, pointer: Value) -> None:
        self.builder, self.pointer = builder, pointer

    @staticmethod
    def of(context: Any, builder: Builder, array_type: Any, array: Value) -> Floats:
        """The data of a Numba array argument."""
        return Floats(builder, array_data(context, builder, array_type, array))

    def at(self, offset: Value | int) -> Floats:
        """The pointer moved on by `offset` floats."""
        return Floats(self.builder, self._address(offset))

    def scalar(self, offset: Value | int) -> Value:
        """Load one float."""
        return self.builder.load(self._address(offset))

    def splat(self, offset: Value | int, count: int = LANES) -> Vec:
        """Load one float into all lanes."""
        return Vec.splat(self.builder, self.scalar(offset), count)

    def vec(self, offset: Value | int, count: int = LANES) -> Vec:
        """Load `count` floats; any alignment."""
        return Vec(self.builder, self.builder.load(self._vector(offset, count), align=4))

    def put(self, offset: Value | int, vec: Vec) -> None:
        """Store a vector; any alignment."""
        self.builder.store(vec.value, self._vector(offset, vec.count), align=4)

    def put_scalar(self, offset: Value | int, scalar: Value) -> None:
        """Store one float."""
        self.builder.store(scalar, self._address(offset))

    def _address(self, offset: Value | int) -> Value:
        return self.builder.gep(
            self.pointer, [int64(offset) if isinstance(offset, int) else offset]
        )

    def _vector(self, offset: Value | int, count: int) -> Value:
        kind = ir.VectorType(FLOAT, count)
        return self.builder.bitcast(self._address(offset), kind.as_pointer())


class Register:
    """A mutable vector local; LLVM keeps it in a register."""

    __slots__ = ("builder", "slot")

    def __init__(self, builder: Builder, count: int = LANES) -> None:
        self.builder = builder
        self.slot = cgutils.alloca_once(builder, ir.VectorType(FLOAT, count))

    def get(self) -> Vec:
        """Its value now."""
        return Vec(self.builder, self.builder.load(self.slot))

    def set(self, vec: Vec) -> None:
        """Give it a new value."""
        self.builder.store(vec.value, self.slot)


def array_data(context: Any, builder: Builder, array_type: Any, array: Value) -> Value:
    """The data pointer of a Numba array argument."""
    return context.make_array(array_type)(context, builder, array).data


def for_each_bit(builder: Builder, bits: Value, body: Callable[[Value], None]) -> None:
    """Emit a loop: `body(k)` (64-bit k, ascending) for every set bit k of a 32-bit value."""
    function = builder.function
    slot = cgutils.alloca_once(builder, INT32)
    builder.store(bits, slot)
    condition, loop, done = (
        function.append_basic_block(f"bits.{name}") for name in ("condition", "loop", "done")
    )
    builder.branch(condition)
    builder.position_at_end(condition)
    left = builder.load(slot)
    builder.cbranch(builder.icmp_unsigned("!=", left, int32(0)), loop, done)
    builder.position_at_end(loop)
    lowest = builder.cttz(left, ir.Constant(BIT, 1))
    builder.store(builder.and_(left, builder.sub(left, int32(1))), slot)
    body(builder.zext(lowest, INT64))
    builder.branch(condition)
    builder.position_at_end(done)


@intrinsic
def prefetch(typing_context, array, offset):  # type: ignore[no-untyped-def]
    """Kernel function: ask for the cache line of array[offset] (float32, contiguous)."""

    def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        floats = Floats.of(context, builder, signature.args[0], arguments[0])
        byte_pointer = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte_pointer, INT32, INT32, INT32])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        address = builder.bitcast(floats.at(arguments[1]).pointer, byte_pointer)
        # read, keep in all cache levels, data cache
        builder.call(function, [address, int32(0), int32(3), int32(1)])
        return context.get_dummy_value()

    return types.void(array, types.int64), emit


@intrinsic
def take_ticket(typing_context, counter):  # type: ignore[no-untyped-def]
    """Kernel function: atomically counter[0] += 1 (int64 array), returns the value before."""

    def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        pointer = array_data(context, builder, signature.args[0], arguments[0])
        return builder.atomic_rmw("add", pointer, int64(1), "monotonic")

    return types.int64(counter), emit


@intrinsic
def float_bits(typing_context, x):  # type: ignore[no-untyped-def]
    """Kernel function: the bits of a float32 as uint32 (they sort like the positive floats)."""

    def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.bitcast(arguments[0], INT32)

    return types.uint32(types.float32), emit


def _constant(value: float, count: int) -> Value:
    kind = ir.VectorType(FLOAT, count)
    return ir.Constant(kind, [ir.Constant(FLOAT, float(np.float32(value)))] * count)


def int_constant(value: int, count: int = LANES) -> Value:
    """A vector of the same 32-bit integer in all lanes."""
    return ir.Constant(ir.VectorType(INT32, count), [int32(value)] * count)
