// What the convolution units share: where windows meet an image, and what becomes of a sum.
//
// All three passes add up products of a `factor` and a `source`, whose elements are looked up at a tap of the window (channel, t0, t1, t2)
// and a position (image, j0, j1, j2):
//   y  (conv):    source x,  factor w,  a sum over taps      for each position of y
//   dx (conv_x):  source dy, factor w,  a sum over taps      for each position of dx
//   dw (conv_w):  source x,  factor dy, a sum over positions for each tap of w
// The source's coordinate along an axis is base + position * step + tap * reach; outside of the source its elements count as 0.
#pragma once
#include "mathematics.cuh"

typedef TYPE T;
typedef wide<T> W;
typedef INDEX I;  // holds every offset

struct Line { I window, before, stride, dilation, source, positions; };  // one spatial axis; lengths of source and result
struct Strides { I start, group, row, outer, at[3]; };  // in elements; outer: of images, or of the source's channels in w

struct Problem {
  I transposed;  // conv_x: positions are those of dx, and each meets only those taps that lead to a whole position of dy
  Line line[3];
  I images, channels, rows, groups;  // channels of the source and rows of the factor, both a group
  Strides source, window, place;  // of the source (row: channels), of w, and of what has an element a position: y, dx or dy
  I result_size, splits, chunk;  // chunk: the terms that one of `splits` blocks adds up
  I row_tiles, column_tiles;
};

// One spatial axis for those positions of the result that meet the same taps: position j is element `first + j * apart` of the result,
// tap t is element `tap + t * gap` of the window.
struct Axis { I taps, tap, gap, positions, first, apart, base, step, reach; };

__device__ __forceinline__ Axis all_of(const Line& l) {
  return {l.window, 0, 1, l.positions, 0, 1, -l.before, l.stride, l.dilation};
}

// dx[i] meets dy[o] at tap t where o * stride = i + before - t * dilation.  The i of one remainder by the stride meet every `gap`-th tap.
__device__ __forceinline__ Axis phase_of(const Line& l, I remainder) {
  I gap = 1, tap = 0;
  while (gap * l.dilation % l.stride) ++gap;
  while (tap < gap && (remainder + l.before - tap * l.dilation) % l.stride) ++tap;
  const I taps = tap < gap && tap < l.window ? (l.window - tap + gap - 1) / gap : 0;
  const I positions = remainder < l.positions ? (l.positions - remainder + l.stride - 1) / l.stride : 0;
  const I base = (remainder + l.before - tap * l.dilation) / l.stride;
  return {taps, tap, gap, positions, remainder, l.stride, base, 1, -gap * l.dilation / l.stride};
}

// A tap's or a position's share of where the source is looked up, and its element of the other array.
struct alignas(16) Site { I offset, at[3]; };

// Outside of the source, whatever it meets.
__device__ __forceinline__ Site nowhere() { return {0, {-((I)1 << (8 * sizeof(I) - 2)), 0, 0}}; }

// The remainder by n, and what is left of i.
__device__ __forceinline__ I digit(I& i, I n) {
  const I rest = i / n, at = i - rest * n;
  i = rest;
  return at;
}

__device__ __forceinline__ Site tap_site(const Problem& p, const Axis (&axis)[3], I i, I& other) {
  Site site;
  site.offset = 0;
  other = p.window.start;
#pragma unroll
  for (int a = 2; a >= 0; --a) {
    const I t = digit(i, axis[a].taps);
    site.at[a] = t * axis[a].reach;
    site.offset += site.at[a] * p.source.at[a];
    other += (axis[a].tap + t * axis[a].gap) * p.window.at[a];
  }
  site.offset += i * p.source.row;
  other += i * p.window.outer;
  return site;
}

__device__ __forceinline__ Site position_site(const Problem& p, const Axis (&axis)[3], I i, I& other) {
  Site site;
  site.offset = p.source.start;
  other = p.place.start;
#pragma unroll
  for (int a = 2; a >= 0; --a) {
    const I j = digit(i, axis[a].positions);
    site.at[a] = axis[a].base + j * axis[a].step;
    site.offset += site.at[a] * p.source.at[a];
    other += (axis[a].first + j * axis[a].apart) * p.place.at[a];
  }
  site.offset += i * p.source.outer;
  other += i * p.place.outer;
  return site;
}

// 0 <= i < n, in one comparison
__device__ __forceinline__ bool is_within(int i, int n) { return (unsigned)i < (unsigned)n; }
__device__ __forceinline__ bool is_within(int64 i, int64 n) { return (unsigned long long)i < (unsigned long long)n; }

__device__ __forceinline__ bool is_inside(const Problem& p, const Site& a, const Site& b) {
  return is_within(a.at[0] + b.at[0], p.line[0].source) & is_within(a.at[1] + b.at[1], p.line[1].source)
         & is_within(a.at[2] + b.at[2], p.line[2].source);  // no &&, which would branch
}

// activation((alpha * sum + beta * z) + bias), rounded after each step as the kernels one by one would; no z and no bias are null.
struct Finish { const T *bias, *z; W alpha, beta; int activation; };

__device__ __forceinline__ T activated(T y, int activation) {
  if constexpr (Is<T>::floating) switch (activation) {
    case 1: return at::relu(y);
    case 2: return at::sigmoid(y);
    case 3: return at::tanh(y);
    case 4: return at::elu(y);
    case 5: return at::selu(y);
  }
  return y;
}

__device__ __forceinline__ T finished(const Finish& f, W sum, int64 i, int64 channel) {
  T y = (T)(f.alpha * sum);
  if (f.z) y = at::add(y, at::multiply((T)f.beta, f.z[i]));
  if (f.bias) y = at::add(y, f.bias[channel]);
  return activated(y, f.activation);
}

#define FINISH_PARAMETERS const T *bias, const T *z, double alpha, double beta, int activation
#define FINISH Finish{bias, z, (W)alpha, (W)beta, activation}
