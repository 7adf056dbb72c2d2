// Primitives and tile arithmetic that kernels emitted for gfx942 and gfx950 are spelled in.
//
// Self-contained: needs clang for AMDGPU, no ROCm header and no library. What synchronises is
// explicit: `wait_vector<N>`, `wait_shared` and `workgroup_barrier` are volatile assembly that
// clobbers memory, so that no access moves across. Direct-to-LDS copies are assembly as well: the
// compiler does not see them and adds no wait for them of its own. Waits for values in registers
// are left to it.
//
// A tile [rows, columns] lies in LDS row by row; the 16-byte chunks of a row are permuted (XOR with
// the row) so that the lanes of a wave, which read one chunk of 32 rows, meet all banks. A
// direct-to-LDS copy writes 64 consecutive units, so the permutation is done on the addresses that
// the lanes read in global memory.
//
// A FRAGMENT is cut into blocks of B x B elements (B = 32 or 16), the accumulators of one MFMA
// each. With H = 64 / B, lane l holds row l % B and in register i the column
// (i / 4) 4 H + 4 (l / B) + i % 4: the matrix instruction gets the tile of columns as its first
// operand. A ROW has one number for each row of the lane, equal in all lanes of one l % B; a COLUMN
// one for each register.
#pragma once

// Another machine brings its own primitives: it defines them and TITAN_PRIMITIVES ahead of this
// header, of which only the tile arithmetic is left then.
#if !defined(TITAN_PRIMITIVES)

#pragma clang diagnostic ignored "-Winline-asm"  // M0 is named as clobbered: nobody else uses it

#define TITAN_FUNCTION static inline __attribute__((device, always_inline))
#define TITAN_FUNCTION_MEMBER inline __attribute__((device, always_inline))
#define TITAN_LAMBDA __attribute__((device))
#define TITAN_KERNEL(threads) \
    extern "C" __attribute__((global, amdgpu_flat_work_group_size(threads, threads)))

