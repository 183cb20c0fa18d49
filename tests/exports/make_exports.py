"""Write what torch exports: NAME/1/model.onnx of three small networks, their weights drawn from a seed.

    python tests/exports/make_exports.py

It runs in an environment of its own, with requirements/exports.in. The files are committed, so that the tests need
no torch and a new release of it changes nothing by itself. The input of each is `image`, float32 [batch, 3, 64, 64].
"""

from __future__ import annotations

from pathlib import Path

import onnx
import torch
from torch import Tensor, nn

HERE = Path(__file__).parent
SEED = 20260113
SIDE = 64
CLASSES = 10


class Convolution(nn.Sequential):
    """A convolution of odd size, batch normalization, and what follows them."""

    def __init__(
        self, before: int, after: int, size: int = 3, stride: int = 1, groups: int = 1, then: nn.Module | None = None
    ) -> None:
        super().__init__(
            nn.Conv2d(before, after, size, stride, size // 2, groups=groups, bias=False),
            nn.BatchNorm2d(after),
            *([then] if then is not None else []),
        )


class BasicBlock(nn.Module):
    """ResNet's block of two convolutions; a third brings the input to the same shape where it has another."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(Convolution(before, after, 3, stride, then=nn.ReLU()), Convolution(after, after))
        self.past = nn.Identity() if before == after else Convolution(before, after, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.past(x))


def resnet() -> nn.Module:
    """Return a ResNet of four basic blocks with few channels; its output are scores [batch, 10]."""
    return nn.Sequential(
        Convolution(3, 16, 7, 2, then=nn.ReLU()),
        nn.MaxPool2d(3, 2, 1),
        BasicBlock(16, 16, 1),
        BasicBlock(16, 16, 1),
        BasicBlock(16, 32, 2),
        BasicBlock(32, 32, 1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, CLASSES),
    )


class SqueezeExcite(nn.Module):
    """Weighs each channel by what a small network says to the means of all."""

    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.weigh = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(channels, squeezed, 1),
            nn.ReLU(),
            nn.Conv2d(squeezed, channels, 1),
            nn.Hardsigmoid(),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weigh(x)


class InvertedResidual(nn.Module):
    """MobileNetV3's block: wider, by channel, weighed, and narrow again; the input is added where shapes agree."""

    def __init__(self, before: int, wide: int, after: int, size: int, stride: int, then: nn.Module) -> None:
        super().__init__()
        self.is_added = stride == 1 and before == after
        self.body = nn.Sequential(
            Convolution(before, wide, 1, then=then),
            Convolution(wide, wide, size, stride, groups=wide, then=then),
            SqueezeExcite(wide, 8),
            Convolution(wide, after, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x) if self.is_added else self.body(x)


def mobilenet_v3() -> nn.Module:
    """Return a MobileNetV3 of four blocks; its output are scores [batch, 10]."""
    return nn.Sequential(
        Convolution(3, 16, 3, 2, then=nn.Hardswish()),
        InvertedResidual(16, 16, 16, 3, 2, nn.ReLU()),
        InvertedResidual(16, 48, 24, 3, 2, nn.ReLU()),
        InvertedResidual(24, 72, 24, 5, 1, nn.Hardswish()),
        InvertedResidual(24, 72, 32, 5, 2, nn.Hardswish()),
        Convolution(32, 96, 1, then=nn.Hardswish()),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(96, 128),
        nn.Hardswish(),
        nn.Linear(128, CLASSES),
    )


class Yolo(nn.Module):
    """A detector without anchors over two scales, as YOLOv8's head has it.

    Of each place come a class's probability, by sigmoid, and the distances to a box's four sides, each the mean of
    a softmax over `BINS`. The output is [batch, 4 + classes, boxes]: center, size in pixels, probabilities.
    """

    BINS = 8
    STRIDES = (8, 16)

    def __init__(self) -> None:
        super().__init__()
        self.early = nn.Sequential(
            Convolution(3, 8, 3, 2, then=nn.SiLU()),
            Convolution(8, 16, 3, 2, then=nn.SiLU()),
            Convolution(16, 32, 3, 2, then=nn.SiLU()),
        )
        self.late = Convolution(32, 48, 3, 2, then=nn.SiLU())
        self.up = nn.Upsample(scale_factor=2.0, mode="nearest")
        self.joined = Convolution(32 + 48, 32, then=nn.SiLU())
        self.boxes = nn.ModuleList(nn.Conv2d(channels, 4 * self.BINS, 1) for channels in (32, 48))
        self.classes = nn.ModuleList(nn.Conv2d(channels, CLASSES, 1) for channels in (32, 48))
        centers, strides = [], []
        for stride in self.STRIDES:
            places = (torch.arange(SIDE // stride) + 0.5) * stride
            y, x = torch.meshgrid(places, places, indexing="ij")
            centers.append(torch.stack([x.flatten(), y.flatten()]))
            strides.append(torch.full((x.numel(),), float(stride)))
        self.register_buffer("centers", torch.cat(centers, 1))
        self.register_buffer("strides", torch.cat(strides))
        self.register_buffer("bins", torch.arange(self.BINS, dtype=torch.float32).reshape(1, 1, self.BINS, 1))

    def forward(self, image: Tensor) -> Tensor:
        early = self.early(image)
        late = self.late(early)
        scales = (self.joined(torch.cat([early, self.up(late)], 1)), late)
        boxes = torch.cat([head(scale).flatten(2) for head, scale in zip(self.boxes, scales, strict=True)], 2)
        classes = torch.cat([head(scale).flatten(2) for head, scale in zip(self.classes, scales, strict=True)], 2)
        sides = (boxes.unflatten(1, (4, self.BINS)).softmax(2) * self.bins).sum(2) * self.strides
        first, last = self.centers - sides[:, :2], self.centers + sides[:, 2:]
        return torch.cat([(first + last) / 2, last - first, classes.sigmoid()], 1)


NETWORKS = {"resnet": resnet, "mobilenet_v3": mobilenet_v3, "yolo": Yolo}


def drawn(network: nn.Module) -> nn.Module:
    """Return a network for inference whose answers differ from input to input, as those of a trained one do.

    Fresh normalizations change nothing, and fresh convolutions make less of what they get.
    """
    for part in network.modules():
        if isinstance(part, nn.Conv2d):
            nn.init.kaiming_normal_(part.weight)
        if isinstance(part, nn.BatchNorm2d):
            nn.init.uniform_(part.weight, 0.5, 1.5)
            nn.init.normal_(part.bias, std=0.2)
            nn.init.normal_(part.running_mean, std=0.2)
            nn.init.uniform_(part.running_var, 0.5, 1.5)
    return network.eval()


def without_traces(file: Path) -> None:
    """Take out where each operation stood in the sources: the paths differ from one machine to the next."""
    model = onnx.load(file)
    for part in (*model.graph.node, *model.graph.input, *model.graph.output, *model.graph.value_info):
        del part.metadata_props[:]
    onnx.save(model, file)


def main() -> None:
    for name, build in NETWORKS.items():
        torch.manual_seed(SEED)
        file = HERE / name / "1" / "model.onnx"
        file.parent.mkdir(parents=True, exist_ok=True)
        torch.onnx.export(
            drawn(build()),
            (torch.zeros(2, 3, SIDE, SIDE),),  # of one row, it would be exported for one row alone
            file,
            input_names=["image"],
            output_names=["boxes" if name == "yolo" else "scores"],
            dynamo=True,
            dynamic_shapes=({0: torch.export.Dim("batch")},),
            external_data=False,
            verbose=False,
        )
        without_traces(file)
        print(f"{file.relative_to(HERE)}: {file.stat().st_size} bytes")


if __name__ == "__main__":
    main()
