// How the machine calls a kernel: each argument is read, by the type of its parameter, from an
// address. Without the standard library, whose headers would take a quarter of a text's compilation.
#pragma once

template <int... I> struct TpNumbers {};
template <int N, int... I> struct TpFirst : TpFirst<N - 1, N - 1, I...> {};
template <int... I> struct TpFirst<0, I...> { using numbers = TpNumbers<I...>; };

template <class... A, int... I>
static void tp_call(void (*kernel)(A...), void **arguments, TpNumbers<I...>) {
  kernel(*(A *)arguments[I]...);
}
template <class... A> static void tp_call(void (*kernel)(A...), void **arguments) {
  tp_call(kernel, arguments, typename TpFirst<sizeof...(A)>::numbers());
}
#define TP_ENTRY(NAME) \
  extern "C" void tp_entry_##NAME(void **arguments) { tp_call(NAME, arguments); }
