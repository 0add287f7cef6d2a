// The cells of recurrent layers: one step of n sequences forward, and its way back, a thread an element of the hidden state.
// The products are made elsewhere; gates lie side by side in rows of G * hidden numbers.
// variants: TYPE=float; TYPE=double
#include "mathematics.cuh"

typedef TYPE T;

struct Relu { static constexpr int gates = 1; };
struct Tanh { static constexpr int gates = 1; };
struct Lstm { static constexpr int gates = 4; };  // in, forget, new, out; `inner` is the cell's new state
struct Gru { static constexpr int gates = 3; };   // reset, update, new; `inner` is the state's part of the new gate, before it is reset

// What an element's gates are made of: the input's part and the state's, with their biases.
struct Parts {
  const T *z, *v, *b_x, *b_h;
  int64 gate;  // from one gate to the next in z; 0 where x itself is each gate's part
  int hidden;
  __device__ T input(int g) const { return z[g * gate] + b_x[g * hidden]; }
  __device__ T state(int g) const { return v[g * hidden] + b_h[g * hidden]; }
  __device__ T sum(int g) const { return input(g) + state(g); }
};

struct Result { T y, c, inner; };  // the new state, that of the cell, and what the way back needs

__device__ Result forward(Relu, const Parts& p, T, T, T*) { return {at::relu(p.sum(0)), 0, 0}; }
__device__ Result forward(Tanh, const Parts& p, T, T, T*) { return {at::tanh(p.sum(0)), 0, 0}; }
__device__ Result forward(Lstm, const Parts& p, T, T c, T* gate) {
  gate[0] = at::sigmoid(p.sum(0)), gate[1] = at::sigmoid(p.sum(1)), gate[2] = at::tanh(p.sum(2)), gate[3] = at::sigmoid(p.sum(3));
  c = c * gate[1] + gate[0] * gate[2];
  return {gate[3] * at::tanh(c), c, c};
}
__device__ Result forward(Gru, const Parts& p, T h, T, T* gate) {
  const T q = p.state(2);
  gate[0] = at::sigmoid(p.sum(0)), gate[1] = at::sigmoid(p.sum(1)), gate[2] = at::tanh(p.input(2) + gate[0] * q);
  return {(h - gate[2]) * gate[1] + gate[2], 0, q};
}

// Step forward: h and c, the states, are changed.  `gates` and `inner` are null where nothing is kept; gates may lie where z does.
template <class Cell> __device__ void step(T* y, T* h, T* c, T* gates, T* inner, const T* z, const T* v, const T* b_x, const T* b_h,
                                           int n, int hidden, int row, int gate) {
  const int64 count = n * (int64)hidden, stride = gridDim.x * (int64)blockDim.x;
  for (int64 i = blockIdx.x * (int64)blockDim.x + threadIdx.x; i < count; i += stride) {
    const int64 r = i / hidden;
    const int j = (int)(i - r * hidden);
    T made[Cell::gates];
    const int64 own = r * (Cell::gates * (int64)hidden) + j;
    const Result result = forward(Cell(), Parts{z + r * row + j, v + own, b_x + j, b_h + j, gate, hidden}, h[i], c ? c[i] : 0, made);
    y[i] = h[i] = result.y;
    if (c) c[i] = result.c;
    if (!gates) continue;
    for (int g = 0; g < Cell::gates; ++g) gates[own + g * (int64)hidden] = made[g];
    inner[i] = result.inner;
  }
}

// What the way back of an element knows of its step: results, and the states before.
struct Saved { T y, gate[4], inner, h, c; };
struct Cotangents { T gate[4], input, h, c; };  // of the state's part of each gate, of the input's part of the last, of the states before

__device__ T logistic_slope(T y) { return y - y * y; }
__device__ T tanh_slope(T y) { return 1 - y * y; }

