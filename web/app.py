"""The page's Python, inside the worker: what its buttons call. Answers are JSON texts."""

from __future__ import annotations

import json
from collections.abc import Callable
from time import perf_counter
from typing import Any

import fusedconv
from superres.graph import Graph
from superres.keras import read_model
from superres.lowering import lower
from superres.network import LayerReport, Network, host_tensor
from superres.tiles import Tile, cut, planes

__all__ = ["explain", "load", "measure", "plan", "run", "start"]

# Tiles are as large as is sensible: what is read around each of them is work done twice.
TILE, SOFTWARE_TILE = 256, 160
# The network takes what is outside of a picture for black, which shows up to so many pixels inside.
BORDER = 4
SOFTWARE = ("swiftshader", "llvmpipe", "lavapipe", "basic render", "software")

Deliver = Callable[[Any, str], None]
"""A JavaScript function for (typed array or None, JSON text): an event, or a tile's values."""


class StoppedError(Exception):
    """The visitor pressed Stop."""


class Upscaler:
    """The network on the GPU, in float32 and when asked for in float16."""

    def __init__(self, graph: Graph, tile: int) -> None:
        self._graph = graph
        self._networks: dict[str, Network] = {}
        self._tile = tile
        self._stop = False

    @classmethod
    async def load(cls, model_json: str, shards: list[bytes]) -> Upscaler:
        """Read the model's files as they ship and bring the weights to the GPU."""
        device = await fusedconv.device()
        tile = SOFTWARE_TILE if is_software(device.capabilities) else TILE
        upscaler = cls(lower(read_model(model_json, shards)), tile)
        await upscaler.network("float32")
        return upscaler

    async def network(self, dtype: str) -> Network:
        if dtype not in self._networks:
            self._networks[dtype] = await Network.load(self._graph, dtype)
        return self._networks[dtype]

    def stop(self) -> None:
        """End the run after the layer that is being computed."""
        self._stop = True

    async def run(self, rgba: bytes, width: int, height: int, dtype: str, post: Deliver) -> str:
        """Upscale a picture tile by tile; posts each layer and each finished tile as it comes."""
        self._stop = False
        try:
            return await self._upscale(await self.network(dtype), rgba, width, height, post)
        except fusedconv.DeviceLost:
            self._networks.clear()  # the next run gets a new device, and brings the weights there
            raise

    async def _upscale(
        self, network: Network, rgba: bytes, width: int, height: int, post: Deliver
    ) -> str:
        graph = self._graph
        tiles = list(cut(width, height, self._tile, graph.halo, BORDER))
        shapes = dict.fromkeys((1, 3, tile.read_height, tile.read_width) for tile in tiles)
        for shape in shapes:
            await network.warm(shape, lambda i, n: tell(post, "compiling", done=i, of=n))
        start = perf_counter()
        for i, tile in enumerate(tiles):
            shape = (1, 3, tile.read_height, tile.read_width)
            part = host_tensor(planes(rgba, width, height, tile), shape, network.dtype)
            observer = self._observer(i, len(tiles), post)
            with await fusedconv.array(part) as x, await network(x, observer) as y:
                post(await y.to_js(), json.dumps(placed(tile, int(graph.scale))))
        seconds = perf_counter() - start
        peak = fusedconv.memory().peak
        return json.dumps({"seconds": seconds, "tiles": len(tiles), "peak_memory": peak})

    def _observer(self, tile: int, tiles: int, post: Deliver) -> Callable[[LayerReport], Any]:
        async def observe(layer: LayerReport) -> None:
            count = len(self._graph.steps)
            tell(post, "layer", tile=tile, tiles=tiles, layers=count, layer=vars(layer))
            if self._stop:
                raise StoppedError

        return observe


def placed(tile: Tile, scale: int) -> dict[str, Any]:
    """Where a tile's result goes in the large picture, and which part of it is to be shown."""
    return {
        "type": "tile",
        "left": scale * tile.left,
        "top": scale * tile.top,
        "width": scale * tile.width,
        "height": scale * tile.height,
        "skip_left": scale * (tile.left - tile.read_left),
        "skip_top": scale * (tile.top - tile.read_top),
        "row": scale * tile.read_width,
        "rows": scale * tile.read_height,
    }


def tell(post: Deliver, kind: str, **content: Any) -> None:
    post(None, json.dumps({"type": kind, **content}))


def is_software(capabilities: fusedconv.Capabilities) -> bool:
    """Whether the adapter computes on the processor."""
    info = capabilities.adapter_info
    names = " ".join(str(info.get(key, "")) for key in ("architecture", "device", "description"))
    return bool(info.get("isFallbackAdapter")) or any(name in names.lower() for name in SOFTWARE)


async def start() -> str:
    """Get the device; what it is, or why there is none."""
    import sys

    facts: dict[str, Any] = {"python": sys.version.split()[0], "version": fusedconv.__version__}
    try:
        capabilities = (await fusedconv.device()).capabilities
    except fusedconv.WebGPUUnavailable as error:
        return json.dumps({**facts, "available": False, "reason": str(error)})
    return json.dumps(
        {
            **facts,
            "available": True,
            "info": dict(capabilities.adapter_info),
            "features": sorted(capabilities.features),
            "software": is_software(capabilities),
        }
    )


def explain(request: str) -> str:
    """Every variant's verdict for a request (JSON: arguments of `fusedconv.explain`)."""
    return json.dumps(fusedconv.explain(**json.loads(request)).to_dict())


def plan(request: str) -> str:
    """What a request would run: variant, shapes, passes with their shaders."""
    found = fusedconv.plan(**json.loads(request))
    passes = [
        {"id": p.id, "template": p.template, "wgsl": p.wgsl, "dispatch": p.dispatch}
        for p in found.passes
    ]
    return json.dumps(
        {
            "variant": found.variant,
            "output_shape": found.output_shape,
            "scratch": sum(buffer.nbytes for buffer in found.scratch),
            "passes": passes,
        }
    )


async def measure(request: str) -> str:
    """Run a request on the GPU with random operands: its time, and its error against float64."""
    import trial

    return json.dumps(await trial.measure(json.loads(request)))


async def load(model_json: str, shards: Any) -> Upscaler:
    """`Upscaler.load` for JavaScript: the shards are Uint8Arrays."""
    return await Upscaler.load(model_json, [shard.to_bytes() for shard in shards])


async def run(
    upscaler: Upscaler, rgba: Any, width: int, height: int, dtype: str, post: Deliver
) -> str:
    """`Upscaler.run` for JavaScript: the pixels are a Uint8ClampedArray."""
    return await upscaler.run(rgba.to_bytes(), width, height, dtype, post)
