// Every access of a kernel: where it falls, whether it may, and who touched the place before.
#include "machine.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace cusim {
Cells::Cells(size_t n) : n(n) {
  if (!n) return;
  void *const found = mmap(nullptr, n * sizeof(Cell), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED) {
    perror("cusim: no room for what is known of memory");
    abort();
  }
  at = (Cell *)found;
}

Cells::~Cells() {
  if (at) munmap(at, n * sizeof(Cell));
}

void Region::refine(unsigned to) {
  Cells finer(cells.size() << (shift - to));
  const Cell untouched;
  for (size_t i = 0; i < finer.size(); i++) {
    const Cell &c = cells[i >> (shift - to)];
    if (memcmp(&c, &untouched, sizeof c)) finer[i] = c;
  }
  cells = std::move(finer);
  shift = to;
}

namespace {
Stamp stamp(const void *site) {
  return {machine->phase, (uint32_t)((uintptr_t)site - machine->image),
          (uint16_t)running->thread, warp_of(*running).step};
}

bool same_warp(unsigned a, unsigned b) { return a / 32 == b / 32; }

// Whether what `by` did is before what `now` does, both of one block.
bool is_before(const Stamp &by, const Stamp &now) {
  return by.phase < now.phase || by.thread == now.thread ||
         (same_warp(by.thread, now.thread) && by.step < now.step);
}

size_t block_index(uint32_t phase) {  // of a phase of this launch
  const auto &starts = machine->block_phases;
  return std::upper_bound(starts.begin(), starts.end(), phase) - starts.begin() - 1;
}

// Whether a ticket tells this thread of what an earlier block did.
bool is_handed_over(const Stamp &by, const Stamp &now) {
  const uint32_t block = machine->block_phases[block_index(by.phase)];
  for (const Acquire &a : machine->acquired) {
    if (!is_before({a.by.phase, 0, a.by.thread, a.by.step}, now)) continue;
    const auto found = a.ticket->by_block.find(block);
    if (found == a.ticket->by_block.end()) continue;
    for (const Release &r : found->second)
      if (is_before(by, {r.phase, 0, r.thread, r.step})) return true;
  }
  return false;
}

bool is_ordered(const Stamp &by, const Stamp &now) {
  if (by.phase < machine->launch_phase) return true;  // an earlier kernel, or nobody
  if (by.phase >= machine->block_phase) return is_before(by, now);
  return is_handed_over(by, now);
}

void report_race(const Region &r, size_t at, unsigned size, bool is_write, const Stamp &other,
                 bool other_is_write, const void *site) {
  Finding &f = report(Kind::race, site, "%s", "");
  f.buffer = r.number;
  f.byte = at;
  f.size = size;
  f.is_write = is_write;
  f.other_is_write = other_is_write;
  f.other_site = other.site;
  f.other_thread = other.thread;
  f.other_block = machine->block_numbers[block_index(other.phase)];
}

void report_unset(const Region &r, const Cell &c, size_t at, unsigned size, const void *site) {
  const bool flies = c.state == State::in_flight;
  Finding &f = report(flies ? Kind::in_flight : Kind::uninitialised, site, "%s", "");
  f.buffer = r.number;
  f.byte = at;
  f.size = size;
  if (!flies) return;
  f.other_site = c.write.site;
  f.other_thread = c.write.thread;
  f.other_block = f.block;
}

bool has_value(const Region &r, const Cell &c) {
  return c.state == State::set || (r.is_set && c.state == State::unset);
}

// Whether a read tells nothing new: written before the last barrier, read by several warps since.
// What all threads read, they read often.
bool is_settled(const Region &r, const Cell &c) {
  const Machine &m = *machine;
  const uint32_t written = c.write.phase;
  return c.read.phase == m.phase && c.readers == Readers::many && has_value(r, c) &&
         (written < m.launch_phase || (written >= m.block_phase && written < m.phase));
}

// Note a read, and tell of a write that it may overtake.
void check_read(Region &r, Cell &c, size_t at, unsigned size, const Stamp &now, const void *site) {
  if (!has_value(r, c)) report_unset(r, c, at, size, site);
  const bool several = c.writers == Writers::atomics && c.write.phase == now.phase;
  if (several || !is_ordered(c.write, now)) report_race(r, at, size, false, c.write, true, site);
  if (c.read.phase == now.phase) {
    if (c.readers == Readers::many) return;
    if (!same_warp(c.read.thread, now.thread)) {
      c.readers = Readers::many;
    } else if (c.read.step < now.step) {
      c.readers = Readers::one;
      c.read = now;
    } else if (c.read.thread != now.thread) {
      c.readers = Readers::one_warp;
    }
    return;
  }
  if (c.read.phase >= machine->launch_phase && c.read.phase < machine->block_phase)
    c.foreign_read = c.read.phase;
  c.readers = Readers::one;
  c.read = now;
}

// Whether all reads that the cell knows of are before `now`.
bool reads_are_ordered(const Cell &c, const Stamp &now) {
  if (c.foreign_read >= machine->launch_phase &&
      !is_handed_over({c.foreign_read, 0, UINT16_MAX, UINT16_MAX}, now))
    return false;
  if (c.read.phase != now.phase) return is_ordered(c.read, now);
  switch (c.readers) {
    case Readers::one: return is_before(c.read, now);
    case Readers::one_warp: return same_warp(c.read.thread, now.thread) && c.read.step < now.step;
    case Readers::many: return false;
  }
  return false;
}

// Note a write, and tell of a read or write that it may overtake.
void check_write(Region &r, Cell &c, size_t at, unsigned size, const Stamp &now, bool is_atomic,
                 const void *site) {
  const bool was_atomic = c.writers != Writers::plain;
  const bool several = c.writers == Writers::atomics && c.write.phase == now.phase;
  const bool ordered = !several && is_ordered(c.write, now);
  if (!ordered && !(was_atomic && is_atomic))
    report_race(r, at, size, true, c.write, true, site);
  else if (!reads_are_ordered(c, now))
    report_race(r, at, size, true, c.read, false, site);
  c.writers = !is_atomic               ? Writers::plain
              : was_atomic && !ordered ? Writers::atomics
                                       : Writers::atomic;
  c.write = now;
  c.state = State::set;
  c.read = {};
  c.foreign_read = 0;
}

// Shared memory is another one in each block.
void forget_other_blocks(Cell &c) {
  if (c.write.phase < machine->block_phase && c.read.phase < machine->block_phase) c = {};
}

void check_array(const Region &r, size_t at, unsigned size, bool is_write, const void *site) {
  const uint8_t *first = r.arrays.data() + at;
  bool is_one = *first != 0;
  for (unsigned i = 1; i < size; i++) is_one &= first[i] == first[0];
  if (is_one) return;
  const Kind kind = r.is_shared ? Kind::out_of_bounds : Kind::between_elements;
  Finding &f = report(kind, site, "%s", "");
  f.buffer = r.number;
  f.byte = at;
  f.size = size;
  f.is_write = is_write;
}

void check(Region &r, size_t at, unsigned size, bool is_write, bool is_atomic, const void *site) {
  if (!r.arrays.empty()) check_array(r, at, size, is_write, site);
  if (r.access == Access::read) {
    if (!is_write) return;  // nobody writes it, so there is nothing to race with
    Finding &f = report(Kind::read_only, site, "%s", "");
    f.buffer = r.number;
    f.byte = at;
    f.size = size;
    f.is_write = 1;
    return;
  }
  if ((at | size) % (1u << r.shift)) r.refine(__builtin_ctzll(at | size));
  const Stamp now = stamp(site);
  Cell *c = &r.cells[at >> r.shift], *const end = c + (size >> r.shift);
  for (; c < end; c++) {
    if (!is_write && is_settled(r, *c)) continue;
    if (r.is_shared) forget_other_blocks(*c);
    if (!is_write) {
      check_read(r, *c, at, size, now, site);
      continue;
    }
    if (is_atomic && !has_value(r, *c)) report_unset(r, *c, at, size, site);
    check_write(r, *c, at, size, now, is_atomic, site);
  }
}

Region *find(uintptr_t a, unsigned size) {
  Machine &m = *machine;
  if (m.dynamic.holds(a, size)) return &m.dynamic;
  if (m.fixed.holds(a, size)) return &m.fixed;
  if (m.last < m.buffers.size() && m.buffers[m.last].holds(a, size)) return &m.buffers[m.last];
  for (size_t i = 0; i < m.buffers.size(); i++)
    if (m.buffers[i].holds(a, size)) {
      m.last = i;
      return &m.buffers[i];
    }
  return nullptr;
}

// Name the nearest memory in the report and end the launch: going on would damage the process.
[[noreturn]] void report_outside(uintptr_t a, unsigned size, bool is_write, const void *site) {
  if (is_local(a)) {
    report(Kind::local_memory, site, "%s", "").is_write = is_write;
    abandon();
  }
  const Region *nearest = nullptr;
  uint64_t distance = UINT64_MAX;
  auto consider = [&](const Region &r) {
    if (!r.bytes) return;
    const auto low = (uintptr_t)r.base, high = low + r.bytes;
    const uint64_t d = a < low ? low - a : a >= high ? a - high + 1 : 0;
    if (d < distance) {
      distance = d;
      nearest = &r;
    }
  };
  consider(machine->dynamic);
  consider(machine->fixed);
  for (const Region &r : machine->buffers) consider(r);
  Finding &f = report(Kind::out_of_bounds, site, "%s", "");
  f.size = size;
  f.is_write = is_write;
  if (nearest && distance < (1 << 30)) {
    f.buffer = nearest->number;
    f.byte = (int64_t)(a - (uintptr_t)nearest->base);
  } else {
    f.byte = (int64_t)a;
  }
  abandon();
}
}  // namespace