namespace titan {

typedef unsigned int u32;
typedef unsigned long long u64;
typedef u32 u32x2 __attribute__((vector_size(8)));
typedef u32 u32x4 __attribute__((vector_size(16)));
typedef float f32x2 __attribute__((vector_size(8)));
typedef float f32x4 __attribute__((vector_size(16)));
typedef float f32x16 __attribute__((vector_size(64)));
typedef short s16x4 __attribute__((vector_size(8)));
typedef _Float16 f16x4 __attribute__((vector_size(8)));

extern __attribute__((shared)) __attribute__((aligned(1024))) unsigned char shared_memory[];

TITAN_FUNCTION int thread_index() { return static_cast<int>(__builtin_amdgcn_workitem_id_x()); }
TITAN_FUNCTION int workgroup_index() { return static_cast<int>(__builtin_amdgcn_workgroup_id_x()); }
TITAN_FUNCTION int uniform(int value) { return __builtin_amdgcn_readfirstlane(value); }

// The same number, of which the compiler knows nothing: what is computed from it is not kept alive
// from one use to the next.
TITAN_FUNCTION int opaque(int value) {
    value = uniform(value);
    asm volatile("" : "+s"(value));
    return value;
}

// The same number in a vector register: additions to it stay what reads of LDS do themselves.
TITAN_FUNCTION u32 opaque_of_lane(u32 value) {
    asm volatile("" : "+v"(value));
    return value;
}

// The lane, counted again, so that neither it nor what follows from it is kept from before.
TITAN_FUNCTION int lane_afresh(int) {
    u32 all = ~0u;
    asm volatile("" : "+s"(all));
    return static_cast<int>(__builtin_amdgcn_mbcnt_hi(all, __builtin_amdgcn_mbcnt_lo(all, 0)));
}

// A number that is known not to be negative, as the compiler is to know as well.
TITAN_FUNCTION int never_negative(int value) {
    __builtin_assume(value >= 0);
    return value;
}

// Words that are in registers from here on.
template <class T> TITAN_FUNCTION void loaded_words(T &words) { asm volatile("" : "+v"(words)); }

// The sums of a block are in accumulation registers, where the matrix unit alone uses them.
template <class T> TITAN_FUNCTION void accumulation_words(T &sum) { asm volatile("" : "+a"(sum)); }

// ------------------------------------------------------------------------------ synchronisation

// At most N vector-memory operations of this wave are unfinished afterwards (N < 63). In assembly:
// from an instruction that it knows the compiler would conclude that all but the last 15 accesses
// of LDS have returned as well.
template <int N> TITAN_FUNCTION void wait_vector() {
    static_assert(N >= 0 && N <= 62, "vmcnt counts to 62");
    asm volatile("s_waitcnt vmcnt(%0)" ::"n"(N) : "memory");
}

// All LDS accesses of this wave have returned.
TITAN_FUNCTION void wait_shared() {
    asm volatile("" ::: "memory");
    __builtin_amdgcn_sched_barrier(0);
    __builtin_amdgcn_s_waitcnt(0xc07f);
    asm volatile("" ::: "memory");
}

// All waves of the workgroup meet. Waits for no counter.
TITAN_FUNCTION void workgroup_barrier() { asm volatile("s_barrier" ::: "memory"); }

// Wishes for the order of instructions between two places that none crosses: so many reads of LDS,
// then one of a kind behind every PRODUCTS of the matrix unit.
template <int READS> TITAN_FUNCTION void reads_first() {
    __builtin_amdgcn_sched_group_barrier(0x100, READS, 0);
}
enum class Beside { loads = 0x20, reads = 0x100, writes = 0x200 };
template <Beside KIND, int COUNT, int PRODUCTS> TITAN_FUNCTION void between_products() {
    if constexpr (COUNT > 0) {
        __builtin_amdgcn_sched_group_barrier(0x8, PRODUCTS, 0);
        __builtin_amdgcn_sched_group_barrier(static_cast<int>(KIND), 1, 0);
        between_products<KIND, COUNT - 1, PRODUCTS>();
    }
}

// The compiler moves no instruction across; the machine sees nothing.
TITAN_FUNCTION void keep_order() { __builtin_amdgcn_sched_barrier(0); }

// ---------------------------------------------------------------------------------- global memory

// Offsets from `base` below END are read and written; what lies beyond reads as zero and is not
// written (bounds checks of raw buffers).
constexpr u32 END = 0x40000000u;

struct Resource {
    u64 base;
    u32 bytes;
};

TITAN_FUNCTION Resource resource(u64 base, u32 bytes = END) { return Resource{base, bytes}; }

TITAN_FUNCTION __amdgpu_buffer_rsrc_t descriptor(Resource at) {
    return __builtin_amdgcn_make_buffer_rsrc(
        reinterpret_cast<void *>(at.base), 0, static_cast<int>(at.bytes), 0x00020000);
}

// What direct-to-LDS copies take from scalar registers, the same for all lanes. Five wait states
// must pass between a vector instruction that writes a scalar register and a buffer instruction
// that reads it; the compiler does not see the copies, so they are spent in front of them, as is
// that of M0.
struct Source {
    u32x4 words;
};

TITAN_FUNCTION Source source(Resource at) {
    u32 low = static_cast<u32>(at.base), high = static_cast<u32>(at.base >> 32);
    u32x4 words = {low, high & 0xffffu, at.bytes, 0x00020000u};
    return Source{words};
}

// Where a wave's copies to LDS go, from a place on: a scalar register. The dynamic array begins at
// address 0, as there is no other memory in LDS.
TITAN_FUNCTION u32 target_of(u32 place) {
    return static_cast<u32>(uniform(static_cast<int>(place)));
}

// COUNT copies one behind the other: copy i brings WIDTH bytes of each lane, from its offset i plus
// i * LANES * WIDTH, to LDS at `target` + FURTHER + i * LANES * WIDTH + lane * WIDTH. The machine
// adds the offset of an instruction on both sides, so that M0 is written once. Counts on vmcnt.
#define TITAN_COPY(load, n, offset) "\n\t" load " %" #n ", %1, 0 offen offset:" #offset " lds"
#define TITAN_COPIES(load, second, third, fourth)                                                  \
    if constexpr (COUNT == 1)                                                                      \
        asm volatile("s_add_u32 m0, %0, %2\n\ts_nop 4" TITAN_COPY(load, 3, 0)::"s"(target),        \
                     "s"(from.words), "n"(FURTHER), "v"(offset[0])                                 \
                     : "memory", "m0", "scc");                                                     \
    else if constexpr (COUNT == 2)                                                                 \
        asm volatile("s_add_u32 m0, %0, %2\n\ts_nop 4" TITAN_COPY(load, 3, 0)                      \
                         TITAN_COPY(load, 4, second)::"s"(target),                                 \
                     "s"(from.words), "n"(FURTHER), "v"(offset[0]), "v"(offset[1])                 \
                     : "memory", "m0", "scc");                                                     \
    else if constexpr (COUNT == 3)                                                                 \
        asm volatile("s_add_u32 m0, %0, %2\n\ts_nop 4" TITAN_COPY(load, 3, 0)                      \
                         TITAN_COPY(load, 4, second) TITAN_COPY(load, 5, third)::"s"(target),      \
                     "s"(from.words), "n"(FURTHER), "v"(offset[0]), "v"(offset[1]),                \
                     "v"(offset[2])                                                                \
                     : "memory", "m0", "scc");                                                     \
    else                                                                                           \
        asm volatile("s_add_u32 m0, %0, %2\n\ts_nop 4" TITAN_COPY(load, 3, 0)                      \
                         TITAN_COPY(load, 4, second) TITAN_COPY(load, 5, third)                    \
                             TITAN_COPY(load, 6, fourth)::"s"(target),                             \
                     "s"(from.words), "n"(FURTHER), "v"(offset[0]), "v"(offset[1]),                \
                     "v"(offset[2]), "v"(offset[3])                                                \
                     : "memory", "m0", "scc")
template <int WIDTH, int FURTHER, int COUNT>
TITAN_FUNCTION void direct_copies(Source from, const u32 (&offset)[COUNT], u32 target) {
    static_assert(WIDTH == 4 || WIDTH == 16, "a lane copies 4 or 16 bytes");
    static_assert(COUNT >= 1 && COUNT <= 4, "an instruction's offset has 12 bits");
    if constexpr (WIDTH == 16) {
        TITAN_COPIES("buffer_load_dwordx4", 1024, 2048, 3072);
    } else {
        TITAN_COPIES("buffer_load_dword", 256, 512, 768);
    }
}

template <int BYTES> struct Bits;
template <> struct Bits<1> { typedef unsigned char type; };
template <> struct Bits<2> { typedef unsigned short type; };
template <> struct Bits<4> { typedef u32 type; };
template <> struct Bits<8> { typedef u32x2 type; };
template <> struct Bits<16> { typedef u32x4 type; };

template <int BYTES>
TITAN_FUNCTION typename Bits<BYTES>::type global_read(Resource at, u32 offset) {
    typedef typename Bits<BYTES>::type type;
    int place = static_cast<int>(offset);
    if constexpr (BYTES == 1)
        return __builtin_amdgcn_raw_buffer_load_b8(descriptor(at), place, 0, 0);
    else if constexpr (BYTES == 2)
        return __builtin_amdgcn_raw_buffer_load_b16(descriptor(at), place, 0, 0);
    else if constexpr (BYTES == 4)
        return __builtin_amdgcn_raw_buffer_load_b32(descriptor(at), place, 0, 0);
    else if constexpr (BYTES == 8)
        return __builtin_bit_cast(
            type, __builtin_amdgcn_raw_buffer_load_b64(descriptor(at), place, 0, 0));
    else
        return __builtin_bit_cast(
            type, __builtin_amdgcn_raw_buffer_load_b128(descriptor(at), place, 0, 0));
}

template <int BYTES>
TITAN_FUNCTION void global_write(Resource at, u32 offset, typename Bits<BYTES>::type value) {
    int place = static_cast<int>(offset);
    if constexpr (BYTES == 1)
        __builtin_amdgcn_raw_buffer_store_b8(value, descriptor(at), place, 0, 0);
    else if constexpr (BYTES == 2)
        __builtin_amdgcn_raw_buffer_store_b16(value, descriptor(at), place, 0, 0);
    else if constexpr (BYTES == 4)
        __builtin_amdgcn_raw_buffer_store_b32(value, descriptor(at), place, 0, 0);
    else if constexpr (BYTES == 8)
        __builtin_amdgcn_raw_buffer_store_b64(value, descriptor(at), place, 0, 0);
    else
        __builtin_amdgcn_raw_buffer_store_b128(value, descriptor(at), place, 0, 0);
}

// ----------------------------------------------------------------------------------------- LDS

template <int BYTES> TITAN_FUNCTION typename Bits<BYTES>::type shared_read(u32 place) {
    typedef typename Bits<BYTES>::type type __attribute__((may_alias));
    return *reinterpret_cast<const type *>(shared_memory + place);
}

template <int BYTES>
TITAN_FUNCTION void shared_write(u32 place, typename Bits<BYTES>::type value) {
    typedef typename Bits<BYTES>::type type __attribute__((may_alias));
    *reinterpret_cast<type *>(shared_memory + place) = value;
}

// Where a place is, in a vector register, and reads at constant distances from it, which the
// instructions add themselves (up to 65535).
TITAN_FUNCTION u32 address_of(u32 place) { return opaque_of_lane(place); }
template <int BYTES>
TITAN_FUNCTION typename Bits<BYTES>::type shared_read_at(u32 address, int distance) {
    typedef __attribute__((address_space(3))) const typename Bits<BYTES>::type type
        __attribute__((may_alias));
    return *reinterpret_cast<type *>(address + static_cast<u32>(distance));
}

// ----------------------------------------------------------------------------------- arithmetic

TITAN_FUNCTION float exp2_fast(float x) { return __builtin_amdgcn_exp2f(x); }
TITAN_FUNCTION float log2_fast(float x) { return __builtin_amdgcn_logf(x); }
TITAN_FUNCTION float reciprocal_fast(float x) { return __builtin_amdgcn_rcpf(x); }
TITAN_FUNCTION float rsqrt_fast(float x) { return __builtin_amdgcn_rsqf(x); }

// The lower halves of two words side by side, and their upper halves.
TITAN_FUNCTION u32 lower_halves(u32 low, u32 high) {
    return __builtin_amdgcn_perm(high, low, 0x05040100u);
}
TITAN_FUNCTION u32 upper_halves(u32 low, u32 high) {
    return __builtin_amdgcn_perm(high, low, 0x07060302u);
}

// The value of the lane whose number differs in the bits of `mask`.
TITAN_FUNCTION float lane_xor(float value, int mask) {
    int lane = thread_index() & 63;
    int bits = __builtin_bit_cast(int, value);
    return __builtin_bit_cast(float, __builtin_amdgcn_ds_bpermute((lane ^ mask) << 2, bits));
}

template <int B> struct AccumulatorOf;
template <> struct AccumulatorOf<32> { typedef f32x16 type; };
template <> struct AccumulatorOf<16> { typedef f32x4 type; };
template <int B> using Accumulator = typename AccumulatorOf<B>::type;

struct f32;
struct f16;
struct bf16;
struct e4m3;
struct e5m2;
template <class A, class B> constexpr bool same = false;
template <class A> constexpr bool same<A, A> = true;

// One MFMA: 8 bytes of each operand in a lane, 64 / B groups of lanes along the contraction.
template <class D, int B>
TITAN_FUNCTION Accumulator<B> multiply(u32x2 first, u32x2 second, Accumulator<B> sum) {
    if constexpr (same<D, bf16>) {
        auto a = __builtin_bit_cast(s16x4, first), b = __builtin_bit_cast(s16x4, second);
        if constexpr (B == 32)
            return __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(a, b, sum, 0, 0, 0);
        else
            return __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(a, b, sum, 0, 0, 0);
    } else if constexpr (same<D, f16>) {
        auto a = __builtin_bit_cast(f16x4, first), b = __builtin_bit_cast(f16x4, second);
        if constexpr (B == 32)
            return __builtin_amdgcn_mfma_f32_32x32x8f16(a, b, sum, 0, 0, 0);
        else
            return __builtin_amdgcn_mfma_f32_16x16x16f16(a, b, sum, 0, 0, 0);
    } else {
        long a = __builtin_bit_cast(long, first), b = __builtin_bit_cast(long, second);
        if constexpr (same<D, e4m3>) {
            if constexpr (B == 32)
                return __builtin_amdgcn_mfma_f32_32x32x16_fp8_fp8(a, b, sum, 0, 0, 0);
            else
                return __builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8(a, b, sum, 0, 0, 0);
        } else {
            if constexpr (B == 32)
                return __builtin_amdgcn_mfma_f32_32x32x16_bf8_bf8(a, b, sum, 0, 0, 0);
            else
                return __builtin_amdgcn_mfma_f32_16x16x32_bf8_bf8(a, b, sum, 0, 0, 0);
        }
    }
}

typedef _Float16 f16x2 __attribute__((ext_vector_type(2)));

// Two numbers as f16 side by side. Sums of a product of mixed types are written to either half of a
// register; of a conversion only to the lower one, and another instruction would join them.
TITAN_FUNCTION u32 narrow_by_products(float low, float high) {
    float one = 1.0f;
    asm("" : "+s"(one));
    f16x2 both = {static_cast<_Float16>(__builtin_fmaf(low, one, -0.0f)),
                  static_cast<_Float16>(__builtin_fmaf(high, one, -0.0f))};
    return __builtin_bit_cast(u32, both);
}

#if defined(__gfx950__)
#define TITAN_WIDE_PRODUCTS 1
typedef __bf16 bf16x2 __attribute__((ext_vector_type(2)));
typedef __bf16 bf16x8 __attribute__((ext_vector_type(8)));
typedef _Float16 f16x8 __attribute__((ext_vector_type(8)));

// One MFMA of twice the depth: 16 bytes of each operand in a lane, for types of two bytes.
template <class D, int B>
TITAN_FUNCTION Accumulator<B> multiply_wide(u32x4 first, u32x4 second, Accumulator<B> sum) {
    if constexpr (same<D, bf16>) {
        auto a = __builtin_bit_cast(bf16x8, first), b = __builtin_bit_cast(bf16x8, second);
        if constexpr (B == 32)
            return __builtin_amdgcn_mfma_f32_32x32x16_bf16(a, b, sum, 0, 0, 0);
        else
            return __builtin_amdgcn_mfma_f32_16x16x32_bf16(a, b, sum, 0, 0, 0);
    } else {
        auto a = __builtin_bit_cast(f16x8, first), b = __builtin_bit_cast(f16x8, second);
        if constexpr (B == 32)
            return __builtin_amdgcn_mfma_f32_32x32x16_f16(a, b, sum, 0, 0, 0);
        else
            return __builtin_amdgcn_mfma_f32_16x16x32_f16(a, b, sum, 0, 0, 0);
    }
}

// Lanes go together by 16: lane l reads 8 bytes, quarter l % 4 of row l / 4, and gets column l of
// the four rows (CDNA4 ISA, 11.4, DS_READ_B64_TR_B16).
TITAN_FUNCTION u32x2 shared_read_transposed(u32 address, int distance) {
    return __builtin_bit_cast(u32x2, __builtin_amdgcn_ds_read_tr16_b64_v4i16(
        (__attribute__((address_space(3))) s16x4 *)(address + static_cast<u32>(distance))));
}

// 8-bit floating point of gfx950 is that of OCP; gfx942 has another (FNUZ), which is not spelled.
TITAN_FUNCTION float widen_e4m3(u32 bits) {
    return __builtin_amdgcn_cvt_f32_fp8(static_cast<int>(bits), 0);
}
TITAN_FUNCTION float widen_e5m2(u32 bits) {
    return __builtin_amdgcn_cvt_f32_bf8(static_cast<int>(bits), 0);
}
TITAN_FUNCTION u32 narrow_e4m3(float x) {
    return static_cast<u32>(__builtin_amdgcn_cvt_pk_fp8_f32(x, x, 0, false)) & 0xffu;
}
TITAN_FUNCTION u32 narrow_e5m2(float x) {
    return static_cast<u32>(__builtin_amdgcn_cvt_pk_bf8_f32(x, x, 0, false)) & 0xffu;
}
#endif

}  // namespace titan

