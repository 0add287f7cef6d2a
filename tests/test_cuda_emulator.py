"""The CUDA emulator of tests/cuda_emulator: that CUDA C++ and PyCUDA do on it what they should, and that planted bugs are found.

Programs run on the emulator in processes of their own, so that this one needn't be there; planted bugs of a kind share one.
"""

import functools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import pytest

HERE = pathlib.Path(__file__).parent / "cuda_emulator"
sys.path.append(str(HERE))
import environment  # noqa: E402

REASON = environment.lacking()
pytestmark = pytest.mark.skipif(bool(REASON), reason=REASON or "")

PRELUDE = """
import ctypes, sys
import numpy as np
import pycuda.driver as drv, pycuda.autoprimaryctx, pycuda.gpuarray as ga, pycuda.tools as tools
from pycuda.compiler import SourceModule
environment = sys.modules["environment"]
def module(source, **options):
    return SourceModule(source, no_extern_c=True, **options)
def get(array):
    host = np.empty(array.shape, array.dtype)
    drv.memcpy_dtoh(host, array.gpudata)
    return host
def kernel(source, name="k"):
    return SourceModule(source).get_function(name)
o = ga.zeros(64, np.float32)
"""


def on_emulator(tmp_path, code, prelude=PRELUDE, **switches):
    """The finished process of a program on the emulator."""
    script = tmp_path / "program.py"
    script.write_text(prelude + code)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("CUDA_EMULATOR_")}
    switched = {f"CUDA_EMULATOR_{name.upper()}": str(value) for name, value in switches.items()}
    command = [sys.executable, str(HERE / "run.py"), str(script)]
    return subprocess.run(command, env={**clean, **switched}, capture_output=True, text=True, timeout=120)


@pytest.fixture
def passes(tmp_path):
    def check(code, **switches):
        done = on_emulator(tmp_path, code, **switches)
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    return check


CASES = """
import json
outcomes = {{}}
for name, code in json.loads({cases!r}).items():
    try:
        exec(code, dict(globals()))
        outcomes[name] = "not found"
    except Exception as error:
        outcomes[name] = type(error).__name__ + ": " + str(error)
    environment.recover()
print(json.dumps(outcomes))
"""


@functools.cache
def outcomes(cases, **switches):
    """What became of each of the cases (name and code, in pairs): the error that it ended with.  One process runs them all."""
    with tempfile.TemporaryDirectory() as folder:
        done = on_emulator(pathlib.Path(folder), CASES.format(cases=json.dumps(dict(cases))), **switches)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def check_found(name, message, cases, **switches):
    outcome = outcomes(tuple(cases.items()), **switches)[name]
    assert re.search(message, outcome), f"{name}: {message!r} is not in {outcome!r}"


ORDERS = pytest.mark.parametrize("order", ["fwd", "rev", "random"])

# ---- PyCUDA


def test_gpuarray(passes):
    passes("""
a = np.arange(12, dtype=np.float32).reshape(3, 4)
x = ga.to_gpu(a)
assert (x.get() == a).all() and (x.T.get() == a.T).all() and (x[1:, 1:3].get() == a[1:, 1:3]).all()
assert np.allclose((x * 2 + x - 1).get(), a * 2 + a - 1) and np.allclose((x / 3).get(), a / 3) and np.allclose((2 - x).get(), 2 - a)
assert (ga.empty_like(x).fill(7).get() == 7).all() and (ga.arange(5, dtype=np.int32).get() == np.arange(5)).all()
assert (x.astype(np.float64).get() == a).all() and (x.reshape(4, 3).get() == a.reshape(4, 3)).all()
import pycuda.cumath
assert np.allclose(pycuda.cumath.exp(x).get(), np.exp(a), rtol=1e-6)
x.set(a + 1)
assert (x.get() == a + 1).all() and x.__cuda_array_interface__["shape"] == (3, 4)
""")


def test_elementwise_and_scan_kernels(passes):
    passes("""
from pycuda.elementwise import ElementwiseKernel
from pycuda.scan import InclusiveScanKernel
a = np.arange(1000, dtype=np.float32)
z = ga.empty(1000, np.float32)
ElementwiseKernel("float *x, float s, float *z", "z[i] = s * x[i]", "scale")(ga.to_gpu(a), np.float32(3), z)
assert (z.get() == 3 * a).all()
ones = ga.to_gpu(np.ones(3000, np.int32))
InclusiveScanKernel(np.int32, "a + b")(ones)
assert (ones.get() == np.arange(1, 3001)).all()
""")


def test_memory(passes):
    passes("""
pool = tools.DeviceMemoryPool()
x = ga.empty(1000, np.float32, allocator=pool.allocate)
assert (x.fill(3).get() == 3).all() and pool.active_blocks == 1
del x
assert pool.held_blocks == 1
pool.free_held()
free, total = drv.mem_get_info()
block = drv.mem_alloc(1000)
assert drv.mem_get_info() == (free - 1000, total)
block.free()
assert drv.mem_get_info() == (free, total)
host = drv.pagelocked_empty(100, np.int32)
host[:] = np.arange(100)
x = drv.mem_alloc(400)
drv.memcpy_htod_async(x, host)
y = drv.mem_alloc(400)
drv.memcpy_dtod(y, x, 400)
back = np.empty(100, np.int32)
drv.memcpy_dtoh(back, y)
assert (back == host).all()
drv.memset_d32(y, 5, 100)
drv.memset_d8(int(y) + 4, 255, 4)
drv.memcpy_dtoh(back, y)
assert back[0] == 5 and back[1] == -1 and back[2] == 5
copy = drv.Memcpy2D()
copy.set_src_device(x); copy.src_pitch = 40; copy.src_x_in_bytes = 4
result = np.zeros((10, 3), np.int32)
copy.set_dst_host(result); copy.dst_pitch = 12; copy.width_in_bytes = 12; copy.height = 10
copy(aligned=False)
assert (result == np.arange(100).reshape(10, 10)[:, 1:4]).all()
""")


