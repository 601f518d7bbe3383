"""CPU tensors of torch as arguments; where torch is not installed this is skipped."""
import numpy as np
import pytest

pytest.importorskip("triton")
torch = pytest.importorskip("torch")

import tessera  # noqa: E402
import triton  # noqa: E402
import triton.language as tl  # noqa: E402


@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=mask) + tl.load(y_ptr + i, mask=mask), mask=mask)


def launch(x, y, out):
    add[(triton.cdiv(out.numel(), 64),)](x, y, out, out.numel(), BLOCK=64)
    return out


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.int32])
def test_tensors(dtype):
    x, y = torch.arange(200).to(dtype), torch.ones(200, dtype=dtype)
    with tessera.simulate_triton() as report:
        out = launch(x, y, torch.empty_like(x))
    assert torch.equal(out, x + y)
    assert report.hbm_read_bytes == 2 * 200 * x.element_size()


def test_views_end_where_they_say():
    x = torch.arange(256, dtype=torch.float32)
    with tessera.simulate_triton(checks="report", views=True) as report:
        launch(x[64:128], x[192:], torch.empty(64))
        launch(x[64:128], x[:65], torch.empty(65))  # past the end of a view
        launch(x.view(16, 16)[:, 0], x[:241], torch.empty(241))
        launch(x.view(16, 16)[:, 0], x[:242], torch.empty(242))  # past its last element
    assert ["element 64 of x_ptr, which is a view of 64", "element 241 of x_ptr, which is a view of 241"] == [
        str(e).split("it reads ")[1].split("\n")[0] for e in report.errors]
    with tessera.simulate_triton(checks="report") as report:
        launch(x[64:128], x[:65], torch.empty(65))
        launch(x[192:], x[:65], torch.empty(65))  # past the end of the allocation
    assert ["element 256 of x_ptr, y_ptr"] == [str(e).split("it reads ")[1].split(",  which")[0].split(", which")[0] for e in report.errors]


def test_empty_is_undefined_until_it_is_written():
    x = torch.ones(128)
    with tessera.simulate_triton(checks="report") as report:
        launch(x, torch.empty(128), torch.empty(128))
        for write in (lambda t: t.zero_(), lambda t: torch.add(x, x, out=t), lambda t: t[:64].copy_(x[:64]), lambda t: t.numpy(),
                      lambda t: t.data.fill_(1), lambda t: launch(x, x, t)):
            y = torch.empty(128)
            write(y)
            launch(x, y, torch.empty_like(x))
        launch(x, x.new_empty(128), torch.empty(128))
        with torch.inference_mode():
            launch(x, torch.empty(128).zero_(), torch.empty(128))
    assert [(i, call.errors[0].slug) for i, call in enumerate(report.calls) if call.errors] == [(0, "uninit-read"), (8, "uninit-read")]
    assert torch.empty.__name__ == "empty" and not hasattr(torch.empty, "__wrapped__")
    assert "data" not in vars(torch.Tensor)


def test_programs_that_say_cuda():
    with tessera.simulate_triton(cuda=True) as report:
        assert torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)
        x = torch.randn(100, device="cuda")
        assert x.is_cuda and x.device.type == "cuda"
        assert torch.equal(torch.zeros(3, pin_memory=True), torch.zeros(3).pin_memory())
        with torch.cuda.device(0):
            out = launch(x, x.to("cuda").cuda(), torch.empty(100, device=x.device))
        torch.cuda.synchronize()
        assert torch.histc(torch.tensor([1, 3, 3], device="cuda"), bins=4, max=3).tolist() == [0, 1, 0, 2]
        (generator,) = torch.cuda.default_generators
        generator.set_offset(generator.get_offset() + 4)
        assert generator.get_offset() == 4 and torch.rand(3, device="cuda", generator=generator).shape == (3,)
        properties = torch.cuda.get_device_properties(0)
        assert properties.shared_memory_per_block < properties.shared_memory_per_block_optin
        assert properties.max_threads_per_multi_processor == 2048
        with pytest.raises(AttributeError, match="of NVIDIA H100 SXM tessera knows no uuid"):
            properties.uuid
        assert torch.cuda.mem_get_info()[0] > 70 << 30 and torch.cuda.memory_allocated() == 0
        assert [b.driver.is_active() for name, b in triton.backends.backends.items() if name != "amd"] == [True]
        assert torch.accelerator.current_device_index() == 0 and torch.accelerator.current_accelerator().type == "cuda"
    assert torch.equal(out, x + x) and len(report.calls) == 1
    assert x.device.type == "cpu" and not torch.cuda.is_available()


