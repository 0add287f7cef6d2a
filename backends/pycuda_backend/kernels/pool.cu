// Pooling: one thread an element of the result.  Cotangents are gathered from the windows that cover a place, in their order: no atomics.
// variants: TYPE=float OTHER=float INDEX=int; TYPE=double OTHER=double INDEX=int
// variants: TYPE=half OTHER=half INDEX=int; TYPE=bfloat16 OTHER=bfloat16 INDEX=int
#include "mathematics.cuh"

typedef TYPE T;    // of what is pooled
typedef OTHER D;   // of what is moved to a maximum, or from it
typedef INDEX I;

// A division by what the host knows, as a product: two to the power of `shift` over `by` is 1 + magic / 2**32, as nearly as matters.
struct Divisor { I by, magic, shift; };
__device__ __forceinline__ int quotient(const Divisor& d, int n) {
  return (int)((__umulhi((unsigned)n, (unsigned)d.magic) + (unsigned)n) >> d.shift);
}
__device__ __forceinline__ int64 quotient(const Divisor& d, int64 n) { return n / d.by; }

__device__ __forceinline__ I digit(I& i, const Divisor& d) {
  const I rest = quotient(d, i), at = i - rest * d.by;
  i = rest;
  return at;
}

struct Line { I window, before, stride, dilation, extent, out; };  // one spatial axis
struct Pool {
  Line line[3];
  I image, channel, at[3];  // strides of x; all other arrays are dense
  I size;                   // of the result
  Divisor by_channels, by_extent[3], by_stride[3];  // extents of the result
};

// An element of the result, and where x's plane begins.
struct Spot { I at[3], plane, x; };

__device__ __forceinline__ Spot spot(const Pool& p, I i) {
  Spot s;
#pragma unroll
  for (int a = 2; a >= 0; --a) s.at[a] = digit(i, p.by_extent[a]);
  s.plane = i;
  const I channel = digit(i, p.by_channels);
  s.x = i * p.image + channel * p.channel;
  return s;
}

// The places of x that a window meets along one axis.
struct Span { I begin, end, step; };
struct Spans { Span axis[3]; };

__device__ __forceinline__ Spans spans(const Pool& p, const I (&o)[3]) {
  Spans s;
#pragma unroll
  for (int a = 0; a < 3; ++a) {
    const Line& l = p.line[a];
    const I start = o[a] * l.stride - l.before, end = start + l.window * l.dilation;
    const I begin = start < 0 ? start + (l.dilation - 1 - start) / l.dilation * l.dilation : start;
    s.axis[a] = {begin, end < l.extent ? end : l.extent, l.dilation};
  }
  return s;
}

__device__ __forceinline__ I count(const Span& s) { return s.begin < s.end ? (s.end - s.begin + s.step - 1) / s.step : 0; }

// Each place of x in the window, in row-major order.
#define EACH_PLACE(S, I0, I1, I2) \
  for (I I0 = S.axis[0].begin; I0 < S.axis[0].end; I0 += S.axis[0].step) \
    for (I I1 = S.axis[1].begin; I1 < S.axis[1].end; I1 += S.axis[1].step) \
      for (I I2 = S.axis[2].begin; I2 < S.axis[2].end; I2 += S.axis[2].step)

// The windows that may cover a place along one axis.
__device__ __forceinline__ Span covering(const Pool& p, int a, I i) {
  const Line& l = p.line[a];
  const I at = i + l.before, reach = (l.window - 1) * l.dilation;
  if (at < 0) return {0, 0, 1};
  const I last = quotient(p.by_stride[a], at), first = at > reach ? quotient(p.by_stride[a], at - reach + l.stride - 1) : 0;
  return {first, last < l.out ? last + 1 : l.out, 1};
}

__device__ __forceinline__ bool covers(const Line& l, I o, I i) {
  return l.dilation == 1 || (i + l.before - o * l.stride) % l.dilation == 0;
}

// Each window that covers the spot, as its element of y.
#define EACH_WINDOW(S, O0, O1, O2) \
  const Spans windows = {{covering(p, 0, S.at[0]), covering(p, 1, S.at[1]), covering(p, 2, S.at[2])}}; \
  EACH_PLACE(windows, O0, O1, O2) \
    if (covers(p.line[0], O0, S.at[0]) && covers(p.line[1], O1, S.at[1]) && covers(p.line[2], O2, S.at[2]))

