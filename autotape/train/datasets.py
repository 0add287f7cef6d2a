"""The data sets: the bundled UCI digits, and MNIST from a folder of idx files.

A set is two `Images`, one to train on and one to test on.
"""

from __future__ import annotations

import gzip
import io
import math
import os
import struct
import zlib
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .. import random

CLASSES = 10
IDX_UBYTE = 8  # the idx code of unsigned bytes
GZIP_MAGIC = b"\x1f\x8b"


class InputError(ValueError):
    """A file or an option that can't be used; the message says why and what would be right."""


class Images(NamedTuple):
    """Images with their labels."""

    pixels: np.ndarray  # (N, 1, height, width) float32 in [0, 1]
    labels: np.ndarray  # (N,) int64, 0 to 9

    def take(self, indices: np.ndarray) -> Images:
        """The images at `indices`, an integer array."""
        return Images(self.pixels[indices], self.labels[indices])


def digits(seed: int, test_share: float = 0.2) -> tuple[Images, Images]:
    """The 1,797 UCI digits of 8x8 pixels as (train, test): a stratified draw, the same for the same seed.

    Raises ValueError unless test_share is from 0 to 1.
    """
    packed = resources.files(__package__).joinpath("digits.csv.gz").read_bytes()
    table = np.loadtxt(io.BytesIO(gzip.decompress(packed)), delimiter=",", dtype=np.float32)
    images = Images(table[:, :-1].reshape(-1, 1, 8, 8) / 16, table[:, -1].astype(np.int64))
    train, test = stratified(images.labels, test_share, random.Generator(seed))
    return images.take(train), images.take(test)


def stratified(labels: np.ndarray, share: float, generator: random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Two disjoint arrays of indices into `labels` that hold all of them: the second has `share` of each class, rounded."""
    if not 0 <= share <= 1:
        raise ValueError(f"the share to test on is from 0 to 1, not {share}")
    chosen = np.zeros(labels.shape, bool)
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        chosen[members[generator.permutation(len(members))[: round(share * len(members))]]] = True
    return np.flatnonzero(~chosen), np.flatnonzero(chosen)


def mnist(folder: str | os.PathLike[str]) -> tuple[Images, Images]:
    """MNIST, or a set of its form, as (train, test) from the four idx files in `folder`, each gzipped or not.

    Raises FileNotFoundError for a missing folder or file and InputError for a file that isn't what its name says.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder}, in which MNIST's four idx files should be")
    return _idx_pair(folder, "train"), _idx_pair(folder, "t10k")


def _idx_pair(folder: Path, part: str) -> Images:
    image_file = find(folder, f"{part}-images-idx3-ubyte")
    label_file = find(folder, f"{part}-labels-idx1-ubyte")
    pixels, labels = read_idx(image_file, 3), read_idx(label_file, 1)
    if pixels.shape[1:] != (28, 28) or not len(pixels):
        raise InputError(f"{image_file}: holds {_times(pixels.shape)} pixels; MNIST's images are Nx28x28, N above 0")
    if len(pixels) != len(labels):
        raise InputError(f"{label_file}: holds {len(labels)} labels for the {len(pixels)} images of {image_file.name}")
    if labels.max() >= CLASSES:
        raise InputError(f"{label_file}: holds the label {labels.max()}; the classes are 0 to {CLASSES - 1}")
    return Images(pixels[:, None].astype(np.float32) / 255, labels.astype(np.int64))


def find(folder: Path, name: str) -> Path:
    """The file `name` or `name`.gz in `folder`."""
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    raise FileNotFoundError(f"{folder} lacks a file: neither {name} nor {name}.gz is there")


def read_idx(path: Path, ndim: int) -> np.ndarray:
    """The uint8 array with `ndim` axes that an idx file (Y. LeCun's MNIST format), gzipped or not, holds."""
    content = path.read_bytes()
    if content.startswith(GZIP_MAGIC):
        try:
            content = gzip.decompress(content)
        except (EOFError, OSError, zlib.error) as e:
            raise InputError(f"{path}: a truncated or damaged gzip file ({e})") from e
    start, magic = 4 + 4 * ndim, struct.pack(">HBB", 0, IDX_UBYTE, ndim)
    if not content.startswith(magic):
        begins = content[:4].hex(" ") or "nothing"
        raise InputError(f"{path}: not an idx file of {ndim}-d bytes: it begins with {begins}, not {magic.hex(' ')}")
    if len(content) < start:
        raise InputError(f"{path}: truncated within its header, which takes {start} bytes")
    shape = struct.unpack(f">{ndim}I", content[4:start])
    data = np.frombuffer(content, np.uint8, offset=start)
    size = math.prod(shape)
    if data.size != size:
        what = "truncated" if data.size < size else "too long"
        raise InputError(f"{path}: {what}: its header promises {_times(shape)} = {size} bytes and {data.size} follow")
    return data.reshape(shape)


def _times(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def resized(images: Images, side: int) -> Images:
    """The images enlarged by the largest whole factor that fits into side x side, each pixel repeated, and padded with zeros around.

    They are square.  Raises ValueError where they are larger than that.
    """
    pixels, height = images.pixels, images.pixels.shape[-1]
    if height > side:
        raise ValueError(f"images of {_times(pixels.shape[-2:])} pixels don't fit into {side}x{side}")
    pixels = pixels.repeat(side // height, axis=-1).repeat(side // height, axis=-2)
    spare = side - pixels.shape[-1]
    around = (spare // 2, spare - spare // 2)
    return Images(np.pad(pixels, ((0, 0), (0, 0), around, around)), images.labels)


def shifted(pixels: Any, most: int) -> Any:
    """A batch of images rolled by at most `most` pixels each way, which teaches a network that place doesn't matter."""
    if not most:
        return pixels
    rows, columns = (random.fresh_seed() % (2 * most + 1) - most for _ in "xy")
    return np.roll(pixels, (rows, columns), axis=(-2, -1))
