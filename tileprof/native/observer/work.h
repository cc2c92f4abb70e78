// Floating-point operations and bytes of the operations that matrices, convolutions and attention
// are made of, as the shapes of their arguments tell.
//
// Shapes are seen where an operation is about to be computed: at the dispatch key above the keys of
// backends, which all tensors pass and at which these operations have no code of their own.
// Observing the arguments of every operation instead (RecordFunctionCallback::needsInputs) takes
// 130 ns an operation, of which these are one in twenty.
//
// Formulas are those of torch.utils.flop_counter (sum of multiplications and additions, causal
// masks not taken off), so that sums agree with it; where it does differ, a comment says so. Bytes
// are the least that can move: each argument read once, each result written once.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <vector>

#include "calls.h"

namespace tileprof::work {

using c10::DispatchKey;
using c10::DispatchKeySet;
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
  double count = 1;
  for (int64_t at = 0; at < tensor.dim(); ++at)
    if (tensor.stride(at)) count *= double(tensor.size(at));
  return count;
}

inline double bytes_of(const c10::IValue &value) {
  if (!value.isTensor()) return 0;
  const at::Tensor &tensor = value.toTensor();
  return tensor.defined() && is_plain(tensor) ? stored(tensor) * double(tensor.itemsize()) : 0;
}

// -- formulas

// (.., m, k) by (.., k, n), or by a vector.
template <size_t kFirst> double product(const Arguments &arguments) {
  const at::Tensor &a = arguments.tensor(kFirst), &b = arguments.tensor(kFirst + 1);
  const double columns = b.dim() > 1 ? double(b.size(-1)) : 1;
  return 2 * double(a.numel()) * columns;
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

// -- interception

using Formula = double (*)(const Arguments &);

struct Amount {
  double flops, bytes;
};

// Bytes of all arguments that are read; negative where one of them has no shape to count with.
inline double bytes_read(const OperatorHandle &op, const Arguments &arguments) {
  double bytes = 0;
  for (size_t at = 0; at < arguments.size(); ++at) {
    const c10::IValue &value = arguments[at];
    if (!value.isTensor() || !value.toTensor().defined()) continue;
    if (!is_plain(value.toTensor())) return -1;
    if (!op.schema().arguments()[at].is_out()) bytes += bytes_of(value);
  }
  return bytes;
}

inline double bytes_written(const OperatorHandle &op, const Stack &stack) {
  double bytes = 0;
  const size_t count = op.schema().returns().size();
  for (size_t at = stack.size() - count; at < stack.size(); ++at) bytes += bytes_of(stack[at]);
  return bytes;
}

// What an operation is about to do: flops, and bytes that it reads; negative where it is not known.
template <Formula kFormula>
Amount amount(const OperatorHandle &op, const Stack &stack) noexcept {
  try {
    const Arguments arguments(op, stack);
    const double bytes = bytes_read(op, arguments);
    return {bytes < 0 ? 0 : kFormula(arguments), bytes};
  } catch (...) {
    return {0, -1};
  }
}

template <Formula kFormula>
void counted(const OperatorHandle &op, DispatchKeySet keys, Stack *stack) {
  const DispatchKeySet below =
      keys & DispatchKeySet(DispatchKeySet::FULL_AFTER, DispatchKey::BackendSelect);
  Thread *thread = thread_if_any;
  // Of operations inside one another the outermost is counted; of those that only ask for shapes,
  // as compilers do, none.
  if (!thread || !thread->inside || thread->counting ||
      keys.has_backend(c10::BackendComponent::MetaBit))
    return op.redispatchBoxed(below, stack);

  const uint32_t context = thread->inside;
  const Amount begun = amount<kFormula>(op, *stack);
  if (begun.bytes < 0) return op.redispatchBoxed(below, stack);
  struct Guard {
    Thread &thread;
    ~Guard() { thread.counting = false; }
  } guard{*thread};
  thread->counting = true;
  op.redispatchBoxed(below, stack);
  calls().work(context, begun.flops, begun.bytes + bytes_written(op, *stack));
}

struct Rule {
  const char *name;
  c10::KernelFunction kernel;
};

template <Formula kFormula> Rule rule(const char *name) {
  return {name, c10::KernelFunction::makeFromBoxedFunction<&counted<kFormula>>()};
}

inline std::vector<Rule> rules() {
  return {
      rule<product<0>>("aten::mm"),
      rule<product<0>>("aten::bmm"),
      rule<product<0>>("aten::mv"),
      rule<product<0>>("aten::dot"),
      rule<product<0>>("aten::vdot"),
      rule<product<0>>("aten::_scaled_mm"),
      rule<product<0>>("aten::_int_mm"),
      rule<product<1>>("aten::addmm"),
      rule<product<1>>("aten::addmm_"),
      rule<product<1>>("aten::_addmm_activation"),
      rule<product<1>>("aten::baddbmm"),
      rule<product<1>>("aten::baddbmm_"),
      rule<product<1>>("aten::addbmm"),
      rule<product<1>>("aten::addbmm_"),
      rule<product<1>>("aten::addmv"),
      rule<product<1>>("aten::addmv_"),
      rule<convolution>("aten::convolution"),
      rule<convolution>("aten::convolution_overrideable"),
      rule<convolution_backward>("aten::convolution_backward"),
      rule<attention>("aten::_scaled_dot_product_flash_attention"),
      rule<attention>("aten::_scaled_dot_product_flash_attention_for_cpu"),
      rule<attention>("aten::_scaled_dot_product_efficient_attention"),
      rule<attention>("aten::_scaled_dot_product_cudnn_attention"),
      rule<attention>("aten::_scaled_dot_product_fused_attention_overrideable"),
      rule<attention_backward>("aten::_scaled_dot_product_flash_attention_backward"),
      rule<attention_backward>("aten::_scaled_dot_product_flash_attention_for_cpu_backward"),
      rule<attention_backward>("aten::_scaled_dot_product_efficient_attention_backward"),
      rule<attention_backward>("aten::_scaled_dot_product_cudnn_attention_backward"),
      rule<attention_backward>("aten::_scaled_dot_product_fused_attention_overrideable_backward"),
  };
}

// Has the work of these operations counted from here on, for as long as the process lasts; returns
// how many the installed PyTorch has. Work of threads that are not observed is not counted.
inline int32_t begin_counting() {
  static std::vector<c10::RegistrationHandleRAII> &held =
      *new std::vector<c10::RegistrationHandleRAII>;
  if (!held.empty()) return int32_t(held.size());
  c10::Dispatcher &dispatcher = c10::Dispatcher::singleton();
  for (const Rule &rule : rules())
    for (const c10::OperatorName &op : dispatcher.getAllOpNames())
      if (op.name == rule.name && dispatcher.findSchema(op))
        held.push_back(dispatcher.registerImpl(op, DispatchKey::BackendSelect, rule.kernel,
                                               std::nullopt, nullptr, "tileprof"));
  return int32_t(held.size());
}

} // namespace tileprof::work