__device__ __forceinline__ I window_of(const Pool& p, I plane, I o0, I o1, I o2) {
  return ((plane * p.line[0].out + o0) * p.line[1].out + o1) * p.line[2].out + o2;
}

#define EACH_RESULT for (I i = blockIdx.x * blockDim.x + threadIdx.x; i < p.size; i += gridDim.x * blockDim.x)

__device__ __forceinline__ T least() {
  if constexpr (Is<T>::floating) return (T)-infinity<wide<T>>();
  else return Is<T>::is_signed ? (T)(1ULL << (8 * sizeof(T) - 1)) : (T)0;
}

extern "C" __global__ void __launch_bounds__(256) max_pool(T* y, const T* x, const Pool p) {
  EACH_RESULT {
    const Spot s = spot(p, i);
    const Spans w = spans(p, s.at);
    T best = least();
    EACH_PLACE(w, i0, i1, i2) best = at::maximum(best, x[s.x + i0 * p.at[0] + i1 * p.at[1] + i2 * p.at[2]]);
    y[i] = best;
  }
}

__device__ __forceinline__ bool is_same(T first, T second) {
  const wide<T> a = (wide<T>)first, b = (wide<T>)second;
  return a == b || (a != a && b != b);
}

// The first place in a window that has its maximum, counted within the plane; -1 if the window is in the padding.
__device__ __forceinline__ I first_maximum(const Pool& p, const T* plane, const Spans& w, T y) {
  EACH_PLACE(w, i0, i1, i2)
    if (is_same(plane[i0 * p.at[0] + i1 * p.at[1] + i2 * p.at[2]], y)) return (i0 * p.line[1].extent + i1) * p.line[2].extent + i2;
  return -1;
}

extern "C" __global__ void __launch_bounds__(256) max_pool_x(D* dx, const D* dy, const T* x, const T* y, const Pool p) {
  EACH_RESULT {
    const Spot s = spot(p, i);
    const T own = x[s.x + s.at[0] * p.at[0] + s.at[1] * p.at[1] + s.at[2] * p.at[2]];
    const I place = (s.at[0] * p.line[1].extent + s.at[1]) * p.line[2].extent + s.at[2];
    wide<D> sum = 0;
    EACH_WINDOW(s, o0, o1, o2) {
      const I o = window_of(p, s.plane, o0, o1, o2);
      if (is_same(own, y[o]) && first_maximum(p, x + s.x, spans(p, {o0, o1, o2}), y[o]) == place) sum += (wide<D>)dy[o];
    }
    dx[i] = (D)sum;
  }
}

extern "C" __global__ void __launch_bounds__(256) max_pool_at(D* out, const D* v, const T* x, const T* y, const Pool p) {
  EACH_RESULT {
    const Spot s = spot(p, i);
    const I place = first_maximum(p, x + s.x, spans(p, s.at), y[i]);
    out[i] = place < 0 ? (D)0 : v[s.plane * (p.line[0].extent * p.line[1].extent * p.line[2].extent) + place];
  }
}

// `whole` is the number of elements of each window where padding counts, else 0.
__device__ __forceinline__ wide<T> elements(const Spans& w, int whole) {
  const I n = whole ? whole : count(w.axis[0]) * count(w.axis[1]) * count(w.axis[2]);
  return (wide<T>)(n ? n : 1);
}

extern "C" __global__ void __launch_bounds__(256) mean_pool(T* y, const T* x, const Pool p, int whole) {
  EACH_RESULT {
    const Spot s = spot(p, i);
    const Spans w = spans(p, s.at);
    wide<T> sum = 0;
    EACH_PLACE(w, i0, i1, i2) sum += (wide<T>)x[s.x + i0 * p.at[0] + i1 * p.at[1] + i2 * p.at[2]];
    y[i] = (T)(sum / elements(w, whole));
  }
}

extern "C" __global__ void __launch_bounds__(256) mean_pool_x(T* dx, const T* dy, const Pool p, int whole) {
  EACH_RESULT {
    const Spot s = spot(p, i);
    wide<T> sum = 0;
    EACH_WINDOW(s, o0, o1, o2) sum += (wide<T>)dy[window_of(p, s.plane, o0, o1, o2)] / elements(spans(p, {o0, o1, o2}), whole);
    dx[i] = (T)sum;
  }
}
