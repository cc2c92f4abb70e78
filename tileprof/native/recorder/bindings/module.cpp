// The module `tileprof.native._recorder`: what Python asks of the recorder.
#include <algorithm>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/bindings.h"
#include "host/host.h"
#include "host/recorder.h"
#include "records/framework_memory.h"

namespace nb = nanobind;

namespace tileprof {
namespace {

// At most `most` contexts from number `first` on, as (parent, kind, a, b); of a frame, `a` is its
// code.
nb::list contexts(uint32_t first, uint32_t most) {
  nb::list all;
  const Contexts &known = recorder().contexts;
  const uint32_t end = std::min(uint64_t(known.size()), uint64_t(first) + most);
  for (uint32_t id = first; id < end; ++id) {
    const Context &c = known.at(id);
    nb::object a = c.kind == Kind::frame
                       ? nb::borrow(reinterpret_cast<PyObject *>(uintptr_t(c.a)))
                       : nb::object(nb::int_(c.a));
    all.append(nb::make_tuple(c.parent, int(c.kind), a, c.b));
  }
  return all;
}

// Host times of all threads: (context, count, own ns, claimed ns, flops, bytes, sampled bytes, visits
// that the samples stand for, table, rows, shared, slots, padding), cumulative; TileprofVisit says
// what the sampled numbers are.
nb::list host_times() {
  nb::list all;
  const uint32_t size = recorder().contexts.size();
  const std::vector<Thread *> threads = recorder().threads();
  for (uint32_t id = 1; id < size; ++id) {
    uint64_t count = 0, own = 0, claimed = 0, visits = 0;
    double flops = 0, bytes = 0;
    TileprofVisit sampled{};
    for (Thread *thread : threads) {
      if (const HostTime *time = thread->times().find(id)) {
        count += time->count.load(std::memory_order_relaxed);
        own += time->own_ns.load(std::memory_order_relaxed);
      }
      if (const HostWork *work = thread->works().find(id)) {
        claimed += work->claimed_ns.load(std::memory_order_relaxed);
        flops += work->flops.load(std::memory_order_relaxed);
        bytes += work->bytes.load(std::memory_order_relaxed);
        sampled.bytes += work->sampled_bytes.load(std::memory_order_relaxed);
        sampled.table += work->table.load(std::memory_order_relaxed);
        sampled.rows += work->rows.load(std::memory_order_relaxed);
        sampled.shared += work->shared.load(std::memory_order_relaxed);
        sampled.slots += work->slots.load(std::memory_order_relaxed);
        sampled.padding += work->padding.load(std::memory_order_relaxed);
        visits += work->sampled_visits.load(std::memory_order_relaxed);
      }
    }
    if (count || own || claimed)
      all.append(nb::make_tuple(id, count, own, claimed, flops, bytes, sampled.bytes, visits,
                                sampled.table, sampled.rows, sampled.shared, sampled.slots,
                                sampled.padding));
  }
  return all;
}

// Work of operations by how many flops they do a byte: (context, least flops per byte of an octave,
// flops, bytes), over all threads, cumulative.
nb::list work_kinds() {
  nb::list all;
  const uint32_t size = recorder().contexts.size();
  for (uint32_t id = 1; id < size; ++id) {
    double flops[WorkKinds::kOctaves] = {}, bytes[WorkKinds::kOctaves] = {};
    bool any = false;
    for (Thread *thread : recorder().threads()) {
      const HostWork *work = thread->works().find(id);
      const WorkKinds *kinds = work ? work->kinds.load(std::memory_order_acquire) : nullptr;
      if (!kinds) continue;
      any = true;
      for (int at = 0; at < WorkKinds::kOctaves; ++at) {
        flops[at] += kinds->flops[at].load(std::memory_order_relaxed);
        bytes[at] += kinds->bytes[at].load(std::memory_order_relaxed);
      }
    }
    for (int at = 0; any && at < WorkKinds::kOctaves; ++at)
      if (flops[at] || bytes[at])
        all.append(nb::make_tuple(id, WorkKinds::least_of(at), flops[at], bytes[at]));
  }
  return all;
}

// Host times by thread: (context, `threading.get_ident()`, count, own ns), cumulative. Those of a
// thread that has ended may be with a later one, which goes on with its numbers.
nb::list host_times_by_thread() {
  nb::list all;
  const uint32_t size = recorder().contexts.size();
  for (Thread *thread : recorder().threads())
    for (uint32_t id = 1; id < size; ++id) {
      const HostTime *time = thread->times().find(id);
      if (!time) {
        id |= Blocks<HostTime>::kBlock - 1;  // none of this block
        continue;
      }
      const uint64_t count = time->count.load(std::memory_order_relaxed);
      const uint64_t own = time->own_ns.load(std::memory_order_relaxed);
      if (count || own) all.append(nb::make_tuple(id, thread->ident(), count, own));
    }
  return all;
}

// Host time that entries took, by `threading.get_ident()`, cumulative.
nb::dict claimed() {
  nb::dict all;
  for (Thread *thread : recorder().threads())
    if (uint64_t ns = thread->claimed_ns()) {
      // A later thread may have the number of one that has ended.
      nb::int_ ident(thread->ident());
      all[ident] = ns + (all.contains(ident) ? nb::cast<uint64_t>(all[ident]) : 0);
    }
  return all;
}

// The context of a frame of a thread that is in a range, 0 where it is in none; see Thread::sampled.
ContextId sampled(nb::object frame, uint64_t ident, uintptr_t scope) {
  ContextId found = 0;
  for (Thread *thread : recorder().threads())
    if (thread->ident() == ident)
      if (ContextId at = thread->sampled(frame_behind(frame.ptr()), (const void *)scope)) found = at;
  return found;
}

void set_base(nb::object frame) {
  recorder().base_thread = frame.is_none() ? 0 : this_thread().ident();
  recorder().base_frame = frame_behind(frame.ptr());
}

// Modules of native frames from number `first` on: path and build ID.
nb::list native_modules(uint32_t first) {
  nb::list all;
  const Modules &modules = unwinder().modules;
  const uint32_t size = modules.size();
  for (uint32_t number = first; number < size; ++number) {
    const Module module = modules.at(number);
    nb::object path = nb::steal(PyUnicode_DecodeFSDefault(module.path.c_str()));
    all.append(nb::make_tuple(path, module.build_id));
  }
  return all;
}

NB_MODULE(_recorder, m) {
  m.attr("__doc__") = "The native recorder; used through tileprof.profiler.";
  m.def("set_scope_variable", [](nb::object variable, uint64_t recording) {
    set_scope_variable(variable.ptr());
    recorder().recording = recording << 32;
  });
  m.def("set_epoch", [](uint32_t epoch) { recorder().epoch = epoch; });
  m.def("set_unrecorded", host::set_unrecorded);
  m.def("set_time", set_time);
  m.def("set_frames", [](bool frames) { recorder().frames = frames; });
  m.def("set_native", [](bool native) { recorder().native = native; });
  m.def("native_modules", native_modules, nb::arg("first") = 0);
  m.def("native_slow", [] { return unwinder().slow(); });
  m.def("set_base", set_base, nb::arg("frame").none());
  m.def("contexts", contexts, nb::arg("first"), nb::arg("most") = UINT32_MAX);
  m.def("context_count", [] { return recorder().contexts.size(); });
  m.def("folded", [] { return recorder().contexts.folded(); });
  m.def("name", [](NameId id) { return recorder().names.at(id); });
  m.def("host_times", host_times);
  m.def("host_times_by_thread", host_times_by_thread);
  m.def("work_kinds", work_kinds);
  m.def("claimed", claimed);
  m.def("sampled", sampled);
  m.def("inside", [] { return this_thread().inside(); });
  m.def("here", [] { return this_thread().here(); });
  m.def("split_open", [](bool count) { this_thread().split(count); });
  m.def("enter_op", [](const std::string &name, int64_t sequence, uint64_t thread) {
    const TileprofObserver *table = observer_table();
    return table->enter(table->thread(), table->name(name.c_str()), sequence, thread, nullptr);
  });
  m.def(
      "enter_backward",
      [](const std::string &name, int64_t sequence, uint64_t thread, ContextId root) {
        const TileprofObserver *table = observer_table();
        const uint32_t number = table->name(name.c_str());
        return table->enter_backward(table->thread(), number, sequence, thread, root, nullptr);
      },
      nb::arg("name"), nb::arg("sequence"), nb::arg("thread"), nb::arg("root") = 0);
  m.def("enter_kernel", [](uint32_t node) -> ContextId {
    if (!recorder().epoch.load(std::memory_order_relaxed)) return 0;
    return this_thread().enter_under(0, Kind::kernel, node, recorder().recording >> 32);
  });
  m.def("announce_work", [](double flops, double bytes) {
    this_thread().announce_work(flops, bytes);
  });
  m.def("sample_op",
        [](ContextId context, double bytes, double table, double rows, double shared, double slots,
           double padding) {
          const TileprofVisit visit{bytes, table, rows, shared, slots, padding};
          observer_table()->sample(context, &visit);
        },
        nb::arg("context"), nb::arg("bytes"), nb::arg("table") = 0, nb::arg("rows") = 0,
        nb::arg("shared") = 0, nb::arg("slots") = 0, nb::arg("padding") = 0);
  m.def("leave", [](ContextId context) {
    if (context) this_thread().leave(context);
  });
  m.def("observer_table", [] { return uintptr_t(observer_table()); });
  m.def("after_fork", [] {
    recorder().after_fork();
    framework_memory().after_fork();
  });
  bind_arrays(m);
  bind_backward(m);
  bind_counters(m);
  bind_crashes(m);
  bind_cupti(m);
  bind_memory(m);
  bind_nvtx(m);
  bind_pc(m);
  bind_timeline(m);
}

} // namespace
} // namespace tileprof
