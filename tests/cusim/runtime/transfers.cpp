// Copies of several bytes, asynchronous copies, atomics and tickets.
#include <cmath>
#include <cstring>

#include "machine.h"

using namespace cusim;
#define SITE __builtin_return_address(0)

#pragma GCC visibility push(default)
extern "C" {
void cusim_copy(void *to, const void *from, unsigned bytes) {
  unsigned char data[16];
  access(from, bytes, false, SITE);
  memcpy(data, from, bytes);
  access(to, bytes, true, SITE);
  memcpy(to, data, bytes);
}

// The bytes arrive as late as they may, at the wait; until then the place is poison.
void cusim_copy_async(void *to, const void *from, unsigned size, unsigned bytes) {
  if (!is_shared(to, size)) report(Kind::space, SITE, "an asynchronous copy goes to shared memory");
  if (bytes > size) report(Kind::space, SITE, "%u bytes of a copy of %u", bytes, size);
  if ((uintptr_t)from % size)
    report(Kind::misaligned, SITE, "source of an asynchronous copy of %u bytes", size).size = size;
  if (bytes) access(from, bytes, false, SITE);
  access(to, size, true, SITE);
  memset(to, 0xff, size);
  mark_in_flight(to, size);
  running->open.push_back({(char *)to, (const char *)from, size, bytes, SITE});
}

void cusim_copy_commit() {
  running->groups.push_back(std::move(running->open));
  running->open.clear();
}

void cusim_copy_wait(int others) {
  auto &groups = running->groups;
  while ((int)groups.size() > others) {
    for (const Copy &c : groups.front()) {
      land(c.to, c.size, c.site);
      memcpy(c.to, c.from, c.bytes);
      memset(c.to + c.bytes, 0, c.size - c.bytes);
    }
    groups.pop_front();
  }
}

// Blocks run one after another, so who comes later acquires what all before it have released.
uint32_t cusim_ticket(uint32_t *p) {
  access(p, 4, true, SITE, true);
  Ticket &ticket = machine->tickets[p];
  const Release now{machine->phase, (uint16_t)running->thread, warp_of(*running).step};
  machine->acquired.push_back({&ticket, now});
  ticket.by_block[machine->block_phase].push_back(now);
  return (*p)++;
}

unsigned long long cusim_compare_and_swap(unsigned long long *p, unsigned long long expected,
                                unsigned long long x) {
  access(p, 8, true, SITE, true);
  const unsigned long long was = *p;
  if (was == expected) *p = x;
  return was;
}

#define ATOMICS(T, C, SUM)                                                                        \
  void cusim_atomic_add_##T(C *p, C x) {                                                          \
    access(p, sizeof(C), true, SITE, true);                                                       \
    *p = SUM;                                                                                     \
  }                                                                                               \
  void cusim_atomic_min_##T(C *p, C x) {                                                          \
    access(p, sizeof(C), true, SITE, true);                                                       \
    *p = *p < x || *p != *p ? *p : x;                                                             \
  }                                                                                               \
  void cusim_atomic_max_##T(C *p, C x) {                                                          \
    access(p, sizeof(C), true, SITE, true);                                                       \
    *p = *p > x || *p != *p ? *p : x;                                                             \
  }
ATOMICS(i32, int, (int)((unsigned)*p + (unsigned)x))
ATOMICS(u32, unsigned, *p + x)
ATOMICS(i64, long long, (long long)((unsigned long long)*p + (unsigned long long)x))
ATOMICS(u64, unsigned long long, *p + x)
ATOMICS(f32, float, *p + x)
ATOMICS(f64, double, *p + x)
}
#pragma GCC visibility pop
