// What threads do together: barriers, shuffles, matrix fragments.
#include <cstdio>
#include <cstring>

#include "machine.h"

namespace cusim {
namespace {
typedef unsigned char Slots[32][48];

const char *name_of(Op op) {
  switch (op) {
    case Op::barrier: return "a warp's barrier";
    case Op::shuffle: return "a shuffle";
    case Op::ldmatrix: return "an ldmatrix";
    case Op::mma: return "an mma";
  }
  return "";
}

// Hand `in` to the other lanes of the warp and return what they all gave, when all have.
const Slots &exchange(Op op, const void *in, unsigned bytes, int line, const void *site) {
  Fiber &f = *running;
  Warp &w = warp_of(f);
  const unsigned lane = f.thread % 32;
  if (w.arrived == 0) {
    w.op = op;
    w.line = line;
  } else if (w.op != op || w.line != line) {
    const unsigned other = f.thread / 32 * 32 + __builtin_ctz(w.arrived);
    Finding &found = report(Kind::divergence, site, "comes to %s while lane %u waits in another, %s",
                            name_of(op), other % 32, name_of(w.op));
    found.other_thread = other;
    found.other_block = machine->block;
    found.other_site = (uint64_t)((uintptr_t)fibers[other].site - machine->image);
    abandon();
  }
  memcpy(w.slot[w.round][lane], in, bytes);
  w.arrived |= 1u << lane;
  const Slots &slots = w.slot[w.round];
  if (w.arrived != w.present) {
    f.wait = Wait::warp;
    f.line = line;
    f.site = site;
    leave();
    return slots;
  }
  w.arrived = 0;
  w.round ^= 1;
  if (op == Op::barrier) w.step++;
  for (unsigned i = f.thread / 32 * 32; i < machine->threads && i / 32 == f.thread / 32; i++)
    if (fibers[i].wait == Wait::warp) fibers[i].wait = Wait::none;
  return slots;
}

float float_of_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, 4);
  return x;
}
float bf16_value(uint16_t h) { return float_of_bits((uint32_t)h << 16); }
float f16_value(uint16_t h) {
  _Float16 x;
  memcpy(&x, &h, 2);
  return x;
}

// Fragments of mma.sync as PTX ISA documents them ("Matrix Fragments for mma.m16n8k16", ".m16n8k8"):
// lane = 4 * group + place; a register holds two 16-bit elements or one of 32 bits.
struct Fragments {
  const Slots &slots;
  int kind;  // 0 bf16, 1 f16, 2 tf32

  uint32_t bits(unsigned lane, unsigned at) const {
    uint32_t x;
    memcpy(&x, slots[lane] + 4 * at, 4);
    return x;
  }
  float element(unsigned lane, unsigned at, unsigned half) const {
    const uint32_t x = bits(lane, at);
    if (kind == 2) return float_of_bits(x & 0xffffe000);  // the low mantissa bits are not read
    const auto h = (uint16_t)(x >> (16 * half));
    return kind == 0 ? bf16_value(h) : f16_value(h);
  }
  float a(unsigned row, unsigned k) const {
    if (kind == 2) return element(row % 8 * 4 + k % 4, row / 8 + k / 4 * 2, 0);
    return element(row % 8 * 4 + k % 8 / 2, row / 8 + k / 8 * 2, k % 2);
  }
  float b(unsigned k, unsigned column) const {
    if (kind == 2) return element(column * 4 + k % 4, 4 + k / 4, 0);
    return element(column * 4 + k % 8 / 2, 4 + k / 8, k % 2);
  }
};

// Say where the lane stands that the others of its warp wait for.
void describe(const Fiber &f, char *text, size_t size) {
  if (f.wait == Wait::done)
    snprintf(text, size, "thread %u has returned", f.thread);
  else
    snprintf(text, size, "thread %u waits at the block's barrier", f.thread);
}
}  // namespace

