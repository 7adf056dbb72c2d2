// Primitives of sm_100a for kernels that ask the hardware for their next work item.
//
// Emission writes this file behind titan_tcgen05.cuh where a kernel asks. The grid has a CTA for
// each work item. Source: PTX ISA, clusterlaunchcontrol.

namespace titan {

// Asks for another CTA that then is never launched; the answer, 16 bytes, comes off the barrier when
// it is there. One thread executes it.
TITAN_DEVICE void ask_next(void* answer, u64* barrier) {
  disturb(21);
  asm volatile(
      "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%0], "
      "[%1];\n" ::"r"(shared_address(answer)),
      "r"(shared_address(barrier))
      : "memory");
  disturb(22);
}

// Whether the answer is another work item, which is then the next one.
TITAN_DEVICE bool next_item(const void* answer, int& next) {
  u32 found;
  asm volatile(
      "{\n .reg .b128 answer;\n .reg .pred p;\n"
      " ld.shared::cta.b128 answer, [%2];\n"
      " clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, answer;\n"
      " selp.b32 %0, 1, 0, p;\n"
      " @p clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %1, answer;\n}\n"
      : "=r"(found), "+r"(next)
      : "r"(shared_address(answer))
      : "memory");
  return found != 0;
}

}  // namespace titan
