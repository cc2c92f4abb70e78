#include "stacks/cfi.h"

#include <cstring>

namespace tileprof {
namespace {

#if defined(__x86_64__)

struct Bases {
  void *text, *data, *function;
};
// Part of libgcc's interface since GCC 3.0; finds code of libraries, and code that was registered
// with `__register_frame`. Another library for unwinding may not have it.
extern "C" __attribute__((weak)) const void *_Unwind_Find_FDE(void *address, Bases *bases);

constexpr uint64_t kFp = 6, kSp = 7, kReturn = 16;

class Reader {
public:
  Reader(const uint8_t *at, const uint8_t *end) : at_(at), end_(end) {}
  template <typename T> T take() {
    T value{};
    if (size_t(end_ - at_) < sizeof(T)) return fail(), value;
    memcpy(&value, at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }
  uint64_t unsigned_() {
    uint64_t value = 0;
    for (unsigned shift = 0; at_ < end_; shift += 7) {
      const uint8_t byte = *at_++;
      if (shift < 64) value |= uint64_t(byte & 0x7F) << shift;
      if (!(byte & 0x80)) return value;
    }
    return fail(), 0;
  }
  int64_t signed_() {
    uint64_t value = 0;
    for (unsigned shift = 0; at_ < end_;) {
      const uint8_t byte = *at_++;
      if (shift < 64) value |= uint64_t(byte & 0x7F) << shift;
      shift += 7;
      if (byte & 0x80) continue;
      if (byte & 0x40 && shift < 64) value |= ~uint64_t(0) << shift;
      return int64_t(value);
    }
    return fail(), 0;
  }
  Reader part(uint64_t size) {
    const uint8_t *start = at_;
    skip(size);
    return {start, failed_ ? start : at_};
  }
  void skip(uint64_t size) {
    if (uint64_t(end_ - at_) < size) return fail();
    at_ += size;
  }
  const char *text() {
    const char *start = reinterpret_cast<const char *>(at_);
    while (take<uint8_t>() && !failed_) {
    }
    return start;
  }
  bool more() const { return at_ < end_; }
  bool failed() const { return failed_; }

private:
  const uint8_t *at_, *end_;
  bool failed_ = false;
  void fail() { failed_ = true, at_ = end_; }
};

// An entry without its length, which comes first.
Reader entry_of(const uint8_t *at) {
  uint32_t length;
  memcpy(&length, at, sizeof(length));
  // 64-bit lengths are for sections above 4 GB; nobody writes them.
  return length == 0xFFFFFFFF ? Reader(at, at) : Reader(at + 4, at + 4 + length);
}

// Bytes of an encoded pointer (DW_EH_PE); 0 for encodings without a fixed size.
unsigned pointer_bytes(uint8_t encoding) {
  switch (encoding & 0x0F) {
  case 0x00: case 0x04: case 0x0C: return 8;
  case 0x03: case 0x0B: return 4;
  case 0x02: case 0x0A: return 2;
  default: return 0;
  }
}

// What functions of one compilation share (DWARF: CIE).
struct Common {
  uint64_t code_unit = 1;
  int64_t data_unit = 1;
  unsigned pointer = 8;
  bool sized = false;   // entries state how long their augmentation is
  bool plain = false;   // whether it was understood
  Reader program{nullptr, nullptr};
};

Common common_of(const uint8_t *at) {
  Common common;
  Reader entry = entry_of(at);
  entry.take<uint32_t>();
  const uint8_t version = entry.take<uint8_t>();
  const char *letters = entry.text();
  if (version != 1 && version != 3) return common;
  common.code_unit = entry.unsigned_();
  common.data_unit = entry.signed_();
  const uint64_t returns = version == 1 ? entry.take<uint8_t>() : entry.unsigned_();
  if (entry.failed() || returns != kReturn) return common;
  common.sized = *letters == 'z';
  if (*letters && !common.sized) return common;
  if (common.sized) {
    Reader data = entry.part(entry.unsigned_());
    for (const char *letter = letters + 1; *letter; ++letter) {
      if (*letter == 'R') {
        common.pointer = pointer_bytes(data.take<uint8_t>());
      } else if (*letter == 'L') {
        data.take<uint8_t>();
      } else if (*letter == 'P') {
        const unsigned size = pointer_bytes(data.take<uint8_t>());
        if (!size) return common;
        data.skip(size);
      } else {
        return common;  // 'S': a signal's frame holds all registers
      }
    }
  }
  common.program = entry;
  common.plain = common.pointer != 0 && !entry.failed();
  return common;
}

// Where the frame ends and the frame pointer is saved, at one instruction.
struct Row {
  uint64_t reg = kSp;
  int64_t end = 0;
  bool through = false;  // the end is what memory holds there
  bool plain = true;     // whether a rule can say it
  SavedFp saved = SavedFp::no;
  bool fp_plain = true;
  int64_t fp = 0;
  bool returns = true;
  bool return_plain = true;  // whether the return address is right below the frame's end
};

struct Program {
  const Common &common;
  uint64_t target;  // offset in the function
  Row row{}, initial{};
  Row kept[8]{};
  unsigned depth = 0;
  uint64_t at = 0;
  bool understood = true;