void release_barrier() {
  Machine &m = *machine;
  const Fiber *first = nullptr, *gone = nullptr;
  for (unsigned i = 0; i < m.threads; i++) {
    Fiber &f = fibers[i];
    if (f.wait == Wait::done && !gone) gone = &f;
    if (f.wait == Wait::barrier && !first) first = &f;
    if (f.wait != Wait::warp) continue;
    const Warp &w = warp_of(f);
    const unsigned missing = w.present & ~w.arrived;
    const Fiber &absent = fibers[i / 32 * 32 + __builtin_ctz(missing)];
    char text[100];
    describe(absent, text, sizeof text);
    running = &f;
    Finding &found = report(Kind::divergence, f.site, "waits in %s for a lane that does not come: %s",
                            name_of(w.op), text);
    found.other_thread = absent.thread;
    found.other_block = m.block;
    if (absent.wait == Wait::barrier)
      found.other_site = (uint64_t)((uintptr_t)absent.site - m.image);
    running = nullptr;
    m.is_aborted = true;
    return;
  }
  running = const_cast<Fiber *>(first);
  if (gone) {
    Finding &found = report(Kind::early_exit, first->site, "thread %u has returned", gone->thread);
    found.other_thread = gone->thread;
    found.other_block = m.block;
  }
  for (unsigned i = 0; i < m.threads; i++) {
    Fiber &f = fibers[i];
    if (f.wait != Wait::barrier) continue;
    if (f.line != first->line) {
      Finding &found = report(Kind::divergence, first->site, "thread %u waits at another barrier", i);
      found.other_thread = i;
      found.other_block = m.block;
      found.other_site = (uint64_t)((uintptr_t)f.site - m.image);
    }
    f.wait = Wait::none;
  }
  running = nullptr;
  m.phase++;
}

void finish_thread() {
  const Fiber &f = *running;
  const void *site = nullptr;
  if (!f.open.empty()) site = f.open.front().site;
  for (const auto &group : f.groups)
    if (!group.empty()) site = group.front().site;
  if (site) report(Kind::unwaited_copy, site, "%s", "");
}
}  // namespace cusim

using namespace cusim;
#define SITE __builtin_return_address(0)

#pragma GCC visibility push(default)
extern "C" {
unsigned cusim_thread() { return running->thread; }
unsigned cusim_block() { return machine->block; }
unsigned cusim_threads() { return machine->threads; }
unsigned cusim_blocks() { return machine->blocks; }
void *cusim_dynamic_shared() { return machine->dynamic.base; }

void cusim_barrier(int line) {
  running->wait = Wait::barrier;
  running->line = line;
  running->site = SITE;
  leave();
}

void cusim_warp_barrier(int line) { exchange(Op::barrier, "", 1, line, SITE); }

void cusim_shuffle(void *out, const void *in, unsigned bytes, int lane, int line) {
  const Slots &slots = exchange(Op::shuffle, in, bytes, line, SITE);
  if (lane < 0 || lane >= 32 || !(warp_of(*running).present >> lane & 1))
    report(Kind::shuffle, SITE, "lane %d", lane);
  memcpy(out, slots[lane & 31], bytes);
}

void cusim_ldmatrix(uint32_t *r, const void *row, int is_transposed, int line) {
  if (!is_shared(row, 16)) report(Kind::space, SITE, "an ldmatrix reads shared memory only");
  access(row, 16, false, SITE);
  const Slots &rows = exchange(Op::ldmatrix, row, 16, line, SITE);
  const unsigned lane = running->thread % 32;
  for (unsigned m = 0; m < 4; m++) {
    uint16_t pair[2];
    for (unsigned h = 0; h < 2; h++) {
      const unsigned at = lane % 4 * 2 + h;
      const unsigned char *from = is_transposed ? rows[m * 8 + at] + lane / 4 * 2
                                                : rows[m * 8 + lane / 4] + at * 2;
      memcpy(&pair[h], from, 2);
    }
    r[m] = pair[0] | (uint32_t)pair[1] << 16;
  }
}

void cusim_mma(float *d, const uint32_t *a, const uint32_t *b, int kind, int line) {
  uint32_t in[6];
  memcpy(in, a, 16);
  memcpy(in + 4, b, 8);
  const Fragments f{exchange(Op::mma, in, sizeof in, line, SITE), kind};
  const unsigned lane = running->thread % 32, depth = kind == 2 ? 8 : 16;
  for (unsigned i = 0; i < 4; i++)
    for (unsigned k = 0; k < depth; k++)
      d[i] += f.a(lane / 4 + i / 2 * 8, k) * f.b(k, lane % 4 * 2 + i % 2);
}
}
#pragma GCC visibility pop