def test_what_a_backward_pass_sees_is_cuda():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            assert x.is_cuda
            return launch(x, x, torch.empty_like(x))

        @staticmethod
        def backward(ctx, g):
            assert g.is_cuda and g.device.type == "cuda"
            return launch(g.contiguous(), g.contiguous(), torch.empty(g.shape, device=g.device))

    with tessera.simulate_triton(cuda=True):
        x = torch.ones(100, device="cuda", requires_grad=True)
        Double.apply(x).sum().backward()
        (again,) = torch.autograd.grad(Double.apply(x).sum(), x)
    assert torch.equal(x.grad, torch.full((100,), 2.)) and torch.equal(again, x.grad)


def test_autocast_of_cuda_is_of_what_runs_here():
    class Seen(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cuda")
        def forward(ctx, x):
            return launch(x, x, torch.empty_like(x))

        @staticmethod
        @torch.amp.custom_bwd(device_type="cuda")
        def backward(ctx, g):
            assert torch.is_autocast_enabled("cuda") and torch.get_autocast_dtype("cuda") == torch.bfloat16
            return launch(g.contiguous(), g.contiguous(), torch.empty_like(g))

    with tessera.simulate_triton(cuda=True):
        layer = torch.nn.Linear(8, 8, device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            assert torch.is_autocast_enabled() and torch.get_autocast_gpu_dtype() == torch.bfloat16
            y = Seen.apply(layer(torch.ones(4, 8, device="cuda")))
        assert not torch.is_autocast_enabled("cuda")
        y.float().sum().backward()
        with torch.amp.autocast("cuda"):  # which is of f16
            assert layer(torch.ones(4, 8)).dtype == torch.float16
        with torch.autocast("cuda", enabled=False):
            assert layer(torch.ones(4, 8)).dtype == torch.float32
    assert y.dtype == torch.bfloat16 and layer.bias.grad.eq(8).all()


def test_parameters_and_gradients():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return launch(x, x, torch.empty_like(x))

        @staticmethod
        def backward(ctx, grad):
            return launch(grad.contiguous(), grad.contiguous(), torch.empty_like(grad))

    with tessera.simulate_triton() as report:
        layer = torch.nn.Linear(8, 8)
        Double.apply(layer(torch.ones(4, 8))).sum().backward()
    assert len(report.calls) == 2 and np.isfinite(layer.weight.grad.numpy()).all()
    np.testing.assert_array_equal(layer.bias.grad.numpy(), np.full(8, 8))


def test_what_is_compiled_runs_eagerly():
    from torch.nn.attention.flex_attention import flex_attention

    def causal(score, batch, head, query, key):
        return torch.where(query >= key, score, -float("inf"))

    q, k, v = torch.randn(3, 1, 2, 32, 16)
    with tessera.simulate_triton(cuda=True) as report:
        out = torch.compile(flex_attention)(q.cuda(), k.cuda(), v.cuda(), score_mod=causal)
        torch.compile(launch)(q[0], k[0], torch.empty_like(q[0]))
        state = torch.cuda.get_rng_state()
        first = torch.rand(4, device="cuda")
        torch.cuda.set_rng_state(state)
        assert torch.equal(first, torch.rand(4, device="cuda"))
    assert len(report.calls) == 1
    torch.testing.assert_close(out, torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True))


def test_operators_of_libraries():
    """Registered for "cuda" alone: what they compute, and their gradients, is there in a simulation, and nowhere else."""
    @torch.library.custom_op("tessera_test::twice", mutates_args=(), device_types="cuda")
    def twice(x: torch.Tensor) -> torch.Tensor:
        assert x.is_cuda
        return launch(x, x, torch.empty_like(x, device="cuda"))

    twice.register_autograd(lambda ctx, grad: 2 * grad)
    library = torch.library.Library("tessera_test", "FRAGMENT")
    library.define("thrice(Tensor x) -> Tensor")
    library.impl("thrice", lambda x: launch(x, twice(x), torch.empty_like(x)), "CUDA")
    for _ in range(2):
        with tessera.simulate_triton(cuda=True) as report:
            x = torch.ones(8, device="cuda", requires_grad=True)
            twice(x).sum().backward()
            assert x.grad.eq(2).all() and torch.ops.tessera_test.thrice(torch.ones(4)).eq(3).all()
        assert len(report.calls) == 3
    with pytest.raises(NotImplementedError, match="twice"):
        twice(torch.ones(3))


def test_torch_has_triton():
    from torch.utils._triton import has_triton

    before = has_triton()
    with tessera.simulate_triton(cuda=True):
        assert has_triton()
    assert has_triton() == before
