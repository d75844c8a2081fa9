// State of the simulated machine, shared by the files of the runtime.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

namespace cusim {

// As tests/cusim/report.py names them, in this order.
enum class Kind : int32_t {
  out_of_bounds,
  between_elements,
  read_only,
  misaligned,
  uninitialised,
  in_flight,
  race,
  divergence,
  early_exit,
  shuffle,
  unwaited_copy,
  index,
  overflow,
  shift,
  division,
  local_memory,
  space,
  endless,
};

// What one line of a report says. Two of one kind at one site on one buffer are one finding.
struct Finding {
  int32_t kind;
  int32_t buffer;  // of the caller's numbers; STATIC or DYNAMIC shared memory; NONE
  uint64_t site, other_site;  // offsets into the unit's image; 0: none
  int64_t byte;               // of the buffer
  uint32_t size;              // bytes of the access
  uint32_t is_write, other_is_write;
  uint32_t block, thread, other_block, other_thread;
  uint32_t count;
  char note[160];
};
enum : int32_t { NONE = -1, STATIC = -2, DYNAMIC = -3 };

// When and by whom a piece of memory was touched. Phases number the stretches between barriers
// over the machine's whole life, so that one number tells launch, block and stretch; a step
// numbers the stretches of one warp between its own barriers.
struct Stamp {
  uint32_t phase = 0;
  uint32_t site = 0;
  uint16_t thread = 0;
  uint16_t step = 0;
};

enum class State : uint8_t { unset, in_flight, set };
enum class Readers : uint8_t { one, one_warp, many };
enum class Writers : uint8_t { plain, atomic, atomics };  // atomics: of several threads

struct Cell {
  Stamp write, read;
  uint32_t foreign_read = 0;  // phase of the last read by an earlier block of this launch
  State state = State::unset;
  Readers readers = Readers::one;
  Writers writers = Writers::plain;
};

enum class Access : int32_t { read, write, update };

// Cells that begin as zeros and take memory where they are touched: a region may be larger than
// the machine's memory.
class Cells {
 public:
  Cells() = default;
  explicit Cells(size_t n);
  Cells(Cells &&other) noexcept { swap(other); }
  Cells &operator=(Cells &&other) noexcept {
    swap(other);
    return *this;
  }
  ~Cells();
  Cell &operator[](size_t i) { return at[i]; }
  size_t size() const { return n; }

 private:
  void swap(Cells &other) {
    std::swap(at, other.at);
    std::swap(n, other.n);
  }
  Cell *at = nullptr;
  size_t n = 0;
};

// A stretch of memory that kernels may touch, with a cell for every 2^shift bytes. A smaller access
// splits the cells, so that no two elements ever share one.
struct Region {
  char *base = nullptr;
  size_t bytes = 0;
  int32_t number = NONE;
  Access access = Access::update;
  unsigned shift = 2;
  bool is_shared = false;
  bool is_set = false;  // cells that no kernel has touched have values all the same
  Cells cells;
  // Per byte, the number of the array that has it, or 0; an access stays in one array. Empty: all
  // of it is one.
  std::vector<uint8_t> arrays;
  // Per byte, how its array is declared to be aligned; wider accesses are right by chance, and
  // not on a GPU. Empty: as it lies.
  std::vector<uint8_t> alignments;