#endif  // TITAN_PRIMITIVES

namespace titan {

constexpr int LANES = 64;
constexpr int COPIES = 4;  // direct-to-LDS copies with one M0

// -------------------------------------------------------------------------------------- integers

TITAN_FUNCTION int smaller(int a, int b) { return a < b ? a : b; }
TITAN_FUNCTION int larger(int a, int b) { return a > b ? a : b; }

// The work item of a workgroup: neighbours are on one die, as workgroups go to the dies in turn.
// Die d takes items from d * (items / DIES) on, the first items % DIES dies one more (CDNA3 paper).
template <int DIES> TITAN_FUNCTION int item_of_die(int group, int items) {
    const int die = group % DIES;
    return die * (items / DIES) + smaller(die, items % DIES) + group / DIES;
}
// Towards minus infinity; the divisor is positive.
TITAN_FUNCTION int floor_divide(int a, int b) { return a / b - (a % b < 0); }
TITAN_FUNCTION int floor_modulo(int a, int b) { return a % b < 0 ? a % b + b : a % b; }
TITAN_FUNCTION float infinity() { return __builtin_inff(); }
TITAN_FUNCTION bool within(int value, int count) {
    return static_cast<u32>(value) < static_cast<u32>(larger(count, 0));
}

// Leaves at most `pending` (0 to MOST) copies of EACH instructions in flight: ever stricter waits,
// one after the other, until the one that is meant.
template <int EACH, int MOST> TITAN_FUNCTION void wait_copies(int pending) {
    constexpr int COUNT = EACH * MOST < 62 ? EACH * MOST : 62;
    wait_vector<COUNT>();
    if constexpr (MOST > 0) {
        if (pending < MOST) wait_copies<EACH, MOST - 1>(pending);
    }
}

// --------------------------------------------------------------------------------- element types
//
// `widen` and `narrow` (to the nearest, ties to even) go between numbers and bits; `exact` is
// `narrow` of a number that the type has.

struct f32 {
    static constexpr int bytes = 4;
    TITAN_FUNCTION float widen(u32 bits) { return __builtin_bit_cast(float, bits); }
    TITAN_FUNCTION u32 narrow(float x) { return __builtin_bit_cast(u32, x); }
    TITAN_FUNCTION u32 exact(float x) { return narrow(x); }
};

struct f16 {
    static constexpr int bytes = 2;
    static constexpr bool nan_costs = false;
    TITAN_FUNCTION float widen(u32 bits) {
        return static_cast<float>(__builtin_bit_cast(_Float16, static_cast<unsigned short>(bits)));
    }
    TITAN_FUNCTION u32 narrow(float x) {
        return __builtin_bit_cast(unsigned short, static_cast<_Float16>(x));
    }
    TITAN_FUNCTION u32 exact(float x) { return narrow(x); }
};

struct bf16 {
    static constexpr int bytes = 2;
#if defined(__gfx950__)
    static constexpr bool nan_costs = false;
#else
    static constexpr bool nan_costs = true;
#endif
    // In the upper half, of a number; the lower half is left over.
    TITAN_FUNCTION u32 rounded(u32 bits) { return bits + 0x7fffu + (bits >> 16 & 1u); }
    TITAN_FUNCTION float widen(u32 bits) { return __builtin_bit_cast(float, bits << 16); }
    // Ties to even; NaN stays NaN.
    TITAN_FUNCTION u32 narrow(float x) {
#if defined(__gfx950__)
        return __builtin_bit_cast(unsigned short, static_cast<__bf16>(x));
#else
        u32 bits = __builtin_bit_cast(u32, x);
        return x != x ? 0x7fffu : rounded(bits) >> 16;
#endif
    }
    TITAN_FUNCTION u32 exact(float x) { return __builtin_bit_cast(u32, x) >> 16; }
};

#if defined(__gfx950__) || defined(TITAN_PRIMITIVES)
struct e4m3 {
    static constexpr int bytes = 1;
    TITAN_FUNCTION float widen(u32 bits) { return widen_e4m3(bits & 0xffu); }
    TITAN_FUNCTION u32 narrow(float x) {
        return narrow_e4m3(x > 448.0f ? 448.0f : x < -448.0f ? -448.0f : x);
    }
    TITAN_FUNCTION u32 exact(float x) { return narrow(x); }
};

struct e5m2 {
    static constexpr int bytes = 1;
    TITAN_FUNCTION float widen(u32 bits) { return widen_e5m2(bits & 0xffu); }
    TITAN_FUNCTION u32 narrow(float x) {
        return narrow_e5m2(x > 57344.0f ? 57344.0f : x < -57344.0f ? -57344.0f : x);
    }
    TITAN_FUNCTION u32 exact(float x) { return narrow(x); }
};
#endif

// Four numbers of a lane, all of the type, side by side in memory.
template <class D> TITAN_FUNCTION typename Bits<4 * D::bytes>::type pack(const float (&x)[4]) {
    u32 a = D::exact(x[0]), b = D::exact(x[1]), c = D::exact(x[2]), d = D::exact(x[3]);
    if constexpr (D::bytes == 4)
        return u32x4{a, b, c, d};
    else if constexpr (D::bytes == 2)
        return u32x2{a | b << 16, c | d << 16};
    else
        return a | b << 8 | c << 16 | d << 24;
}

template <class D>
TITAN_FUNCTION void unpack(typename Bits<4 * D::bytes>::type bits, float (&x)[4]) {
    for (int i = 0; i < 4; ++i) {
        if constexpr (D::bytes == 4)
            x[i] = D::widen(bits[i]);
        else if constexpr (D::bytes == 2)
            x[i] = D::widen(bits[i / 2] >> (16 * (i % 2)) & 0xffffu);
        else
            x[i] = D::widen(bits >> (8 * i) & 0xffu);
    }
}

// Two numbers rounded to a type of 16 bits, side by side.
template <class D> TITAN_FUNCTION u32 rounded_halves(float low, float high) {
#if defined(__gfx950__)
    if constexpr (same<D, bf16>)  // one instruction
        return __builtin_bit_cast(u32, __builtin_convertvector(f32x2{low, high}, bf16x2));
    if constexpr (same<D, f16>)
        return __builtin_bit_cast(u32, __builtin_convertvector(f32x2{low, high}, f16x2));
#elif !defined(TITAN_PRIMITIVES)
    if constexpr (same<D, f16>) return narrow_by_products(low, high);
#endif
    return lower_halves(D::narrow(low), D::narrow(high));
}

// Four numbers of a lane, rounded to the type. FAST: of numbers, which NaNs need not be then.
template <class D, bool FAST>
TITAN_FUNCTION typename Bits<4 * D::bytes>::type pack_rounded(const float (&x)[4]) {
    if constexpr (FAST) {
        u32 bits[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) bits[i] = D::rounded(__builtin_bit_cast(u32, x[i]));
        return u32x2{upper_halves(bits[0], bits[1]), upper_halves(bits[2], bits[3])};
    } else if constexpr (D::bytes == 2) {
        return u32x2{rounded_halves<D>(x[0], x[1]), rounded_halves<D>(x[2], x[3])};
    } else {
        float four[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) four[i] = D::widen(D::narrow(x[i]));
        return pack<D>(four);
    }
}

// ----------------------------------------------------------------------------------- tiles in LDS

// How many 16-byte chunks of a row change places: a power of two that divides them, at most 8.
constexpr int swizzle_span(int row_bytes) {
    int span = 1;
    while (span < 8 && row_bytes % (32 * span) == 0) span *= 2;
    return span;
}

// The byte of a row at which byte `byte` of it is kept; its own inverse.
// The bits of the row are turned by one, so that four rows one after the other put two chunks to
// different places, as transposed reads want, and eight rows one chunk.
template <int ROW_BYTES> TITAN_FUNCTION int swizzled(int row, int byte) {
    constexpr int SPAN = swizzle_span(ROW_BYTES);
    constexpr int LINE = ROW_BYTES < 128 && 128 % ROW_BYTES == 0 ? 128 / ROW_BYTES : 1;
    const u32 line = static_cast<u32>(row) / LINE % SPAN;
    return byte ^ static_cast<int>((line * 2 % SPAN | line * 2 / SPAN) << 4);
}

// Rows after which the permutation repeats.
constexpr int swizzle_period(int bytes) {
    return swizzle_span(bytes) * (bytes < 128 && 128 % bytes == 0 ? 128 / bytes : 1);
}

template <int ROW_BYTES> TITAN_FUNCTION u32 place_in(u32 tile, int row, int byte) {
    return tile + static_cast<u32>(row * ROW_BYTES + swizzled<ROW_BYTES>(row, byte));
}

// One matrix of a tensor and where a tile begins in it. `down`: a loop goes through its rows, so
// that offsets count from the tile; else they count from the row in which it begins.
struct View {
    u64 base;
    int row, column;
    int rows, columns;
    u32 row_bytes;
    bool down;
};

// The last two dimensions of a tensor from element `first` on; `inside` False: nothing is there.
template <class D>
TITAN_FUNCTION View view(const void *tensor, long long first, bool inside, int rows, int columns,
                         int row, int column, bool down = false) {
    u32 row_bytes = static_cast<u32>(columns) * D::bytes;
    u64 base = reinterpret_cast<u64>(tensor) + static_cast<u64>(first) * D::bytes +
               static_cast<u64>(static_cast<long long>(row) * static_cast<long long>(row_bytes));
    if (down) base += static_cast<u64>(static_cast<long long>(column) * D::bytes);
    return View{base, row, column, inside ? rows : 0, columns, row_bytes, down};
}

// Whether row (or column) `further` of a tile that begins at `first` is one of `count`. What moves
// with the loop is a scalar; a tile that begins before -END has none that is there.
TITAN_FUNCTION bool inside(int first, int further, int count) {
    return (first >= 0 || first + further >= 0) &&
           further < count - larger(first, -static_cast<int>(END));
}

// The offset of an element from the base; beyond the end where its row or its column is not there.
// Down the rows all tiles have the same one, but for the choice; otherwise the sum of a row's and a
// column's does not wrap around.
template <class D>
TITAN_FUNCTION u32 offset_in(const View &at, int row, int column, bool wanted, u32 further = 0) {
    u32 first = static_cast<u32>(row) * at.row_bytes + further;
    bool there = wanted && inside(at.row, row, at.rows);
    bool across = inside(at.column, column, at.columns);
    u32 place = static_cast<u32>(column + (at.down ? 0 : at.column)) * D::bytes;
    if (at.down) return (there ? first + place : 2 * END) | (across ? 0 : 2 * END);
    return (there ? first : 2 * END) + (across ? place : END);
}

TITAN_FUNCTION View afresh(const View &at) {
    return View{at.base, at.row, at.column, opaque(at.rows), opaque(at.columns), at.row_bytes,
                at.down};
}

// Where unit `unit` of BYTES of a lane lies in a tile, units being dealt out lane by lane. Where
// the lanes of a wave have whole rows, the byte of the row is the same for all units.
template <int ROW_BYTES, int BYTES> struct UnitPlace {
    int row, byte;
    TITAN_FUNCTION UnitPlace at(int unit, int lane) {
        if constexpr (TOGETHER % ROW_BYTES == 0) {
            return {unit * (TOGETHER / ROW_BYTES) + lane * BYTES / ROW_BYTES,
                    lane * BYTES % ROW_BYTES};
        } else {
            int byte = unit * TOGETHER + lane * BYTES;
            return {byte / ROW_BYTES, byte % ROW_BYTES};
        }
    }
    // The byte of the row with which it changes places: that of a lane where the permutation
    // repeats within the rows of a unit.
    TITAN_FUNCTION_MEMBER int partner(int lane) const {
        if constexpr (TOGETHER % (ROW_BYTES * swizzle_period(ROW_BYTES)) == 0)
            return swizzled<ROW_BYTES>(lane * BYTES / ROW_BYTES, byte);
        else
            return swizzled<ROW_BYTES>(row, byte);
    }
    static constexpr int TOGETHER = LANES * BYTES;
};

template <class D, int COLUMNS, int UNITS, int WIDTH, int UNIT>
TITAN_FUNCTION void copy_units(Source from, const View &at, u32 target, int wave, int lane) {
    constexpr int COUNT = UNITS - UNIT < COPIES ? UNITS - UNIT : COPIES;
    u32 offset[COUNT];
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        auto place = UnitPlace<COLUMNS * D::bytes, WIDTH>::at(wave * UNITS + UNIT + i, lane);
        offset[i] = offset_in<D>(at, place.row, place.partner(lane) / D::bytes, true,
                                 static_cast<u32>((COPIES - 1 - i) * LANES * WIDTH));
    }
    direct_copies<WIDTH, UNIT * LANES * WIDTH>(from, offset, target);
    if constexpr (UNIT + COUNT < UNITS)
        copy_units<D, COLUMNS, UNITS, WIDTH, UNIT + COUNT>(from, at, target, wave, lane);
}

