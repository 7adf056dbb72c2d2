// Arguments of a kernel, for the main function of an emulated program.
#pragma once

#include <type_traits>

#include "titan_device.cuh"

namespace titan::emulation {

// Becomes what the parameter asks for; the launch refuses an argument of another kind.
struct Given {
  int number;
  operator TensorMap() const { return map_with(given_map(number)); }
  template <class Type>
  operator Type *() const {
    return reinterpret_cast<Type *>(given_pointer(number));
  }
  template <class Type, class = std::enable_if_t<std::is_arithmetic_v<Type>>>
  operator Type() const {
    return static_cast<Type>(given_size(number));
  }
};

}  // namespace titan::emulation
