// Causes of work that only the tensors of an operation tell: tables that get dense gradients, and
// rows that are filled up to one length.
//
// Only shapes, and elements that lie on the host, are looked at: nothing here waits for a device.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>

#include "../recorder/host/observer_api.h"
#include "formulas.h"

namespace tileprof::facts {

using Values = c10::ArrayRef<c10::IValue>;

// Which facts an operation's arguments may tell.
enum class Asks : uint8_t { nothing, lookup, product, copy };

struct Question {
  Asks asks = Asks::nothing;
  uint8_t sparse = 0;  // place of the argument that says whether a table's gradient is sparse
  uint8_t first = 0;   // place of the tensor that is looked at
};

inline Question question_of(std::string_view name) {
  if (name == "aten::embedding") return {Asks::lookup, 4, 0};
  if (name == "aten::_embedding_bag") return {Asks::lookup, 5, 0};
  if (name == "aten::linear") return {Asks::product, 0, 1};
  if (name == "aten::matmul" || name == "aten::mm") return {Asks::product, 0, 1};
  if (name == "aten::copy_") return {Asks::copy, 0, 1};
  return {};
}

// The tables that a thread looked rows up in, of the newest ones. A table that is gone is held weakly:
// its elements are freed, and its storage's address is no other one's meanwhile.
class Tables {
public:
  void add(const at::Tensor &table) {
    if (!has(table)) held_[next_++ % kMost].emplace(table.storage().getWeakStorageImpl());
  }
  bool has(const at::Tensor &table) const {
    const c10::StorageImpl *sought = table.storage().unsafeGetStorageImpl();
    return std::any_of(held_.begin(), held_.end(), [sought](const auto &each) {
      return each && each->_unsafe_get_target() == sought;
    });
  }

private:
  static constexpr size_t kMost = 64;
  std::array<std::optional<c10::weak_intrusive_ptr<c10::StorageImpl>>, kMost> held_;
  size_t next_ = 0;
};

// -- padding

inline constexpr int64_t kFewestColumns = 8, kMostElements = 1 << 18;
// Part of the other elements that may have the value of padding: the end of a text may have it too.
inline constexpr double kElsewhere = 0.02;

// Elements at the ends of rows, or at their beginnings, that have one value which the rest of the
// rows hardly has; 0 where they are no padding. A matrix of flags has its value everywhere, and a
// matrix of tokens without padding ends each row in another way.
template <typename T> int64_t padding_of(const T *data, int64_t rows, int64_t columns, bool left) {
  const auto element = [=](int64_t row, int64_t at) {
    return data[row * columns + (left ? at : columns - 1 - at)];
  };
  std::vector<T> ends;
  for (int64_t row = 0; row < rows; ++row)
    if (element(row, 0) == element(row, 1)) ends.push_back(element(row, 0));
  if (ends.empty()) return 0;
  // The most frequent one; rows that end with another value have no padding.
  std::sort(ends.begin(), ends.end());
  T value = ends[0];
  for (size_t begin = 0, most = 0; begin < ends.size();) {
    const size_t end = size_t(std::upper_bound(ends.begin(), ends.end(), ends[begin]) - ends.begin());
    if (end - begin > most) most = end - begin, value = ends[begin];
    begin = end;
  }
  int64_t padded = 0, elsewhere = 0, whole = 0;
  for (int64_t row = 0; row < rows; ++row) {
    int64_t length = 0;
    while (length < columns && element(row, length) == value) ++length;
    whole += length == columns;
    padded += length;
    for (int64_t at = length; at < columns; ++at) elsewhere += element(row, at) == value;
  }
  // Rows of nothing else are no rows of a batch that are filled up: as a mask that keeps all.
  if (2 * whole > rows) return 0;
  return double(elsewhere) <= kElsewhere * double(rows * columns - padded) ? padded : 0;
}

// Of a mask, which has zeros and ones alone, only zeros at the ends of rows are padding for sure: with
// ones there, or zeros at the beginnings, it may as well say what is to be left out.
template <typename T> void count_padding(const at::Tensor &batch, TileprofVisit &visit) {
  const T *data = static_cast<const T *>(batch.const_data_ptr());
  const int64_t rows = batch.size(0), columns = batch.size(1);
  const bool mask = std::all_of(data, data + rows * columns, [](T each) { return each == (each & 1); });
  const int64_t right = padding_of(data, rows, columns, false);
  if (mask && (!right || data[0] == 0)) return;
  const int64_t left = mask ? 0 : padding_of(data, rows, columns, true);
  visit.slots = double(rows * columns);
  visit.padding = double(std::max(left, right));
}

// Whether a tensor's elements can be read on the host. torch.compile traces with tensors that say
// they are on the CPU and have no memory, and transforms of functions with wrappers around others.
inline bool is_readable(const at::Tensor &tensor) {
  if (!work::is_plain(tensor) || !tensor.device().is_cpu() || !tensor.has_storage()) return false;
  const c10::DispatchKeySet keys = tensor.unsafeGetTensorImpl()->key_set();
  if (keys.has_any(c10::python_ks) || keys.has_backend(c10::BackendComponent::MetaBit)) return false;
  return !keys.has(c10::DispatchKey::Functionalize) && tensor.storage().data() != nullptr;
}

// Counts the elements of a batch of rows of whole numbers that lies on the host.
inline void add_padding(const at::Tensor &batch, TileprofVisit &visit) {
  if (!batch.defined() || !is_readable(batch)) return;
  if (batch.dim() != 2 || batch.size(0) < 2 || batch.size(1) < kFewestColumns) return;
  if (batch.numel() > kMostElements || !batch.is_contiguous()) return;
  switch (batch.scalar_type()) {
  case at::ScalarType::Long: return count_padding<int64_t>(batch, visit);
  case at::ScalarType::Int: return count_padding<int32_t>(batch, visit);
  case at::ScalarType::Bool:
  case at::ScalarType::Byte: return count_padding<uint8_t>(batch, visit);
  default: return;
  }
}

// -- tables

inline bool learns(const at::Tensor &table) {
  return table.defined() && work::is_plain(table) && table.has_storage() &&
         table.requires_grad() && at::GradMode::is_enabled();
}

inline void add_lookup(const Values &values, size_t sparse, Tables &tables, TileprofVisit &visit) {
  const at::Tensor &table = values[0].toTensor(), &indices = values[1].toTensor();
  add_padding(indices, visit);
  if (!learns(table) || table.dim() != 2 || !table.size(0)) return;
  if (!values[sparse].isBool() || values[sparse].toBool()) return;
  if (!work::add_bytes(table, visit.table)) return;
  tables.add(table);
  visit.rows = std::min(visit.table, double(indices.numel()) * visit.table / double(table.size(0)));
}

// What the arguments of a call tell, before it runs.
inline void add_facts(const Question &question, const Values &values, Tables &tables,
                      TileprofVisit &visit) {
  const size_t needed = std::max<size_t>(question.first, question.sparse) + 1u;
  if (question.asks == Asks::nothing || values.size() < std::max<size_t>(needed, 2)) return;
  if (!values[0].isTensor() || !values[1].isTensor()) return;
  const at::Tensor &tensor = values[question.first].toTensor();
  switch (question.asks) {
  case Asks::nothing: return;
  case Asks::lookup: return add_lookup(values, question.sparse, tables, visit);
  case Asks::product:
    if (learns(tensor) && tables.has(tensor)) work::add_bytes(tensor, visit.shared);
    return;
  case Asks::copy:
    if (values[0].toTensor().defined() && !values[0].toTensor().device().is_cpu())
      add_padding(tensor, visit);
    return;
  }
}

} // namespace tileprof::facts