def test_streams_and_events(passes):
    passes("""
fill = kernel("__global__ void k(float *o, float v) { o[threadIdx.x] = v; }")
one, two = drv.Stream(), drv.Stream(1)
start, end = drv.Event(), drv.Event()
start.record(one)
fill(o, np.float32(1), block=(64, 1, 1), stream=one)
end.record(one)
two.wait_for_event(end)
fill(o, np.float32(2), block=(64, 1, 1), stream=two)
two.synchronize()
end.synchronize()
assert (get(o) == 2).all() and end.query() and one.is_done() and 0 <= start.time_till(end) < 1e5
""", deferred=1)


def test_device_and_context(passes):
    passes("""
import threading
device = drv.Device(0)
assert drv.Device.count() == 1 and device.compute_capability() == (9, 0) and device.name() == "CUDA emulator"
assert device.total_memory() == 8 << 30 and drv.get_driver_version() == 13000
attributes = drv.device_attribute
assert device.get_attribute(attributes.WARP_SIZE) == 32 and device.get_attribute(attributes.MAX_THREADS_PER_BLOCK) == 1024
seen = []
def elsewhere():
    try:
        drv.mem_alloc(10)
    except drv.Error as error:
        seen.append(str(error))
    pycuda.autoprimaryctx.context.push()
    seen.append(drv.mem_alloc(10) is not None)
    drv.Context.pop()
thread = threading.Thread(target=elsewhere)
thread.start()
thread.join()
assert "invalid device context" in seen[0] and seen[1] is True, seen
""")


# ---- the device language


@ORDERS
def test_shuffles_and_votes(passes, order):
    passes("""
f = kernel('''
__global__ void k(int *o) {
  const unsigned all = 0xffffffffu;
  int l = threadIdx.x;
  o[l] = __shfl_sync(all, l * 10, 5);
  o[32 + l] = __shfl_down_sync(all, l, 3);
  o[64 + l] = __shfl_up_sync(all, l, 3);
  o[96 + l] = __shfl_xor_sync(all, l, 7);
  o[128 + l] = __shfl_sync(all, l, 1, 8);
  o[160 + l] = __shfl_down_sync(all, l, 3, 16);
  o[192 + l] = __ballot_sync(all, l % 3 == 0);
  o[224 + l] = __any_sync(all, l == 9) + 2 * __all_sync(all, l < 32) + 4 * __all_sync(all, l < 31);
  o[256 + l] = __match_any_sync(all, l / 16);
  o[288 + l] = __reduce_add_sync(all, l) + 1000 * __reduce_max_sync(all, l);
  o[320 + l] = l < 16 ? __shfl_xor_sync(0xffffu, l, 1) : __shfl_xor_sync(0xffff0000u, l, 2);
  double d = __shfl_sync(all, l + 0.5, 31);
  o[352 + l] = d == 31.5;
  if (l < 8) { __syncwarp(0xff); o[384 + l] = __activemask() == 1u << l; }
}''')
o = ga.zeros(392, np.int32)
f(o, block=(32, 1, 1))
r, l = get(o)[:384].reshape(12, 32), np.arange(32)
assert (r[0] == 50).all() and (r[1] == np.where(l + 3 < 32, l + 3, l)).all() and (r[2] == np.where(l >= 3, l - 3, l)).all()
assert (r[3] == l ^ 7).all() and (r[4] == l // 8 * 8 + 1).all() and (r[5] == np.where(l % 16 + 3 < 16, l + 3, l)).all()
assert (r[6].view(np.uint32) == sum(1 << i for i in range(0, 32, 3))).all() and (r[7] == 3).all()
assert (r[8].view(np.uint32) == np.where(l < 16, 0xffff, 0xffff0000)).all() and (r[9] == 496 + 31000).all()
assert (r[10] == np.where(l < 16, l ^ 1, l ^ 2)).all() and (r[11] == 1).all() and (get(o)[384:] == 1).all()
""", order=order)


@ORDERS
def test_barriers_and_shared_memory(passes, order):
    passes("""
m = module('''
template <class T, int N> __device__ T total(T value) {
  __shared__ T part[N];
  part[threadIdx.x] = value;
  __syncthreads();
  for (int d = N / 2; d; d /= 2) {
    if (threadIdx.x < d) part[threadIdx.x] += part[threadIdx.x + d];
    __syncthreads();
  }
  T sum = part[0];
  __syncthreads();
  return sum;
}
extern "C" __global__ void __launch_bounds__(128) totals(float *f, double *d) {
  int t = threadIdx.x;
  f[blockIdx.x] = total<float, 128>(t + 1);
  d[blockIdx.x] = total<double, 128>(t + 0.5) + total<double, 128>(blockIdx.x);
}
extern "C" __global__ void votes(int *o) {
  int t = threadIdx.x, odd = t & 1;
  o[t] = __syncthreads_count(odd) + 1000 * __syncthreads_and(t < 64) + 2000 * __syncthreads_or(t == 3) + 4000 * __syncthreads_and(odd);
}
extern "C" __global__ void reverse(double *o, int n) {
  extern __shared__ __align__(16) unsigned char raw[];
  double *s = reinterpret_cast<double *>(raw);
  for (int i = threadIdx.x; i < n; i += blockDim.x) s[i] = i;
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) o[i] = s[n - 1 - i];
}
''')
f, d = ga.zeros(4, np.float32), ga.zeros(4, np.float64)
m.get_function("totals")(f, d, block=(128, 1, 1), grid=(4, 1))
assert (get(f) == 128 * 129 / 2).all() and (get(d) == 128 * 64 + 128 * np.arange(4)).all()
o = ga.zeros(64, np.int32)
m.get_function("votes")(o, block=(64, 1, 1))
assert (get(o) == 32 + 1000 + 2000).all()
n = 20000
reverse, o = m.get_function("reverse"), ga.zeros(n, np.float64)
reverse.set_attribute(drv.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, 8 * n)
reverse(o, np.int32(n), block=(96, 1, 1), shared=8 * n)
assert (get(o) == np.arange(n)[::-1]).all()
assert m.get_function("totals").get_attribute(drv.function_attribute.MAX_THREADS_PER_BLOCK) == 128
""", order=order)


