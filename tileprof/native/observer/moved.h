// Bytes that an operation has to move, from the tensors that it takes and gives.
//
// Each tensor counts once, by the elements that are stored: what is read, what is written, and both
// for an operation in place. A sum is a lower bound of the traffic of the operation's kernels, so
// where an operation reads an unknown part of a tensor, less is counted rather than more.
#pragma once

#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

#include <ATen/record_function.h>

#include "facts.h"
#include "formulas.h"

namespace tileprof::moved {

// What an operation does to an argument.
enum class Role : uint8_t {
  none,     // it is no tensor
  read,
  written,
  both,
  table,    // of its elements as many are read, or written, as others say
};

struct Signature {
  std::vector<Role> arguments;
  uint32_t results = 0;       // a bit for each result that is no argument
  uint32_t result_count = 0;
  bool counts = false;        // whether bytes can be told at all
  facts::Question question;   // what else its arguments tell
};

// Operations that return elements of their first argument.
inline constexpr std::string_view kGathers[] = {
    "embedding",        "index",         "_unsafe_index",     "index_select",
    "gather",           "take",          "_embedding_bag",    "_embedding_bag_forward_only",
    "nll_loss_forward", "searchsorted",  "grid_sampler_2d",   "nll_loss2d_forward",
    "grid_sampler_3d",
};
// Operations that put their last tensor into their first argument.
inline constexpr std::string_view kScatters[] = {
    "index_put_", "_index_put_impl_", "_unsafe_index_put", "index_add_",      "index_copy_",
    "index_fill_", "scatter_",        "scatter_add_",      "scatter_reduce_", "put_",
    "index_reduce_",
};
// Operations that write their first argument without reading it.
inline constexpr std::string_view kOverwrites[] = {
    "copy_",        "fill_",      "zero_",      "normal_",       "uniform_",       "random_",
    "bernoulli_",   "cauchy_",    "geometric_", "exponential_",  "log_normal_",    "set_",
    "_foreach_copy_", "_foreach_zero_", "resize_", "eye_",
};
// Parts of the names of arguments of which operations of other libraries than PyTorch read, or
// write, an unknown part.
inline constexpr std::string_view kPartly[] = {"cache", "table", "index", "indices", "slot", "ids"};

template <size_t kCount>
bool is_one_of(std::string_view name, const std::string_view (&names)[kCount]) {
  return std::find(names, names + kCount, name) != names + kCount;
}

inline bool holds_tensors(const c10::Type &type) {
  if (type.kind() == c10::TypeKind::TensorType) return true;
  const bool wraps = type.kind() == c10::TypeKind::OptionalType ||
                     type.kind() == c10::TypeKind::ListType;
  return wraps && holds_tensors(*type.containedType(0));
}

inline Role role_of(const c10::Argument &argument) {
  if (!holds_tensors(*argument.type())) return Role::none;
  const bool writes = argument.alias_info() && argument.alias_info()->isWrite();
  return argument.is_out() ? Role::written : writes ? Role::both : Role::read;
}

// Changes the roles of operations whose schema does not tell what they read.
inline void correct(std::string_view name, const c10::FunctionSchema &schema, Signature &made) {
  std::vector<Role> &roles = made.arguments;
  const auto is_tensor = [](Role role) { return role != Role::none; };
  const auto first = std::find_if(roles.begin(), roles.end(), is_tensor);
  if (first == roles.end()) return;
  const auto last = std::find_if(roles.rbegin(), roles.rend(), is_tensor);
  if (is_one_of(name, kGathers)) *first = Role::table;
  if (is_one_of(name, kScatters)) *first = Role::table, *last = Role::both;
  if (is_one_of(name, kOverwrites)) *first = Role::written;
  // Optimisers write gradients only where these are scaled.
  if (name.starts_with("_fused_"))
    for (size_t at = 0; at < roles.size(); ++at)
      if (schema.arguments()[at].name() == "grads") roles[at] = Role::read;
}

inline bool reads_partly(const c10::FunctionSchema &schema) {
  for (const c10::Argument &argument : schema.arguments())
    for (const std::string_view part : kPartly)
      if (argument.name().find(part) != std::string::npos) return true;
  return false;
}

inline Signature signature_of(const c10::FunctionSchema &schema) {
  Signature made;
  std::string_view name = schema.name();
  const bool own = name.starts_with("aten::");
  name.remove_prefix(std::min(name.size(), name.find("::") + 2));
  for (const c10::Argument &argument : schema.arguments())
    made.arguments.push_back(role_of(argument));
  if (own) correct(name, schema, made);
  made.result_count = uint32_t(schema.returns().size());
  for (uint32_t at = 0; at < std::min(made.result_count, 32u); ++at)
    if (!schema.returns()[at].alias_info() && holds_tensors(*schema.returns()[at].type()))
      made.results |= 1u << at;
  made.counts = own || !reads_partly(schema);
  made.question = facts::question_of(schema.name());
  return made;
}

// Signatures by the address of an operation's name, of which each overload has its own.
class Signatures {
public:
  const Signature &of(const at::RecordFunction &function) {
    const char *text = function.name();
    Place &place = places_[(uintptr_t(text) >> 3) % kPlaces];
    if (place.text == text && !std::memcmp(place.start, text, sizeof(place.start)))
      return place.signature;
    const auto schema = function.operator_schema();
    // A name that was made for the moment may have another meaning next time.
    place.text = schema ? text : nullptr;
    std::memcpy(place.start, text, sizeof(place.start));
    place.signature = schema ? signature_of(*schema) : Signature{};
    return place.signature;
  }

private:
  static constexpr size_t kPlaces = 512;
  struct Place {
    const char *text = nullptr;
    char start[16] = {};
    Signature signature;
  };
  Place places_[kPlaces];
};

// -- a call

// Bytes of a tensor: each element that is stored once. False where none are moved, or where there
// is no shape to count with.
inline bool add_stored(const at::Tensor &tensor, double &bytes) {
  if (!tensor.defined()) return true;
  const c10::TensorImpl &impl = *tensor.unsafeGetTensorImpl();
  if (impl.is_wrapped_number()) return true;
  if (!impl.has_storage() || impl.key_set().has_backend(c10::BackendComponent::MetaBit))
    return false;
  double stored = 0;
  if (!work::add_bytes(tensor, stored)) return false;
  // Windows that overlap, as `unfold` makes them, have more elements than are stored.
  if (!impl.is_non_overlapping_and_dense())
    stored = std::min(stored, double(impl.unsafe_storage().nbytes()));
  bytes += stored;
  return true;
}

// The same of a tensor, or of all in a list.
inline bool add_stored(const c10::IValue &value, double &bytes) {
  if (value.isTensor()) return add_stored(value.toTensor(), bytes);
  if (!value.isList()) return true;
  for (const c10::IValue &each : value.toListRef())
    if (each.isTensor() && !add_stored(each.toTensor(), bytes)) return false;
  return true;
}

struct Moved {
  double bytes = 0;
  double table = -1;   // bytes of a table of which only a part is moved; negative: there is none
  double source = 0;   // bytes of what is put into it
};

using Values = c10::ArrayRef<c10::IValue>;

// What a call takes, before it runs; false where that cannot be told. An argument that is given
// twice counts once.
inline bool add_arguments(const Signature &signature, Values stack, Moved &moved) {
  const size_t count = signature.arguments.size();
  if (!signature.counts || stack.size() < count) return false;
  const Values values = stack.slice(stack.size() - count);
  for (size_t at = 0; at < count; ++at) {
    const Role role = signature.arguments[at];
    if (role == Role::none) continue;
    bool again = false;
    for (size_t before = 0; before < at && !again; ++before)
      again = values[at].isTensor() && values[before].isTensor() &&
              values[at].toTensor().is_same(values[before].toTensor());
    double bytes = 0;
    if (!add_stored(values[at], bytes)) return false;
    if (role == Role::table) {
      moved.table = bytes;
      continue;
    }
    if (!again) moved.bytes += bytes;
    if (role == Role::both && moved.table >= 0)
      moved.source = bytes;
    else if (role == Role::both)
      moved.bytes += bytes;
  }
  return true;
}

// What it gives, after it has run; false where it gave nothing.
inline bool add_results(uint32_t results, uint32_t count, Values stack, Moved &moved) {
  if (stack.size() < count) return false;
  double bytes = 0;
  for (uint32_t at = 0; at < std::min(count, 32u); ++at)
    if (results >> at & 1 && !add_stored(stack[stack.size() - count + at], bytes)) return false;
  moved.bytes += bytes;
  // As many elements of the table as were returned, or were put into it.
  if (moved.table >= 0) moved.bytes += std::min(moved.table, moved.source ? moved.source : bytes);
  return true;
}

} // namespace tileprof::moved
