"""The data sets: what comes out, and what is said of files that are missing, cut short or something else."""

from __future__ import annotations

import gzip
import struct

import numpy as np
import pytest

from autotape import random
from autotape.train import InputError
from autotape.train.datasets import Images, digits, mnist, resized, shifted, stratified

TRAIN_IMAGES, TRAIN_LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"
TEST_IMAGES, TEST_LABELS = "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.astype(np.uint8).tobytes()


IMAGES = np.random.default_rng(0).integers(0, 256, (12, 28, 28))
LABELS = np.arange(12) % 10


@pytest.fixture
def folder(tmp_path):
    """A small set in MNIST's form, two of its files gzipped."""
    (tmp_path / TRAIN_IMAGES).write_bytes(idx(IMAGES))
    (tmp_path / f"{TRAIN_LABELS}.gz").write_bytes(gzip.compress(idx(LABELS)))
    (tmp_path / f"{TEST_IMAGES}.gz").write_bytes(gzip.compress(idx(IMAGES[:5])))
    (tmp_path / TEST_LABELS).write_bytes(idx(LABELS[:5]))
    return tmp_path


def test_digits_are_the_whole_set_split_by_class():
    train, test = digits(seed=0)
    assert len(train.labels) + len(test.labels) == 1797
    for images in (train, test):
        assert images.pixels.shape[1:] == (1, 8, 8) and images.pixels.dtype == np.float32 and images.labels.dtype == np.int64
        assert images.pixels.min() == 0 and images.pixels.max() == 1
    counts, all_counts = np.bincount(test.labels), np.bincount(train.labels) + np.bincount(test.labels)
    np.testing.assert_array_equal(counts, np.round(0.2 * all_counts))


def test_digits_differ_by_seed_only():
    again, first, other = digits(3)[1], digits(3)[1], digits(4)[1]
    np.testing.assert_array_equal(first.pixels, again.pixels)
    assert not np.array_equal(first.pixels, other.pixels)


def test_stratified_parts_are_disjoint_and_complete():
    labels = np.array([0] * 10 + [1] * 5 + [2])
    kept, chosen = stratified(labels, 0.2, random.Generator(1))
    np.testing.assert_array_equal(np.sort(np.concatenate([kept, chosen])), np.arange(16))
    np.testing.assert_array_equal(np.bincount(labels[chosen], minlength=3), [2, 1, 0])


@pytest.mark.parametrize("share", [-0.2, 1.5, np.nan])
def test_a_share_is_from_0_to_1(share):
    with pytest.raises(ValueError, match="the share to test on is from 0 to 1, not"):
        digits(0, share)
    assert [len(images.labels) for images in digits(0, 0.0)] == [1797, 0]


def test_resized_repeats_pixels_or_pads():
    small = Images(np.arange(64, dtype=np.float32).reshape(1, 1, 8, 8), np.zeros(1, np.int64))
    enlarged = resized(small, 32).pixels
    np.testing.assert_array_equal(enlarged, np.kron(small.pixels, np.ones((4, 4), np.float32)))
    padded = resized(Images(np.ones((1, 1, 28, 28), np.float32), small.labels), 32).pixels
    assert padded.shape == (1, 1, 32, 32) and padded.sum() == 28 * 28 and padded[0, 0, 2, 2] == 1 and enlarged.dtype == np.float32
    with pytest.raises(ValueError, match="images of 8x8 pixels don't fit into 4x4"):
        resized(small, 4)


def test_shifted_moves_all_images_of_a_batch_alike():
    pixels = np.zeros((2, 1, 9, 9), np.float32)
    pixels[:, :, 4, 4] = 1

    def moved(seed):
        with random.use(seed):
            return tuple(np.argwhere(shifted(pixels, 2)[:, 0])[0, 1:])

    assert {moved(seed) for seed in range(200)} == {(i, j) for i in range(2, 7) for j in range(2, 7)}
    assert shifted(pixels, 0) is pixels


def test_mnist_reads_files_gzipped_or_not(folder):
    train, test = mnist(str(folder))
    np.testing.assert_array_equal(train.pixels, IMAGES[:, None].astype(np.float32) / 255)
    np.testing.assert_array_equal(train.labels, LABELS)
    assert test.pixels.shape == (5, 1, 28, 28) and test.pixels.dtype == np.float32


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no folder .*nowhere"):
        mnist(tmp_path / "nowhere")


@pytest.mark.parametrize("name", [TRAIN_IMAGES, f"{TRAIN_LABELS}.gz", f"{TEST_IMAGES}.gz", TEST_LABELS])
def test_a_missing_file_is_named_with_both_its_names(folder, name):
    (folder / name).unlink()
    plain = name.removesuffix(".gz")
    with pytest.raises(FileNotFoundError) as e:
        mnist(folder)
    assert f"{folder} lacks" in str(e.value) and f"neither {plain} nor {plain}.gz" in str(e.value)


WRONG = {
    "empty": (TRAIN_IMAGES, b"", "begins with nothing"),
    "text": (TRAIN_IMAGES, b"<!DOCTYPE html>", "not an idx file"),
    "labels for images": (TRAIN_IMAGES, idx(LABELS), "begins with 00 00 08 01, not 00 00 08 03"),
    "floats": (TRAIN_IMAGES, b"\0\0\x0d\x03" + idx(IMAGES)[4:], "not an idx file"),
    "cut in its header": (TRAIN_IMAGES, idx(IMAGES)[:9], "truncated within its header"),
    "cut in its data": (TRAIN_IMAGES, idx(IMAGES)[:-1], "truncated: its header promises 12x28x28 = 9408 bytes and 9407 follow"),
    "too long": (TRAIN_IMAGES, idx(IMAGES) + b"\0", "too long"),
    "cut gzip": (TRAIN_IMAGES, gzip.compress(idx(IMAGES))[:-100], "truncated or damaged gzip"),
    "damaged gzip": (TRAIN_IMAGES, gzip.compress(idx(IMAGES))[:50] + bytes(9999), "truncated or damaged gzip"),
    "another size": (TRAIN_IMAGES, idx(IMAGES[:, :8, :8]), "holds 12x8x8 pixels"),
    "no image": (TRAIN_IMAGES, idx(IMAGES[:0]), "holds 0x28x28 pixels"),
    "fewer labels": (TEST_LABELS, idx(LABELS[:4]), "holds 4 labels for the 5 images"),
    "a label of 10": (TEST_LABELS, idx(np.array([1, 2, 10, 0, 0])), "holds the label 10; the classes are 0 to 9"),
}


@pytest.mark.parametrize(("name", "content", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_file_is_named_with_what_is_wrong(folder, name, content, message):
    (folder / name).write_bytes(content)
    with pytest.raises(InputError) as e:
        mnist(folder)
    assert str(folder / name) in str(e.value) and message in str(e.value)
