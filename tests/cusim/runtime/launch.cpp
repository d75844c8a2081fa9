// Runs the blocks of a grid one after another, and what Python calls.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "machine.h"

namespace cusim {
Machine *machine = nullptr;

namespace {
constexpr size_t LARGEST_SHARED = 256 << 10;

unsigned draw(unsigned below) {
  uint64_t &x = machine->random;
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  return (unsigned)(x % below);
}

void arrange(std::vector<unsigned> &v) {
  switch (machine->order) {
    case Order::forward: break;
    case Order::reverse: std::reverse(v.begin(), v.end()); break;
    case Order::random:
      for (size_t i = v.size(); i > 1; i--) std::swap(v[i - 1], v[draw(i)]);
  }
}

std::vector<unsigned> arranged(unsigned n) {
  std::vector<unsigned> v(n);
  std::iota(v.begin(), v.end(), 0);
  arrange(v);
  return v;
}

void run_block(unsigned number) {
  Machine &m = *machine;
  m.block = number;
  m.block_phase = ++m.phase;
  m.block_phases.push_back(m.phase);
  m.block_numbers.push_back(number);
  m.acquired.clear();
  m.warps.assign((m.threads + 31) / 32, Warp());
  for (unsigned i = 0; i < m.threads; i++) m.warps[i / 32].present |= 1u << i % 32;
  if (m.fixed.bytes) memset(m.fixed.base, 0xff, m.fixed.bytes);
  if (m.dynamic.bytes) memset(m.dynamic.base, 0xff, m.dynamic.bytes);
  prepare_fibers(m.threads);
  unsigned done = 0;
  std::vector<unsigned> order = arranged(m.threads);
  while (done < m.threads) {
    bool any = false;
    for (const unsigned i : order) {
      Fiber &f = fibers[i];
      if (f.wait != Wait::none) continue;
      any = true;
      resume(f);
      if (m.is_aborted) return;
      done += f.wait == Wait::done;
    }
    if (!any) release_barrier();
    if (m.is_aborted) return;
    if (m.order == Order::random) arrange(order);
  }
}

void place(Region &r, const char *base, size_t bytes, int32_t number) {
  if (r.base != base || r.bytes != bytes) r.cells = Cells();
  r.base = (char *)base;
  r.bytes = bytes;
  r.number = number;
  r.is_shared = true;
  if (!r.cells.size() && bytes) {
    r.shift = 2;
    r.cells = Cells((bytes + 3) / 4);
  }
}

char *dynamic_shared() {  // aligned as on the GPU
  static char *const at = (char *)mmap(nullptr, LARGEST_SHARED, PROT_READ | PROT_WRITE,
                                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return at;
}
}  // namespace
}  // namespace cusim

using namespace cusim;

#pragma GCC visibility push(default)
extern "C" {
Machine *cusim_new(int order, uint64_t seed, int is_checked, int is_counted) {
  auto m = new Machine;
  m->order = (Order)order;
  m->random = 88172645463325252ull ^ seed * 0x9e3779b97f4a7c15ull;
  m->is_checked = is_checked;
  m->is_counted = is_counted;
  return m;
}

void cusim_delete(Machine *m) { delete m; }

// From now on every so many-th read of what chooses an element leaves another value there, or the
// one from before.
void cusim_change(Machine *m, unsigned every) { m->changing = every; }
void cusim_once(void *p, unsigned bytes) {
  if (!machine->changing || ++machine->reads % machine->changing) return;
  for (unsigned i = 0; i < bytes; i++) ((char *)p)[i] ^= 120;
}

// Let kernels touch memory. is_set: it has values; arrays: as `Region::arrays`, or null.
void cusim_add(Machine *m, int number, char *base, size_t bytes, unsigned granule, int access,
               int is_set, const uint8_t *arrays) {
  Region r;
  r.base = base;
  r.bytes = bytes;
  r.number = number;
  r.access = (Access)access;
  r.shift = __builtin_ctz(std::min(granule, 4u));
  if (m->is_checked && r.access != Access::read)
    r.cells = Cells((bytes + (1 << r.shift) - 1) >> r.shift);
  r.is_set = is_set;
  if (arrays) r.arrays.assign(arrays, arrays + bytes);
  m->buffers.push_back(std::move(r));
}

void cusim_remove(Machine *m, int number) {
  auto &b = m->buffers;
  b.erase(std::remove_if(b.begin(), b.end(), [=](const Region &r) { return r.number == number; }),
          b.end());
}

void cusim_fill(Machine *m, int number) {  // the host has written all of it
  for (Region &r : m->buffers)
    if (r.number == number) r.is_set = true;
}

int cusim_run(Machine *m, int (*start)(void **), unsigned blocks, unsigned threads,
              size_t shared_bytes, const uint8_t *fixed_arrays,
              const uint8_t *fixed_alignments, uint64_t most_steps, void **args) {
  if (threads < 1 || threads > 1024 || shared_bytes > LARGEST_SHARED) return -1;
  machine = m;
  m->blocks = blocks;
  m->threads = threads;
  m->fixed_arrays = fixed_arrays;
  m->fixed_alignments = fixed_alignments;
  m->most_steps = most_steps;
  place(m->dynamic, dynamic_shared(), shared_bytes, DYNAMIC);
  return start(args);
}

int cusim_launch(void (*entry)(void *, void **), void *kernel, void **args, const char *section,
                 const char *section_end, const char *image, const char *image_end) {
  Machine &m = *machine;
  m.entry = entry;
  m.kernel = kernel;
  m.args = args;
  m.image = (uintptr_t)image;
  m.image_end = (uintptr_t)image_end;
  place(m.fixed, section, section_end - section, STATIC);
  m.fixed.arrays.assign(m.fixed_arrays, m.fixed_arrays + m.fixed.bytes);
  m.fixed.alignments.assign(m.fixed_alignments, m.fixed_alignments + m.fixed.bytes);
  m.is_aborted = false;
  m.launch_phase = m.phase + 1;
  m.block_phases.clear();
  m.block_numbers.clear();
  m.tickets.clear();
  m.touches.resize(m.is_counted ? m.threads : 0);
  for (const unsigned b : arranged(m.blocks)) {
    run_block(b);
    if (m.is_counted) count_block();
    if (m.is_aborted) return 1;
  }
  return 0;
}

// Hand out what was found since the last call; sites are of the unit that ran last.
size_t cusim_findings(Machine *m, Finding *out, size_t room) {
  const size_t n = std::min(room, m->findings.size());
  if (n) memcpy(out, m->findings.data(), n * sizeof *out);
  if (room) m->findings.clear();
  return room ? n : m->findings.size();
}

size_t cusim_lines(Machine *m, Line *out, size_t room) {
  size_t n = 0;
  if (!room) return m->lines.size();
  for (const auto &[_, line] : m->lines)
    if (n < room) out[n++] = line;
  m->lines.clear();
  return n;
}

uint64_t cusim_switches(Machine *m) { return m->switches; }

// A byte that locals of integers begin with: large below zero, or above it in the reverse order,
// so that neither a maximum nor a minimum that was begun by nobody comes out right in both.
int cusim_pattern(void) { return machine->order == Order::reverse ? 0x7e : 0x81; }
}
#pragma GCC visibility pop