  // An expression that is a register plus a distance, maybe read from memory: DW_OP_breg, deref.
  static bool simple(Reader code, uint64_t &reg, int64_t &distance, bool &reads) {
    const uint8_t op = code.take<uint8_t>();
    if (op < 0x70 || op > 0x8F) return false;
    reg = op - 0x70;
    distance = code.signed_();
    reads = code.more() && code.take<uint8_t>() == 0x06;
    return !code.more() && !code.failed();
  }

  // Distances wrap around in damaged tables, and no rule holds such a one.
  int64_t scaled(uint64_t units) const { return int64_t(units * uint64_t(common.data_unit)); }

  void save(uint64_t reg, SavedFp how, int64_t distance) {
    if (reg == kFp) row.saved = how, row.fp = distance, row.fp_plain = true;
    if (reg == kReturn)
      row.returns = true, row.return_plain = how == SavedFp::from_end && distance == -8;
  }

  void restore(uint64_t reg) {
    if (reg == kFp)
      row.saved = initial.saved, row.fp = initial.fp, row.fp_plain = initial.fp_plain;
    if (reg == kReturn) row.returns = initial.returns, row.return_plain = initial.return_plain;
  }

  void define(uint64_t reg, int64_t end) {
    row.reg = reg, row.end = end, row.through = false, row.plain = reg == kSp || reg == kFp;
  }

  void run(Reader code) {
    while (code.more() && understood) {
      const uint8_t op = code.take<uint8_t>();
      const uint64_t low = op & 0x3F;
      switch (op >> 6) {
      case 1: at += low * common.code_unit; break;
      case 2: save(low, SavedFp::from_end, scaled(code.unsigned_())); break;
      case 3: restore(low); break;
      default: extended(op, code);
      }
      if (at > target) return;
      understood &= !code.failed();
    }
  }

