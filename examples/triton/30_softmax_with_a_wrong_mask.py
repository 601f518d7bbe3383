"""Finds a softmax whose mask is right and whose `other` is missing: nobody says what the lanes beyond a row hold."""
import numpy as np
import triton
import triton.language as tl

import tessera


@triton.jit
def softmax(x_ptr, out_ptr, columns, BLOCK: tl.constexpr, WRONG: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    if WRONG:
        x = tl.load(x_ptr + row * columns + j, mask=j < columns)
    else:
        x = tl.load(x_ptr + row * columns + j, mask=j < columns, other=-float("inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(out_ptr + row * columns + j, e / tl.sum(e, 0), mask=j < columns)


x = np.random.default_rng(0).standard_normal((4, 100), np.float32)
wanted = np.exp(x - x.max(1, keepdims=True))
wanted /= wanted.sum(1, keepdims=True)
out = tessera.DeviceArray.empty(x.shape)
with tessera.simulate_triton():
    softmax[(4,)](tessera.DeviceArray(x), out, 100, BLOCK=128, WRONG=False)
print("right:", np.allclose(out.array, wanted, rtol=1e-6))
try:
    with tessera.simulate_triton():
        softmax[(4,)](tessera.DeviceArray(x), out, 100, BLOCK=128, WRONG=True)
except tessera.KernelError as error:
    print(error, end="")

# expected output
# right: True
# error[uninit-read]: 400 of 400 elements of out_ptr depend on memory that nothing has written, or on lanes that a mask left out
#   kernel  softmax
#   line    examples/triton/30_softmax_with_a_wrong_mask.py:14  x = tl.load(x_ptr + row * columns + j, mask=j < columns)
#   ends    in out_ptr, first at element 0
#   help    what a mask leaves out of a load is undefined without `other`: give it, or select before you compute
