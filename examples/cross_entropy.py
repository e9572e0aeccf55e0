"""Cross-entropy loss and its gradient for a vocabulary larger than a tile."""

import numpy as np
import triton
import triton.language as tl

IGNORED = -100  # a target that counts for nothing


@triton.jit
def cross_entropy_kernel(
    logits_ptr, target_ptr, loss_ptr, grad_ptr, vocab, IGNORED: tl.constexpr, BLOCK: tl.constexpr
):
    """One token: a first walk over its logits finds log-sum-exp, a second writes the gradient."""
    token = tl.program_id(0)
    logits_ptr += token.to(tl.int64) * vocab
    grad_ptr += token.to(tl.int64) * vocab
    target = tl.load(target_ptr + token)
    lanes = tl.arange(0, BLOCK)

    if target == IGNORED:
        tl.store(loss_ptr + token, 0.0)
        for start in range(0, vocab, BLOCK):
            at = start + lanes
            tl.store(grad_ptr + at, tl.zeros([BLOCK], tl.float32), mask=at < vocab)
        return

    highest = -float("inf")
    total = 0.0
    for start in range(0, vocab, BLOCK):
        at = start + lanes
        x = tl.load(logits_ptr + at, mask=at < vocab, other=-float("inf"))
        higher = tl.maximum(highest, tl.max(x, axis=0))
        total = total * tl.exp(highest - higher) + tl.sum(tl.exp(x - higher), axis=0)
        highest = higher
    log_total = highest + tl.log(total)
    tl.store(loss_ptr + token, log_total - tl.load(logits_ptr + target))

    for start in range(0, vocab, BLOCK):
        at = start + lanes
        x = tl.load(logits_ptr + at, mask=at < vocab, other=-float("inf"))
        hit = tl.where(at == target, 1.0, 0.0)
        tl.store(grad_ptr + at, tl.exp(x - log_total) - hit, mask=at < vocab)


def cross_entropy(logits, target, block=1024):
    """Loss of every token and its gradient with respect to the logits."""
    tokens, vocab = logits.shape
    loss, grad = np.empty(tokens, np.float32), np.empty_like(logits)
    cross_entropy_kernel[(tokens,)](logits, target, loss, grad, vocab, IGNORED=IGNORED, BLOCK=block)
    return loss, grad


def reference_of(logits, target):
    """Loss and gradient in float64."""
    logits = logits.astype(np.float64)
    rows = np.arange(len(target))
    safe = np.where(target == IGNORED, 0, target)
    shifted = logits - logits.max(axis=1, keepdims=True)
    probability = np.exp(shifted) / np.exp(shifted).sum(axis=1, keepdims=True)
    loss = -np.log(probability[rows, safe])
    probability[rows, safe] -= 1
    counts = target != IGNORED
    return loss * counts, probability * counts[:, None]


def example(tokens, vocab, index=np.int64, ignored=0, block=1024):
    """Losses and gradients in one vector, the reference, and the tolerance between them."""
    rng = np.random.default_rng(0)
    logits = (3 * rng.standard_normal((tokens, vocab))).astype(np.float32)
    target = rng.integers(0, vocab, tokens).astype(index)
    target[:ignored] = IGNORED
    result = cross_entropy(logits, target, block)
    reference = reference_of(logits, target)
    return *(np.concatenate([v.ravel() for v in vs]) for vs in (result, reference)), 1e-5


def cases():
    """Small runs for the tests: name, function giving result, reference and tolerance."""
    return [
        ("odd", lambda: example(61, 1823, block=256)),
        ("one chunk", lambda: example(16, 100, block=128)),
        ("int32 targets", lambda: example(9, 333, np.int32, block=64)),
        ("ignored targets", lambda: example(20, 200, ignored=7, block=128)),
    ]


def main():
    result, reference, tolerance = example(509, 4099, ignored=5)
    np.testing.assert_allclose(result, reference, rtol=tolerance, atol=tolerance)
    print("cross_entropy: 509 tokens, 4099 words, loss and gradient agree with float64 NumPy")


if __name__ == "__main__":
    main()