  void extended(uint8_t op, Reader &code) {
    uint64_t reg;
    switch (op) {
    case 0x00: break;
    case 0x02: at += code.take<uint8_t>() * common.code_unit; break;
    case 0x03: at += code.take<uint16_t>() * common.code_unit; break;
    case 0x04: at += code.take<uint32_t>() * common.code_unit; break;
    case 0x05:
      reg = code.unsigned_();
      save(reg, SavedFp::from_end, scaled(code.unsigned_()));
      break;
    case 0x06: restore(code.unsigned_()); break;
    case 0x07:  // undefined: for the return address, the outermost frame
      reg = code.unsigned_();
      if (reg == kReturn) row.returns = false;
      if (reg == kFp) row.saved = SavedFp::no;
      break;
    case 0x08:  // same value
      if (code.unsigned_() == kFp) row.saved = SavedFp::no, row.fp_plain = true;
      break;
    case 0x09:  // in another register
      reg = code.unsigned_();
      code.unsigned_();
      if (reg == kFp) row.fp_plain = false;
      if (reg == kReturn) row.return_plain = false;
      break;
    case 0x0A:
      if (depth == sizeof(kept) / sizeof(*kept)) understood = false;
      else kept[depth++] = row;
      break;
    case 0x0B:
      if (!depth) understood = false;
      else row = kept[--depth];
      break;
    case 0x0C: reg = code.unsigned_(); define(reg, int64_t(code.unsigned_())); break;
    case 0x0D:
      row.reg = code.unsigned_();
      row.plain = !row.through && (row.reg == kSp || row.reg == kFp);
      break;
    case 0x0E: row.end = int64_t(code.unsigned_()); break;
    case 0x0F: {
      bool reads = false;
      Reader expression = code.part(code.unsigned_());
      row.plain = simple(expression, row.reg, row.end, reads) &&
                  (row.reg == kFp || (row.reg == kSp && !reads));
      row.through = reads;
      break;
    }
    case 0x10: {
      reg = code.unsigned_();
      uint64_t base = 0;
      int64_t distance = 0;
      bool reads = false;
      const bool known = simple(code.part(code.unsigned_()), base, distance, reads);
      if (reg == kFp) {
        row.fp_plain = known && !reads && base == kFp;
        row.saved = SavedFp::from_fp, row.fp = distance;
      }
      if (reg == kReturn) row.return_plain = false;
      break;
    }
    case 0x11:
      reg = code.unsigned_();
      save(reg, SavedFp::from_end, scaled(uint64_t(code.signed_())));
      break;
    case 0x12: reg = code.unsigned_(); define(reg, scaled(uint64_t(code.signed_()))); break;
    case 0x13: row.end = scaled(uint64_t(code.signed_())); break;
    case 0x16:  // the value of an expression
      reg = code.unsigned_();
      if (reg == kFp) row.fp_plain = false;
      if (reg == kReturn) row.return_plain = false;
      code.skip(code.unsigned_());
      break;
    case 0x2E: code.unsigned_(); break;  // the size of arguments
    default: understood = false;
    }
  }
};

bool fits(int64_t distance) { return distance >= -Rule::kMost && distance <= Rule::kMost; }

Rule rule_from(const Row &row) {
  if (!row.returns) return {Step::outermost};
  if (!row.plain || !row.return_plain || !row.fp_plain || !fits(row.end) || !fits(row.fp)) return {Step::other};
  const Step step = row.through ? Step::through_fp : row.reg == kSp ? Step::by_sp : Step::by_fp;
  return {step, row.saved, int32_t(row.end), int32_t(row.fp)};
}

#endif

} // namespace

Rule rule_of(uintptr_t return_address) {
#if defined(__x86_64__)
  if (!_Unwind_Find_FDE) return {Step::other};
  // A call may be the last instruction of its function, so that what follows is another's.
  const uintptr_t call = return_address - 1;
  Bases bases{};
  const auto *at = static_cast<const uint8_t *>(
      _Unwind_Find_FDE(reinterpret_cast<void *>(call), &bases));
  if (!at) return {Step::unknown};
  Reader entry = entry_of(at);
  const uint32_t back = entry.take<uint32_t>();
  if (entry.failed()) return {Step::other};
  const Common common = common_of(at + 4 - back);
  if (!common.plain) return {Step::other};
  entry.skip(2 * common.pointer);
  if (common.sized) entry.skip(entry.unsigned_());
  Program program{common, call - reinterpret_cast<uintptr_t>(bases.function)};
  program.run(common.program);
  program.initial = program.row;
  program.at = 0;
  program.run(entry);
  if (!program.understood || entry.failed()) return {Step::other};
  return rule_from(program.row);
#else
  (void)return_address;
  return {Step::other};
#endif
}

} // namespace tileprof
