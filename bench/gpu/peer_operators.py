"""PyTorch's and Triton's operators at the sizes of cuda_op_bench and cuda_library_bench, timed in CUDA graphs as
Beamline's are. Every row names its line there, what the work costs at least, and the peers."""

import re
import statistics
import time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

ROUNDS = 5
ROUND_SECONDS = 0.02
MOST_CALLS = 64
ROTATION_BYTES = 192 << 20
HALF = torch.bfloat16


def round_seconds(work, count):
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(count):
        work()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / count


def median_seconds(work):
    round_seconds(work, 2)
    count = max(2, min(1000, int(ROUND_SECONDS / round_seconds(work, 2))))
    return statistics.median(round_seconds(work, count) for _ in range(ROUNDS))


def graph_seconds(work):
    """Seconds of one work(i), i counting up, in a recorded graph of calls."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for i in range(3):
            work(i)
    calls = max(1, min(MOST_CALLS, int(ROUND_SECONDS / max(1e-7, round_seconds(lambda: work(0), 3)))))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(calls):
            work(i)
    return median_seconds(graph.replay) / calls


def ceilings():
    """Bytes a second of a copy, and operations a second of a bfloat16 product, on this GPU now."""
    source = torch.empty(4 << 30, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    copy = 2 * source.numel() / median_seconds(lambda: target.copy_(source))
    a, b = (torch.rand(8192, 8192, device="cuda", dtype=HALF) * 2 - 1 for _ in range(2))
    return {"copy_bytes": copy, "product_flops": 2 * 8192**3 / median_seconds(lambda: torch.mm(a, b))}


def rand(*shape, dtype=HALF):
    return torch.rand(*shape, device="cuda", dtype=torch.float32).mul_(2).sub_(1).to(dtype)


def copies_of(size, make):
    """As many as pass through more memory than the L2 cache holds; `size` in bytes."""
    return [make() for _ in range(max(1, min(8, ROTATION_BYTES // size)))]


def compiled(work):
    torch._dynamo.reset()
    return torch.compile(work, dynamic=False)


class Row:
    """`line`: the bench's name of Beamline's time; peers(): {name: work(i)}, made when they are wanted."""

    def __init__(self, line, flops, nbytes, peers):
        self.line, self.flops, self.nbytes, self.peers = line, flops, nbytes, peers

    def floor_seconds(self, ceiling):
        return max(self.flops / ceiling["product_flops"], self.nbytes / ceiling["copy_bytes"])

    def peer_seconds(self):
        """{name: seconds} of the peers that run here; a peer that refuses says why on standard output."""
        found = {}
        for name, work in self.peers().items():
            try:
                with torch.no_grad():
                    found[name] = graph_seconds(work)
            except RuntimeError as error:
                print(f"{self.line}: {name} refuses: {str(error).splitlines()[0]}", flush=True)
        return found


def attention(batch, heads, length, head_dim, causal, kv_heads=None, context=None, kind=""):
    """Prefill; with a `context`, decoding over contiguous keys (Beamline's lie in pages). kind: " in place" where
    Beamline reads queries, keys and values as columns of one matrix, " paged" where its keys lie in pages."""
    decode = context is not None
    kv_heads, keys = kv_heads or heads, context or length

    def peers():
        size = 4 * batch * keys * kv_heads * head_dim
        sets = copies_of(size, lambda: (rand(batch, heads, length, head_dim), rand(batch, kv_heads, keys, head_dim),
                                        rand(batch, kv_heads, keys, head_dim)))

        def run(backend):
            def work(i):
                q, k, v = sets[i % len(sets)]
                with sdpa_kernel(backend):
                    F.scaled_dot_product_attention(q, k, v, is_causal=causal and not decode,
                                                   enable_gqa=kv_heads != heads)
            return work

        return {"SDPA cuDNN": run(SDPBackend.CUDNN_ATTENTION), "SDPA flash": run(SDPBackend.FLASH_ATTENTION)}

    flops = 4 * batch * heads * length * keys * head_dim * (0.5 if causal and not decode else 1)
    nbytes = 2 * batch * head_dim * (2 * length * heads + 2 * keys * kv_heads)
    groups = "" if kv_heads == heads else f"/{kv_heads}"
    line = (f"attention decode bfloat16: B{batch} H{heads}/{kv_heads} context {context} D{head_dim}" if decode else
            f"attention prefill{kind} bfloat16: B{batch} H{heads}{groups} T{length} D{head_dim}"
            f"{' causal' if causal else ''}")
    return Row(line, flops, nbytes, peers)


def product(rows, inner, outer, label, activation=None, line_type="bfloat16"):
    def peers():
        x, bias = rand(rows, inner), rand(outer)
        weights = copies_of(2 * inner * outer, lambda: rand(outer, inner))

        def eager(i):
            y = F.linear(x, weights[i % len(weights)], bias)
            return activation(y) if activation else y

        found = {"PyTorch": eager}
        if activation:
            fused = compiled(lambda w: activation(F.linear(x, w, bias)))
            found["torch.compile"] = lambda i: fused(weights[i % len(weights)])
        return found

    nbytes = 2 * (rows * inner + inner * outer + rows * outer)
    return Row(f"matmul {label} {line_type}: {rows} x {inner} x {outer}", 2 * rows * inner * outer, nbytes, peers)


def norm(rows, width):
    def peers():
        sets = copies_of(6 * rows * width, lambda: (rand(rows, width), rand(rows, width)))
        gain, bias = rand(width), rand(width)
        fused = compiled(lambda x, r: F.layer_norm(x + r, (width,), gain, bias))

        def eager(i):
            x, residual = sets[i % len(sets)]
            F.layer_norm(x + residual, (width,), gain, bias)

        return {"PyTorch": eager, "torch.compile": lambda i: fused(*sets[i % len(sets)])}

    return Row(f"layer norm + residual bfloat16: {rows} x {width}", 0, 6 * rows * width, peers)


def candidates(rows, vocabulary, count):
    def peers():
        logits = copies_of(4 * rows * vocabulary, lambda: rand(rows, vocabulary, dtype=torch.float32))
        return {"PyTorch log_softmax, topk":
                lambda i: torch.topk(torch.log_softmax(logits[i % len(logits)], -1), count)}

    return Row(f"top candidates: {rows} x {vocabulary}, {count}, normalised", 0, 4 * rows * vocabulary, peers)


def softmax(rows, width):
    def peers():
        x = copies_of(4 * rows * width, lambda: rand(rows, width, dtype=torch.float16))
        out = torch.empty_like(x[0])
        found = {"PyTorch": lambda i: torch.softmax(x[i % len(x)], -1, out=out)}
        if width <= 65536:  # a row in one program's registers
            from triton_softmax import triton_softmax
            found["Triton"] = lambda i: triton_softmax(x[i % len(x)], out)
        return found

    return Row(f"softmax float16 {rows} x {width}", 0, 4 * rows * width, peers)


def rows(pattern):
    everything = [
        attention(4, 16, 4096, 64, True), attention(4, 32, 4096, 128, True), attention(4, 32, 4096, 128, False),
        attention(12, 12, 1024, 64, True), attention(32, 12, 128, 64, False),
        *(attention(batch, 12, length, 64, False, kind=" in place")
          for batch, length in ((1, 32), (1, 128), (256, 128), (32, 512))),
        *(attention(batch, 12, length, 64, True, kind=" paged") for batch, length in ((1, 512), (8, 512), (1, 1024))),
        *(attention(batch, 32, length, 128, True, 8, kind=kind)
          for batch, length in ((1, 2048), (4, 2048), (1, 8192)) for kind in ("", " paged")),
        attention(1, 64, 1, 128, True, 8, 2048), attention(1, 64, 1, 128, True, 8, 8192),
        attention(32, 64, 1, 128, True, 8, 2048), attention(32, 64, 1, 128, True, 8, 8192),
        attention(32, 32, 1, 128, True, 8, 2048), attention(32, 28, 1, 128, True, 4, 2048),
        attention(1, 28, 1, 128, True, 4, 2048), attention(32, 64, 1, 64, True, 8, 2048),
        attention(32, 12, 1, 64, True, 12, 512),
        product(12288, 768, 50304, "bias, padded y"), product(12288, 768, 50257, "bias, padded y"),
        product(32768, 768, 3072, "bias"), product(32768, 768, 3072, "bias relu", F.relu),
        product(32768, 768, 3072, "bias gelu", F.gelu), product(8192, 8192, 8192, "square"),
        *(product(count, 4096, 14336, "bias") for count in (1, 4, 16)),
        norm(32768, 768), norm(16384, 4096), norm(32, 768),
        candidates(256, 30000, 8), candidates(64, 32000, 8),
        *(softmax(4096, width) for width in (4096, 8192, 16384, 32768, 50257, 65536, 131072)),
    ]
    return [row for row in everything if re.search(pattern, row.line)]