def test_atomics(passes):
    passes("""
f = module('''
#include <cuda_fp16.h>
#include <cuda_bf16.h>
struct All { int i[8]; unsigned u[4]; unsigned long long ull[4]; long long ll[2]; float f; double d; __half2 h2; __nv_bfloat16 b; };
extern "C" __global__ void k(All *a) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(&a->i[0], t);
  atomicSub(&a->i[1], 1);
  atomicMin(&a->i[2], -t);
  atomicMax(&a->i[3], t);
  atomicOr(&a->i[4], 1 << t % 32);
  atomicAnd(&a->i[5], ~(1 << t % 8));
  atomicXor(&a->i[6], t);
  atomicExch(&a->i[7], 7);
  atomicInc(&a->u[0], 9);
  atomicDec(&a->u[1], 9);
  atomicCAS(&a->u[2], (unsigned)t, t + 1u);
  atomicAdd(&a->ull[0], 1ull << 40);
  atomicMax(&a->ull[1], (unsigned long long)t << 33);
  atomicCAS(&a->ull[2], 0ull, 1ull << 50);
  atomicMin(&a->ll[0], (long long)-t << 33);
  atomicAdd(&a->f, 0.5f);
  atomicAdd(&a->d, 0.25);
  atomicAdd(&a->h2, __floats2half2_rn(1.f, 2.f));
  atomicAdd(&a->b, __float2bfloat16(1.f));
}''').get_function("k")
kind = np.dtype([("i", np.int32, 8), ("u", np.uint32, 4), ("ull", np.uint64, 4), ("ll", np.int64, 2), ("f", np.float32), ("d", np.float64),
                 ("h2", np.float16, 2), ("b", np.uint16)], align=True)
a = np.zeros(1, kind)
a["i"][0, 5] = -1
x = ga.to_gpu(a.view(np.uint8))
f(x, block=(64, 1, 1), grid=(2, 1))
r, n = get(x).view(kind)[0], 128
assert list(r["i"]) == [n * 127 // 2, -n, -127, 127, -1, -256, 0, 7], r
assert list(r["u"][:2]) == [n % 10, (10 - n % 10) % 10] and r["u"][2] == n
assert list(r["ull"][:3]) == [n << 40, 127 << 33, 1 << 50] and r["ll"][0] == -127 << 33
assert r["f"] == n / 2 and r["d"] == n / 4 and list(r["h2"]) == [n, 2 * n] and r["b"] == np.float32(n).view(np.uint32) >> 16
""")


def test_half_precision_is_numpys(passes):
    passes("""
f = module('''
#include <cuda_fp16.h>
extern "C" __global__ void k(const __half *a, const __half *b, __half *o, float *w, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  o[i] = a[i] + b[i];
  o[n + i] = a[i] * b[i];
  o[2 * n + i] = a[i] / b[i];
  o[3 * n + i] = __hfma(a[i], b[i], a[i]);
  o[4 * n + i] = hsqrt(__habs(a[i]));
  o[5 * n + i] = __float2half(__half2float(a[i]) * 1.5f);
  __half2 two = __hmul2(__halves2half2(a[i], b[i]), __float2half2_rn(2.f));
  o[6 * n + i] = __low2half(two);
  o[7 * n + i] = __hgt(a[i], b[i]) ? __hmax(a[i], b[i]) : __hneg(a[i]);
  w[i] = __half2float(a[i]);
}''').get_function("k")
a = np.arange(0, 65536, 7, dtype=np.uint16).view(np.float16)
a = a[np.isfinite(a)]
b = np.roll(a, 1234)
n = a.size
o, w = ga.empty(8 * n, np.float16), ga.empty(n, np.float32)
f(ga.to_gpu(a), ga.to_gpu(b), o, w, np.int32(n), block=(128, 1, 1), grid=((n + 127) // 128, 1))
r = get(o).reshape(8, n)
wide = a.astype(np.float64)
with np.errstate(all="ignore"):
    wanted = [a + b, a * b, a / b, (wide * b + a).astype(np.float16), np.sqrt(np.abs(a)),
              (a.astype(np.float32) * np.float32(1.5)).astype(np.float16), a * np.float16(2), np.where(a > b, a, -a)]
for got, want, name in zip(r, wanted, "+ * / fma sqrt 1.5 half2 max".split()):
    wrong = (got != want) & ~(np.isnan(got) & np.isnan(want))
    assert not wrong.any(), (name, a[wrong][:3], b[wrong][:3], got[wrong][:3], want[wrong][:3])
assert (get(w) == a).all()
""")


def test_bfloat16(passes):
    passes("""
f = module('''
#include <cuda_bf16.h>
extern "C" __global__ void k(const float *x, __nv_bfloat16 *o, float *s) {
  int i = threadIdx.x;
  o[i] = __float2bfloat16(x[i]);
  s[i] = __bfloat162float(o[i] * o[i] + __float2bfloat16(1.f)) + (float)hexp(__float2bfloat16(0.f));
}''').get_function("k")
def rounded(x):
    bits = x.astype(np.float32).view(np.uint32)
    return ((bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype(np.uint16)
def wide(b):
    return (b.astype(np.uint32) << 16).view(np.float32)
x = np.linspace(-3, 5, 64, dtype=np.float32)
b, s = ga.zeros(64, np.uint16), ga.zeros(64, np.float32)
f(ga.to_gpu(x), b, s, block=(64, 1, 1))
assert (get(b) == rounded(x)).all()
square = wide(rounded(wide(rounded(x)) ** 2))
assert (get(s) == wide(rounded(square + 1)) + 1).all()
""")


def test_integer_intrinsics(passes):
    passes("""
f = kernel('''
__global__ void k(unsigned long long *o) {
  o[0] = __umul64hi(0xfedcba9876543210ull, 0x123456789abcdef0ull);
  o[1] = __umulhi(0xdeadbeefu, 0xcafebabeu);
  o[2] = __brev(0x12345678u);
  o[3] = __clz(1 << 20) * 100 + __popc(0xf0f0u);
  o[4] = __ffs(0x100) * 100 + __clzll(1ll);
  o[5] = __funnelshift_l(0x80000000u, 1u, 1) * 16ull + __byte_perm(0x03020100u, 0x07060504u, 0x7610u) % 16;
  o[6] = (unsigned)__float_as_int(1.0f);
  o[7] = __double_as_longlong(-2.0);
  o[8] = (unsigned)__float2int_rn(2.5f) * 100 + (unsigned)__float2int_rz(3.9f) * 10 + (__float2int_rd(1e20f) == 2147483647);
  o[9] = max(3, min(9, 5)) * 10 + (min(1.5f, 2) == 1.5f);
  long long start = clock64();
  o[10] = clock64() >= start;
}''')
o = ga.zeros(11, np.uint64)
f(o, block=(1, 1, 1))
r = [int(v) for v in get(o)]
assert r[:3] == [0xfedcba9876543210 * 0x123456789abcdef0 >> 64, 0xdeadbeef * 0xcafebabe >> 32, int(f"{0x12345678:032b}"[::-1], 2)], r
assert r[3:] == [1108, 963, 3 * 16, 0x3f800000, 0xc000000000000000, 231, 51, 1], r
""")


