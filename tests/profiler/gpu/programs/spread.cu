// A CUDA C++ program: a signal is spread by a filter and then squeezed by exponentials.
//
//   nvcc -O3 -lineinfo -arch=native spread.cu -o spread
//   nvcc -O3 -lineinfo -arch=native -shared -Xcompiler -fPIC spread.cu -o libspread.so
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

namespace signals {

template <typename Value, int Taps> struct Filter {
  Value weight[Taps];
  __device__ Value operator()(const Value *at) const {
    Value sum = 0;
    for (int k = 0; k < Taps; ++k) sum += weight[k] * at[k];
    return sum;
  }
};

template <typename Value, int Taps>
__global__ void spread(Filter<Value, Taps> filter, const Value *in, Value *out, int size) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < size) out[i] = filter(in + i);
}

__global__ void squeeze(float *data, int size, int turns) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= size) return;
  float value = data[i];
#pragma unroll 8
  for (int turn = 0; turn < turns; ++turn)
    value = exp2f(-value); // hot
  data[i] = value;
}

void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
  std::exit(1);
}

// Sum of what comes out; two launches a step.
double work(int size, int steps, int turns) {
  constexpr int kTaps = 3, kThreads = 256;
  const int blocks = (size + kThreads - 1) / kThreads;
  std::vector<float> signal(size + kTaps);
  for (int i = 0; i < size + kTaps; ++i) signal[i] = float(i % 7);
  float *in, *out;
  check(cudaMalloc(&in, signal.size() * sizeof(float)));
  check(cudaMalloc(&out, size * sizeof(float)));
  check(cudaMemcpy(in, signal.data(), signal.size() * sizeof(float), cudaMemcpyHostToDevice));
  const Filter<float, kTaps> filter{{0.25f, 0.5f, 0.25f}};
  for (int step = 0; step < steps; ++step) {
    spread<<<blocks, kThreads>>>(filter, in, out, size);
    squeeze<<<blocks, kThreads>>>(out, size, turns);
  }
  check(cudaGetLastError());
  check(cudaMemcpy(signal.data(), out, size * sizeof(float), cudaMemcpyDeviceToHost));
  check(cudaFree(in));
  check(cudaFree(out));
  return std::accumulate(signal.begin(), signal.begin() + size, 0.0);
}

} // namespace signals

// What Python calls. It has something left to do after its call, or it would have no frame during it.
extern "C" double spread_signals(int size, int steps, int turns) {
  volatile double total = signals::work(size, steps, turns);
  return total;
}

int main(int argc, char **argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 10;
  std::printf("%.3f\n", signals::work(1 << 22, steps, 1000));
}
