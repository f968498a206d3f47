"""The variational auto-encoder of the appendix, for images (Table "CNN-based") and vectors (Table "MLP-based")."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as nnf

from mmrs.functional.losses import gaussian_kl, vae_loss
from mmrs.spaces import ObservationSpec

LEAK = 0.01
"""# Unstated: the slope of LeakyReLU; torch's default."""

LOG_VARIANCE = (-20.0, 10.0)
"""Bounds of a log variance: beyond them its exponential overflows or every gradient vanishes."""

Statistics = Literal["running", "batch", "learn"]
"""Statistics of batch normalization: the running ones, those of this batch without recording them ("batch"), or those
of this batch, recorded ("learn"). An argument rather than torch's training mode, so that an interrupted update leaves
no mode switched."""


def _batch_norm(x: Tensor, norm: nn.BatchNorm2d, statistics: Statistics) -> Tensor:
    if x.shape[0] * x.shape[2] * x.shape[3] == 1:
        statistics = "running"  # one value has no statistics
    mean, variance = (None, None) if statistics == "batch" else (norm.running_mean, norm.running_var)
    return nnf.batch_norm(
        x, mean, variance, norm.weight, norm.bias, statistics != "running", norm.momentum or 0.1, norm.eps
    )


class ImageEncoder(nn.Module):
    """Four 3x3 convolutions with batch normalization, then two dense heads for mean and log variance.

    # Unstated: strides. Stride 2 without padding gives 84→41→20→9→4, and 32·4·4 = 512 as in the table.
    """

    def __init__(self, spec: ObservationSpec, latent: int) -> None:
        super().__init__()
        channels = [spec.channels, 32, 32, 32, 32]
        self.convolutions = nn.ModuleList(nn.Conv2d(i, o, 3, stride=2) for i, o in pairwise(channels))
        self.norms = nn.ModuleList(nn.BatchNorm2d(32) for _ in range(4))
        features = 32 * math.prod(_after_convolutions(side) for side in spec.image_size)
        self.mean = nn.Linear(features, latent)
        self.log_variance = nn.Linear(features, latent)

    def forward(self, x: Tensor, statistics: Statistics = "running") -> tuple[Tensor, Tensor]:
        """Mean and log variance ``[B, latent]`` of normalized images ``[B, C, H, W]``."""
        x = self._convolve(x, statistics)
        return self.mean(x), self.log_variance(x)

    def mean_of(self, x: Tensor, statistics: Statistics = "running") -> Tensor:
        """The mean alone."""
        return self.mean(self._convolve(x, statistics))  # type: ignore[no-any-return]

    def _convolve(self, x: Tensor, statistics: Statistics) -> Tensor:
        for i, (convolve, norm) in enumerate(zip(self.convolutions, self.norms, strict=True)):
            x = _batch_norm(convolve(x), norm, statistics)  # type: ignore[arg-type]
            if i < 3:  # no activation after the last convolution in the table
                x = nnf.leaky_relu_(x, LEAK)
        return x.flatten(1)


class ImageDecoder(nn.Module):
    """Two dense layers, three 3x3 and one 8x8 transposed convolution, one 1x1 convolution; no batch normalization.

    The seed image is as large as needed: stride 2 turns h into 16 h + 20 (4 into 84). The rest is cut off.
    """

    def __init__(self, spec: ObservationSpec, latent: int) -> None:
        super().__init__()
        self.size = spec.image_size
        self.seed = tuple(max(1, math.ceil((side - 20) / 16)) for side in self.size)
        self.dense = nn.Sequential(
            nn.Linear(latent, 64), nn.LeakyReLU(LEAK), nn.Linear(64, 64 * math.prod(self.seed)), nn.LeakyReLU(LEAK)
        )
        self.widen = nn.ModuleList(nn.ConvTranspose2d(64, 64, 3, stride=2) for _ in range(3))
        self.last = nn.ConvTranspose2d(64, 32, 8, stride=2)
        self.mix = nn.Conv2d(32, spec.channels, 1)

    def forward(self, z: Tensor) -> Tensor:
        """Reconstructed images ``[B, C, H, W]`` in normalized units."""
        x = self.dense(z).view(-1, 64, *self.seed).to(memory_format=torch.channels_last)
        for deconvolve in self.widen:
            # Adding the bias separately halves the time of a transposed convolution on the CPU.
            x = nnf.conv_transpose2d(x, deconvolve.weight, None, stride=2)  # type: ignore[arg-type]
            x = nnf.leaky_relu_(x.add_(deconvolve.bias.view(1, -1, 1, 1)), LEAK)  # type: ignore[operator]
        return self._last_two_layers(x)[:, :, : self.size[0], : self.size[1]]

    def _last_two_layers(self, x: Tensor) -> Tensor:
        """The 8x8 transposed convolution and the 1x1 one as a single 4x4 convolution whose pixels are shuffled.

        Both are linear, so they are one linear map: the composed kernel gives the same function and
        gradients at an eighth of the arithmetic. At stride 2 each output parity then sees its own 4x4 of the kernel.
        """
        mix = self.mix.weight.flatten(1)  # [C, 32]
        kernel = torch.einsum("iokl,co->ickl", self.last.weight, mix)  # [64, C, 8, 8]
        bias = mix @ self.last.bias + self.mix.bias  # type: ignore[operator]
        by_parity = kernel.reshape(64, -1, 4, 2, 4, 2).flip(2, 4).permute(1, 3, 5, 0, 2, 4)  # [C, 2, 2, 64, 4, 4]
        weight = by_parity.reshape(-1, 64, 4, 4).contiguous(memory_format=torch.channels_last)
        return nnf.pixel_shuffle(nnf.conv2d(x, weight, bias.repeat_interleave(4), padding=3), 2)


