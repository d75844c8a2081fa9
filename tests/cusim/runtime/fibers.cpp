// One fiber for each thread of a block. A switch saves what the calling convention asks for, so it
// costs a few nanoseconds; ucontext does it, slowly, where the assembly does not apply.
#include "machine.h"

#include <sys/mman.h>
#if defined(__x86_64__) && !defined(CUSIM_UCONTEXT)
#define CUSIM_ASSEMBLY
#else
#include <ucontext.h>
#endif

namespace cusim {
std::vector<Fiber> fibers;
Fiber *running = nullptr;
uintptr_t stack = 0;

namespace {
constexpr size_t GUARD = 4096;
constexpr uint64_t STEPS_OF_A_WAIT = 256;  // so that a loop of barriers ends as soon as another

void run_kernel() {
  machine->entry(machine->kernel, machine->args);
  finish_thread();
  running->wait = Wait::done;
  leave();
  __builtin_unreachable();
}
}  // namespace

#ifdef CUSIM_ASSEMBLY
extern "C" void cusim_switch(void **save, void *to);
asm(R"(.text
.globl cusim_switch
.type cusim_switch, @function
cusim_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");

namespace {
void *scheduler;

void start(Fiber &f) {  // as if run_kernel had been called and had switched away
  auto top = (void **)(f.stack + STACK);
  *--top = nullptr;  // the stack is 8 bytes off 16 where a function begins
  *--top = (void *)run_kernel;
  for (int i = 0; i < 6; i++) *--top = nullptr;
  f.stack_pointer = top;
}
}  // namespace

void resume(Fiber &f) {
  running = &f;
  stack = (uintptr_t)f.stack;
  machine->switches++;
  f.steps += STEPS_OF_A_WAIT;
  cusim_switch(&scheduler, f.stack_pointer);
  running = nullptr;
  stack = 0;
}
void leave() { cusim_switch(&running->stack_pointer, scheduler); }
#else
namespace {
ucontext_t scheduler;

void start(Fiber &f) {
  auto context = (ucontext_t *)f.stack;  // at its low end
  getcontext(context);
  context->uc_stack.ss_sp = f.stack + sizeof *context;
  context->uc_stack.ss_size = STACK - sizeof *context;
  context->uc_link = nullptr;
  makecontext(context, run_kernel, 0);
  f.stack_pointer = context;
}
}  // namespace

void resume(Fiber &f) {
  running = &f;
  stack = (uintptr_t)f.stack;
  machine->switches++;
  f.steps += STEPS_OF_A_WAIT;
  swapcontext(&scheduler, (ucontext_t *)f.stack_pointer);
  running = nullptr;
  stack = 0;
}
void leave() { swapcontext((ucontext_t *)running->stack_pointer, &scheduler); }
#endif

void abandon() {
  machine->is_aborted = true;
  leave();
  __builtin_unreachable();
}

// Stacks live as long as the process: mapped once, touched where a kernel needs them.
void prepare_fibers(unsigned threads) {
  while (fibers.size() < threads) {
    auto at = (char *)mmap(nullptr, GUARD + STACK, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    mprotect(at, GUARD, PROT_NONE);
    fibers.emplace_back();
    fibers.back().stack = at + GUARD;
    fibers.back().thread = fibers.size() - 1;
  }
  for (unsigned i = 0; i < threads; i++) {
    Fiber &f = fibers[i];
    f.wait = Wait::none;
    f.steps = 0;
    f.open.clear();
    f.groups.clear();
    start(f);
  }
}

bool is_local(uintptr_t a) {
  for (const Fiber &f : fibers)
    if (a - (uintptr_t)f.stack < STACK) return true;
  return false;
}
}  // namespace cusim