def test_floating_point_functions(passes):
    passes("""
import math
f = kernel('''
__global__ void k(const double *x, double *o, int n) {
  int i = threadIdx.x;
  double v = x[i];
  o[i] = erf(erfinv(v)), o[n + i] = normcdf(normcdfinv(0.5 + v / 3)), o[2 * n + i] = rsqrt(v * v + 1) * sqrt(v * v + 1);
  o[3 * n + i] = erfcx(9 * v), o[4 * n + i] = sinpi(v), o[5 * n + i] = erfcinv(erfc(3 * v)), o[6 * n + i] = erfcx(10.0 + v);
  float s, c;
  sincosf((float)v, &s, &c);
  o[7 * n + i] = s * s + c * c;
  float one = 1.f + 1.1920929e-7f, product = __fmul_rn(one, one);
  o[8 * n + i] = fmaf(one, one, -product) != 0 && __fadd_rn(__fmul_rn(one, one), -product) == 0;
}''')
x = np.linspace(-0.99, 0.99, 34)
n = x.size
o = ga.zeros(9 * n, np.float64)
f(ga.to_gpu(x), o, np.int32(n), block=(n, 1, 1))
r = get(o).reshape(9, n)
assert np.allclose(r[0], x, rtol=1e-14) and np.allclose(r[1], 0.5 + x / 3, rtol=1e-14) and np.allclose(r[2], 1, rtol=1e-14)
assert np.allclose(r[3], [math.exp(81 * v * v) * math.erfc(9 * v) for v in x], rtol=1e-12) and np.allclose(r[4], np.sin(np.pi * x))
assert np.allclose(r[5], 3 * x, rtol=1e-10) and np.allclose(r[7], 1) and (r[8] == 1).all()
assert np.allclose(r[6], [math.exp((10 + v) ** 2) * math.erfc(10 + v) for v in x], rtol=1e-11)
""")


def test_variables_structures_and_printf(passes):
    printed = passes("""
m = module('''
struct Layout { int ndim; long long strides[3]; };
__constant__ float coefficients[4];
__device__ int counter;
__device__ float table[4] = {1, 2, 3, 4};
extern "C" __global__ void k(char tag, const float4 *x, Layout layout, double scale, float4 *o) {
  int i = threadIdx.x;
  float4 v = __ldg(x + i);
  o[i] = make_float4(coefficients[0] * v.x, table[1] * v.y, layout.strides[layout.ndim] * v.z, scale * v.w);
  atomicAdd(&counter, 1);
  if (i == 3) printf("tag %c of %d threads\\\\n", tag, blockDim.x);
}''')
address, size = m.get_global("coefficients")
assert size == 16
drv.memcpy_htod(address, np.array([5, 6, 7, 8], np.float32))
layout = np.zeros(1, np.dtype([("ndim", np.int32), ("strides", np.int64, 3)], align=True))
layout["ndim"], layout["strides"][0, 2] = 2, 11
x, o = ga.to_gpu(np.ones(16, np.float32)), ga.zeros(16, np.float32)
m.get_function("k")(np.int8(ord("q")), x, layout, np.float64(0.5), o, block=(4, 1, 1))
assert (get(o).reshape(4, 4) == [5, 2, 11, 0.5]).all()
count = np.zeros(1, np.int32)
drv.memcpy_dtoh(count, m.get_global("counter")[0])
assert count[0] == 4
""")
    assert printed == "tag q of 4 threads\n"


# ---- the order of things


ORDER_OF_THREADS = """
f = kernel('''
__device__ int next;
__global__ void k(int *o) {
  o[atomicAdd(&next, 1)] = blockIdx.x * blockDim.x + threadIdx.x;
  __syncthreads();
  o[atomicAdd(&next, 1)] = threadIdx.x;
}''')
o = ga.zeros(64, np.int32)
f(o, block=(8, 1, 1), grid=(4, 1))
print(*get(o))
"""


def test_orders(passes):
    forward = [n for block in range(4) for n in (*range(8 * block, 8 * block + 8), *range(8))]
    backward = [n for block in range(3, -1, -1) for n in (*range(8 * block + 7, 8 * block - 1, -1), *range(7, -1, -1))]
    assert [int(n) for n in passes(ORDER_OF_THREADS, order="fwd").split()] == forward
    assert [int(n) for n in passes(ORDER_OF_THREADS, order="rev").split()] == backward
    one, again, two = (passes(ORDER_OF_THREADS, order="random", seed=seed) for seed in (1, 1, 2))
    assert one == again != two and sorted(map(int, one.split())) == sorted(forward)


def test_large_launches_run_on_several_threads(passes):
    passes("""
f = kernel('''
__global__ void k(const float *x, float *o) {
  __shared__ float s[256];
  int t = threadIdx.x, i = blockIdx.x * 256 + t;
  s[t] = x[i];
  __syncthreads();
  for (int d = 128; d; d /= 2) { if (t < d) s[t] += s[t + d]; __syncthreads(); }
  if (!t) atomicAdd(o, s[0]);
}''')
x = np.arange(1 << 18, dtype=np.float32) % 8
for _ in range(3):
    o = ga.zeros(1, np.float32)
    f(ga.to_gpu(x), o, block=(256, 1, 1), grid=(1024, 1))
    assert get(o)[0] == x.sum()
""", threads=4)


