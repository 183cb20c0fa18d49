"""PyTorch's DataLoader with ONNX Runtime, as one writes it by hand: dataloader_onnx.py FOLDER NETWORK"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnxruntime
from PIL import Image
from torch.utils.data import DataLoader, Dataset

WORKERS, BATCH, SIDE = 2, 8, 224


class Photos(Dataset):
    """The pictures of a folder as uint8 [224, 224, 3], prepared as the model's lightbox.json says."""

    def __init__(self, folder: Path) -> None:
        self._files = sorted(folder.iterdir())

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, number: int) -> np.ndarray:
        with Image.open(self._files[number]) as image:
            return np.array(image.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BICUBIC))


def main(folder: str, network: str) -> None:
    """Answer all pictures."""
    session = onnxruntime.InferenceSession(network)
    for batch in DataLoader(Photos(Path(folder)), BATCH, num_workers=WORKERS):
        session.run(None, {"pixels": batch.numpy()})


if __name__ == "__main__":
    main(*sys.argv[1:])
