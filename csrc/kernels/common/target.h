#pragma once
// Which instruction set the loops of this translation unit are compiled for.
//
// Each kernel's loops are compiled once per target, from the same text, into a namespace named
// after it; the fastest one that the machine can run is picked at run time, so that one wheel
// serves all. A translation unit chooses by defining PO_TARGET_AVX2 or PO_TARGET_AVX512 before its
// first include. Headers that are shared between targets hold plain data and always-inlined
// functions only: any other inline function would be merged by the linker across targets and could
// end up with instructions that the machine does not have. For the same reason the standard headers
// come first.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#if defined(PO_TARGET_AVX512)
#define PO_TARGET avx512
#define PO_VECTOR_BYTES 64
#define PO_VECTOR_REGISTERS 32
#pragma GCC target( \
    "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi,bmi2,prefer-vector-width=512")
#elif defined(PO_TARGET_AVX2)
#define PO_TARGET avx2
#define PO_VECTOR_BYTES 32
#define PO_VECTOR_REGISTERS 16
#pragma GCC target("avx2,fma,f16c,bmi,bmi2")
#else
#define PO_TARGET baseline
#define PO_VECTOR_BYTES 16
#if defined(__aarch64__)
#define PO_VECTOR_REGISTERS 32
#else
#define PO_VECTOR_REGISTERS 16
#endif
#endif