// This wave's share of a tile, by UNITS direct-to-LDS copies, COPIES with one M0. What their
// instructions add to offsets in global memory is taken off the base, so that no offset is
// negative.
template <class D, int ROWS, int COLUMNS, int WAVES, int WIDTH>
TITAN_FUNCTION void copy_tile(u32 tile, const View &at, int wave, int lane) {
    constexpr int ROW_BYTES = COLUMNS * D::bytes;
    constexpr int UNITS = ROWS * ROW_BYTES / (WAVES * LANES * WIDTH);
    static_assert(UNITS * WAVES * LANES * WIDTH == ROWS * ROW_BYTES, "whole copies only");
    constexpr u32 ADDED = (COPIES - 1) * LANES * WIDTH;
    Source from = source(resource(at.base - ADDED, END + ADDED));
    copy_units<D, COLUMNS, UNITS, WIDTH, 0>(
        from, at, target_of(tile + static_cast<u32>(wave * UNITS * LANES * WIDTH)), wave, lane);
}

// Tiles through registers: units of BYTES, dealt out to all lanes of all waves in turn.
template <int COUNT, int BYTES> struct Passing {
    typename Bits<BYTES>::type unit[COUNT];
};

// All of them have been loaded. The last comes first: the compiler waits once, for all.
template <int COUNT, int BYTES> TITAN_FUNCTION void loaded(Passing<COUNT, BYTES> &held) {
    if constexpr (BYTES >= 4)
#pragma unroll
        for (int i = COUNT - 1; i >= 0; --i) loaded_words(held.unit[i]);
}

template <class D, int ROWS, int COLUMNS, int WAVES, int COUNT, int BYTES>
TITAN_FUNCTION void fetch_tile(Passing<COUNT, BYTES> &held, const View &at, int wave, int lane) {
    constexpr int ROW_BYTES = COLUMNS * D::bytes;
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        auto place = UnitPlace<ROW_BYTES, BYTES>::at(i * WAVES + wave, lane);
        bool wanted = ROWS * ROW_BYTES == COUNT * WAVES * LANES * BYTES || place.row < ROWS;
        u32 offset = offset_in<D>(at, place.row, place.byte / D::bytes, wanted);
        held.unit[i] = global_read<BYTES>(resource(at.base), offset);
    }
}

template <class D, int ROWS, int COLUMNS, int WAVES, int COUNT, int BYTES>
TITAN_FUNCTION void put_tile(u32 tile, const Passing<COUNT, BYTES> &held, int wave, int lane) {
    constexpr int ROW_BYTES = COLUMNS * D::bytes;
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        auto place = UnitPlace<ROW_BYTES, BYTES>::at(i * WAVES + wave, lane);
        if (ROWS * ROW_BYTES == COUNT * WAVES * LANES * BYTES || place.row < ROWS)
            shared_write<BYTES>(
                tile + static_cast<u32>(place.row * ROW_BYTES + place.partner(lane)), held.unit[i]);
    }
}

// Tiles of 16-bit numbers that are turned on the way: a lane loads BYTES of four rows, and writes
// the four numbers of each column side by side, so that a column of the tile is a row in LDS. Row
// `block * B + n` there, of a wave's BLOCKS * B, is column `n * BLOCKS + block`, and the runs of
// four rows lie as products read them, 16 bytes for two steps along the contraction. 16 lanes one
// after the other write to all banks.
template <int ROWS, int ROW_BYTES, int BYTES, int BLOCKS, int B, bool PAIRED> struct Turned {
    int run, chunk;  // of four rows, of BYTES of a row
    static constexpr int RUNS = ROWS / 4, CHUNKS = ROW_BYTES / BYTES, EACH = BYTES / 2;
    static constexpr int GROUPS = PAIRED ? 1 : LANES / B;
    static_assert(CHUNKS % 4 == 0 && RUNS % (2 * GROUPS) == 0 && RUNS % 4 == 0, "whole runs");
    TITAN_FUNCTION Turned at(int unit, int lane) {
        const int index = unit * (LANES / 16) + lane / 16;
        const int place = index / (CHUNKS / 4) * 4 + lane / 4 % 4;
        return {place / 2 % (RUNS / (2 * GROUPS)) * 2 * GROUPS + place % 2 * GROUPS +
                    place / (RUNS / GROUPS),
                index % (CHUNKS / 4) * 4 + lane % 4};
    }
    // Where the run lies in a row of LDS, and which row has column `further` of the lane's.
    TITAN_FUNCTION_MEMBER int byte() const {
        return (run / (2 * GROUPS) * GROUPS + run % GROUPS) * 16 + run / GROUPS % 2 * 8;
    }
    TITAN_FUNCTION_MEMBER int row(int further) const {
        const int column = chunk * EACH + further, own = column % (BLOCKS * B);
        return column - own + own % BLOCKS * B + own / BLOCKS;
    }
};

template <class D, int ROWS, int COLUMNS, int WAVES, int BLOCKS, int B, bool PAIRED, int COUNT,
          int BYTES>
