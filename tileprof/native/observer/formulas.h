// Floating-point operations and bytes of the operations that matrices, convolutions and attention
// are made of, from the shapes of their arguments.
//
// Formulas are those of torch.utils.flop_counter (sum of multiplications and additions, causal
// masks not taken off), so that sums agree with it; where it does differ, a comment says so. Bytes
// are the least that can move: each argument read once, each result written once.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <vector>

namespace tileprof::work {

using c10::OperatorHandle;
using torch::jit::Stack;

// A view of the arguments of a call that is about to be made.
class Arguments {
public:
  Arguments(const OperatorHandle &op, const Stack &stack)
      : first_(stack.data() + (stack.size() - op.schema().arguments().size())),
        count_(op.schema().arguments().size()) {}

  size_t size() const { return count_; }
  const c10::IValue &operator[](size_t at) const { return first_[at]; }
  const at::Tensor &tensor(size_t at) const { return first_[at].toTensor(); }

private:
  const c10::IValue *first_;
  size_t count_;
};

// Whether a tensor has a shape to count with.
inline bool is_plain(const at::Tensor &tensor) {
  const c10::TensorImpl &impl = *tensor.unsafeGetTensorImpl();
  return !impl.has_symbolic_sizes_strides() && !tensor.is_nested() &&
         tensor.layout() == c10::kStrided;
}

// Elements that are stored: of a tensor that is expanded, each once.
inline double stored(const at::Tensor &tensor) {
  if (tensor.unsafeGetTensorImpl()->is_non_overlapping_and_dense()) return double(tensor.numel());
  double count = 1;
  for (int64_t at = 0; at < tensor.dim(); ++at)
    if (tensor.stride(at)) count *= double(tensor.size(at));
  return count;
}

// Adds the bytes of a tensor, where there is one; false if it has no shape to count with.
inline bool add_bytes(const at::Tensor &tensor, double &bytes) {
  if (!tensor.defined()) return true;
  if (!is_plain(tensor)) return false;
  bytes += stored(tensor) * double(tensor.itemsize());
  return true;
}

// -- formulas

// (.., m, k) by (.., k, n), or by a vector.
inline double product_of(const at::Tensor &a, const at::Tensor &b) {
  const double columns = b.dim() > 1 ? double(b.size(-1)) : 1;
  return 2 * double(a.numel()) * columns;
}

template <size_t kFirst> double product(const Arguments &arguments) {
  return product_of(arguments.tensor(kFirst), arguments.tensor(kFirst + 1));
}

inline double positions(const at::Tensor &image) {
  return image.size(1) ? double(image.numel()) / double(image.size(1)) : 0;
}

// Each position of the smaller image meets each element of the filter once.
inline double convolution(const Arguments &arguments) {
  const at::Tensor &x = arguments.tensor(0), &weight = arguments.tensor(1);
  if (arguments[6].toBool()) return 2 * positions(x) * double(weight.numel());
  const auto stride = arguments[3].toIntVector(), padding = arguments[4].toIntVector(),
             dilation = arguments[5].toIntVector();
  double count = double(x.size(0));
  for (int64_t at = 0; at + 2 < x.dim(); ++at) {
    const auto along = [at](const std::vector<int64_t> &each) {
      return each[each.size() > size_t(at) ? size_t(at) : 0];
    };
    const int64_t reach = along(dilation) * (weight.size(at + 2) - 1) + 1;
    count *= double((x.size(at + 2) + 2 * along(padding) - reach) / along(stride) + 1);
  }
  return 2 * count * double(weight.numel());
}

// The same again for each gradient that is wanted. Of grouped convolutions the counter of PyTorch
// takes the gradient of the weight for one without groups, as many times as much.
inline double convolution_backward(const Arguments &arguments) {
  const bool transposed = arguments[7].toBool();
  const at::Tensor &smaller = arguments.tensor(transposed ? 1 : 0);
  const auto wanted = arguments[10].toBoolList();
  const int gradients = int(wanted.get(0)) + int(wanted.get(1));
  return 2 * gradients * positions(smaller) * double(arguments.tensor(2).numel());
}

// Queries (b, h, s, d) against keys, and the weights against values.
template <size_t kFirst> double scores(const Arguments &arguments) {
  const at::Tensor &query = arguments.tensor(kFirst), &key = arguments.tensor(kFirst + 1);
  return 2 * double(query.size(0)) * double(query.size(1)) * double(query.size(2)) *
         double(key.size(2));
}

inline double attention(const Arguments &arguments) {
  const double width = double(arguments.tensor(0).size(3) + arguments.tensor(2).size(3));
  return scores<0>(arguments) * width;
}

// Scores again; then the gradients of weights and values, of queries and keys.
inline double attention_backward(const Arguments &arguments) {
  const double query = double(arguments.tensor(1).size(3));
  return scores<1>(arguments) * (3 * query + 2 * double(arguments.tensor(3).size(3)));
}

} // namespace tileprof::work
