"""PlayCanvas compressed PLY: 16 bytes a Gaussian, in chunks of 256 that share their ranges.

Row i belongs to chunk i // 256. Positions and log scales are 11+10+11 bits between the chunk's
minimum and maximum, rotations are the three smaller quaternion parts at 10 bits, colors are 8 bits
each (between the chunk's color range where it has one), SH bands 1-3 are one byte per coefficient
over [-4, 4] in an element of their own.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scene.errors import InputError
from scene.gaussians import SH_C0, Gaussians, Rows
from scene.io.atomic import atomic_write
from scene.io.loaded import LoadedGaussians
from scene.io.ply import BLOCK_ROWS
from scene.io.ply_file import PlyHeader, iter_ply_rows, read_ply_elements, read_ply_header

FloatArray = NDArray[np.float32]
WordArray = NDArray[np.uint32]

CHUNK = 256
_BLOCK_CHUNKS = BLOCK_ROWS // CHUNK
_POSITION_BITS = (11, 10, 11)
_COLOR_BITS = (8, 8, 8, 8)
_PACKED = ("packed_position", "packed_rotation", "packed_scale", "packed_color")
_RANGES = (
    *("min_x", "min_y", "min_z", "max_x", "max_y", "max_z"),
    *("min_scale_x", "min_scale_y", "min_scale_z", "max_scale_x", "max_scale_y", "max_scale_z"),
)
_COLOR_RANGES = ("min_r", "min_g", "min_b", "max_r", "max_g", "max_b")
_SH_RANGE = 8.0
_MAX_LOG_SCALE = 20.0


def is_compressed(header: PlyHeader) -> bool:
    """Whether a PLY file is of this format, by its element and property names."""
    vertex = header.element("vertex")
    return vertex is not None and "packed_position" in vertex.properties


def load_compressed_ply(path: str | Path) -> LoadedGaussians:
    """Read PlayCanvas compressed PLY, with or without SH and chunk color ranges.

    Raises InputError.
    """
    return gaussians_from_compressed_ply(read_ply_header(Path(path)))


def gaussians_from_compressed_ply(header: PlyHeader) -> LoadedGaussians:
    """`load_compressed_ply` for a file whose header is already read."""
    has_sh = _check(header)
    vertex, sh = header.element("vertex"), header.element("sh")
    assert vertex is not None
    chunk = read_ply_elements(header, ("chunk",))["chunk"]
    coefficients = 1 + len(sh.properties) // 3 if has_sh and sh else 1
    names = ("vertex", "sh") if has_sh else ("vertex",)
    parts = [iter_ply_rows(header, name, BLOCK_ROWS) for name in names]
    blocks = (
        _decode(chunk[i * _BLOCK_CHUNKS :], *block)
        for i, block in enumerate(zip(*parts, strict=True))
    )
    try:
        gaussians, dropped = Gaussians.gathered(vertex.count, coefficients, blocks)
    except InputError as error:
        if str(header.path) in str(error):
            raise
        raise InputError(f"{header.path}: {error}") from error
    return LoadedGaussians(gaussians, "compressed ply", dropped)


def _decode(chunk: NDArray, vertex: NDArray, sh_rows: NDArray | None = None) -> Rows:
    """Some rows, which begin at the first of `chunk`."""
    ranges = _per_row(chunk, _RANGES, len(vertex))
    position = _unpack(vertex["packed_position"], _POSITION_BITS)
    log_scale = _unpack(vertex["packed_scale"], _POSITION_BITS)
    color = _unpack(vertex["packed_color"], _COLOR_BITS)
    rgb = color[:, :3]
    if set(_COLOR_RANGES) <= set(chunk.dtype.names or ()):
        color_ranges = _per_row(chunk, _COLOR_RANGES, len(vertex))
        rgb = _lerp(color_ranges[:, :3], color_ranges[:, 3:], rgb)
    sh = ((rgb - np.float32(0.5)) / np.float32(SH_C0))[:, None]
    if sh_rows is not None:
        sh = np.concatenate([sh, _read_sh(sh_rows)], axis=1)
    with np.errstate(over="ignore", invalid="ignore"):
        scales = np.exp(_lerp(ranges[:, 6:9], ranges[:, 9:12], log_scale))
        means = _lerp(ranges[:, 0:3], ranges[:, 3:6], position)
    return Rows(means, _unpack_quaternions(vertex["packed_rotation"]), scales, color[:, 3], sh)


def save_compressed_ply(gaussians: Gaussians, path: str | Path) -> None:
    """Write PlayCanvas compressed PLY in Morton order (rows are NOT in the order given).

    Rounds: positions and log scales to 1/2047 of their chunk's range, colors and opacity to 1/255,
    quaternion parts to 1/1447, SH coefficients to 1/64 half-bins over [-4, 4].
    """
    gaussians = gaussians.select(morton_order(gaussians.means))
    log_scales = np.clip(np.log(gaussians.scales), -_MAX_LOG_SCALE, _MAX_LOG_SCALE)
    colors = gaussians.base_colors
    columns = np.concatenate([gaussians.means, log_scales, colors], axis=1)
    starts = np.arange(0, len(gaussians), CHUNK)
    low, high = np.minimum.reduceat(columns, starts), np.maximum.reduceat(columns, starts)
    unit = _unlerp(np.repeat(low, CHUNK, 0)[: len(columns)],
                   np.repeat(high, CHUNK, 0)[: len(columns)], columns)  # fmt: skip
    vertex = np.empty((len(gaussians), 4), dtype="<u4")
    vertex[:, 0] = _pack(unit[:, 0:3], _POSITION_BITS)
    vertex[:, 1] = _pack_quaternions(gaussians.quats)
    vertex[:, 2] = _pack(unit[:, 3:6], _POSITION_BITS)
    vertex[:, 3] = _pack(np.column_stack([unit[:, 6:9], gaussians.opacities]), _COLOR_BITS)
    ranges = [part[:, i : i + 3] for i in (0, 3, 6) for part in (low, high)]
    sh = _pack_sh(gaussians)
    with atomic_write(path) as file:
        file.write(_header_text(len(starts), len(gaussians), sh.shape[1]).encode())
        file.write(np.concatenate(ranges, axis=1).astype("<f4").tobytes())
        file.write(vertex.tobytes())
        file.write(sh.tobytes())


def morton_order(points: NDArray[np.float32]) -> NDArray[np.int64]:
    """(N,) permutation that walks points (N, 3) along a Z-curve, 21 bits an axis."""
    points = points.astype(np.float64)
    low = points.min(axis=0)
    extent = np.maximum(points.max(axis=0) - low, 1e-30)
    cells = ((points - low) / extent * ((1 << 21) - 1)).astype(np.uint64)
    code = np.zeros(len(points), dtype=np.uint64)
    for axis in range(3):
        code |= _spread_bits(cells[:, axis]) << np.uint64(axis)
    return np.argsort(code, kind="stable")


def _check(header: PlyHeader) -> bool:
    """Validate counts and names against each other; whether there is an SH element."""
    path, vertex, chunk = header.path, header.element("vertex"), header.element("chunk")
    if vertex is None or chunk is None:
        raise InputError(f"{path}: a compressed PLY needs the elements chunk and vertex")
    wanted = {name: vertex for name in _PACKED} | {name: chunk for name in _RANGES}
    for name, element in wanted.items():
        if name not in element.properties:
            raise InputError(f"{path}: compressed PLY: {element.name} has no property {name}")
    if any(vertex.types[vertex.properties.index(name)] != "u4" for name in _PACKED):
        raise InputError(f"{path}: compressed PLY: the packed properties must be uint")
    if vertex.count == 0:
        raise InputError(f"{path}: the PLY file holds 0 Gaussians")
    if chunk.count != -(-vertex.count // CHUNK):
        raise InputError(
            f"{path}: compressed PLY: {vertex.count} Gaussians need {-(-vertex.count // CHUNK)} "
            f"chunks of {CHUNK}, found {chunk.count}"
        )
    sh = header.element("sh")
    if sh is None or not sh.properties:
        return False
    rest = [f"f_rest_{i}" for i in range(len(sh.properties))]
    if len(rest) not in (9, 24, 45) or set(sh.properties) != set(rest) or set(sh.types) != {"u1"}:
        raise InputError(
            f"{path}: compressed PLY: wanted 9, 24 or 45 uchar properties f_rest_* in sh, found "
            f"{len(sh.properties)}"
        )
    if sh.count != vertex.count:
        raise InputError(
            f"{path}: compressed PLY: sh has {sh.count} rows for {vertex.count} Gaussians"
        )
    return True


def _per_row(chunk: NDArray, names: tuple[str, ...], rows: int) -> FloatArray:
    """(rows, len(names)) float32: each row's chunk values."""
    chunk = chunk[: -(-rows // CHUNK)]
    table = np.stack([chunk[name].astype(np.float32) for name in names], axis=1)
    return np.repeat(table, CHUNK, axis=0)[:rows]


def _lerp(low: FloatArray, high: FloatArray, unit: FloatArray) -> FloatArray:
    return low + (high - low) * unit


def _unlerp(low: FloatArray, high: FloatArray, value: FloatArray) -> FloatArray:
    extent = high - low
    return np.where(extent > 0, (value - low) / np.where(extent > 0, extent, 1), 0)


def _unpack(words: WordArray, bits: tuple[int, ...]) -> FloatArray:
    """(N,) words to (N, len(bits)) floats in [0, 1]; the first field is the highest."""
    words = words.astype(np.uint32)
    fields = []
    shift = 32
    for width in bits:
        shift -= width
        top = (1 << width) - 1
        field = (words >> np.uint32(shift)) & np.uint32(top)
        fields.append(field.astype(np.float32) / np.float32(top))
    return np.stack(fields, axis=1)


def _pack(unit: FloatArray, bits: tuple[int, ...]) -> WordArray:
    """Inverse of `_unpack`, rounding to nearest."""
    words = np.zeros(len(unit), dtype=np.uint32)
    shift = 32
    for column, width in enumerate(bits):
        shift -= width
        top = (1 << width) - 1
        level = np.clip(np.rint(unit[:, column] * top), 0, top).astype(np.uint32)
        words |= level << np.uint32(shift)
    return words


def _unpack_quaternions(words: WordArray) -> FloatArray:
    """(N,) words to (N, 4) wxyz. Top 2 bits: the left-out largest part; the others at 10 bits."""
    words = words.astype(np.uint32)
    small = (_unpack(words, (2, 10, 10, 10))[:, 1:] - np.float32(0.5)) * np.float32(np.sqrt(2))
    largest = (words >> np.uint32(30)).astype(np.int64)
    quats = np.empty((len(words), 4), dtype=np.float32)
    others = np.array([[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2]])[largest]
    np.put_along_axis(quats, others, small, axis=1)
    rest = np.sqrt(np.maximum(0, 1 - (small * small).sum(axis=1)))
    np.put_along_axis(quats, largest[:, None], rest[:, None], axis=1)
    return quats


def _pack_quaternions(quats: FloatArray) -> WordArray:
    largest = np.abs(quats).argmax(axis=1)
    sign = np.sign(np.take_along_axis(quats, largest[:, None], axis=1))
    others = np.array([[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2]])[largest]
    small = np.take_along_axis(quats * sign, others, axis=1) / np.float32(np.sqrt(2)) + 0.5
    return _pack(np.column_stack([largest / np.float32(3), small]), (2, 10, 10, 10))


def _read_sh(rows: NDArray) -> FloatArray:
    """(N,) rows of uchar f_rest to (N, K - 1, 3); byte values are bin centres, 0 and 255 ends."""
    names = rows.dtype.names or ()
    by_coefficient = np.arange(len(names)).reshape(3, -1).T.ravel()
    columns = [names.index(f"f_rest_{i}") for i in by_coefficient]
    raw = np.take(rows.view(np.uint8).reshape(len(rows), -1), columns, axis=1, mode="clip")
    levels = (np.arange(256, dtype=np.float32) + np.float32(0.5)) / np.float32(256)
    levels[[0, 255]] = 0, 1
    values = (levels - np.float32(0.5)) * np.float32(_SH_RANGE)
    return np.take(values, raw).reshape(len(rows), -1, 3)


def _pack_sh(gaussians: Gaussians) -> NDArray[np.uint8]:
    rest = gaussians.sh[:, 1:].transpose(0, 2, 1).reshape(len(gaussians), -1)
    return np.clip(np.floor((rest / _SH_RANGE + 0.5) * 256), 0, 255).astype(np.uint8)


def _header_text(chunks: int, rows: int, sh_count: int) -> str:
    lines = ["ply", "format binary_little_endian 1.0", f"element chunk {chunks}"]
    lines += [f"property float {name}" for name in (*_RANGES, *_COLOR_RANGES)]
    lines += [f"element vertex {rows}", *(f"property uint {name}" for name in _PACKED)]
    if sh_count:
        lines += [f"element sh {rows}"]
        lines += [f"property uchar f_rest_{i}" for i in range(sh_count)]
    return "\n".join([*lines, "end_header"]) + "\n"


def _spread_bits(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Two zero bits between each of the low 21 bits."""
    values = values & np.uint64(0x1FFFFF)
    for shift, mask in (
        (32, 0x1F00000000FFFF),
        (16, 0x1F0000FF0000FF),
        (8, 0x100F00F00F00F00F),
        (4, 0x10C30C30C30C30C3),
        (2, 0x1249249249249249),
    ):
        values = (values | (values << np.uint64(shift))) & np.uint64(mask)
    return values
