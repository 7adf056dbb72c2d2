// Primitives of sm_100a (Blackwell) beyond those of titan_device.cuh: tensor memory and tcgen05.
//
// Emission writes this file behind titan_device.cuh into one header. Tensor memory has 128 lanes
// (bits 31..16 of an address) and 512 columns of 32 bits (bits 15..0).
// Source: PTX ISA, tcgen05 (allocation, mma, commit, ld, memory consistency).

namespace titan {

// Columns of tensor memory for the CTA: a power of two from 32 to 512. The address of the first one
// goes to shared memory. The whole warp executes it.
template <int Columns>
TITAN_DEVICE void tensor_memory_allocate(u32* address) {
  static_assert(Columns >= 32 && Columns <= 512 && (Columns & (Columns - 1)) == 0, "columns");
  asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;\n" ::"r"(
                   shared_address(address)),
               "n"(Columns)
               : "memory");
  asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n");
}

// The same warp gives them back before the CTA ends.
template <int Columns>
TITAN_DEVICE void tensor_memory_free(u32 address) {
  asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;\n" ::"r"(address),
               "n"(Columns));
}

// Order tcgen05 operations before, or behind, a synchronisation of threads.
TITAN_DEVICE void tensor_fence_before() {
  asm volatile("tcgen05.fence::before_thread_sync;\n" ::: "memory");
}
TITAN_DEVICE void tensor_fence_after() {
  asm volatile("tcgen05.fence::after_thread_sync;\n" ::: "memory");
}

// The descriptor of a K-major matrix with swizzle in shared memory; the fields of
// `shared_descriptor`, the version 1 in bits 46..48 and the mode in bits 61..63.
template <int Swizzle>
TITAN_DEVICE u64 tensor_descriptor(const void* start, u32 leading_bytes, u32 stride_bytes) {
  static_assert(Swizzle == 32 || Swizzle == 64 || Swizzle == 128, "swizzle of a descriptor");
  const u64 mode = Swizzle == 128 ? 2 : Swizzle == 64 ? 4 : 6;
  return (u64)((shared_address(start) & 0x3ffffu) >> 4) | (u64)(leading_bytes >> 4) << 16 |
         (u64)(stride_bytes >> 4) << 32 | (u64)1 << 46 | mode << 61;
}

// The descriptor of what lies `bytes` behind the start of another one and has a leading offset that is
// so much larger (multiples of 16). Nothing is carried out of either field: one sum of 64 bits.
TITAN_DEVICE u64 descriptor_beside(u64 descriptor, u32 bytes, u32 leading_bytes) {
  return descriptor_ahead(descriptor, bytes) + ((u64)(leading_bytes >> 4) << 16);
}

// What is known of a counter, so that its stage and phase are taken without regard to its sign. No
// instruction.
TITAN_DEVICE void not_negative(int number) { __builtin_assume(number >= 0); }

// What tcgen05.mma is to do: float accumulators, M = 128 rows, N columns.
// PTX: instruction descriptor of kind::f16 and kind::f8f6f4.
template <class Type, int N, bool TransposeB>
TITAN_DEVICE u32 tensor_instruction() {
  static_assert(N % 16 == 0 && N >= 16 && N <= 256, "columns of tcgen05.mma with 128 rows");
  constexpr bool wide = same<Type, f16>::value || same<Type, bf16>::value;
  static_assert(wide || same<Type, e4m3>::value || same<Type, e5m2>::value, "element type");
  constexpr u32 type = same<Type, bf16>::value || same<Type, e5m2>::value ? 1 : 0;
  return 1u << 4 | type << 7 | type << 10 | (TransposeB ? 1u : 0u) << 16 | (u32)(N >> 3) << 17 |
         (u32)(128 >> 4) << 24;
}