TITAN_FUNCTION void fetch_turned(Passing<COUNT, BYTES> &held, const View &at, int wave, int lane) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        auto place = Turned<ROWS, COLUMNS * D::bytes, BYTES, BLOCKS, B, PAIRED>::at(
            i / 4 * WAVES + wave, lane);
        u32 offset = offset_in<D>(at, place.run * 4 + i % 4, place.chunk * (BYTES / 2), true);
        held.unit[i] = global_read<BYTES>(resource(at.base), offset);
    }
}

template <class D, int ROWS, int COLUMNS, int WAVES, int BLOCKS, int B, bool PAIRED, int COUNT,
          int BYTES>
TITAN_FUNCTION void put_turned(u32 tile, const Passing<COUNT, BYTES> &held, int wave, int lane) {
    static_assert(D::bytes == 2 && COUNT % 4 == 0 && BYTES >= 8, "four rows of a lane");
    constexpr int LDS_ROW = ROWS * D::bytes, EACH = BYTES / 2;
    constexpr int APART = EACH < BLOCKS ? EACH : BLOCKS;  // columns in rows B apart
    static_assert(B % swizzle_period(LDS_ROW) == 0, "rows B apart are permuted alike");
#pragma unroll
    for (int i = 0; i < COUNT; i += 4) {
        auto to = Turned<ROWS, COLUMNS * D::bytes, BYTES, BLOCKS, B, PAIRED>::at(
            i / 4 * WAVES + wave, lane);
#pragma unroll
        for (int from = 0; from < EACH; from += APART) {
            u32 place = place_in<LDS_ROW>(tile, to.row(from), to.byte());
#pragma unroll
            for (int j = from; j < from + APART; ++j) {
                u32 a = held.unit[i][j / 2], b = held.unit[i + 1][j / 2];
                u32 c = held.unit[i + 2][j / 2], d = held.unit[i + 3][j / 2];
                u32x2 four = j % 2 == 0 ? u32x2{lower_halves(a, b), lower_halves(c, d)}
                                        : u32x2{upper_halves(a, b), upper_halves(c, d)};
                shared_write<8>(place + static_cast<u32>((j - from) * B * LDS_ROW), four);
            }
        }
    }
}

// A tile from LDS to global memory as it is.
template <class D, int ROWS, int COLUMNS, int WAVES, int BYTES>
TITAN_FUNCTION void store_tile(u32 tile, const View &at, int wave, int lane) {
    constexpr int ROW_BYTES = COLUMNS * D::bytes;
    constexpr int UNITS = ROWS * ROW_BYTES / BYTES;
    constexpr int COUNT = (UNITS + WAVES * LANES - 1) / (WAVES * LANES);
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        int byte = ((i * WAVES + wave) * LANES + lane) * BYTES, row = byte / ROW_BYTES;
        int column = byte % ROW_BYTES / D::bytes;
        bool mine = row < ROWS;
        u32 place = mine ? place_in<ROW_BYTES>(tile, row, byte % ROW_BYTES) : tile;
        auto value = shared_read<BYTES>(place);
        global_write<BYTES>(resource(at.base), offset_in<D>(at, row, column, mine), value);
    }
}

// ------------------------------------------------------------------------------- functions of f32

constexpr float LOG2_E = 1.44269504f;

struct Add {
    static constexpr bool PAIRS = true;
    TITAN_FUNCTION_MEMBER float operator()(float x, float y) const { return x + y; }
    TITAN_FUNCTION_MEMBER f32x2 operator()(f32x2 x, f32x2 y) const { return x + y; }
};
struct Subtract {
    static constexpr bool PAIRS = true;
    TITAN_FUNCTION_MEMBER float operator()(float x, float y) const { return x - y; }
    TITAN_FUNCTION_MEMBER f32x2 operator()(f32x2 x, f32x2 y) const { return x - y; }
};
struct Multiply {
    static constexpr bool PAIRS = true;
    TITAN_FUNCTION_MEMBER float operator()(float x, float y) const { return x * y; }
    TITAN_FUNCTION_MEMBER f32x2 operator()(f32x2 x, f32x2 y) const { return x * y; }
};
struct Divide {
    static constexpr bool PAIRS = false;
    TITAN_FUNCTION_MEMBER float operator()(float x, float y) const { return x / y; }
};
struct Maximum {
    static constexpr bool PAIRS = false;
    TITAN_FUNCTION_MEMBER float operator()(float x, float y) const { return __builtin_fmaxf(x, y); }
};
struct Minimum {
    static constexpr bool PAIRS = false;
    TITAN_FUNCTION_MEMBER float operator()(float x, float y) const { return __builtin_fminf(x, y); }
};
// y where it is larger than x by more than `least`, else x.
struct Raise {
    static constexpr bool PAIRS = false;
    float least;
    TITAN_FUNCTION_MEMBER float operator()(float x, float y) const { return y - x > least ? y : x; }
};
struct Constant {
    static constexpr bool PAIRS = false;
    float value;
    TITAN_FUNCTION_MEMBER float operator()() const { return value; }
};
struct Same {
    static constexpr bool PAIRS = false;
    TITAN_FUNCTION_MEMBER float operator()(float x) const { return x; }
};
struct Scale {
    static constexpr bool PAIRS = true;
    float factor;
    TITAN_FUNCTION_MEMBER float operator()(float x) const { return x * factor; }
    TITAN_FUNCTION_MEMBER f32x2 operator()(f32x2 x) const { return x * f32x2{factor, factor}; }
};
struct Offset {
    static constexpr bool PAIRS = false;
    float amount;
    TITAN_FUNCTION_MEMBER float operator()(float x) const { return x + amount; }
};
struct Exp2 {
    static constexpr bool PAIRS = false;
    TITAN_FUNCTION_MEMBER float operator()(float x) const { return exp2_fast(x); }
};
struct Log2 {
    static constexpr bool PAIRS = false;
    TITAN_FUNCTION_MEMBER float operator()(float x) const { return log2_fast(x); }
};
struct Reciprocal {
    static constexpr bool PAIRS = false;
    TITAN_FUNCTION_MEMBER float operator()(float x) const { return reciprocal_fast(x); }
};
struct Rsqrt {
    static constexpr bool PAIRS = false;
    TITAN_FUNCTION_MEMBER float operator()(float x) const { return rsqrt_fast(x); }
};
struct Relu {
    static constexpr bool PAIRS = false;
    TITAN_FUNCTION_MEMBER float operator()(float x) const { return x < 0.0f ? 0.0f : x; }
};
struct Tanh {
    static constexpr bool PAIRS = false;
    TITAN_FUNCTION_MEMBER float operator()(float x) const {
        float small = exp2_fast(-2.0f * LOG2_E * __builtin_fabsf(x));
        return __builtin_copysignf((1.0f - small) * reciprocal_fast(1.0f + small), x);
    }
};
struct Gelu {  // by tanh
    static constexpr bool PAIRS = false;
    TITAN_FUNCTION_MEMBER float operator()(float x) const {
        float inner = 0.79788456f * (x + 0.044715f * x * x * x);
        return 0.5f * x * (1.0f + Tanh()(inner));
    }
};
struct Silu {
    static constexpr bool PAIRS = false;
    TITAN_FUNCTION_MEMBER float operator()(float x) const {
        return x * reciprocal_fast(1.0f + exp2_fast(-LOG2_E * x));
    }
};
template <class D> struct Convert {  // kept as the f32 that it denotes
    static constexpr bool PAIRS = false;
    TITAN_FUNCTION_MEMBER float operator()(float x) const { return D::widen(D::narrow(x)); }
};

// ---------------------------------------------------------------------------- values in registers

// Which part of a tile a wave computes: so many parts of its own size down and to the right.
struct Part {
    int row, column;
};

template <int B> struct Block {
    static constexpr int GROUPS = LANES / B;         // of lanes, along the columns
    static constexpr int REGISTERS = B * B / LANES;
    static constexpr int RUNS = REGISTERS / 4;       // of four columns side by side
    TITAN_FUNCTION int row(int lane) { return lane % B; }
    TITAN_FUNCTION int column(int lane, int i) {
        return i / 4 * 4 * GROUPS + lane / B * 4 + i % 4;
    }
};

template <int ROWS, int COLUMNS, int B> struct Fragment {
    Accumulator<B> d[ROWS / B][COLUMNS / B];
    TITAN_FUNCTION_MEMBER float at(int r, int c, int i) const { return d[r][c][i]; }
    TITAN_FUNCTION_MEMBER f32x2 two(int r, int c, int i) const {
        return f32x2{d[r][c][i], d[r][c][i + 1]};
    }
};

template <int ROWS, int B> struct Row {
    float d[ROWS / B];
    TITAN_FUNCTION_MEMBER float at(int r, int, int) const { return d[r]; }
    TITAN_FUNCTION_MEMBER f32x2 two(int r, int, int) const { return f32x2{d[r], d[r]}; }
};

template <int COLUMNS, int B> struct Column {
    float d[COLUMNS / B][Block<B>::REGISTERS];
    TITAN_FUNCTION_MEMBER float at(int, int c, int i) const { return d[c][i]; }
    TITAN_FUNCTION_MEMBER f32x2 two(int, int c, int i) const { return f32x2{d[c][i], d[c][i + 1]}; }
};

// `function` of the operands at every element that the lane holds; of two at a time where it has a
// form for two, which is one instruction.
template <int ROWS, int COLUMNS, int B, class F, class... X>
TITAN_FUNCTION void elementwise_block(Fragment<ROWS, COLUMNS, B> &out, int r, int c, F function,
                                      const X &...x) {
#pragma unroll
    for (int i = 0; i < Block<B>::REGISTERS; i += 2)
        if constexpr (F::PAIRS) {
            f32x2 both = function(x.two(r, c, i)...);
            out.d[r][c][i] = both[0];
            out.d[r][c][i + 1] = both[1];
        } else {
            out.d[r][c][i] = function(x.at(r, c, i)...);
            out.d[r][c][i + 1] = function(x.at(r, c, i + 1)...);
        }
}

