"""Lets a torchvision built for CUDA be imported beside a CPU build of torch.

Its compiled half cannot load there, and its Python half then fails on two operators that nobody defined. Setup copies
this module into site-packages with a .pth line, so that every interpreter of the environment has it: vLLM inspects
models in fresh ones. It costs nothing until torchvision is imported.
"""

import sys
from importlib.abc import MetaPathFinder


class OperatorDefiner(MetaPathFinder):
    """Defines the missing operators just before torchvision's own import; the real finders do the importing."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname == "torchvision":
            sys.meta_path.remove(self)
            define_missing_operators()


def define_missing_operators():
    import torch

    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    sys.modules[__name__].library = library  # a dropped Library takes its definitions along


sys.meta_path.insert(0, OperatorDefiner())
