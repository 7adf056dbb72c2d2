"""Classes of machine instructions, by the first letters of their names: data, no code.

The longest prefix that fits decides. NVIDIA: names of nvdisasm for sm_80 to sm_103 (CUDA Binary
Utilities, instruction set reference); AMD: mnemonics of the CDNA and RDNA ISA documents.
"""

from __future__ import annotations

TENSOR = "tensor"  # multiplications of tensor cores or matrix cores
FENCE = "fence"  # waits for memory as such: fences, error barriers, invalidation of a cache
BARRIER = "barrier"  # mbarriers, named barriers, waits for groups, counters
FLOAT = "float"
SPECIAL = "special"  # exponentials, reciprocals, square roots
CONVERT = "convert"
INTEGER = "integer"
UNIFORM = "uniform"  # of the whole warp: addresses, descriptors, conditions
MOVE = "move"
COPY = "copy"  # asynchronous copies
SHARED = "shared"
TENSOR_MEMORY = "tensor memory"
GLOBAL = "global"
CONSTANT = "constant"  # parameters, and numbers of the code
LOCAL = "local"  # spills and arrays that are not in registers
CONTROL = "control"
OTHER = "other"

ARITHMETIC = (FLOAT, SPECIAL, CONVERT)
# What an iteration is for, on a way through it. Constants are not: a mask loads its limit with one.
WORK = (TENSOR, SPECIAL, COPY, SHARED, GLOBAL)

NVIDIA: dict[str, tuple[str, ...]] = {
    TENSOR: (
        "HGMMA", "QGMMA", "IGMMA", "BGMMA", "UTCHMMA", "UTCQMMA", "UTCOMMA", "UTCIMMA", "UTCMXQMMA",
        "HMMA", "QMMA", "OMMA", "IMMA", "BMMA", "DMMA",
    ),
    FENCE: ("MEMBAR", "ERRBAR", "CGAERRBAR", "CCTL", "FENCE"),
    BARRIER: (
        "BAR", "SYNCS", "WARPGROUP", "DEPBAR", "LDGDEPBAR", "UCGABAR", "ARRIVES", "UTMACMDFLUSH",
        "UTCBAR", "WARPSYNC", "ELECT", "NANOSLEEP", "ACQBULK", "ENDCOLLECTIVE", "USETMAXREG",
    ),
    FLOAT: (
        "FADD", "FMUL", "FFMA", "FMNMX", "FSEL", "FSETP", "FSET", "FSWZADD", "FCHK", "HADD", "HMUL",
        "HFMA", "HMNMX", "HSET", "DADD", "DMUL", "DFMA", "DSETP", "UFADD", "UFMUL", "UFFMA",
    ),
    SPECIAL: ("MUFU", "RRO"),
    CONVERT: ("F2F", "F2I", "I2F", "FRND", "UF2F", "UI2F"),
    INTEGER: (
        "IADD", "IMAD", "IABS", "IDP", "IMNMX", "ISCADD", "ISETP", "LEA", "LOP", "PLOP", "SHF",
        "SHL", "SHR", "SEL", "PRMT", "POPC", "FLO", "BMSK", "SGXT", "VIADD", "VIMNMX", "VABSDIFF",
        "XMAD", "BREV", "VOTE", "REDUX", "CREDUX", "MATCH", "P2R", "R2P",
    ),
    UNIFORM: ("U", "R2UR", "S2UR", "VOTEU", "REDUX.U", "CS2UR"),
    MOVE: ("MOV", "IMAD.MOV", "IMAD.U32", "SHFL", "S2R", "CS2R", "B2R", "R2B", "NOP", "MOVM"),
    COPY: ("UTMALDG", "UTMASTG", "UTMAREDG", "UTMAPF", "UTMACCTL", "UBLKCP", "UBLKRED", "UBLKPF",
           "LDGSTS", "UTMA"),
    SHARED: ("LDS", "STS", "ATOMS", "STAS", "REDAS"),
    TENSOR_MEMORY: ("LDTM", "STTM", "UTCATOMSWS", "UTCCP", "UTCSHIFT", "LDT", "STT"),
    GLOBAL: ("LDG", "STG", "LD", "ST", "ATOM", "RED", "SULD", "SUST", "TEX", "TLD"),
    CONSTANT: ("LDC", "ULDC"),
    LOCAL: ("LDL", "STL"),
    CONTROL: (
        "BRA", "BRX", "BSSY", "BSYNC", "BREAK", "CALL", "RET", "EXIT", "JMP", "JMX", "BPT", "KILL",
        "YIELD", "BMOV", "PREEXIT", "RPCMOV", "LEPC",
    ),
}  # fmt: skip

AMD: dict[str, tuple[str, ...]] = {
    TENSOR: ("v_mfma_", "v_smfmac_", "v_wmma_", "v_swmmac_"),
    FENCE: ("buffer_wbl2", "buffer_inv", "buffer_gl0_inv", "buffer_gl1_inv", "s_dcache"),
    BARRIER: ("s_barrier", "s_waitcnt", "s_wait_", "s_sleep"),
    FLOAT: (
        "v_add_f", "v_sub_f", "v_mul_f", "v_fma_", "v_fmac_", "v_max_f", "v_min_f", "v_max3_f",
        "v_pk_", "v_cmp_", "v_cndmask", "v_ldexp", "v_div_", "v_med3_f", "v_subrev_f",
    ),
    SPECIAL: ("v_exp_", "v_log_", "v_rcp_", "v_rsq_", "v_sqrt_"),
    CONVERT: ("v_cvt_",),
    INTEGER: ("v_",),
    UNIFORM: ("s_",),
    MOVE: ("v_mov", "v_accvgpr", "v_readlane", "v_readfirstlane", "v_writelane", "s_nop", "s_mov"),
    SHARED: ("ds_",),
    GLOBAL: ("buffer_", "global_", "flat_", "s_load", "s_buffer_load", "s_store"),
    LOCAL: ("scratch_",),
    CONTROL: ("s_branch", "s_cbranch", "s_endpgm", "s_setpc", "s_swappc", "s_getpc", "s_call"),
}  # fmt: skip
