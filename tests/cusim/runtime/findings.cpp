// What was found, each site once.
#include "machine.h"

#include <cstdarg>
#include <cstdio>

namespace cusim {
Finding &report(Kind kind, const void *site, const char *format, ...) {
  const auto offset = (uint64_t)((uintptr_t)site - machine->image);
  const unsigned thread = running ? running->thread : 0;
  for (Finding &f : machine->findings)
    if (f.kind == (int32_t)kind && f.site == offset) {
      f.count++;
      static Finding repeated;  // its details are those of the first
      return repeated;
    }
  Finding f{};
  f.kind = (int32_t)kind;
  f.buffer = NONE;
  f.site = offset;
  f.block = machine->block;
  f.thread = thread;
  f.count = 1;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(f.note, sizeof f.note, format, arguments);
  va_end(arguments);
  machine->findings.push_back(f);
  return machine->findings.back();
}
}  // namespace cusim