// D (128 x N in tensor memory) = A * B [+ D where `accumulate`], K = 32 bytes of elements, both
// operands in shared memory. One thread executes it; it runs on its own.
template <class Type, int N, bool TransposeB>
TITAN_DEVICE void tensor_multiply(u32 d, u64 a, u64 b, int accumulate) {
  const u32 instruction = tensor_instruction<Type, N, TransposeB>();
  if constexpr (same<Type, f16>::value || same<Type, bf16>::value) {
    asm volatile(
        "{\n .reg .pred p;\n setp.ne.b32 p, %4, 0;\n"
        " tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p;\n}\n" ::"r"(d),
        "l"(a), "l"(b), "r"(instruction), "r"(accumulate)
        : "memory");
  } else {
    asm volatile(
        "{\n .reg .pred p;\n setp.ne.b32 p, %4, 0;\n"
        " tcgen05.mma.cta_group::1.kind::f8f6f4 [%0], %1, %2, %3, p;\n}\n" ::"r"(d),
        "l"(a), "l"(b), "r"(instruction), "r"(accumulate)
        : "memory");
  }
}

// The same with A in tensor memory: lane = row, two elements of 16 bits in a column, so that K = 16
// are 8 columns from `a` on.
template <class Type, int N, bool TransposeB>
TITAN_DEVICE void tensor_multiply_pairs(u32 d, u32 a, u64 b, int accumulate) {
  static_assert(same<Type, f16>::value || same<Type, bf16>::value, "pairs of 16 bits");
  const u32 instruction = tensor_instruction<Type, N, TransposeB>();
  asm volatile(
      "{\n .reg .pred p;\n setp.ne.b32 p, %4, 0;\n"
      " tcgen05.mma.cta_group::1.kind::f16 [%0], [%1], %2, %3, p;\n}\n" ::"r"(d),
      "r"(a), "l"(b), "r"(instruction), "r"(accumulate)
      : "memory");
}

// An arrival at the barrier once all that the thread has multiplied so far is done.
TITAN_DEVICE void tensor_commit(u64* barrier) {
  asm volatile(
      "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];\n" ::"r"(
          shared_address(barrier))
      : "memory");
}

// 16 rows of an accumulator of `Columns` columns, in the order of a fragment of wgmma: lane l of the
// warp gets rows l / 4 and l / 4 + 8, of every 8 columns those from 2 (l % 4) on. `address` names the
// first of the rows, which lie in the 32 lanes of the warp. The whole warp executes it;
// `tensor_load_wait` makes it known. Of the columns those from `First` on. PTX: tcgen05.ld.16x256b.
template <int Columns, int First = 0, int Count = Columns>
TITAN_DEVICE void tensor_memory_fetch(float (&values)[Columns / 2], u32 address) {
  static_assert(Columns % 16 == 0 && Columns >= 16 && Columns <= 256, "columns of a fragment");
  static_assert(First % 16 == 0 && Count % 16 == 0, "columns of an instruction");
  constexpr int Step = Count % 64 == 0 ? 64 : 16;  // of an instruction
  TITAN_UNROLL
  for (int c = First; c < First + Count; c += Step) {
    u32 r[Step / 2];
    if constexpr (Step == 64) {
      asm volatile(
          "tcgen05.ld.sync.aligned.16x256b.x8.b32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
          "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, [%32];\n"
          :
          "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]),
          "=r"(r[7]), "=r"(r[8]), "=r"(r[9]), "=r"(r[10]), "=r"(r[11]), "=r"(r[12]), "=r"(r[13]),
          "=r"(r[14]), "=r"(r[15]), "=r"(r[16]), "=r"(r[17]), "=r"(r[18]), "=r"(r[19]),
          "=r"(r[20]), "=r"(r[21]), "=r"(r[22]), "=r"(r[23]), "=r"(r[24]), "=r"(r[25]),
          "=r"(r[26]), "=r"(r[27]), "=r"(r[28]), "=r"(r[29]), "=r"(r[30]), "=r"(r[31])
          : "r"(address + c)
          : "memory");
    } else {
      asm volatile(
          "tcgen05.ld.sync.aligned.16x256b.x2.b32 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8];\n"
          : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]),
            "=r"(r[7])
          : "r"(address + c)
          : "memory");
    }
    TITAN_UNROLL
    for (int i = 0; i < Step / 2; ++i) values[c / 2 + i] = __uint_as_float(r[i]);
  }
}

