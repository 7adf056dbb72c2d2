# A matmul and an attention of PyTorch by packages, on a GPU or, for tensors of the CPU, emulated.
# titan build protocols/tiles/gemm.yaml protocols/tiles/attention_forward_64.yaml -o out/
# python examples/torch_matmul_attention.py
import torch

import titan

packages = titan.Library("out")
a, b = torch.randn(128, 64).bfloat16(), torch.randn(96, 64).bfloat16()
q, k, v = (torch.randn(2, 128, 64).bfloat16() for _ in range(3))
product = packages(a, b, kernel="gemm")  # a @ b.T
attention = packages(q, k, v, kernel="attention_forward_64")
torch.testing.assert_close(product, a @ b.T, atol=0.1, rtol=0.02)
expected = torch.nn.functional.scaled_dot_product_attention(q, k, v)
torch.testing.assert_close(attention, expected, atol=0.02, rtol=0.02)
print("the same as PyTorch's")
