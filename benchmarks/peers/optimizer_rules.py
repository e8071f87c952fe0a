"""Update rules of the reference system in PyTorch, bf16 state as it has them: each as a loop over the parameters, and over lists for torch.compile.

Formulas are those of docs/optimizers.md, written anew. `loop` is how the reference runs them; `lists` uses _foreach operators, which the
compiler fuses across parameters. AdamW and SGD are torch.optim's own, fused.
"""
import torch

RATE, DECAY = 1e-4, 0.1
ITERATIONS, A, B, C = 5, 3.4445, -4.7750, 2.0315  # Newton-Schulz, Jordan et al. 2024


class Lion:
    betas = (0.9, 0.99)

    def __init__(self, parameters):
        self.p, self.m = parameters, [torch.zeros_like(p) for p in parameters]

    def loop(self, gradients):
        one, two = self.betas
        for p, m, g in zip(self.p, self.m, gradients):
            direction = torch.sign(m * one + g * (1 - one))
            p.mul_(1 - RATE * DECAY).add_(direction, alpha=-RATE)
            m.mul_(two).add_(g, alpha=1 - two)

    def lists(self, gradients):
        one, two = self.betas
        direction = torch._foreach_sign(torch._foreach_lerp(self.m, gradients, 1 - one))
        torch._foreach_mul_(self.p, 1 - RATE * DECAY)
        torch._foreach_add_(self.p, direction, alpha=-RATE)
        torch._foreach_lerp_(self.m, gradients, 1 - two)


class ScheduleFree:
    beta1, beta2, eps, weight = 0.9, 0.95, 1e-8, 0.01  # weight: of z in the average, as late in a run

    def __init__(self, parameters):
        self.p = parameters
        self.z, self.v = [p.clone() for p in parameters], [torch.zeros_like(p) for p in parameters]

    def loop(self, gradients):
        y_step = RATE * (1 - self.beta1 * (1 - self.weight))
        for y, z, v, g in zip(self.p, self.z, self.v, gradients):
            v.mul_(self.beta2).addcmul_(g, g, value=1 - self.beta2)
            d = g / (v.sqrt() + self.eps) + DECAY * y
            y.lerp_(z, self.weight).add_(d, alpha=-y_step)
            z.add_(d, alpha=-RATE)

    def lists(self, gradients):
        y_step = RATE * (1 - self.beta1 * (1 - self.weight))
        torch._foreach_mul_(self.v, self.beta2)
        torch._foreach_addcmul_(self.v, gradients, gradients, value=1 - self.beta2)
        root = torch._foreach_sqrt(self.v)
        torch._foreach_add_(root, self.eps)
        d = torch._foreach_div(gradients, root)
        torch._foreach_add_(d, self.p, alpha=DECAY)
        torch._foreach_lerp_(self.p, self.z, self.weight)
        torch._foreach_add_(self.p, d, alpha=-y_step)
        torch._foreach_add_(self.z, d, alpha=-RATE)


def newton_schulz(x):
    """Of one matrix or of a batch of them, in bf16, multiplied from the smaller side."""
    tall = x.shape[-2] > x.shape[-1]
    x = x.mT if tall else x
    x = x / (torch.linalg.vector_norm(x, dim=(-2, -1), keepdim=True, dtype=torch.float32) + 1e-7).to(x.dtype)
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        if x.dim() == 3:
            polynomial = torch.baddbmm(gram, gram, gram, beta=B, alpha=C)
            x = torch.baddbmm(x, polynomial, x, beta=A)
        else:
            polynomial = torch.addmm(gram, gram, gram, beta=B, alpha=C)
            x = torch.addmm(x, polynomial, x, beta=A)
    return x.mT if tall else x


class Muon:
    """For matrices; lists() holds the momentum of all matrices of a shape in one tensor and multiplies them in one batched product."""

    momentum = 0.95

    def __init__(self, parameters):
        self.p = parameters
        self.shapes = sorted({tuple(p.shape) for p in parameters})
        self.index = [[i for i, p in enumerate(parameters) if tuple(p.shape) == s] for s in self.shapes]
        self.m = [torch.zeros_like(p) for p in parameters]
        self.stacked = None

    def use_lists(self):
        self.stacked = [torch.stack([self.m[i] for i in where]) for where in self.index]
        self.m = []

    @staticmethod
    def scale(shape):
        return 0.2 * max(shape[-2:]) ** 0.5

    def loop(self, gradients):
        for p, m, g in zip(self.p, self.m, gradients):
            m.mul_(self.momentum).add_(g)
            u = newton_schulz(g.add(m, alpha=self.momentum))
            p.mul_(1 - RATE * DECAY).add_(u, alpha=-RATE * self.scale(p.shape))

    def lists(self, gradients):
        for where, m in zip(self.index, self.stacked):
            g = torch.stack([gradients[i] for i in where])
            m.mul_(self.momentum).add_(g)
            u = newton_schulz(g.add(m, alpha=self.momentum))
            p = [self.p[i] for i in where]
            torch._foreach_mul_(p, 1 - RATE * DECAY)
            torch._foreach_add_(p, list(u.unbind()), alpha=-RATE * self.scale(m.shape))