TITAN_DEVICE void tensor_load_wait() {
  asm volatile("tcgen05.wait::ld.sync.aligned;\n" ::: "memory");
}

// The converse of `tensor_memory_fetch`. `tensor_put_wait` makes sure that it is there.
// PTX: tcgen05.st.16x256b.
template <int Columns, int First = 0, int Count = Columns>
TITAN_DEVICE void tensor_memory_put(u32 address, const float (&values)[Columns / 2]) {
  static_assert(Columns % 16 == 0 && Columns >= 16 && Columns <= 256, "columns of a fragment");
  static_assert(First % 16 == 0 && Count % 16 == 0, "columns of an instruction");
  TITAN_UNROLL
  for (int c = First; c < First + Count; c += 16) {
    const float* const v = values + c / 2;
    asm volatile(
        "tcgen05.st.sync.aligned.16x256b.x2.b32 [%0], {%1, %2, %3, %4, %5, %6, %7, %8};\n" ::"r"(
            address + c),
        "r"(__float_as_uint(v[0])), "r"(__float_as_uint(v[1])), "r"(__float_as_uint(v[2])),
        "r"(__float_as_uint(v[3])), "r"(__float_as_uint(v[4])), "r"(__float_as_uint(v[5])),
        "r"(__float_as_uint(v[6])), "r"(__float_as_uint(v[7]))
        : "memory");
  }
}

// 16 rows of `Columns` numbers of 16 bits, in the order of a fragment of pairs: two in a column of
// tensor memory, as `tensor_multiply_pairs` takes them. PTX: tcgen05.st.16x128b, whose registers 2i
// and 2i + 1 are column 4i + l % 4 of rows l / 4 and l / 4 + 8.
template <int Columns, int First = 0, int Count = Columns>
TITAN_DEVICE void tensor_memory_put_pairs(u32 address, const u32 (&pairs)[Columns / 16][4]) {
  static_assert(Columns % 16 == 0 && Columns >= 16 && Columns <= 256, "columns of a fragment");
  TITAN_UNROLL
  for (int i = First / 16; i < (First + Count) / 16; ++i) {
    asm volatile("tcgen05.st.sync.aligned.16x128b.x2.b32 [%0], {%1, %2, %3, %4};\n" ::"r"(
                     address + 8 * i),
                 "r"(pairs[i][0]), "r"(pairs[i][1]), "r"(pairs[i][2]), "r"(pairs[i][3])
                 : "memory");
  }
}

// The same, where lane l of the warp has all columns of row l. `address` names the first of the 32
// lanes of the warp. PTX: tcgen05.ld.32x32b.
template <int Columns, int First = 0, int Count = Columns>
TITAN_DEVICE void tensor_memory_fetch_rows(float (&values)[Columns], u32 address) {
  static_assert(Columns % 16 == 0 && Columns >= 16 && Columns <= 256, "columns of a fragment");
  static_assert(First % 16 == 0 && Count % 16 == 0, "columns of an instruction");
  constexpr int Step = Count % 32 == 0 ? 32 : 16;  // of an instruction
  TITAN_UNROLL
  for (int c = First; c < First + Count; c += Step) {
    u32 r[Step];
    if constexpr (Step == 32) {
      asm volatile(
          "tcgen05.ld.sync.aligned.32x32b.x32.b32 {"
          "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, "
          "%17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, [%32];\n"
          : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]),
            "=r"(r[7]), "=r"(r[8]), "=r"(r[9]), "=r"(r[10]), "=r"(r[11]), "=r"(r[12]),
            "=r"(r[13]), "=r"(r[14]), "=r"(r[15]), "=r"(r[16]), "=r"(r[17]), "=r"(r[18]),
            "=r"(r[19]), "=r"(r[20]), "=r"(r[21]), "=r"(r[22]), "=r"(r[23]), "=r"(r[24]),
            "=r"(r[25]), "=r"(r[26]), "=r"(r[27]), "=r"(r[28]), "=r"(r[29]), "=r"(r[30]),
            "=r"(r[31])
          : "r"(address + c)
          : "memory");
    } else {
      asm volatile(
          "tcgen05.ld.sync.aligned.32x32b.x16.b32 {"
          "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, [%16];\n"
          : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]),
            "=r"(r[7]), "=r"(r[8]), "=r"(r[9]), "=r"(r[10]), "=r"(r[11]), "=r"(r[12]),
            "=r"(r[13]), "=r"(r[14]), "=r"(r[15])
          : "r"(address + c)
          : "memory");
    }
    TITAN_UNROLL
    for (int i = 0; i < Step; ++i) values[c + i] = __uint_as_float(r[i]);
  }
}

