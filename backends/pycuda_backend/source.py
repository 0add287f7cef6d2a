"""The text of an elementwise kernel: a function of one element, and a loop that calls it for all."""

from __future__ import annotations

from typing import Any

from .compilation.compiler import NEEDS
from .launch import c_type

_INDEX = {"i": "int", "q": "long long"}
_ELEMENT = """{headers}#include "elementwise.cuh"
__device__ __forceinline__ void element({element}) {{
  {body}
}}
"""
_KERNELS = {
    "single": """extern "C" __global__ void __launch_bounds__(256) single({parameters}) {{
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (long long)blockDim.x)
    element({single});
}}
""",
    "packed": """#define WIDTH {width}
extern "C" __global__ void __launch_bounds__(256) packed({parameters}) {{
  const long long first = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  for (long long i = first; i < n / WIDTH; i += gridDim.x * (long long)blockDim.x) {{
    {loads}
    {results}
#pragma unroll
    for (int j = 0; j < WIDTH; ++j) element({packed});
    {stores}
  }}
  const long long i = n / WIDTH * WIDTH + first;
  if (i < n) element({single});
}}
""",
    "strided": """extern "C" __global__ void __launch_bounds__(256) strided({parameters}, const Layout<{index}, {count}> layout) {{
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (long long)blockDim.x) {{
    {index} offset[{count}];
    place(layout, ({index})i, offset);
    element({strided});
  }}
}}
""",
}


def kernel_text(rule: Any, name: str, letter: str) -> str:
    """A kernel of a compiled rule (elementwise.py) in CUDA C++.

    Elements are counted through, one by one ("single") or as many at a time as 16 bytes hold ("packed"), or they are found by strides
    ("strided"), in integers of 32 ("i") or 64 bits ("q").
    """
    outs = [(f"y{j}", c_type(d)) for j, d in enumerate(rule.outs)]
    inputs = [(f"x{i}", c_type(d)) for i, d in zip(rule.arrays, rule.inputs, strict=True)]
    arrays, scalars = [*outs, *inputs], [f"x{i}" for i in rule.numbers]
    numbers = [f"const {t} {x}" for x, (_, t) in zip(scalars, rule.parameters, strict=True)]
    pointers = [*(f"{t}* {y}s" for y, t in outs), *(f"const {t}* {x}s" for x, t in inputs)]
    lines = [*rule.trace.lines, *(f"{y} = {r.text};" for (y, _), r in zip(outs, rule.results, strict=True))]
    fill = {
        "headers": "".join(f"#define {macro} 1\n" for t, macro in NEEDS.items() if any(t in line for line in (*pointers, *lines))),
        "element": ", ".join([*(f"{t}& {y}" for y, t in outs), *(f"const {t} {x}" for x, t in inputs), *numbers]),
        "body": "\n  ".join(lines),
        "parameters": ", ".join(["const long long n", *pointers, *numbers]),
        "index": _INDEX[letter],
        "count": str(len(arrays)),
        "width": str(rule.width),
        "strided": ", ".join([*(f"{x}s[offset[{k}]]" for k, (x, _) in enumerate(arrays)), *scalars]),
        "single": ", ".join([*(f"{x}s[i]" for x, _ in arrays), *scalars]),
        "packed": ", ".join([*(f"{x}.at[j]" for x, _ in arrays), *scalars]),
        "loads": " ".join(f"const Pack<{t}, WIDTH> {x} = ((const Pack<{t}, WIDTH>*){x}s)[i];" for x, t in inputs),
        "results": " ".join(f"Pack<{t}, WIDTH> {y};" for y, t in outs),
        "stores": " ".join(f"((Pack<{t}, WIDTH>*){y}s)[i] = {y};" for y, t in outs),
    }
    return (_ELEMENT + _KERNELS[name]).format_map(fill)