@ORDERS
def test_deferred_work_keeps_the_order_of_streams(passes, order):
    passes("""
f = kernel("__global__ void k(float *o, float scale, float add) { o[threadIdx.x] = o[threadIdx.x] * scale + add; }")
stream = drv.Stream()
o = ga.zeros(64, np.float32)
for i in range(3000):
    f(o, np.float32(0.5), np.float32(i % 3), block=(64, 1, 1), stream=stream)
drv.memset_d32(o.gpudata, 0, 1)    # the null stream waits for a blocking one
f(o, np.float32(1), np.float32(1), block=(64, 1, 1), stream=stream)
result = np.zeros(64, np.float32)
drv.memcpy_dtoh(result, o.gpudata)
value = np.float32(0)
for i in range(3000):
    value = value * np.float32(0.5) + np.float32(i % 3)
assert result[0] == 1 and result[1] == value + 1
""", deferred=1, order=order)


# ---- counters, faults, switches


def test_counters(passes):
    passes("""
f = kernel("__global__ void k(float *o) { o[threadIdx.x] += 1; }")
x, y = drv.mem_alloc(256), drv.mem_alloc(256)
stream, event = drv.Stream(), drv.Event()
pinned = drv.pagelocked_empty(64, np.float32)
host = np.zeros(64, np.float32)
def change(act):
    before = environment.counts()
    act()
    return {name: n - before[name] for name, n in environment.counts().items() if n != before[name]}
def many():
    for _ in range(3):
        f(x, block=(64, 1, 1), stream=stream)
assert change(many) == {"launches": 3}
assert change(lambda: drv.memcpy_htod(x, host)) == {"copies": 1, "wait_copy_to_device": 1}
assert change(lambda: drv.memcpy_dtoh(host, x)) == {"copies": 1, "wait_copy_to_host": 1}
assert change(lambda: drv.memcpy_htod_async(x, pinned, stream)) == {"copies": 1}
assert change(lambda: drv.memcpy_dtoh_async(pinned, x, stream)) == {"copies": 1}
assert change(lambda: drv.memcpy_dtoh_async(host, x, stream)) == {"copies": 1, "wait_copy_to_host": 1}
assert change(lambda: drv.memcpy_dtod_async(y, x, 256, stream)) == {"copies": 1}
assert change(lambda: drv.memset_d32_async(x, 1, 64, stream)) == {"memsets": 1}
assert change(lambda: event.record(stream)) == {}
assert change(event.synchronize) == {"wait_event": 1}
assert change(stream.synchronize) == {"wait_stream": 1}
assert change(drv.Context.synchronize) == {"wait_context": 1}
assert change(y.free) == {"frees": 1, "wait_free": 1}
assert change(lambda: globals().update(z=drv.mem_alloc(8))) == {"allocations": 1}
""")


def test_faults_on_demand(passes):
    passes("""
def refused(act, words):
    try:
        act()
    except drv.Error as error:
        assert words in str(error) and "an injected fault" in str(error), error
        return type(error)
    raise AssertionError("no error: " + words)
source = "__global__ void k(float *o) { o[threadIdx.x] = 1; }"
f = kernel(source)
environment.fault("out_of_memory", 2, times=2)   # PyCUDA tries twice
kept = drv.mem_alloc(8)
assert refused(lambda: drv.mem_alloc(8), "out of memory") is drv.MemoryError
assert drv.mem_alloc(8)
environment.fault("invalid_image")
refused(lambda: kernel(source), "device kernel image is invalid")
kernel(source)
environment.fault("illegal_address")
refused(lambda: f(o, block=(1, 1, 1)), "an illegal memory access was encountered")
refused(lambda: drv.mem_alloc(8), "an illegal memory access was encountered")
environment.recover()
f(o, block=(1, 1, 1))
assert get(o)[0] == 1
try:
    environment.fault("no_such")
except ValueError as error:
    assert "no_such" in str(error)
else:
    raise AssertionError
""")


@pytest.mark.parametrize(
    "switches, code, message",
    [
        ({"devices": 0}, "", "no CUDA-capable device is detected"),
        ({"memory": 1000}, "drv.mem_alloc(2000)", "out of memory.*2000 bytes asked for, 1000 of 1000 free"),
        ({"capability": "3.5"}, "SourceModule(empty)", "Unsupported gpu architecture 'sm_35'"),
        ({"capability": "8.0"}, "SourceModule(empty, arch='sm_90')", "no kernel image is available.*for sm_90, the device is sm_80"),
        ({"order": "up"}, "drv.mem_alloc(8)", 'CUDA_EMULATOR_ORDER is "up"; it can be fwd, rev or random'),
    ],
)
def test_switches(tmp_path, switches, code, message):
    prelude = "import pycuda.driver as drv, pycuda.autoprimaryctx\nfrom pycuda.compiler import SourceModule\n"
    done = on_emulator(tmp_path, f"empty = '__global__ void k() {{}}'\n{code}", prelude=prelude, **switches)
    assert done.returncode and re.search(message, done.stderr), done.stderr


def test_switches_that_change_answers(passes):
    passes("""
assert drv.get_driver_version() == 11000 and drv.Device(0).compute_capability() == (7, 5)
assert (get(ga.empty(100, np.float32)) == 0).all()
""", driver_version=11000, capability="7.5", poison=0)


def test_what_is_not_emulated_says_so(passes):
    passes("""
driver = ctypes.CDLL("libcuda.so.1")
text = ctypes.c_char_p()
assert driver.cuGraphCreate(None, 0) == 801
driver.cuGetErrorString(801, ctypes.byref(text))
assert text.value == b"operation not supported [CUDA emulator: cuGraphCreate is not emulated]", text.value
""")


def test_a_crash_of_the_host_is_no_bug_of_a_kernel(tmp_path):
    done = on_emulator(tmp_path, "drv.Context.synchronize()\nctypes.string_at(0)")
    assert done.returncode == -11, done.returncode


# ---- nvcc


@pytest.fixture
def nvcc(tmp_path):
    """Runs nvcc on a source: (exit status, its standard error, the image)."""

    def compile_(source, *options, name="unit.cu", **files):
        for file, text in {name: source, **{k.replace("_h", ".h"): v for k, v in files.items()}}.items():
            (tmp_path / file).parent.mkdir(exist_ok=True)
            (tmp_path / file).write_text(text)
        command = [str(environment.folder() / "nvcc"), *options, "-o", "image", name]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        image = tmp_path / "image"
        return done.returncode, done.stderr, image.read_bytes() if image.exists() else b""

    return compile_


