"""Runs a program on the CUDA emulator and the double of cuDNN: python tests/cudnn_double/run.py (SCRIPT | -m MODULE) [ARGUMENT ...]"""

import os
import sys

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:1] = [os.path.join(TESTS, "cuda_emulator"), TESTS]
import run  # noqa: E402  the emulator's

import cudnn_double  # noqa: E402

if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    try:
        cudnn_double.enter()
    except RuntimeError as error:
        sys.exit(str(error))
    run.main(sys.argv[1:])