template <int ROWS, int COLUMNS, int B, class F, class... X>
TITAN_FUNCTION void elementwise(Fragment<ROWS, COLUMNS, B> &out, F function, const X &...x) {
#pragma unroll
    for (int r = 0; r < ROWS / B; ++r)
#pragma unroll
        for (int c = 0; c < COLUMNS / B; ++c) elementwise_block(out, r, c, function, x...);
}

// The same of numbers that take all accumulation registers: block by block, back to these.
template <int ROWS, int COLUMNS, int B, class F, class... X>
TITAN_FUNCTION void elementwise_by_blocks(Fragment<ROWS, COLUMNS, B> &out, F function,
                                          const X &...x) {
#pragma unroll
    for (int r = 0; r < ROWS / B; ++r)
#pragma unroll
        for (int c = 0; c < COLUMNS / B; ++c) {
            elementwise_block(out, r, c, function, x...);
            accumulation_words(out.d[r][c]);
            keep_order();
        }
}

template <int ROWS, int B, class F, class... X>
TITAN_FUNCTION void elementwise(Row<ROWS, B> &out, F function, const X &...x) {
#pragma unroll
    for (int r = 0; r < ROWS / B; ++r) out.d[r] = function(x.at(r, 0, 0)...);
}

template <int COLUMNS, int B, class F, class... X>
TITAN_FUNCTION void elementwise(Column<COLUMNS, B> &out, F function, const X &...x) {
#pragma unroll
    for (int c = 0; c < COLUMNS / B; ++c)
#pragma unroll
        for (int i = 0; i < Block<B>::REGISTERS; ++i) out.d[c][i] = function(x.at(0, c, i)...);
}

// x where the condition holds, counted in rows and columns of the workgroup's tile. Element by
// element: the compiler would evaluate all conditions first and run out of registers for them.
template <int ROWS, int COLUMNS, int B, class F>
TITAN_FUNCTION void mask(Fragment<ROWS, COLUMNS, B> &out, const Fragment<ROWS, COLUMNS, B> &x,
                         float fill, Part part, int lane, F condition) {
#pragma unroll
    for (int r = 0; r < ROWS / B; ++r)
#pragma unroll
        for (int c = 0; c < COLUMNS / B; ++c)
#pragma unroll
            for (int i = 0; i < Block<B>::REGISTERS; ++i) {
                int row = part.row * ROWS + r * B + Block<B>::row(lane);
                int column = part.column * COLUMNS + c * B + Block<B>::column(lane, i);
                out.d[r][c][i] = condition(row, column) ? x.d[r][c][i] : fill;
                if (i % 4 == 3) keep_order();
            }
}

// Over the columns of a lane.
template <int ROWS, int COLUMNS, int B, class F>
TITAN_FUNCTION float reduce_lane(const Fragment<ROWS, COLUMNS, B> &x, int r, float first,
                                 F function) {
    if constexpr (F::PAIRS) {
        f32x2 total = x.two(r, 0, 0);
#pragma unroll
        for (int c = 0; c < COLUMNS / B; ++c)
#pragma unroll
            for (int i = 0; i < Block<B>::REGISTERS; i += 2)
                if (c > 0 || i > 0) total = function(total, x.two(r, c, i));
        return function(first, function(total[0], total[1]));
    } else {
        float total = first;
#pragma unroll
        for (int c = 0; c < COLUMNS / B; ++c)
#pragma unroll
            for (int i = 0; i < Block<B>::REGISTERS; ++i) total = function(total, x.d[r][c][i]);
        return total;
    }
}

// And across the lanes that hold the same row.
template <int ROWS, int COLUMNS, int B, class F>
TITAN_FUNCTION void reduce(Row<ROWS, B> &out, const Fragment<ROWS, COLUMNS, B> &x, float first,
                           F function) {
#pragma unroll
    for (int r = 0; r < ROWS / B; ++r) {
        float total = reduce_lane(x, r, first, function);
#pragma unroll
        for (int mask = B; mask < LANES; mask *= 2) total = function(total, lane_xor(total, mask));
        out.d[r] = total;
    }
}

// ------------------------------------------------------------------------------ the matrix product

// Whether tiles lie further in LDS than the offset of an instruction reaches, so that the compiler
// would compute the address of each read.
#if defined(__gfx950__)
constexpr bool FAR_TILES = true;
#else
constexpr bool FAR_TILES = false;
#endif

// One operand of a product in registers: 8 bytes along the contraction in each step.
template <int BLOCKS, int STEPS> struct Operand {
    u32x2 d[BLOCKS][STEPS];
};

// Where along the contraction a lane's 8 bytes of a step begin, in bytes. PAIRED: two steps
// together take 16 bytes side by side, for wider reads; both operands do the same.
template <int B, bool PAIRED> TITAN_FUNCTION int contraction(int lane, int step) {
    constexpr int GROUPS = Block<B>::GROUPS;
    if constexpr (PAIRED)
        return step / 2 * 16 * GROUPS + lane / B * 16 + step % 2 * 8;
    else
        return step * 8 * GROUPS + lane / B * 8;
}

// From a tile whose rows run along the contraction, rows `first` and following: step `step`, and
// the next one with it if PAIRED. Blocks lie at constant distances from the first.
template <class D, int COLUMNS, int B, bool PAIRED, int BLOCKS, int STEPS>
TITAN_FUNCTION void read_step(Operand<BLOCKS, STEPS> &out, u32 tile, int first, int step,
                              int lane) {
    constexpr int ROW_BYTES = COLUMNS * D::bytes;
    static_assert(B % swizzle_period(ROW_BYTES) == 0, "rows B apart are permuted alike");
    u32 address =
        address_of(place_in<ROW_BYTES>(tile, first + lane % B, contraction<B, PAIRED>(lane, step)));
#pragma unroll
    for (int block = 0; block < BLOCKS; ++block) {
        auto bits = shared_read_at<PAIRED ? 16 : 8>(address, block * B * ROW_BYTES);
        out.d[block][step] = u32x2{bits[0], bits[1]};
        if constexpr (PAIRED) out.d[block][step + 1] = u32x2{bits[2], bits[3]};
    }
}

// All steps. Tiles that offsets of instructions reach are read block by block: the compiler then
// finds addresses that serve several steps.
template <class D, int COLUMNS, int B, bool PAIRED, int BLOCKS, int STEPS>
TITAN_FUNCTION void read_operand(Operand<BLOCKS, STEPS> &out, u32 tile, int first, int lane) {
    constexpr int ROW_BYTES = COLUMNS * D::bytes, PAIR = PAIRED ? 2 : 1;
    if constexpr (FAR_TILES) {
#pragma unroll
        for (int step = 0; step < STEPS; step += PAIR)
            read_step<D, COLUMNS, B, PAIRED>(out, tile, first, step, lane);
        return;
    }
#pragma unroll
    for (int block = 0; block < BLOCKS; ++block)
#pragma unroll
        for (int step = 0; step < STEPS; step += PAIR) {
            int row = first + block * B + lane % B, byte = contraction<B, PAIRED>(lane, step);
            auto bits = shared_read<8 * PAIR>(place_in<ROW_BYTES>(tile, row, byte));
            out.d[block][step] = u32x2{bits[0], bits[1]};
            if constexpr (PAIRED) out.d[block][step + 1] = u32x2{bits[2], bits[3]};
        }
}

// The same straight from global memory, 16 bytes at once.
template <class D, int B, bool PAIRED, int BLOCKS, int STEPS>
TITAN_FUNCTION void hold_operand(Operand<BLOCKS, STEPS> &out, const View &at, int first, int lane) {
    constexpr int BYTES = PAIRED ? 16 : 8;
#pragma unroll
    for (int block = 0; block < BLOCKS; ++block)
#pragma unroll
        for (int step = 0; step < STEPS; step += BYTES / 8) {
            int column = contraction<B, PAIRED>(lane, step) / D::bytes;
            u32 offset = offset_in<D>(at, first + block * B + lane % B, column, true);
            auto bits = global_read<BYTES>(resource(at.base), offset);
            out.d[block][step] = u32x2{bits[0], bits[1]};
            if constexpr (PAIRED) out.d[block][step + 1] = u32x2{bits[2], bits[3]};
        }
}

// All of it has been loaded: the compiler waits here, and not in the loop.
template <int BLOCKS, int STEPS> TITAN_FUNCTION void loaded(Operand<BLOCKS, STEPS> &x) {
#pragma unroll
    for (int block = 0; block < BLOCKS; ++block)
#pragma unroll
        for (int step = 0; step < STEPS; ++step) loaded_words(x.d[block][step]);
}

