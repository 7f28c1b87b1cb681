"""`network_of`: a drafter's network with given weights, whose shapes are compared before memory is taken.

Why: sizes come from a file. A few bytes of it could name layers of many gigabytes. And random first weights would be
drawn from torch's global stream, which belongs to the caller of `generate`.
What: the network is made on the meta device, where tensors have shapes only. Then copies of the given tensors take
their places.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import torch
from torch import nn

from structgen.errors import ModelError

__all__ = ["network_of"]

_Network = TypeVar("_Network", bound=nn.Module)


def network_of(make: Callable[[], _Network], tensors: Mapping[str, torch.Tensor], what: str) -> _Network:
    """Return a network with copies of the given tensors as its weights.

    Args:
        make: Makes the network.
        tensors: The weights, by the names of the network's state.
        what: What the tensors are, for messages.

    Raises:
        ModelError: A tensor is missing, there is another one, or one has another shape or no floating-point numbers.
    """
    try:
        with torch.device("meta"):
            network = make()
    except (RuntimeError, TypeError, ValueError, OverflowError) as error:
        raise ModelError(f"{what} do not have possible sizes: {error}") from error
    wanted = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
    for name in (*wanted, *tensors):
        shape = tuple(tensors[name].shape) if name in tensors else None
        if shape != wanted.get(name):
            raise ModelError(
                f"{what} do not have the shapes of their sizes: the tensor {name:.80} "
                f"{_described(shape)}, and {_described(wanted.get(name))} by the sizes"
            )
        if not tensors[name].is_floating_point():
            raise ModelError(f"{what} have the tensor {name:.80} with numbers of type {tensors[name].dtype}")
    network.load_state_dict({name: tensors[name].detach().clone() for name in wanted}, assign=True)
    return network


def _described(shape: tuple[int, ...] | None) -> str:
    return "is absent" if shape is None else f"has the shape {shape}"