  bool holds(uintptr_t a, size_t n) const {
    return a - (uintptr_t)base < bytes && n <= bytes - (a - (uintptr_t)base);
  }
  void refine(unsigned to);
};

struct Copy {  // cp.async
  char *to;
  const char *from;
  unsigned size, bytes;
  const void *site;
};

enum class Wait : uint8_t { none, barrier, warp, done };

struct Fiber {
  void *stack_pointer = nullptr;
  char *stack = nullptr;
  unsigned thread = 0;
  uint64_t steps = 0;  // pieces of straight code that it has run
  Wait wait = Wait::none;
  int line = 0;
  const void *site = nullptr;
  std::vector<Copy> open;
  std::deque<std::vector<Copy>> groups;
};

enum class Op : int { barrier, shuffle, ldmatrix, mma };

struct Warp {
  unsigned arrived = 0;  // mask of lanes that wait in a collective
  unsigned present = 0;  // mask of lanes that exist
  uint16_t step = 0;
  int round = 0;  // slots alternate, so that a fast lane does not overwrite what a slow one reads
  Op op = Op::barrier;
  int line = 0;
  alignas(16) unsigned char slot[2][32][48];
};

// One release of a ticket: what its thread had done and seen.
struct Release {
  uint32_t phase;
  uint16_t thread, step;
};
struct Ticket {
  std::unordered_map<uint32_t, std::vector<Release>> by_block;  // key: a block's first phase
};
struct Acquire {
  const Ticket *ticket;
  Release by;
};

struct Touch {  // one access, for the counters
  const void *site;
  uintptr_t address;
  uint16_t size;
  uint8_t is_write, is_shared;
};
struct Line {
  uint64_t site;
  uint32_t is_write, is_shared, size, pad;
  uint64_t requests, moved, ideal;
};

enum class Order : int32_t { forward, reverse, random };

struct Machine {
  // how to run
  Order order = Order::forward;
  bool is_checked = true, is_counted = false;
  unsigned changing = 0, reads = 0;  // every so many-th read once leaves another value
  uint64_t random = 1;
  // memory
  std::vector<Region> buffers;
  Region fixed, dynamic;       // shared memory: static and dynamic
  const uint8_t *fixed_arrays = nullptr;  // of the kernel that runs, as `Region::arrays`
  const uint8_t *fixed_alignments = nullptr;
  uint64_t most_steps = 0;  // of a thread in a launch
  size_t last = 0;        // of buffers, that the last access fell into
  // one launch
  unsigned threads = 0, blocks = 0;
  void (*entry)(void *, void **) = nullptr;
  void *kernel = nullptr;
  void **args = nullptr;
  uintptr_t image = 0, image_end = 0;
  uint32_t launch_phase = 0;
  std::vector<uint32_t> block_phases;  // the first of each block of this launch, in order run
  std::vector<uint32_t> block_numbers;
  std::map<const void *, Ticket> tickets;
  bool is_aborted = false;
  // one block
  unsigned block = 0, alive = 0;
  uint32_t phase = 0, block_phase = 0;
  std::vector<Warp> warps;
  std::vector<Acquire> acquired;
  // results
  std::vector<Finding> findings;
  std::map<std::pair<uint64_t, uint32_t>, Line> lines;
  std::vector<std::vector<Touch>> touches;  // per thread of the block that runs
  uint64_t switches = 0;
};

extern Machine *machine;     // that runs; never null inside a launch
extern std::vector<Fiber> fibers;
extern Fiber *running;       // null outside fibers

inline Warp &warp_of(const Fiber &f) { return machine->warps[f.thread / 32]; }

// fibers.cpp
void prepare_fibers(unsigned threads);
void resume(Fiber &f);
void leave();  // back to the scheduler
[[noreturn]] void abandon();  // the launch ends here
bool is_local(uintptr_t a);    // in the stack of any thread
constexpr size_t STACK = 128 << 10;
extern uintptr_t stack;  // where that of the running fiber begins; 0 outside fibers
inline bool is_own(const void *p) { return (uintptr_t)p - stack < STACK; }

// memory.cpp
void access(const void *p, unsigned size, bool is_write, const void *site, bool is_atomic = false);
void land(const void *p, unsigned size, const void *site);  // a write that was counted before
void mark_in_flight(const void *p, unsigned size);
bool is_shared(const void *p, unsigned size);

// findings.cpp
Finding &report(Kind kind, const void *site, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// warps.cpp
void release_barrier();  // or tell why nobody can go on
void finish_thread();

// counters.cpp
void count_block();
}  // namespace cusim