// From a tile whose columns run along the other way: by transposed reads of gfx950, else element by
// element, columns `first` and so on; steps that are whole periods of the swizzle apart at constant
// distances from one place.
template <class D, int COLUMNS, int B, bool PAIRED, int BLOCKS, int STEPS>
TITAN_FUNCTION void read_across(Operand<BLOCKS, STEPS> &out, u32 tile, int first, int lane) {
    constexpr int ROW_BYTES = COLUMNS * D::bytes;
    constexpr int EACH = 8 / D::bytes;
    constexpr int PAIR = PAIRED ? 2 : 1, ROWS_APART = PAIR * EACH * Block<B>::GROUPS;
    constexpr int KINDS = ROWS_APART % swizzle_period(ROW_BYTES) == 0 ? PAIR : STEPS;
#if defined(TITAN_WIDE_PRODUCTS)
    if constexpr (D::bytes == 2) {
#pragma unroll
        for (int block = 0; block < BLOCKS; ++block)
#pragma unroll
            for (int kind = 0; kind < KINDS; ++kind) {
                int row = contraction<B, PAIRED>(lane, kind) / D::bytes + lane % 16 / 4;
                int column = first + block * B + lane % B / 16 * 16 + lane % 4 * 4;
                u32 address = address_of(place_in<ROW_BYTES>(tile, row, column * D::bytes));
#pragma unroll
                for (int step = kind; step < STEPS; step += KINDS) {
                    int far = KINDS == PAIR ? step / PAIR * ROWS_APART * ROW_BYTES : 0;
                    out.d[block][step] = shared_read_transposed(address, far);
                }
            }
        return;
    }
#endif
#pragma unroll
    for (int block = 0; block < BLOCKS; ++block)
#pragma unroll
        for (int kind = 0; kind < KINDS; ++kind) {
            int row = contraction<B, PAIRED>(lane, kind) / D::bytes;
            int byte = (first + block * B + lane % B) * D::bytes;
#pragma unroll
            for (int step = kind; step < STEPS; step += KINDS) out.d[block][step] = u32x2{0, 0};
#pragma unroll
            for (int i = 0; i < EACH; ++i) {
                u32 address = address_of(place_in<ROW_BYTES>(tile, row + i, byte));
#pragma unroll
                for (int step = kind; step < STEPS; step += KINDS) {
                    int far = KINDS == PAIR ? step / PAIR * ROWS_APART * ROW_BYTES : 0;
                    u32 one = shared_read_at<D::bytes>(address, far);
                    out.d[block][step][i * D::bytes / 4] |= one << (i * D::bytes % 4 * 8);
                }
            }
        }
}

// The same where a lane of block b has column BLOCKS * (its number in the block) + b: what it needs
// of all blocks lies side by side in a row, and is turned round in registers, four rows at a time.
template <class D, int COLUMNS, int B, bool PAIRED, int BLOCKS, int STEPS>
TITAN_FUNCTION void read_interleaved(Operand<BLOCKS, STEPS> &out, u32 tile, int first, int lane) {
    static_assert(D::bytes == 2 && (BLOCKS == 2 || BLOCKS == 4 || BLOCKS == 8), "words of a row");
    constexpr int ROW_BYTES = COLUMNS * D::bytes, WIDTH = BLOCKS * D::bytes;
    constexpr int PAIR = PAIRED ? 2 : 1, ROWS_APART = PAIR * 4 * Block<B>::GROUPS;
    constexpr int KINDS = ROWS_APART % swizzle_period(ROW_BYTES) == 0 ? PAIR : STEPS;
    const int byte = (first + lane % B * BLOCKS) * D::bytes;
#pragma unroll
    for (int kind = 0; kind < KINDS; ++kind) {
        u32 address[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            int row = contraction<B, PAIRED>(lane, kind) / D::bytes + i;
            address[i] = address_of(place_in<ROW_BYTES>(tile, row, byte));
        }
#pragma unroll
        for (int step = kind; step < STEPS; step += KINDS) {
            int far = KINDS == PAIR ? step / PAIR * ROWS_APART * ROW_BYTES : 0;
            u32 words[4][BLOCKS / 2];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                auto bits = shared_read_at<WIDTH>(address[i], far);
                __builtin_memcpy(words[i], &bits, WIDTH);
            }
#pragma unroll
            for (int block = 0; block < BLOCKS; ++block)
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    u32 low = words[2 * half][block / 2], high = words[2 * half + 1][block / 2];
                    out.d[block][step][half] =
                        block % 2 == 0 ? lower_halves(low, high) : upper_halves(low, high);
                }
        }
    }
}

// From a fragment whose columns run along the contraction: its registers are in step order.
template <class D, int ROWS, int COLUMNS, int B>
TITAN_FUNCTION void
operand_of(Operand<ROWS / B, COLUMNS / (4 * Block<B>::GROUPS)> &out,
           const Fragment<ROWS, COLUMNS, B> &x) {
    static_assert(D::bytes == 2, "four numbers of 16 bits make a step");
    constexpr int RUNS = Block<B>::RUNS;
#pragma unroll
    for (int r = 0; r < ROWS / B; ++r)
#pragma unroll
        for (int step = 0; step < COLUMNS / (4 * Block<B>::GROUPS); ++step) {
            const Accumulator<B> &block = x.d[r][step / RUNS];
            int i = step % RUNS * 4;
            float four[4] = {block[i], block[i + 1], block[i + 2], block[i + 3]};
            out.d[r][step] = pack<D>(four);
        }
}

// The same of a fragment that is yet to be rounded to the type. NATURAL: none of its numbers is
// below zero. A NaN makes its whole row of the product NaN: of each lane one is enough, and the sum
// of what a lane has shows whether there is any.
template <class D, bool NATURAL, int ROWS, int COLUMNS, int B>
TITAN_FUNCTION void
rounded_operand_of(Operand<ROWS / B, COLUMNS / (4 * Block<B>::GROUPS)> &out,
                   const Fragment<ROWS, COLUMNS, B> &x) {
    static_assert(D::bytes == 2, "four numbers of 16 bits make a step");
    constexpr int RUNS = Block<B>::RUNS;
    constexpr bool FAST = NATURAL && D::nan_costs;
#pragma unroll
    for (int r = 0; r < ROWS / B; ++r) {
#pragma unroll
        for (int step = 0; step < COLUMNS / (4 * Block<B>::GROUPS); ++step) {
            const Accumulator<B> &block = x.d[r][step / RUNS];
            int i = step % RUNS * 4;
            float four[4] = {block[i], block[i + 1], block[i + 2], block[i + 3]};
            out.d[r][step] = pack_rounded<D, FAST>(four);
        }
        if constexpr (FAST) {
            float total = reduce_lane(x, r, 0.0f, Add());
            out.d[r][0][0] = total != total ? 0x7fffu : out.d[r][0][0];
        }
    }
}

// Whether two steps are one product of the matrix unit.
#if defined(TITAN_WIDE_PRODUCTS)
template <class D, int STEPS> constexpr bool wide = STEPS % 2 == 0 && D::bytes == 2;
#else
template <class D, int STEPS> constexpr bool wide = false;
#endif

// Steps FROM to TO of a product. Two make a wide one where there are two: both operands have their
// numbers in one order.
template <class D, int FROM, int TO, int ROWS, int COLUMNS, int B, int STEPS>
TITAN_FUNCTION void
multiply_steps(Fragment<ROWS, COLUMNS, B> &sum, const Operand<ROWS / B, STEPS> &left,
               const Operand<COLUMNS / B, STEPS> &right) {
    constexpr bool WIDE = wide<D, STEPS>;
#pragma unroll
    for (int step = FROM; step < TO; step += WIDE ? 2 : 1)
#pragma unroll
        for (int r = 0; r < ROWS / B; ++r)
#pragma unroll
            for (int c = 0; c < COLUMNS / B; ++c) {
                u32x2 first = right.d[c][step], second = left.d[r][step];
#if defined(TITAN_WIDE_PRODUCTS)
                if constexpr (WIDE) {
                    u32x2 third = right.d[c][step + 1], fourth = left.d[r][step + 1];
                    u32x4 a = {first[0], first[1], third[0], third[1]};
                    u32x4 b = {second[0], second[1], fourth[0], fourth[1]};
                    sum.d[r][c] = multiply_wide<D, B>(a, b, sum.d[r][c]);
                    continue;
                }
#endif
                sum.d[r][c] = multiply<D, B>(first, second, sum.d[r][c]);
            }
}

template <class D, int ROWS, int COLUMNS, int B, int STEPS>
TITAN_FUNCTION void product(Fragment<ROWS, COLUMNS, B> &sum, const Operand<ROWS / B, STEPS> &left,
                            const Operand<COLUMNS / B, STEPS> &right) {
    multiply_steps<D, 0, STEPS>(sum, left, right);
}

// A product whose sums are in accumulation registers, by a wave that is alone on its SIMD: it reads
// operands of two steps while it multiplies those of the two before. The last two steps are left to
// `last_product`, so that what comes between overlaps with them: what a wave issues stands between
// its products.
template <class D, int ROWS, int COLUMNS, int B, int STEPS>  // products of the matrix unit
constexpr int two_steps = ROWS / B * (COLUMNS / B) * (wide<D, STEPS> ? 1 : 2);

template <int ROWS, int COLUMNS, int B>
TITAN_FUNCTION void accumulated(Fragment<ROWS, COLUMNS, B> &sum) {
#pragma unroll
    for (int r = 0; r < ROWS / B; ++r)
#pragma unroll
        for (int c = 0; c < COLUMNS / B; ++c) accumulation_words(sum.d[r][c]);
}

template <class D, int LEFT_COLUMNS, int RIGHT_COLUMNS, int STEP = 0, int ROWS, int COLUMNS, int B,
          int STEPS>
TITAN_FUNCTION void
product_of_tiles(Fragment<ROWS, COLUMNS, B> &sum, Operand<ROWS / B, STEPS> &left, u32 left_tile,
                 int row, Operand<COLUMNS / B, STEPS> &right, u32 right_tile, int column,
                 int lane) {
    static_assert(STEPS % 2 == 0, "16 bytes are read for two steps");
    if constexpr (STEP == 0) accumulated(sum);
    read_step<D, LEFT_COLUMNS, B, true>(left, left_tile, row, STEP, lane);
    read_step<D, RIGHT_COLUMNS, B, true>(right, right_tile, column, STEP, lane);
    if constexpr (STEP > 0) multiply_steps<D, STEP - 2, STEP>(sum, left, right);
    if constexpr (STEP + 2 < STEPS)
        product_of_tiles<D, LEFT_COLUMNS, RIGHT_COLUMNS, STEP + 2>(
            sum, left, left_tile, row, right, right_tile, column, lane);
    if constexpr (STEP == 0) {
        constexpr int READS = ROWS / B + COLUMNS / B;
        reads_first<READS>();
        between_products<Beside::reads, (STEPS / 2 - 1) * READS,
                         two_steps<D, ROWS, COLUMNS, B, STEPS> / (2 * READS)>();
    }
}

