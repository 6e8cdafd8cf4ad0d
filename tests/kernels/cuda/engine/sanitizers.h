#pragma once
// What the engine tells AddressSanitizer and ThreadSanitizer; nothing in builds without them.
//
// The engine itself is compiled without instrumentation. It only says when a stack is switched, and
// which accesses happen before which others: a barrier is a release before it and an acquire after.

#include <cstddef>

#if defined(EMU_ADDRESS)
extern "C" {
void __sanitizer_start_switch_fiber(void** fake_stack, const void* bottom, size_t size);
void __sanitizer_finish_switch_fiber(void* fake_stack, const void** bottom, size_t* size);
void __asan_unpoison_memory_region(const volatile void* from, size_t size);
}
#endif
#if defined(EMU_THREAD)
extern "C" {
void* __tsan_get_current_fiber();
void* __tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void* fiber);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
void __tsan_acquire(void* token);
void __tsan_release(void* token);
}
#endif

namespace emu {

#if defined(EMU_THREAD)
constexpr bool kFindsRaces = true;
inline void acquire(void* token) { __tsan_acquire(token); }
inline void release(void* token) { __tsan_release(token); }
#else
constexpr bool kFindsRaces = false;
inline void acquire(void*) {}
inline void release(void*) {}
#endif

}  // namespace emu