static bool is_declared_aligned(const Region &r, size_t at, unsigned size) {
  return r.alignments.empty() || r.alignments[at] % size == 0;
}

void access(const void *p, unsigned size, bool is_write, const void *site, bool is_atomic) {
  if (is_own(p) || !running) return;
  const auto a = (uintptr_t)p;
  Region *r = find(a, size);
  if (!r) {
    const bool is_table = a - machine->image < machine->image_end - machine->image;
    if (is_table && !is_write) return;
    report_outside(a, size, is_write, site);
  }
  const bool is_power = (size & (size - 1)) == 0 && size <= 16;
  if (is_power && (a & (size - 1) || !is_declared_aligned(*r, a - (uintptr_t)r->base, size))) {
    Finding &f = report(Kind::misaligned, site, "%s", "");
    f.buffer = r->number;
    f.byte = a - (uintptr_t)r->base;
    f.size = size;
    f.is_write = is_write;
  }
  if (machine->is_counted)
    machine->touches[running->thread].push_back(
        {site, a, (uint16_t)size, (uint8_t)is_write, (uint8_t)r->is_shared});
  if (machine->is_checked) check(*r, a - (uintptr_t)r->base, size, is_write, is_atomic, site);
}

void land(const void *p, unsigned size, const void *site) {
  Region *r = find((uintptr_t)p, size);
  if (r && machine->is_checked)
    check(*r, (uintptr_t)p - (uintptr_t)r->base, size, true, false, site);
}

bool is_shared(const void *p, unsigned size) {
  const Region *r = find((uintptr_t)p, size);
  return r && r->is_shared;
}

void mark_in_flight(const void *p, unsigned size) {
  Region *r = find((uintptr_t)p, size);
  if (!r || !machine->is_checked) return;
  const size_t at = (uintptr_t)p - (uintptr_t)r->base;
  for (size_t i = at >> r->shift; i < (at + size) >> r->shift; i++)
    r->cells[i].state = State::in_flight;
}
}  // namespace cusim
