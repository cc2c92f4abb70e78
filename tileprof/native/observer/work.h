// Counts the work of operations that matrices, convolutions and attention are made of; what it is,
// formulas.h tells.
//
// Shapes are seen where an operation is about to be computed: at the dispatch key above the keys of
// backends, which all tensors pass and at which these operations have no code of their own.
// Observing the arguments of every operation instead (RecordFunctionCallback::needsInputs) takes
// 130 ns an operation, of which these are one in twenty.
#pragma once

#include <initializer_list>
#include <vector>

#include "calls.h"
#include "formulas.h"

// They rely on declarations that the headers above bring.
#include <ATen/ops/addmm_ops.h>
#include <ATen/ops/baddbmm_ops.h>
#include <ATen/ops/bmm_ops.h>
#include <ATen/ops/mm_ops.h>

namespace tileprof::work {

using c10::DispatchKey;
using c10::DispatchKeySet;

struct Amount {
  double flops, bytes;
};

inline constexpr Amount kUnknown{0, -1};

inline DispatchKeySet below(DispatchKeySet keys) {
  return keys & DispatchKeySet(DispatchKeySet::FULL_AFTER, DispatchKey::BackendSelect);
}

// The calling thread, if an operation that it is about to compute is to be counted. Of operations
// inside one another the outermost is; of those that only ask for shapes, as compilers do, none.
inline Thread *counting_thread(DispatchKeySet keys) {
  Thread *thread = known_thread();
  const bool counts = thread && thread->inside && !thread->counting &&
                      !keys.has_backend(c10::BackendComponent::MetaBit);
  return counts ? thread : nullptr;
}

// While an operation is computed.
class Counting {
public:
  explicit Counting(Thread &thread) : thread_(thread), context_(thread.inside) {
    thread.counting = true;
  }
  Counting(const Counting &) = delete;
  ~Counting() { thread_.counting = false; }
  void add(const Amount &begun, double written) const {
    calls().work(context_, begun.flops, begun.bytes + written);
  }

private:
  Thread &thread_;
  const uint32_t context_;
};

// -- of any operation, by its schema: its arguments are packed, and unpacked, at each call

using Formula = double (*)(const Arguments &);

// Bytes of all arguments that are read; negative where one of them has no shape to count with.
inline double bytes_read(const OperatorHandle &op, const Arguments &arguments) {
  double bytes = 0, written = 0;
  for (size_t at = 0; at < arguments.size(); ++at) {
    const bool is_out = op.schema().arguments()[at].is_out();
    if (arguments[at].isTensor() && !add_bytes(arguments.tensor(at), is_out ? written : bytes))
      return kUnknown.bytes;
  }
  return bytes;
}

inline double bytes_written(const OperatorHandle &op, const Stack &stack) {
  double bytes = 0;
  const size_t count = op.schema().returns().size();
  for (size_t at = stack.size() - count; at < stack.size(); ++at)
    if (stack[at].isTensor()) add_bytes(stack[at].toTensor(), bytes);
  return bytes;
}

// Work of an operation before it runs: flops, and bytes that it reads; negative if unknown.
template <Formula kFormula>
Amount amount(const OperatorHandle &op, const Stack &stack) noexcept {
  try {
    const Arguments arguments(op, stack);
    const double bytes = bytes_read(op, arguments);
    return {bytes < 0 ? 0 : kFormula(arguments), bytes};
  } catch (...) {
    return kUnknown;
  }
}

template <Formula kFormula>
void counted(const OperatorHandle &op, DispatchKeySet keys, Stack *stack) {
  Thread *thread = counting_thread(keys);
  const Amount begun = thread ? amount<kFormula>(op, *stack) : kUnknown;
  if (begun.bytes < 0) return op.redispatchBoxed(below(keys), stack);
  const Counting counting(*thread);
  op.redispatchBoxed(below(keys), stack);
  counting.add(begun, bytes_written(op, *stack));
}

// -- of the frequent products, as they are called: a third of the time

inline const at::Tensor *as_tensor(const at::Tensor &tensor) { return &tensor; }
inline const at::Tensor *as_tensor(const at::Scalar &) { return nullptr; }

// The same of tensors and numbers, none of which is written.
inline Amount amount(size_t first, std::initializer_list<const at::Tensor *> arguments) noexcept {
  try {
    double bytes = 0;
    for (const at::Tensor *tensor : arguments)
      if (tensor && !add_bytes(*tensor, bytes)) return kUnknown;
    return {product_of(*arguments.begin()[first], *arguments.begin()[first + 1]), bytes};
  } catch (...) {
    return kUnknown;
  }
}

// `Op` is one of at::_ops; the factors are its arguments number `kFirst` and the next.
template <typename Op, size_t kFirst, typename Schema = typename Op::schema> struct Product;

template <typename Op, size_t kFirst, typename... Types>
struct Product<Op, kFirst, at::Tensor(Types...)> {
  static at::Tensor counted(DispatchKeySet keys, Types... arguments) {
    Thread *thread = counting_thread(keys);
    const Amount begun = thread ? amount(kFirst, {as_tensor(arguments)...}) : kUnknown;
    if (begun.bytes < 0) return Op::redispatch(below(keys), arguments...);
    const Counting counting(*thread);
    at::Tensor result = Op::redispatch(below(keys), arguments...);
    double written = 0;
    add_bytes(result, written);
    counting.add(begun, written);
    return result;
  }
};

// -- which

struct Rule {
  const char *name;
  c10::KernelFunction kernel;
  c10::KernelFunction plain{};  // of the overload without a name, if that has one of its own
};

template <Formula kFormula> Rule rule(const char *name) {
  return {name, c10::KernelFunction::makeFromBoxedFunction<&counted<kFormula>>()};
}

template <typename Op, size_t kFirst> Rule frequent() {
  Rule made = rule<product<kFirst>>(Op::name);
  using Typed = Product<Op, kFirst>;
  made.plain = c10::KernelFunction::makeFromUnboxedFunction(
      c10::CompileTimeFunctionPointer<decltype(Typed::counted), &Typed::counted>());
  return made;
}

inline std::vector<Rule> rules() {
  return {
      frequent<at::_ops::mm, 0>(),
      frequent<at::_ops::bmm, 0>(),
      frequent<at::_ops::addmm, 1>(),
      frequent<at::_ops::baddbmm, 1>(),
      rule<product<0>>("aten::mv"),
      rule<product<0>>("aten::dot"),
      rule<product<0>>("aten::vdot"),
      rule<product<0>>("aten::_scaled_mm"),
      rule<product<0>>("aten::_int_mm"),
      rule<product<1>>("aten::addmm_"),
      rule<product<1>>("aten::_addmm_activation"),
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
    for (const c10::OperatorName &op : dispatcher.getAllOpNames()) {
      if (op.name != rule.name || !dispatcher.findSchema(op)) continue;
      const bool plain = op.overload_name.empty() && rule.plain.isValid();
      held.push_back(dispatcher.registerImpl(op, DispatchKey::BackendSelect,
                                             plain ? rule.plain : rule.kernel, std::nullopt,
                                             nullptr, "tileprof"));
    }
  return int32_t(held.size());
}

} // namespace tileprof::work
