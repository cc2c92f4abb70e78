// How the machine calls a kernel: each argument is read, by the type of its parameter, from an
// address.
#pragma once
#include <type_traits>
#include <utility>

template <class... A, size_t... I>
static void tp_call(void (*kernel)(A...), void **arguments, std::index_sequence<I...>) {
  kernel(*(std::remove_cv_t<A> *)arguments[I]...);
}
template <class... A> static void tp_call(void (*kernel)(A...), void **arguments) {
  tp_call(kernel, arguments, std::index_sequence_for<A...>());
}
#define TP_ENTRY(NAME) \
  extern "C" void tp_entry_##NAME(void **arguments) { tp_call(NAME, arguments); }