// Words of the lane's row from a column on. PTX: tcgen05.st.32x32b.
TITAN_DEVICE void tensor_memory_put_words(u32 address, const u32 (&r)[32]) {
  asm volatile(
      "tcgen05.st.sync.aligned.32x32b.x32.b32 [%0], {"
      "%1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
      "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32};\n"
      :: "r"(address), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "r"(r[4]), "r"(r[5]),
        "r"(r[6]), "r"(r[7]), "r"(r[8]), "r"(r[9]), "r"(r[10]), "r"(r[11]), "r"(r[12]),
        "r"(r[13]), "r"(r[14]), "r"(r[15]), "r"(r[16]), "r"(r[17]), "r"(r[18]), "r"(r[19]),
        "r"(r[20]), "r"(r[21]), "r"(r[22]), "r"(r[23]), "r"(r[24]), "r"(r[25]), "r"(r[26]),
        "r"(r[27]), "r"(r[28]), "r"(r[29]), "r"(r[30]), "r"(r[31])
      : "memory");
}
TITAN_DEVICE void tensor_memory_put_words(u32 address, const u32 (&r)[16]) {
  asm volatile(
      "tcgen05.st.sync.aligned.32x32b.x16.b32 [%0], {"
      "%1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16};\n"
      :: "r"(address), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "r"(r[4]), "r"(r[5]),
        "r"(r[6]), "r"(r[7]), "r"(r[8]), "r"(r[9]), "r"(r[10]), "r"(r[11]), "r"(r[12]),
        "r"(r[13]), "r"(r[14]), "r"(r[15])
      : "memory");
}
TITAN_DEVICE void tensor_memory_put_words(u32 address, const u32 (&r)[8]) {
  asm volatile(
      "tcgen05.st.sync.aligned.32x32b.x8.b32 [%0], {"
      "%1, %2, %3, %4, %5, %6, %7, %8};\n"
      :: "r"(address), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "r"(r[4]), "r"(r[5]),
        "r"(r[6]), "r"(r[7])
      : "memory");
}

// The converse of `tensor_memory_fetch_rows`.
template <int Columns, int First = 0, int Count = Columns>
TITAN_DEVICE void tensor_memory_put_rows(u32 address, const float (&values)[Columns]) {
  static_assert(Columns % 16 == 0 && Columns >= 16 && Columns <= 256, "columns of a fragment");
  static_assert(First % 16 == 0 && Count % 16 == 0, "columns of an instruction");
  constexpr int Step = Count % 32 == 0 ? 32 : 16;
  TITAN_UNROLL
  for (int c = First; c < First + Count; c += Step) {
    u32 words[Step];
    TITAN_UNROLL
    for (int i = 0; i < Step; ++i) words[i] = __float_as_uint(values[c + i]);
    tensor_memory_put_words(address + c, words);
  }
}

// The row of each lane as numbers of 16 bits, two in a column, as `tensor_multiply_pairs` takes them.
template <int Columns, int First = 0, int Count = Columns>
TITAN_DEVICE void tensor_memory_put_rows_pairs(u32 address, const u32 (&pairs)[Columns / 8][4]) {
  static_assert(Columns % 16 == 0 && Columns >= 16 && Columns <= 256, "columns of a fragment");
  static_assert(First % 16 == 0 && Count % 16 == 0, "columns of an instruction");
  constexpr int Step = Count % 32 == 0 ? 32 : 16;
  TITAN_UNROLL
  for (int c = First; c < First + Count; c += Step) {
    u32 words[Step / 2];
    TITAN_UNROLL
    for (int i = 0; i < Step / 2; ++i) words[i] = pairs[c / 8 + i / 4][i % 4];
    tensor_memory_put_words(address + c / 2, words);
  }
}