def test_nvcc_options(nvcc):
    source = """
    #include "own.h"
    #include <cuda_fp16.h>
    static_assert(NUMBER == 3 && FLAG == 1 && FROM_HEADER == 4 && __CUDA_ARCH__ == 800 && sizeof(T) == 4, "");
    #ifdef GONE
    #error -U
    #endif
    extern "C" __global__ void k(T *x) { x[0] = NUMBER; }
    """
    options = ["-cubin", "-std=c++17", "-arch=sm_80", "-DNUMBER=3", "-D", "FLAG", "-D", "T=float", "-DGONE", "-UGONE", "-I", "."]
    options += ["-include", "own.h", "-O3", "--fmad=false", "-lineinfo", "-Xptxas", "-v"]
    status, errors, image = nvcc(source, *options, own_h="#pragma once\n#define FROM_HEADER 4")
    assert (status, errors) == (0, "") and image.split(b"\n")[1].endswith(b" sm_80")


def test_nvcc_makes_images_for_several_architectures(nvcc):
    pairs = ["-gencode", "arch=compute_80,code=sm_80", "-gencode", "arch=compute_90,code=[sm_90,compute_90]"]
    assert nvcc("__global__ void k() {}", "-fatbin", *pairs)[2].split(b"\n")[1].endswith(b" sm_80,sm_90,compute_90")
    assert nvcc("__global__ void k() {}", "-fatbin", "-arch=sm_90")[2].split(b"\n")[1].endswith(b" sm_90,compute_90")
    assert nvcc("__global__ void k() {}", "-ptx", "-arch=compute_75")[2].split(b"\n")[1].endswith(b" compute_75")


@pytest.mark.parametrize(
    "source, options, message",
    [
        ("__global__ void k(float *o) {\n  o[0] = missing;\n}", [], r"unit.cu:2:\d+: error: .*missing.* was not declared"),
        ("__global__ void k(long long *o) { atomicAdd(o, 1ll); }", [], "unit.cu:1:.*error: invalid conversion from .long long int"),
        ("__global__ void k(int *o) { __shared__ double s[7000]; s[*o] = 1; __syncthreads(); *o = s[3]; }", [],
         r"ptxas error.*uses too much shared data \(0xdac0 bytes, 0xc000 max\)"),
        ("", ["-arch=sm_70"], "nvcc fatal   : Unsupported gpu architecture 'sm_70'"),
        ("", ["--no-such"], "nvcc fatal   : Unknown option '--no-such'"),
        ("#include <nowhere.h>", [], "unit.cu:1:.*nowhere.h: No such file"),
    ],
)  # fmt: skip
def test_nvcc_refuses(nvcc, source, options, message):
    status, errors, image = nvcc(source, "-cubin", *options)
    assert status == 1 and re.search(message, errors) and not image, errors


def test_nvcc_says_its_version():
    said = subprocess.run([environment.folder() / "nvcc", "--version"], capture_output=True, text=True).stdout
    assert re.search(r"release 1\d\.\d, V1\d\.\d\.", said) and environment.key() in said


def test_contraction_is_an_option(passes):
    passes("""
source = "extern \\"C\\" __global__ void k(float x, float y, float z, float *o) { *o = x * y + z; }"
one = np.float32(1 + 2**-12)
for options, wanted in (["-fmad=false"], 0), ([], 2.0**-24):
    o = ga.zeros(1, np.float32)
    module(source, options=options).get_function("k")(one, one, np.float32(-(one * one)), o, block=(1, 1, 1))
    assert get(o)[0] == wanted, (options, get(o))
""")


# ---- environment.py and run.py


def test_run_takes_scripts_and_modules(tmp_path):
    (tmp_path / "shown.py").write_text("import sys, pycuda.driver\nprint(__name__, sys.argv[1:], pycuda.driver.get_version()[0] >= 12)")
    run = [sys.executable, str(HERE / "run.py")]
    for how in (["shown.py"], ["-m", "shown"]):
        done = subprocess.run([*run, *how, "a", "-b"], cwd=tmp_path, capture_output=True, text=True)
        assert done.stdout == "__main__ ['a', '-b'] True\n", done.stderr
    assert "python tests/cuda_emulator/run.py" in subprocess.run(run, capture_output=True, text=True).stderr


def test_why_not_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert re.fullmatch(r"the CUDA emulator isn't built: \S+ \S+/tests/cuda_emulator/setup.py does", environment.lacking())
    monkeypatch.setattr(environment, "_driver", None)
    with pytest.raises(RuntimeError, match=r"isn't built|was imported before"):
        environment.enter()


def test_unknown_switches_are_refused():
    with pytest.raises(TypeError, match=r"no switch of the CUDA emulator: oder; there are capability, .*order"):
        environment.enter(oder="rev")


# ---- planted bugs: each with the message by which it is found

