#pragma once
// The kernels and variables that translated PTX brings along, found by name when they are launched.

#include <cstddef>
#include <string>
#include <vector>

namespace emu {

struct PtxKernel {
  void (*thread)(const char* parameters);
  std::vector<size_t> offsets, sizes;  // of each parameter
  size_t parameter_bytes;
  size_t shared_bytes;  // static; the dynamic ones follow
  size_t most_threads;  // of __launch_bounds__
};
struct PtxVariable {
  void* address;
  size_t bytes;
};

struct RegisterKernel {
  RegisterKernel(const char* name, PtxKernel kernel);
};
struct RegisterVariable {
  RegisterVariable(const char* name, void* address, size_t bytes);
};

// Null where there is none.
const PtxKernel* find_kernel(const std::string& name);
const PtxVariable* find_variable(const std::string& name);

}  // namespace emu
