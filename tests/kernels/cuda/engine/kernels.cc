#include "kernels.h"

#include <map>

#include "memory.h"

namespace emu {
namespace {

// Functions: the translated files register before main, in an order that is not known.
std::map<std::string, PtxKernel>& kernels() {
  static std::map<std::string, PtxKernel> instance;
  return instance;
}
std::map<std::string, PtxVariable>& variables() {
  static std::map<std::string, PtxVariable> instance;
  return instance;
}

template <typename Map>
const typename Map::mapped_type* find(const Map& map, const std::string& name) {
  const auto found = map.find(name);
  return found == map.end() ? nullptr : &found->second;
}

}  // namespace

RegisterKernel::RegisterKernel(const char* name, PtxKernel kernel) {
  kernels()[name] = std::move(kernel);
}

RegisterVariable::RegisterVariable(const char* name, void* address, size_t bytes) {
  variables()[name] = {address, bytes};
  register_memory(address, bytes, true, name);
}

const PtxKernel* find_kernel(const std::string& name) { return find(kernels(), name); }
const PtxVariable* find_variable(const std::string& name) { return find(variables(), name); }

}  // namespace emu
