// Values of metrics over time, of one device: bounded by making neighbours one, not by forgetting.
//
// In: samples in order of time. Out: rows; each has a time from and to, and for each metric its
// mean over that time. When there is no room, each two neighbours become one row, and from there on
// twice as many samples are made one before they become a row: so all rows are of about one length,
// and means are those of the samples, whatever became of them. Rows with a gap between them stay
// apart.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace tileprof {

struct PmRows {
  size_t metrics = 0;
  size_t samples_a_row = 1;  // at most
  uint64_t given_up = 0;  // rows for which there was no room even so
  std::vector<uint64_t> start, end;  // ns
  std::vector<float> values;  // by row, then by metric; NaN where a metric had no value
};

class PmSeries {
public:
  PmSeries(size_t metrics, size_t most)
      : most_(std::max<size_t>(most, 8)), sums_(metrics), times_(metrics) {
    rows_.metrics = metrics;
  }

  void add(uint64_t start, uint64_t end, const double *values) {
    if (held_ && !follows(end_, start, end - start)) finish();
    if (!held_) start_ = start;
    end_ = end;
    for (size_t i = 0; i < sums_.size(); ++i) {
      if (!std::isfinite(values[i])) continue;
      sums_[i] += values[i] * double(end - start);
      times_[i] += double(end - start);
    }
    if (++held_ < rows_.samples_a_row) return;
    // After it, the row that these samples are to be needs as many more.
    if (full()) return halve();
    finish();
  }

  // All rows until now.
  PmRows rows() const {
    PmSeries whole = *this;
    whole.finish();
    return std::move(whole.rows_);
  }

private:
  size_t most_;
  PmRows rows_;
  // Sums over the samples of the next row; for each metric, the time in which it had a value.
  std::vector<double> sums_, times_;
  uint64_t start_ = 0, end_ = 0;
  size_t held_ = 0;

  bool full() const { return rows_.start.size() >= most_; }
  static bool follows(uint64_t before, uint64_t start, uint64_t length) {
    return start <= before + length / 2;
  }

  void finish() {
    if (!held_) return;
    if (full()) halve();
    rows_.start.push_back(start_);
    rows_.end.push_back(end_);
    for (size_t i = 0; i < sums_.size(); ++i) {
      constexpr float none = std::numeric_limits<float>::quiet_NaN();
      rows_.values.push_back(times_[i] > 0 ? float(sums_[i] / times_[i]) : none);
      sums_[i] = times_[i] = 0;
    }
    held_ = 0;
  }

  static float mean(float a, float weight, float b, float other) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) ? b : a;
    return (a * weight + b * other) / (weight + other);
  }

  void halve() {
    PmRows &r = rows_;
    const size_t n = r.start.size(), width = r.metrics;
    const auto length = [&r](size_t at) { return r.end[at] - r.start[at]; };
    size_t made = 0;
    for (size_t at = 0; at < n; ++made) {
      const size_t next = at + 1;
      const bool two = next < n && follows(r.end[at], r.start[next], length(next));
      for (size_t i = 0; i < width; ++i) {
        const float first = r.values[at * width + i];
        r.values[made * width + i] =
            two ? mean(first, float(length(at)), r.values[next * width + i], float(length(next)))
                : first;
      }
      r.start[made] = r.start[at];
      r.end[made] = r.end[at + two];
      at += 1 + two;
    }
    // Gaps nearly everywhere: the oldest rows give way.
    const size_t gone = made > most_ - most_ / 8 ? made / 2 : 0;
    r.given_up += gone;
    const auto keep = [&](auto &column, size_t each) {
      column.resize(made * each);
      column.erase(column.begin(), column.begin() + ptrdiff_t(gone * each));
    };
    keep(r.start, 1);
    keep(r.end, 1);
    keep(r.values, width);
    r.samples_a_row *= 2;
  }
};

} // namespace tileprof