__device__ void backward(Relu, const Saved& s, T dh, T, Cotangents& d) { d.gate[0] = s.y > 0 ? dh : 0; }
__device__ void backward(Tanh, const Saved& s, T dh, T, Cotangents& d) { d.gate[0] = dh * tanh_slope(s.y); }
__device__ void backward(Lstm, const Saved& s, T dh, T dc, Cotangents& d) {
  const T t = at::tanh(s.inner);
  dc += dh * s.gate[3] * tanh_slope(t);
  d.gate[0] = dc * s.gate[2] * logistic_slope(s.gate[0]);
  d.gate[1] = dc * s.c * logistic_slope(s.gate[1]);
  d.gate[2] = dc * s.gate[0] * tanh_slope(s.gate[2]);
  d.gate[3] = dh * t * logistic_slope(s.gate[3]);
  d.c = dc * s.gate[1];
}
__device__ void backward(Gru, const Saved& s, T dh, T, Cotangents& d) {
  d.input = dh * (1 - s.gate[1]) * tanh_slope(s.gate[2]);
  d.gate[0] = d.input * s.inner * logistic_slope(s.gate[0]);
  d.gate[1] = dh * (s.h - s.gate[2]) * logistic_slope(s.gate[1]);
  d.gate[2] = d.input * s.gate[0];
  d.h = dh * s.gate[1];
}

// Step back.  dh and dc become the cotangents of the states before the step, but for what dh gets by the recurrent product: that of the
// step taken before this one is in `product`, which has `arrived` rows.  Before the step, the first `running` sequences had the state that
// is in before_h and before_c, the others that of the start, in start_h and start_c; before it is written to `before`.
template <class Cell> __device__ void step_back(T* dh, T* dc, T* dz, T* input, T* before, const T* product, const T* dy, const T* y,
                                                const T* gates, const T* inner, const T* before_h, const T* before_c, const T* start_h,
                                                const T* start_c, int n, int arrived, int running, int hidden) {
  const int64 count = max(n, arrived) * (int64)hidden, stride = gridDim.x * (int64)blockDim.x;
  for (int64 i = blockIdx.x * (int64)blockDim.x + threadIdx.x; i < count; i += stride) {
    const int64 r = i / hidden, own = r * (Cell::gates * (int64)hidden) + (i - r * hidden);
    T of_h = dh[i];
    if (r < arrived) of_h += product[i];
    if (r >= n) { dh[i] = of_h; continue; }
    Saved s{};
    Cotangents d{};
    s.y = y[i];
    s.h = before[i] = r < running ? before_h[i] : start_h[i];
    if (Cell::gates > 1) {
      s.inner = inner[i];
      for (int g = 0; g < Cell::gates; ++g) s.gate[g] = gates[own + g * (int64)hidden];
    }
    if (dc) s.c = r < running ? before_c[i] : start_c[i];
    backward(Cell(), s, of_h + dy[i], dc ? dc[i] : 0, d);
    for (int g = 0; g < Cell::gates; ++g) dz[own + g * (int64)hidden] = d.gate[g];
    if (input) input[i] = d.input;
    dh[i] = d.h;
    if (dc) dc[i] = d.c;
  }
}

#define CELL(NAME, Cell) \
  extern "C" __global__ void __launch_bounds__(256) NAME##_forward( \
      T* y, T* h, T* c, T* gates, T* inner, const T* z, const T* v, const T* b_x, const T* b_h, int n, int hidden, int row, int gate) { \
    step<Cell>(y, h, c, gates, inner, z, v, b_x, b_h, n, hidden, row, gate); \
  } \
  extern "C" __global__ void __launch_bounds__(256) NAME##_back( \
      T* dh, T* dc, T* dz, T* input, T* before, const T* product, const T* dy, const T* y, const T* gates, const T* inner, \
      const T* before_h, const T* before_c, const T* start_h, const T* start_c, int n, int arrived, int running, int hidden) { \
    step_back<Cell>(dh, dc, dz, input, before, product, dy, y, gates, inner, before_h, before_c, start_h, start_c, n, arrived, running, hidden); \
  }
CELL(relu, Relu)
CELL(tanh, Tanh)
CELL(lstm, Lstm)
CELL(gru, Gru)