T = "int t = threadIdx.x; "
BUGS = {
    "divergent barrier": (
        r"deadlock: 32 of 64 threads have ended, 32 wait in __syncthreads\(\) at kernel.cu:3",
        "if (t >= 32) return; __syncthreads(); o[t] = t;",
    ),
    "a barrier in each branch": (
        r"divergent barriers: __syncthreads\(\) at kernel.cu:4 while 16 threads wait in that at kernel.cu:3",
        "if (t < 16) __syncthreads();\n else __syncthreads(); o[t] = t;",
    ),
    "barrier of a warp against one of the block": (
        r"deadlock: 0 of 64 .*, 48 wait in __syncthreads\(\).*, lanes 0x0000ffff of warp 0 wait at kernel.cu:3",
        "if (t < 16) __syncwarp(); else __syncthreads(); o[t] = t;",
    ),
    "a mask that names lanes elsewhere": (
        "deadlock: 56 of 64 .*, lanes 0x0000000f of warp 0 wait at kernel.cu:3 for the rest of 0x000000ff",
        "if (t < 4) __shfl_sync(0xff, t, 0); else if (t < 8) { __ballot_sync(0xf0, 1); while (t < 8) __syncwarp(0xff); }",
    ),
    "a mask without the caller": (
        "the mask 0x00000001 given at kernel.cu:3 lacks the calling lane",
        "o[t] = __shfl_sync(1, t, 0);",
    ),
    "far write": (
        r"block \(0,0,0\), thread \(\d+,0,0\): write at an address that is \d+ bytes past the end of a 256-byte allocation",
        "o[t + 1024] = 1;",
    ),
    "near write": ("kernel k wrote past the end of a 220-byte allocation", "o[t] = 1;"),
    "read before the start": ("read at an address that is 4 bytes before a 4096-byte allocation", "o[t] = o[t - 1];"),
    "null pointer": (r"thread \(0,0,0\): read at an address that is a null pointer plus 8", "float *p = nullptr; o[t] = p[2];"),
    "too few threads allowed": ("too many resources requested.*a block of 64 threads; its __launch_bounds__ say 32", ""),
    "index past a shared array": (
        r"index 64 is out of the bounds of 'float \[64\]' at kernel.cu:3",
        "__shared__ float s[64]; s[t + 1] = t; __syncthreads(); o[t] = s[t];",
    ),
    "index past a local array": (
        r"index 4 is out of the bounds of 'float \[4\]' at kernel.cu:3",
        "float v[4] = {}; for (int i = 0; i <= t; i++) v[i] = o[i]; o[t] = v[t % 4];",
    ),
    "past dynamic shared memory": (
        "write at an address that is past the end of 0 bytes of dynamic shared memory",
        "extern __shared__ float s[]; s[t] = t; __syncthreads(); o[t] = s[63 - t];",
    ),
    "misaligned vector": (
        "misaligned address.*'const struct float4' at kernel.cu:3 needs an address that is a multiple of 16",
        "const float4 *v = reinterpret_cast<const float4 *>(o + 1); o[t] = v[0].x;",
    ),
    "misaligned scalar": (
        r"misaligned address.*'float' at kernel.cu:3 needs an address that is a multiple of 4, not 0x\w+2",
        "float *p = (float *)((char *)o + 2); *p = t;",
    ),
    "assertion": ("device-side assert triggered.*assertion t < 63 failed at kernel.cu:3", "assert(t < 63);"),
    "trap": (r"thread \(5,0,0\): __trap\(\) was called", "if (t == 5) __trap();"),
    "division by zero": ("division of an integer by zero", "o[t] = 7 / (t - 3);"),
    "bottomless recursion": (
        "beyond the stack: too much local memory",
        "struct S { static __noinline__ float f(int n) { volatile float v[99]; v[n % 99] = n; return n < 0 ? 0 : f(n + 1) + v[5]; } };"
        "o[t] = S::f(t);",
    ),
}
ARRAYS = {"near write": "ga.zeros(55, np.float32)", "read before the start": "ga.zeros(1024, np.float32)"}
BOUNDS = {"too few threads allowed": "__launch_bounds__(32)"}


def bug_in_a_kernel(name):
    source = f"__global__ void {BOUNDS.get(name, '')} k(float *o) {{ {T}\n{BUGS[name][1]} }}"
    return f"o = {ARRAYS.get(name, 'ga.zeros(64, np.float32)')}\nkernel({source!r})(o, block=(64, 1, 1))"


@pytest.mark.parametrize("name", BUGS)
def test_planted_bug_in_a_kernel(name):
    check_found(name, BUGS[name][0], {name: bug_in_a_kernel(name) for name in BUGS})


WRONG_RESULTS = {
    "missing barrier": ("__shared__ float s[64]; s[t] = t; o[t] = s[63 - t];", "np.arange(63, -1, -1)"),
    "missing barrier before the next write": (
        "__shared__ float s[64]; float v = t; for (int i = 0; i < 3; i++) { s[t] = v; __syncthreads(); v = s[(t + 1) % 64]; } o[t] = v;",
        "(np.arange(64) + 3) % 64",
    ),
    "a warp taken to run in step": (
        "volatile __shared__ float s[64]; s[t] = 1; for (int d = 16; d; d /= 2) if (t % 32 < d) s[t] += s[t + d]; o[t] = s[t / 32 * 32];",
        "32",
    ),
    "missing barrier of a warp": ("__shared__ float s[64]; s[t] = t; o[t] = s[t ^ 1];", "np.arange(64) ^ 1"),
}


def race(name):
    body, right = WRONG_RESULTS[name]
    source = f"__global__ void k(float *o) {{ {T} {body} }}"
    return f"kernel({source!r})(o, block=(64, 1, 1))\nassert (get(o) == {right}).all(), 'wrong result'"


@ORDERS
@pytest.mark.parametrize("name", WRONG_RESULTS)
def test_planted_race_gives_a_wrong_result(name, order):
    check_found(name, "AssertionError: wrong result", {name: race(name) for name in WRONG_RESULTS}, order=order)


UNINITIALISED = {
    "shared memory": "__shared__ float s[64]; if (t < 63) s[t] = 1; __syncthreads(); o[t] = s[t];",
    "dynamic shared memory": "extern __shared__ float s[]; if (t < 63) s[t] = 1; __syncthreads(); o[t] = s[t];",
    "global memory": "o[t] = fresh[t] + 1;",
    "just past the end": "o[t] = fresh[100 + t % 16];",
    "a lane that is not there": "o[t] = t < 16 ? __shfl_down_sync(0xffff, (float)t, 1) : t;",
}


def unwritten(name):
    source = f"__global__ void k(float *o, const float *fresh) {{ {T} {UNINITIALISED[name]} }}"
    return f"""
kernel({source!r})(o, ga.empty(100, np.float32), block=(64, 1, 1), shared=256)
assert not np.isnan(get(o)).any(), "not a number"
"""


@pytest.mark.parametrize("name", UNINITIALISED)
def test_what_nobody_wrote_is_not_a_number(name):
    check_found(name, "AssertionError: not a number", {name: unwritten(name) for name in UNINITIALISED})


def test_variables_that_nobody_set_hold_a_pattern(passes):
    passes("""
f = kernel('''
__global__ void k(float *o, int n) {
  float v, s[8];
  s[1] = 0;
  for (int i = 0; i < n; i++) v += o[i];
  o[threadIdx.x] = min(v, s[n]);
}''')
f(o, np.int32(7), block=(64, 1, 1))
assert (get(o) < -1e38).all(), get(o)
""")


