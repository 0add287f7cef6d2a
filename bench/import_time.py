"""What `import autotape` adds to `import numpy`: milliseconds and resident memory, each import in a process of its own.

A round imports numpy, autotape (which imports numpy) and autotape with its largest opset.  Two rounds come first and don't count: they
leave the files compiled and in the page cache.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import harness
from harness import Report, Target

import autotape as at

IMPORTS = {"numpy": "numpy", "autotape": "autotape", "autotape and opset v20": "autotape.opsets.v20"}
CHILD = """
import sys, time
start = time.perf_counter()
__import__(sys.argv[1])
print(time.perf_counter() - start)
print(open("/proc/self/status").read() if sys.platform == "linux" else "")
"""


def cost(module: str) -> tuple[float, float | None]:
    """Milliseconds to import the module, and the MiB of its process then (Linux only)."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    root = Path(__file__).parent.parent
    child = subprocess.run([sys.executable, "-c", CHILD, module], check=True, stdout=subprocess.PIPE, text=True, cwd=root, env=environment)
    seconds, _, status = child.stdout.partition("\n")
    return float(seconds) * 1e3, harness.resident("VmRSS", status)


def targets(limit: float) -> list[Target]:
    """What the package alone may add, and what it adds with the opset."""
    return [Target("autotape", "numpy", limit, by="-"), Target("autotape and opset v20", "numpy", by="-")]


def main() -> None:
    """Print one table of times and one of memory."""
    args = harness.options(__doc__)
    report = Report(args.json, {"autotape": at})
    costs: dict[str, list[tuple[float, float | None]]] = {name: [] for name in IMPORTS}
    rounds, warm_up = (2, 0) if args.quick else (args.rounds or 21, 2)
    for r in range(-warm_up, rounds):
        for name in harness.order(list(IMPORTS), r):
            found = cost(IMPORTS[name])
            if r >= 0:
                costs[name].append(found)
    times = {name: [ms for ms, _ in found] for name, found in costs.items()}
    memory = {name: [mib for _, mib in found if mib is not None] for name, found in costs.items()}
    report.show("time of the import", "ms", times, targets(50))
    report.show("resident memory after it", "MiB", {name: found for name, found in memory.items() if found}, targets(8))
    report.close()


if __name__ == "__main__":
    main()