// PASSED: units of tiles that are written to LDS in an iteration, and loaded.
template <class D, int PASSED, int ROWS, int COLUMNS, int B, int STEPS>
TITAN_FUNCTION void
last_product(Fragment<ROWS, COLUMNS, B> &sum, const Operand<ROWS / B, STEPS> &left,
             const Operand<COLUMNS / B, STEPS> &right) {
    multiply_steps<D, STEPS - 2, STEPS>(sum, left, right);
    constexpr int EACH = two_steps<D, ROWS, COLUMNS, B, STEPS> / (2 * PASSED + 1);
    between_products<Beside::writes, PASSED, EACH < 1 ? 1 : EACH>();
    between_products<Beside::loads, PASSED, EACH < 1 ? 1 : EACH>();
}

// ------------------------------------------------------------- between registers and memory

template <class D, int TILE_COLUMNS, int ROWS, int COLUMNS, int B>
TITAN_FUNCTION void read_tile(Fragment<ROWS, COLUMNS, B> &out, u32 tile, Part part, int lane) {
    constexpr int ROW_BYTES = TILE_COLUMNS * D::bytes;
#pragma unroll
    for (int r = 0; r < ROWS / B; ++r)
#pragma unroll
        for (int c = 0; c < COLUMNS / B; ++c)
#pragma unroll
            for (int i = 0; i < Block<B>::REGISTERS; i += 4) {
                int row = part.row * ROWS + r * B + Block<B>::row(lane);
                int byte = (part.column * COLUMNS + c * B + Block<B>::column(lane, i)) * D::bytes;
                float four[4];
                unpack<D>(shared_read<4 * D::bytes>(place_in<ROW_BYTES>(tile, row, byte)), four);
#pragma unroll
                for (int j = 0; j < 4; ++j) out.d[r][c][i + j] = four[j];
            }
}

template <class D, bool WHOLE, int ROWS, int COLUMNS, int B>
TITAN_FUNCTION void store_blocks(const View &at, const Fragment<ROWS, COLUMNS, B> &x, Part part,
                                 int lane) {
#pragma unroll
    for (int r = 0; r < ROWS / B; ++r)
#pragma unroll
        for (int c = 0; c < COLUMNS / B; ++c)
#pragma unroll
            for (int i = 0; i < Block<B>::REGISTERS; i += 4) {
                int row = part.row * ROWS + r * B + Block<B>::row(lane);
                int column = part.column * COLUMNS + c * B + Block<B>::column(lane, i);
                float four[4] = {x.d[r][c][i], x.d[r][c][i + 1], x.d[r][c][i + 2],
                                 x.d[r][c][i + 3]};
                if constexpr (WHOLE) {
                    u32 offset = offset_in<D>(at, row, column, true);
                    global_write<4 * D::bytes>(resource(at.base), offset, pack<D>(four));
                } else {
#pragma unroll
                    for (int j = 0; j < 4; ++j)
                        global_write<D::bytes>(
                            resource(at.base), offset_in<D>(at, row, column + j, true),
                            static_cast<typename Bits<D::bytes>::type>(D::exact(four[j])));
                }
            }
}

// Four columns of a lane are written at once where they are there or not as one.
template <class D, int ROWS, int COLUMNS, int B>
TITAN_FUNCTION void store_fragment(const View &to, const Fragment<ROWS, COLUMNS, B> &x, Part part,
                                   int lane) {
    View at = afresh(to);
    if (at.columns % 4 == 0 && at.column % 4 == 0)
        store_blocks<D, true>(at, x, part, lane);
    else
        store_blocks<D, false>(at, x, part, lane);
}

template <class D, bool WHOLE, int ROWS, int COLUMNS, int B>
TITAN_FUNCTION void store_runs(const View &at, const Fragment<ROWS, COLUMNS, B> &x, Part part,
                               int lane) {
    constexpr int BLOCKS = COLUMNS / B, EACH = 16 / D::bytes;
    static_assert(4 * BLOCKS % EACH == 0 && D::bytes >= 2, "whole writes of 16 bytes");
#pragma unroll
    for (int r = 0; r < ROWS / B; ++r)
#pragma unroll
        for (int run = 0; run < Block<B>::RUNS; ++run)
#pragma unroll
            for (int from = 0; from < 4 * BLOCKS; from += EACH) {
                int row = part.row * ROWS + r * B + Block<B>::row(lane);
                int first = part.column * COLUMNS + from;
                int column = first + BLOCKS * Block<B>::column(lane, 4 * run);
                u32x4 bits;
#pragma unroll
                for (int j = 0; j < EACH; j += 4) {
                    float four[4];
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        int at_run = from + j + i;
                        four[i] = x.d[r][at_run % BLOCKS][4 * run + at_run / BLOCKS];
                        if constexpr (!WHOLE)
                            global_write<D::bytes>(
                                resource(at.base), offset_in<D>(at, row, column + j + i, true),
                                static_cast<typename Bits<D::bytes>::type>(D::exact(four[i])));
                    }
                    auto some = pack<D>(four);
                    __builtin_memcpy(reinterpret_cast<unsigned char *>(&bits) + j * D::bytes, &some,
                                     4 * D::bytes);
                }
                if constexpr (WHOLE)
                    global_write<16>(resource(at.base), offset_in<D>(at, row, column, true), bits);
            }
}

template <class D, bool WHOLE, int ROWS, int COLUMNS, int B>
TITAN_FUNCTION void load_blocks(Fragment<ROWS, COLUMNS, B> &out, const View &at, Part part,
                                int lane) {
#pragma unroll
    for (int r = 0; r < ROWS / B; ++r)
#pragma unroll
        for (int c = 0; c < COLUMNS / B; ++c)
#pragma unroll
            for (int i = 0; i < Block<B>::REGISTERS; i += 4) {
                int row = part.row * ROWS + r * B + Block<B>::row(lane);
                int column = part.column * COLUMNS + c * B + Block<B>::column(lane, i);
                float four[4];
                if constexpr (WHOLE) {
                    u32 offset = offset_in<D>(at, row, column, true);
                    unpack<D>(global_read<4 * D::bytes>(resource(at.base), offset), four);
                } else {
#pragma unroll
                    for (int j = 0; j < 4; ++j)
                        four[j] = D::widen(global_read<D::bytes>(
                            resource(at.base), offset_in<D>(at, row, column + j, true)));
                }
#pragma unroll
                for (int j = 0; j < 4; ++j) out.d[r][c][i + j] = four[j];
            }
}

// Elements that the lane computes on, straight from global memory.
template <class D, int ROWS, int COLUMNS, int B>
TITAN_FUNCTION void load_fragment(Fragment<ROWS, COLUMNS, B> &out, const View &from, Part part,
                                  int lane) {
    View at = afresh(from);
    if (at.columns % 4 == 0 && at.column % 4 == 0)
        load_blocks<D, true>(out, at, part, lane);
    else
        load_blocks<D, false>(out, at, part, lane);
}

// A fragment whose columns are interleaved: a lane has 4 * BLOCKS of them side by side.
template <class D, int ROWS, int COLUMNS, int B>
TITAN_FUNCTION void store_interleaved(const View &to, const Fragment<ROWS, COLUMNS, B> &x,
                                      Part part, int lane) {
    constexpr int EACH = 16 / D::bytes;
    View at = afresh(to);
    if (at.columns % EACH == 0 && at.column % EACH == 0)
        store_runs<D, true>(at, x, part, lane);
    else
        store_runs<D, false>(at, x, part, lane);
}

// A ROW lies along the last dimension of its tensor.
template <class D, int ROWS, int B>
TITAN_FUNCTION void store_row(const View &at, const Row<ROWS, B> &x, Part part, int lane) {
#pragma unroll
    for (int r = 0; r < ROWS / B; ++r) {
        int place = part.row * ROWS + r * B + Block<B>::row(lane);
        u32 offset = offset_in<D>(at, 0, place, lane < B && part.column == 0);
        global_write<D::bytes>(resource(at.base), offset,
                               static_cast<typename Bits<D::bytes>::type>(D::exact(x.d[r])));
    }
}

template <class D, int ROWS, int B>
TITAN_FUNCTION void load_row(Row<ROWS, B> &out, const View &at, Part part, int lane) {
#pragma unroll
    for (int r = 0; r < ROWS / B; ++r) {
        int place = part.row * ROWS + r * B + Block<B>::row(lane);
        out.d[r] = D::widen(global_read<D::bytes>(resource(at.base),
                                                  offset_in<D>(at, 0, place, true)));
    }
}

template <class D, int COLUMNS, int B>
TITAN_FUNCTION void load_column(Column<COLUMNS, B> &out, const View &from, Part part,
                                int lane) {
    View at = afresh(from);
#pragma unroll
    for (int c = 0; c < COLUMNS / B; ++c)
#pragma unroll
        for (int i = 0; i < Block<B>::REGISTERS; ++i) {
            int place = part.column * COLUMNS + c * B + Block<B>::column(lane, i);
            out.d[c][i] = D::widen(global_read<D::bytes>(resource(at.base),
                                                         offset_in<D>(at, 0, place, true)));
        }
}

}  // namespace titan
