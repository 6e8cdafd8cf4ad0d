#pragma once
// One spelling for functions that run on the host and, under nvcc, on the device too.

#if defined(__CUDACC__)
#define PO_HOSTDEVICE __host__ __device__ __forceinline__
#else
#define PO_HOSTDEVICE inline __attribute__((always_inline))
#endif
