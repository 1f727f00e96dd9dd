"""Which recorded graphs are held; recording itself needs a GPU, so what is held here is made elsewhere."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from qwen_image.dit.fused.graphs import MAX_GRAPHS, Graphs

MIB = 1 << 20


class Recorded:
    """What stands where a Graph does: it computes anew."""

    def __init__(self, compute: Callable, inputs: dict[str, torch.Tensor]) -> None:
        self._compute = compute
        self.num_bytes = sum(tensor.nbytes for tensor in inputs.values())

    def replay(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        return self._compute(inputs)


def run(graphs: Graphs, floats: int) -> torch.Tensor:
    return graphs.run(lambda inputs: inputs["x"] + 1, {"x": torch.zeros(floats)}, "constant")


def test_a_shape_is_recorded_once():
    graphs = Graphs(Recorded)
    assert run(graphs, 3).tolist() == run(graphs, 3).tolist() == [1, 1, 1]
    run(graphs, 4)
    assert graphs.misses == 2


@pytest.mark.parametrize(
    ("others", "is_forgotten"), [(range(1, MAX_GRAPHS), False), (range(1, MAX_GRAPHS + 1), True)], ids=str
)
def test_only_so_many_are_held(others, is_forgotten):
    graphs = Graphs(Recorded)
    run(graphs, 1000)
    for floats in others:
        run(graphs, floats)
    before = graphs.misses
    run(graphs, 1000)
    assert (graphs.misses > before) == is_forgotten


def test_and_only_so_many_bytes_the_one_used_longest_ago_goes_first():
    graphs = Graphs(Recorded, max_bytes=4 * MIB)
    first, second, third = (each * MIB // 4 for each in (1, 2, 1.5))
    run(graphs, int(first))
    run(graphs, int(second))
    run(graphs, int(first))  # used since
    run(graphs, int(third))  # 4.5 MiB in all
    assert graphs.misses == 3
    run(graphs, int(first))
    assert graphs.misses == 3
    run(graphs, int(second))
    assert graphs.misses == 4


def test_one_that_is_larger_than_all_may_be_is_held_alone():
    graphs = Graphs(Recorded, max_bytes=MIB)
    run(graphs, MIB)
    run(graphs, MIB)
    assert graphs.misses == 1


def test_if_memory_is_short_those_held_make_room():
    room = [MIB, MIB, 0, MIB]

    def record(compute: Callable, inputs: dict[str, torch.Tensor]) -> Recorded:
        if not room.pop(0):
            raise torch.OutOfMemoryError("no room")
        return Recorded(compute, inputs)

    graphs = Graphs(record)
    run(graphs, 1)
    run(graphs, 2)
    assert run(graphs, 3).tolist() == [1, 1, 1]
    assert room == []


def test_if_memory_is_short_with_none_held_it_is_said():
    def record(compute: Callable, inputs: dict[str, torch.Tensor]) -> Recorded:
        raise torch.OutOfMemoryError("no room")

    with pytest.raises(torch.OutOfMemoryError):
        run(Graphs(record), 1)