TITAN_DEVICE void tensor_put_wait() {
  asm volatile("tcgen05.wait::st.sync.aligned;\n" ::: "memory");
}

// Two float numbers in a register pair, and arithmetic on both at once: one instruction for two.
// PTX: add, sub, mul and fma of .f32x2.
TITAN_DEVICE u64 both(float low, float high) {
  u64 pair;
  asm("mov.b64 %0, {%1, %2};\n" : "=l"(pair) : "f"(low), "f"(high));
  return pair;
}
TITAN_DEVICE void apart(u64 pair, float& low, float& high) {
  asm("mov.b64 {%0, %1}, %2;\n" : "=f"(low), "=f"(high) : "l"(pair));
}
TITAN_DEVICE u64 add_both(u64 first, u64 second) {
  u64 sum;
  asm("add.rn.f32x2 %0, %1, %2;\n" : "=l"(sum) : "l"(first), "l"(second));
  return sum;
}
TITAN_DEVICE u64 add_both_down(u64 first, u64 second) {  // rounded towards minus infinity
  u64 sum;
  asm("add.rm.f32x2 %0, %1, %2;\n" : "=l"(sum) : "l"(first), "l"(second));
  return sum;
}
TITAN_DEVICE u64 multiply_both(u64 first, u64 second) {
  u64 product;
  asm("mul.rn.f32x2 %0, %1, %2;\n" : "=l"(product) : "l"(first), "l"(second));
  return product;
}
TITAN_DEVICE u64 multiply_add_both(u64 first, u64 second, u64 third) {
  u64 sum;
  asm("fma.rn.f32x2 %0, %1, %2, %3;\n" : "=l"(sum) : "l"(first), "l"(second), "l"(third));
  return sum;
}
TITAN_DEVICE u64 subtract_both(u64 first, u64 second) {
  u64 difference;
  asm("sub.rn.f32x2 %0, %1, %2;\n" : "=l"(difference) : "l"(first), "l"(second));
  return difference;
}

// The larger number; of a NaN and a number, the NaN.
TITAN_DEVICE float maximum_or_nan(float first, float second) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;\n" : "=f"(result) : "f"(first), "f"(second));
  return result;
}

// 2 to the power of both numbers without the special function unit. With n the integer below x
// and f = x - n, 2^x is 2^n times a polynomial of f, whose largest relative error on [0, 1] is
// 2^-13.5 and which is 1 at 0. n stands in the low bits of x + 3 * 2^22, rounded down, from where it
// is added to the exponent. Below -126 the result is less than 2^-126, of minus infinity it is 0; of
// numbers above 127, and of NaN, it is too large or no number. Source: Cody and Waite, chapter 6.
TITAN_DEVICE void exp2_both(float x, float y, float& of_x, float& of_y) {
  const u64 number = both(maximum_or_nan(x, -127.0f), maximum_or_nan(y, -127.0f));
  const u64 shift = both(12582912.0f, 12582912.0f);
  const u64 shifted = add_both_down(number, shift);
  const u64 rest = subtract_both(number, subtract_both(shifted, shift));
  u64 power = multiply_add_both(both(0x1.3baaa6p-4f, 0x1.3baaa6p-4f), rest, both(0x1.d2378ap-3f, 0x1.d2378ap-3f));
  power = multiply_add_both(power, rest, both(0x1.63e658p-1f, 0x1.63e658p-1f));
  power = multiply_add_both(power, rest, both(1.0f, 1.0f));
  float low, high, exponent_low, exponent_high;
  apart(power, low, high);
  apart(shifted, exponent_low, exponent_high);
  of_x = bits_to_float((float_to_bits(exponent_low) << 23) + float_to_bits(low));
  of_y = bits_to_float((float_to_bits(exponent_high) << 23) + float_to_bits(high));
}

// Whether an address is one of tensor memory, as all are that are allocated.
TITAN_DEVICE bool allocated(u32 address) { return address != 0xffffffffu; }

