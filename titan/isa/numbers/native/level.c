/* Which loops this processor runs. */
static const Level *machine_level = &level_base;
static void choose_level(void)
{
#ifdef TITAN_LEVELS
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        __builtin_cpu_supports("bmi2"))
        machine_level = &level_v3;
    if (machine_level == &level_v3 && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw"))
        machine_level = &level_v4;
#endif
}
