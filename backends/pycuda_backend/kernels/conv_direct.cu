// Convolution without tiles, where a group has too few channels to fill one, and what finishes sums that several blocks have shared.
// variants: TYPE=float INDEX=int; TYPE=double INDEX=int; TYPE=half INDEX=int; TYPE=bfloat16 INDEX=int
#include "conv.cuh"

constexpr int TAPS = 9;  // that a thread adds up at once: those of a 3 x 3 window

// Where along an axis the source meets element i of the result at tap t; false if between two elements.
__device__ __forceinline__ bool meets(const Line& l, bool transposed, I i, I t, I& at) {
  at = transposed ? i + l.before - t * l.dilation : i * l.stride - l.before + t * l.dilation;
  if (!transposed || l.stride == 1) return true;
  const I whole = at / l.stride;
  if (at != whole * l.stride) return false;
  at = whole;
  return true;
}

// One thread an element of the result, a sum over taps that it has to itself.
extern "C" __global__ void __launch_bounds__(256)
over_taps(T* result, const T* source, const T* factor, W*, const Problem p, FINISH_PARAMETERS) {
  for (int64 e = blockIdx.x * (int64)blockDim.x + threadIdx.x; e < p.result_size; e += gridDim.x * (int64)blockDim.x) {
    I rest = (I)e, j[3], at[3];
    for (int a = 2; a >= 0; --a) j[a] = digit(rest, p.line[a].positions);
    const I row = digit(rest, p.rows), group = digit(rest, p.groups);
    const T* from = source + p.source.start + rest * p.source.outer + group * p.source.group;
    const T* with = factor + p.window.start + group * p.window.group + row * p.window.row;
    W sum = 0;
    for (I c = 0; c < p.channels; ++c, from += p.source.row, with += p.window.outer)
      for (I t0 = 0; t0 < p.line[0].window; ++t0) {
        if (!meets(p.line[0], p.transposed, j[0], t0, at[0])) continue;
        for (I t1 = 0; t1 < p.line[1].window; ++t1) {
          if (!meets(p.line[1], p.transposed, j[1], t1, at[1])) continue;
          const bool is_line = is_within(at[0], p.line[0].source) && is_within(at[1], p.line[1].source);
          for (I t2 = 0; t2 < p.line[2].window; ++t2) {
            if (!meets(p.line[2], p.transposed, j[2], t2, at[2])) continue;
            const bool is_met = is_line && is_within(at[2], p.line[2].source);  // NaN in w times padding is NaN
            const W x = is_met ? (W)from[at[0] * p.source.at[0] + at[1] * p.source.at[1] + at[2] * p.source.at[2]] : (W)0;
            sum += (W)with[t0 * p.window.at[0] + t1 * p.window.at[1] + t2 * p.window.at[2]] * x;
          }
        }
      }
    result[e] = finished(FINISH, sum, e, group * (int64)p.rows + row);
  }
}

// One block for up to TAPS taps of a row and channel, a sum over positions.
extern "C" __global__ void __launch_bounds__(256)
over_positions(T* result, const T* source, const T* factor, W* partial, const Problem p, FINISH_PARAMETERS) {
  __shared__ Site taps[TAPS];
  __shared__ W warps[TAPS][8];
  const int me = threadIdx.x;
  Axis axis[3];
  I window = 1, positions = p.images, id = blockIdx.x;
#pragma unroll
  for (int a = 0; a < 3; ++a) {
    axis[a] = all_of(p.line[a]);
    window *= axis[a].taps;
    positions *= axis[a].positions;
  }
  const I first = digit(id, (window + TAPS - 1) / TAPS) * TAPS, channel = digit(id, p.channels), row = digit(id, p.rows);
  const I group = digit(id, p.groups), split = id;
  I other = 0;
  if (me < TAPS) taps[me] = first + me < window ? tap_site(p, axis, channel * window + first + me, other) : nowhere();
  __syncthreads();

  W sum[TAPS] = {};
  source += group * p.source.group;
  factor += group * p.place.group + row * p.place.row;
  const I begin = split * p.chunk, end = begin + p.chunk < positions ? begin + p.chunk : positions;
  for (I i = begin + me; i < end; i += blockDim.x) {
    I at;
    const Site s = position_site(p, axis, i, at);
    const W dy = (W)factor[at];
#pragma unroll
    for (int t = 0; t < TAPS; ++t) sum[t] += dy * (is_inside(p, s, taps[t]) ? (W)source[s.offset + taps[t].offset] : (W)0);
  }
#pragma unroll
  for (int t = 0; t < TAPS; ++t) {
    for (int d = 16; d; d /= 2) sum[t] += __shfl_down_sync(0xffffffff, sum[t], d);
    if (me % 32 == 0) warps[t][me / 32] = sum[t];
  }
  __syncthreads();
  if (me >= TAPS || first + me >= window) return;
  W total = 0;
  for (int i = 0; i < blockDim.x / 32; ++i) total += warps[me][i];
  const I at = other + group * p.window.group + row * p.window.row;
  if (partial) partial[split * (int64)p.result_size + at] = total;
  else result[at] = finished(FINISH, total, at, 0);
}

// The sums that `splits` blocks have left, added up in their order; `inner` elements of each of `channels` lie together.
extern "C" __global__ void __launch_bounds__(256)
finish(T* result, const W* partial, int64 n, int64 splits, int64 inner, int64 channels, FINISH_PARAMETERS) {
  for (int64 i = blockIdx.x * (int64)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (int64)blockDim.x) {
    W sum = 0;
    for (int64 s = 0; s < splits; ++s) sum += partial[s * n + i];
    result[i] = finished(FINISH, sum, i, i / inner % channels);
  }
}
