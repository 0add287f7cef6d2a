"""Stubs for the driver's entries: whatever cuda.h declares and driver/ does not define answers "not supported" and says its name."""

import re
import subprocess

# cuda.h hides some entries behind each of these
VARIANTS = ([], ["-D__CUDA_API_VERSION_INTERNAL"], ["-DCUDA_API_PER_THREAD_DEFAULT_STREAM"])
STUB = '__attribute__((weak, visibility("default"))) int {name}(void) {{ return cuda_emulator_lacks("{name}"); }}\n'


def entries(include):
    """The names of all functions that cuda.h and cudaProfiler.h in the folder `include` declare."""
    command = ["g++", "-E", "-P", "-xc", f"-I{include}", "-"]
    source = "#include <cuda.h>\n#include <cudaProfiler.h>\n"
    texts = [subprocess.run([*command, *v], input=source, capture_output=True, text=True, check=True).stdout for v in VARIANTS]
    return sorted({name for text in texts for name in re.findall(r"\bCUresult\s+(cu[A-Za-z0-9_]+)\s*\(", text)})


def source(include):
    """C source of the stubs, weak so that what driver/ defines wins."""
    return "int cuda_emulator_lacks(const char*);\n" + "".join(STUB.format(name=name) for name in entries(include))
