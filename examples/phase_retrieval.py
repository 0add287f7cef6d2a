"""Phase retrieval: a picture from the magnitudes of its Fourier transform, as a diffraction pattern has them.

    python examples/phase_retrieval.py

A detector counts photons and loses the phases, without which there is no transform back.  But it is known that the picture is positive
and that it is seen through a triangular aperture; the frame is twice as wide, so that there are more magnitudes than pixels (Fienup
1982).  Pictures that are shifted or turned by half a circle have the same magnitudes; in a triangle they have no room.  Gradient descent
ends in false minima from most starts, so many are made side by side.
"""

import argparse
from itertools import islice, repeat

import numpy as np

from autotape.train import Adam, minimize, schedules

STEPS = 300


def spots(aperture, rng):
    """A picture of six blurred spots, seen through the aperture."""
    side = len(aperture)
    y, x, width = rng.uniform(0, side, 6), rng.uniform(0, side, 6), side * rng.uniform(0.1, 0.25, 6)
    rows, columns, _ = np.mgrid[:side, :side, :1]
    light = np.exp(-((rows - y) ** 2 + (columns - x) ** 2) / (2 * width**2)) @ rng.uniform(0.3, 1, 6)
    return aperture * (0.2 + light)


def magnitudes(picture):
    """Those of pictures (..., side, side), in a frame of twice the side."""
    return np.abs(np.fft.fft2(picture, [2 * side for side in picture.shape[-2:]]))


def misfit(picture, measured):
    """The mean squared error of each picture's magnitudes."""
    return np.mean((magnitudes(picture) - measured) ** 2, axis=(-2, -1))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="12x12 pixels and 8 starts instead of 16x16 and 16")
    args = parser.parse_args()
    side, starts = (12, 8) if args.quick else (16, 16)

    rng = np.random.default_rng(args.seed)
    aperture = np.tri(side)
    truth = spots(aperture, rng)
    measured = magnitudes(truth)

    def loss(roots):
        return np.sum(misfit(aperture * roots**2, measured))

    opt = Adam(lr=0.05, schedule=schedules.cosine(STEPS))
    run = minimize(loss, repeat(()), opt, params=rng.uniform(0.2, 0.8, (starts, side, side)))
    for step, _ in enumerate(islice(run, STEPS), 1):
        if step % 50 == 0:
            each = misfit(aperture * run.params**2, measured)
            print(f"step {step}: misfit {each.min():.1e} from the best start, {np.median(each):.1e} from half of them")
    found = aperture * run.params**2
    errors = np.linalg.norm(found - truth, axis=(1, 2)) / np.linalg.norm(truth)
    best = np.argmin(misfit(found, measured))
    print(f"{np.sum(errors < 0.001)} of {starts} starts found the picture; that of the least misfit is {errors[best]:.1e} away from it")


if __name__ == "__main__":
    main()