class VectorEncoder(nn.Module):
    """Dense 32, 64 (Tanh), 256, then two heads of 256.

    # Deviation: the table says "Dense 256 & Dense 512" for mean and variance, which must have the same size.
    """

    def __init__(self, size: int, latent: int) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(size, 32), nn.Tanh(), nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 256))
        self.heads = nn.Linear(256, 2 * latent)

    def forward(self, x: Tensor, statistics: Statistics = "running") -> tuple[Tensor, Tensor]:  # noqa: ARG002 (same call)
        """Mean and log variance ``[B, latent]`` of vectors ``[B, size]``."""
        mean, log_variance = self.heads(self.trunk(x)).chunk(2, 1)
        return mean, log_variance

    def mean_of(self, x: Tensor, statistics: Statistics = "running") -> Tensor:  # noqa: ARG002 (same call)
        """The mean alone. The last two layers are both linear: composed, they take a tenth of the arithmetic."""
        *hidden, last = self.trunk
        latent = self.heads.out_features // 2
        weight, bias = self.heads.weight[:latent], self.heads.bias[:latent]
        return nnf.linear(nn.Sequential(*hidden)(x), weight @ last.weight, weight @ last.bias + bias)  # type: ignore[operator]


class VAE(nn.Module):
    """Recognition model q(z|s) and generative model p(s|z)."""

    def __init__(self, spec: ObservationSpec, latent: int) -> None:
        super().__init__()
        self.encoder: nn.Module
        self.decoder: nn.Module
        self.is_image, self.latent_dim = spec.kind == "image", latent
        if self.is_image:
            self.encoder, self.decoder = ImageEncoder(spec, latent), ImageDecoder(spec, latent)
        else:
            self.encoder = VectorEncoder(spec.size, latent)
            self.decoder = nn.Sequential(
                nn.Linear(latent, 32), nn.Tanh(), nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, spec.size)
            )

    def normalize(self, features: Tensor) -> Tensor:
        """Λ of Eq. (16): pixels to [-1, 1]; vectors as they are (Sec. 6.3: "no normalization")."""
        return features.mul(1 / 127.5).sub_(1.0) if self.is_image else features

    def encode(self, x: Tensor, statistics: Statistics = "running") -> tuple[Tensor, Tensor]:
        """Mean and log variance of the latent of normalized observations."""
        mean, log_variance = self.encoder(x, statistics)
        return mean, log_variance.clamp(*LOG_VARIANCE)

    def encode_mean(self, x: Tensor, statistics: Statistics = "running") -> Tensor:
        """The mean alone, cheaper."""
        out: Tensor = self.encoder.mean_of(x, statistics)  # type: ignore[operator]
        return out

    def decode(self, z: Tensor) -> Tensor:
        """Reconstruction of a latent, in normalized units."""
        out: Tensor = self.decoder(z)
        return out

    def loss(self, x: Tensor, noise: Tensor, decoder_variance: float) -> tuple[Tensor, Tensor, Tensor]:
        """Mean loss of a batch (Eq. 15), and what to record of it: mean KL and mean squared error, without gradients.

        Args:
            x: normalized observations ``[B, *obs]``.
            noise: ``[B, latent]`` normal noise for the latents.
            decoder_variance: variance of p(s|z).
        """
        mean, log_variance = self.encode(x, "learn")
        reconstruction = self.decode(mean + (0.5 * log_variance).exp() * noise)
        loss = vae_loss(x, reconstruction, mean, log_variance, decoder_variance).mean()
        with torch.no_grad():
            return loss, gaussian_kl(mean, log_variance).mean(), (x - reconstruction).square().mean()


def _after_convolutions(side: int) -> int:
    for _ in range(4):
        side = (side - 3) // 2 + 1
    return side
