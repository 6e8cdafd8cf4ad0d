#include "fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <vector>

#include "sanitizers.h"

// Saves what a function call must preserve (rbx, rbp, r12 to r15, the floating-point control words)
// on this stack, its pointer in *save, and takes the same from the other stack.
extern "C" void emu_switch_stack(void** save, void* other);
asm(R"(
.text
.hidden emu_switch_stack
.globl emu_switch_stack
.type emu_switch_stack,@function
emu_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  subq $8, %rsp
  stmxcsr (%rsp)
  fnstcw 4(%rsp)
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  ldmxcsr (%rsp)
  fldcw 4(%rsp)
  addq $8, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size emu_switch_stack,.-emu_switch_stack
)");

namespace emu {
namespace {

constexpr size_t kStackBytes = 256 << 10;  // sanitizers make frames large
constexpr int kProtection = PROT_READ | PROT_WRITE;
constexpr int kMapping = MAP_PRIVATE | MAP_ANONYMOUS;

std::vector<char*> free_stacks;
void* scheduler_stack_pointer = nullptr;

#if defined(EMU_ADDRESS)
const void* scheduler_bottom = nullptr;
size_t scheduler_size = 0;
void* scheduler_fake_stack = nullptr;
#endif
#if defined(EMU_THREAD)
void* scheduler_race_id = nullptr;
// Fibers that have ended. They are kept a while: a race with one that ThreadSanitizer has forgotten
// could not be reported, and neither can too many be alive.
std::deque<void*> ended;
constexpr size_t kMostEnded = 5000;
#endif

char* map_stack(void* where) {
  void* stack =
      mmap(where, kStackBytes, kProtection, kMapping | (where == nullptr ? 0 : MAP_FIXED), -1, 0);
  if (stack == MAP_FAILED) std::abort();
  return static_cast<char*>(stack);
}

char* take_stack() {
  if (free_stacks.empty()) return map_stack(nullptr);
  char* stack = free_stacks.back();
  free_stacks.pop_back();
  return stack;
}

}  // namespace

Fiber::Fiber() : stack_(take_stack()) {}

Fiber::Fiber(Fiber&& other) noexcept
    : stack_(other.stack_), stack_pointer_(other.stack_pointer_), race_id_(other.race_id_) {
  other.stack_ = nullptr;
  other.race_id_ = nullptr;
}

Fiber::~Fiber() {
  if (stack_ != nullptr) free_stacks.push_back(stack_);
#if defined(EMU_THREAD)
  if (race_id_ != nullptr) ended.push_back(race_id_);
#endif
}

void Fiber::prepare(void (*entry)()) {
#if defined(EMU_ADDRESS)
  __asan_unpoison_memory_region(stack_, kStackBytes);
#endif
#if defined(EMU_THREAD)
  scheduler_race_id = __tsan_get_current_fiber();
  if (race_id_ != nullptr) ended.push_back(race_id_);
  while (ended.size() > kMostEnded) {
    __tsan_destroy_fiber(ended.front());
    ended.pop_front();
  }
  map_stack(stack_);  // mapping it anew makes ThreadSanitizer forget who wrote there
  race_id_ = __tsan_create_fiber(0);
#endif
  auto* top = reinterpret_cast<uintptr_t*>(stack_ + kStackBytes);
  *--top = 0;  // where a return address would be, so that the stack is aligned as after a call
  *--top = reinterpret_cast<uintptr_t>(entry);
  top -= 6;
  std::memset(top, 0, 6 * sizeof(*top));
  const uint32_t control_words[2] = {0x1f80, 0x037f};  // round to nearest, no traps
  std::memcpy(--top, control_words, sizeof(control_words));
  stack_pointer_ = top;
}

void Fiber::enter() {
#if defined(EMU_ADDRESS)
  __sanitizer_start_switch_fiber(&scheduler_fake_stack, stack_, kStackBytes);
#endif
#if defined(EMU_THREAD)
  __tsan_switch_to_fiber(race_id_, 1);  // 1: the switch itself orders nothing
#endif
  emu_switch_stack(&scheduler_stack_pointer, stack_pointer_);
#if defined(EMU_ADDRESS)
  __sanitizer_finish_switch_fiber(scheduler_fake_stack, nullptr, nullptr);
#endif
}

void Fiber::leave([[maybe_unused]] bool for_good) {
#if defined(EMU_ADDRESS)
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(for_good ? nullptr : &fake_stack, scheduler_bottom,
                                 scheduler_size);
#endif
#if defined(EMU_THREAD)
  __tsan_switch_to_fiber(scheduler_race_id, 1);
#endif
  emu_switch_stack(&stack_pointer_, scheduler_stack_pointer);
#if defined(EMU_ADDRESS)
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#endif
}

void Fiber::arrived() {
#if defined(EMU_ADDRESS)
  __sanitizer_finish_switch_fiber(nullptr, &scheduler_bottom, &scheduler_size);
#endif
}

bool Fiber::on_stack(const void* address) const {
  return address >= stack_ && address < stack_ + kStackBytes;
}

}  // namespace emu
