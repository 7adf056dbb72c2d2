// Element types as numbers: decoding and rounding to nearest even, by plain bit arithmetic.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

namespace titan::emulation {

enum class Kind { f32, tf32, f16, bf16, e4m3, e5m2 };

inline int bytes_of(Kind kind) {
  switch (kind) {
    case Kind::f32:
    case Kind::tf32:
      return 4;
    case Kind::f16:
    case Kind::bf16:
      return 2;
    case Kind::e4m3:
    case Kind::e5m2:
      return 1;
  }
  return 0;
}

inline float float_of(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

inline std::uint32_t bits_of(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}

// A format with `exponent` and `mantissa` bits below the sign, with or without infinities.
inline float decode_small(std::uint32_t code, int exponent, int mantissa, bool infinities) {
  const int bias = (1 << (exponent - 1)) - 1;
  const std::uint32_t sign = code >> (exponent + mantissa) & 1;
  const int power = static_cast<int>(code >> mantissa & ((1u << exponent) - 1));
  const std::uint32_t fraction = code & ((1u << mantissa) - 1);
  const int top = (1 << exponent) - 1;
  float value;
  if (infinities && power == top)
    value = fraction ? NAN : INFINITY;
  else if (!infinities && power == top && fraction == (1u << mantissa) - 1)
    value = NAN;
  else if (power == 0)
    value = std::ldexp(static_cast<float>(fraction), 1 - bias - mantissa);
  else
    value = std::ldexp(static_cast<float>(fraction | 1u << mantissa), power - bias - mantissa);
  return sign ? -value : value;
}

// Nearest even. Beyond the range: infinity where there is one and `saturate` is off, otherwise the
// largest number.
inline std::uint32_t encode_small(float value, int exponent, int mantissa, bool infinities,
                                  bool saturate) {
  const int bias = (1 << (exponent - 1)) - 1;
  const std::uint32_t sign = (bits_of(value) >> 31) << (exponent + mantissa);
  const std::uint32_t all = (1u << (exponent + mantissa)) - 1;
  const std::uint32_t infinity = all ^ ((1u << mantissa) - 1);
  const std::uint32_t largest = infinities ? infinity - 1 : all - 1;
  if (std::isnan(value)) return infinities ? sign | infinity | 1u << (mantissa - 1) : sign | all;
  const double magnitude = std::fabs(static_cast<double>(value));
  if (magnitude == 0) return sign;
  int power = 0;
  std::frexp(magnitude, &power);
  const int low = 1 - bias;  // exponent of the smallest normal number
  const int scale = (power - 1 < low ? low : power - 1) - mantissa;
  const double steps = std::nearbyint(std::ldexp(magnitude, -scale));
  // A carry into the next exponent adds up by itself.
  const double exponents = std::ldexp(scale + mantissa - low, mantissa);
  const double code = std::isinf(value) ? 1e9 : steps + exponents;
  if (code > largest) return sign | (infinities && !saturate ? infinity : largest);
  return sign | static_cast<std::uint32_t>(code);
}

inline std::uint16_t encode_bf16(float value) {
  const std::uint32_t bits = bits_of(value);
  if (std::isnan(value)) return 0x7fff;
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

inline std::uint32_t encode(Kind kind, float value) {
  switch (kind) {
    case Kind::f32:
    case Kind::tf32:
      return bits_of(value);
    case Kind::f16:
      return encode_small(value, 5, 10, true, false);
    case Kind::bf16:
      return encode_bf16(value);
    case Kind::e4m3:
      return encode_small(value, 4, 3, false, true);
    case Kind::e5m2:
      return encode_small(value, 5, 2, true, true);
  }
  return 0;
}

inline float decode(Kind kind, std::uint32_t code) {
  switch (kind) {
    case Kind::f32:
      return float_of(code);
    case Kind::tf32:  // the lowest 13 bits are not read
      return float_of(code & 0xffffe000u);
    case Kind::f16:
      return decode_small(code & 0xffff, 5, 10, true);
    case Kind::bf16:
      return float_of(code << 16);
    case Kind::e4m3:
      return decode_small(code & 0xff, 4, 3, false);
    case Kind::e5m2:
      return decode_small(code & 0xff, 5, 2, true);
  }
  return 0;
}

inline float decode_at(Kind kind, const unsigned char *place) {
  std::uint32_t code = 0;
  std::memcpy(&code, place, bytes_of(kind));
  return decode(kind, code);
}

}  // namespace titan::emulation