HOST_BUGS = {
    "an argument too many": (
        r"kernel k takes 1 arguments of 8 bytes \(8\); 12 bytes were given",
        "f(o, np.int32(3), block=(64, 1, 1))",
    ),
    "an argument of the wrong size": (
        r"kernel g takes 2 arguments of 12 bytes \(8, 4\); 16 bytes were given",
        "g(o, np.int64(3), block=(64, 1, 1))",
    ),
    "too many threads": (r"a block of \(2048,1,1\) threads; the most is 1024", "f(o, block=(2048, 1, 1))"),
    "too many blocks": (r"a grid of \(1,70000,1\) blocks", "f(o, block=(64, 1, 1), grid=(1, 70000))"),
    "an empty grid": (r"a grid of \(0,1,1\) blocks", "f(o, block=(64, 1, 1), grid=(0, 1))"),
    "too much dynamic shared memory": (
        "50000 bytes of dynamic shared memory; it may have 49152",
        "f(o, block=(64, 1, 1), shared=50000)",
    ),
    "more shared memory than there is": (
        "300000 bytes of dynamic shared memory asked for; the device has 232448",
        "f.set_attribute(drv.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, 300000)",
    ),
    "use after free": (
        "write at an address that is in a 256-byte allocation that was freed",
        "p = int(o.gpudata); o.gpudata.free(); f(np.uintp(p), block=(64, 1, 1))",
    ),
    "copy to what was freed": (
        "a copy to the device of 256 bytes at an address that is in a 256-byte allocation that was freed",
        "p = int(o.gpudata); o.gpudata.free(); drv.memcpy_htod(p, np.zeros(64, np.float32))",
    ),
    "freed twice": (
        "to be freed is in a 8-byte allocation that was freed",
        "d = ctypes.CDLL('libcuda.so.1'); p = ctypes.c_ulonglong(); d.cuMemAlloc_v2(ctypes.byref(p), 8); d.cuMemFree_v2(p)\n"
        "t = ctypes.c_char_p(); d.cuGetErrorString(d.cuMemFree_v2(p), ctypes.byref(t)); raise drv.LogicError(t.value.decode())",
    ),
    "copy past the end": (
        "a copy from the device of 400 bytes runs past the end of a 256-byte allocation",
        "drv.memcpy_dtoh(np.zeros(100, np.float32), o.gpudata)",
    ),
    "fill past the end": ("a fill of 400 bytes runs past the end", "drv.memset_d32(o.gpudata, 0, 100)"),
    "a name without extern C": (
        'the module has no kernel h; C.. names are mangled without extern "C"',
        'module("__global__ void h() {}").get_function("h")',
    ),
    "another compiler's image": (
        "device kernel image is invalid.*was not made by the emulator's nvcc",
        'drv.module_from_buffer(b"\\x7fELF" + bytes(100))',
    ),
    "use after the context is lost": (
        "cuMemAlloc failed: an illegal memory access was encountered",
        "try: f(np.uintp(0), block=(1, 1, 1))\nexcept drv.Error: drv.mem_alloc(8)",
    ),
}


def bug_in_host_code(name):
    return f"""
o = ga.zeros(64, np.float32)
f = kernel("__global__ void k(float *o) {{ o[threadIdx.x] = 1; }}")
g = kernel("__global__ void g(float *o, int n) {{ o[threadIdx.x] = n; }}", "g")
{HOST_BUGS[name][1]}
"""


@pytest.mark.parametrize("name", HOST_BUGS)
def test_planted_bug_in_host_code(name):
    check_found(name, HOST_BUGS[name][0], {name: bug_in_host_code(name) for name in HOST_BUGS})


# each is right with the wait that is left out, and wrong without
MISSING_WAITS = {
    "host reads pinned memory": (
        "drv.memcpy_dtoh_async(host, x.gpudata, one)", "one.synchronize()", "(host == 5).all()",
    ),
    "host writes pinned memory that is being copied": (
        "drv.memcpy_htod_async(x.gpudata, host, one)", "one.synchronize()", "(host.fill(9) or one.synchronize() or get(x) == 3).all()",
    ),
    "another stream reads": (
        "", "event.record(one); two.wait_for_event(event)",
        "(copy(x, y, block=(64, 1, 1), stream=two) or two.synchronize() or get(y) == 5).all()",
    ),
    "a copy that waits for the null stream alone": (
        "", "one.synchronize()", "(get(x) == 5).all()",
    ),
    "memory goes back to a pool and to another stream": (
        "copy(p, y, block=(64, 1, 1), stream=one); p = None", "one.synchronize()",
        "(reuse() or two.synchronize() or one.synchronize() or get(y) == 4).all()",
    ),
}  # fmt: skip


def with_streams(act, wait, right):
    return f"""
fill = kernel("__global__ void k(float *o, float v) {{ o[threadIdx.x] = v; }}")
copy = kernel("__global__ void k(const float *x, float *y) {{ y[threadIdx.x] = x[threadIdx.x]; }}")
one, two = drv.Stream(1), drv.Stream(1)
event = drv.Event()
pool = tools.DeviceMemoryPool()
x, y = ga.zeros(64, np.float32), ga.zeros(64, np.float32)
p = ga.empty(64, np.float32, allocator=pool.allocate)
host = drv.pagelocked_empty(64, np.float32)
host.fill(3)
fill(p, np.float32(4), block=(64, 1, 1))
drv.Context.synchronize()
def reuse():
    q = ga.empty(64, np.float32, allocator=pool.allocate)
    fill(q, np.float32(8), block=(64, 1, 1), stream=two)
fill(x, np.float32(5), block=(64, 1, 1), stream=one)
{act}
{wait}
right = {right}
p = None
pool.stop_holding()
assert right, "too early"
"""


@pytest.mark.parametrize("name", MISSING_WAITS)
def test_planted_missing_wait(name):
    cases = {}
    for case, (act, wait, right) in MISSING_WAITS.items():
        cases[case] = with_streams(act, "", right)
        cases[f"{case}, with the wait"] = with_streams(act, wait, right)
    check_found(name, "AssertionError: too early", cases, deferred=1)
    check_found(f"{name}, with the wait", "not found", cases, deferred=1)
