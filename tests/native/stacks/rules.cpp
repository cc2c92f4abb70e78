// Prints the rules of addresses of a library: those of its file, one a line, as standard input has them.
#include <cstdio>
#include <dlfcn.h>
#include <link.h>

#include "stacks/cfi.h"

int main(int, char **arguments) {
  void *handle = dlopen(arguments[1], RTLD_LAZY);
  link_map *map = nullptr;
  if (!handle || dlinfo(handle, RTLD_DI_LINKMAP, &map)) return 1;
  unsigned long address;
  while (std::scanf("%lx", &address) == 1) {
    // The rule is that of the call before the address to which it returns.
    const tileprof::Rule rule = tileprof::rule_of(map->l_addr + address + 1);
    std::printf("%d %d %d %d\n", int(rule.step), int(rule.saved), rule.end, rule.fp);
  }
}
