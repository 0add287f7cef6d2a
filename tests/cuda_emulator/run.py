"""Runs a Python program on the CUDA emulator: python tests/cuda_emulator/run.py (SCRIPT | -m MODULE) [ARGUMENT ...]"""

import os
import runpy
import sys

sys.path[0] = os.path.dirname(os.path.abspath(__file__))
import environment  # noqa: E402


def main(arguments):
    if not arguments or arguments == ["-m"]:
        sys.exit(__doc__)
    try:
        environment.enter()
    except RuntimeError as error:
        sys.exit(str(error))
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path[0] = os.getcwd()
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
