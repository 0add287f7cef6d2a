"""How vae.py and dcgan.py show what they draw."""

import numpy as np
from matplotlib.image import imsave


def save_picture(path, images):
    """64 images (64, 1, side, side) with values from 0 to 1, in 8 rows, as a PNG."""
    images = np.pad(images[:, 0], ((0, 0), (1, 1), (1, 1)))
    side = images.shape[-1]
    picture = images.reshape(8, 8, side, side).swapaxes(1, 2).reshape(8 * side, 8 * side)
    imsave(path, picture.repeat(64 // side, 0).repeat(64 // side, 1), cmap="gray", vmin=0, vmax=1)