// Whether a condition holds for a lane of the warp, all of whose lanes ask.
TITAN_DEVICE bool any_of_warp(bool condition) { return __any_sync(0xffffffffu, condition) != 0; }

// A number for each row in shared memory, from role to role.
TITAN_DEVICE void store_row(u8* rows, int row, float value) {
  store_shared32(rows + 4 * row, float_to_bits(value));
}
TITAN_DEVICE float load_row(const u8* rows, int row) {
  return __uint_as_float(load_shared32(rows + 4 * row));
}

// A bit for each column of a row, set from column `begin` up to `end`; a bit for one column.
// PTX: shl and shr, which give 0 for 32 and more. Bits that are not inverted become predicates seven
// at a time.
TITAN_DEVICE u32 bits_from(int first) {
  u32 bits;
  asm("shl.b32 %0, %1, %2;\n" : "=r"(bits) : "r"(0xffffffffu), "r"(larger(first, 0)));
  return bits;
}
TITAN_DEVICE u32 bits_below(int end) {
  u32 bits;
  asm("shr.u32 %0, %1, %2;\n" : "=r"(bits) : "r"(0xffffffffu), "r"(larger(32 - end, 0)));
  return bits;
}
template <int Words>
TITAN_DEVICE void columns_kept(u32 (&kept)[Words], int begin, int end) {
  TITAN_UNROLL
  for (int i = 0; i < Words; ++i) kept[i] = bits_from(begin - 32 * i) & bits_below(end - 32 * i);
}
template <int Words>
TITAN_DEVICE bool column_kept(const u32 (&kept)[Words], int column) {
  return (kept[column / 32] >> column % 32 & 1) != 0;
}

// 16 bytes of a row of a tile, eight numbers of 16 bits.
TITAN_DEVICE void store_part_of_row(u8* place, u32 first, u32 second, u32 third, u32 fourth) {
  for (int pair = 0; pair < 4; ++pair) delay_pair();
  store_shared128(place, first, second, third, fourth);
}

// Numbers of 16 bits, from `First` up to `End` of a row's, to global memory: number 0 goes to column
// `column` of the row that begins at element `row`, and nothing outside of its columns is written.
// 16 bytes at a time where they begin at a multiple of that.
template <int First, int End, int Eighths>
TITAN_DEVICE void store_part_of_global_row(void* base, long long row, int column, int columns,
                                           const u32 (&pairs)[Eighths][4]) {
  static_assert(First % 8 == 0 && End % 8 == 0, "eight numbers at a time");
  u16* const place = (u16*)base + row + column;
  if (column >= 0 && column + End <= columns && (u64)place % 16 == 0) {
    TITAN_UNROLL
    for (int j = First / 8; j < End / 8; ++j) {
      for (int pair = 0; pair < 4; ++pair) delay_pair();
      *(uint4*)(place + 8 * j) = make_uint4(pairs[j][0], pairs[j][1], pairs[j][2], pairs[j][3]);
    }
    return;
  }
  TITAN_UNROLL
  for (int i = First; i < End; ++i) {
    if ((u32)(column + i) >= (u32)columns) continue;
    delay_pair();
    place[i] = (u16)(pairs[i / 8][i / 2 % 4] >> i % 2 * 16);
  }
}

// Four neighbouring elements at byte `offset` of a tile (before swizzling).
template <class Type, int Swizzle>
TITAN_DEVICE void store_four_of_row(u8* tile, u32 offset, float first, float second, float third,
                                    float fourth) {
  u8* place = tile + swizzled<Swizzle>(offset);
  if constexpr (Type::bytes == 4) {
    for (int pair = 0; pair < 2; ++pair) delay_pair();
    store_shared128(place, float_to_bits(first), float_to_bits(second), float_to_bits(third),
                    float_to_bits(fourth));
  } else if constexpr (Type::bytes == 2) {
    store_shared64(place, (u64)pack_pair<Type>(third, fourth) << 32 | pack_pair<Type>(first, second));
  } else {
    store_shared32(place, (u32)pack_pair8<Type>(third, fourth) << 16 | pack_pair8<Type>(first, second));
  }
}

}  // namespace titan
