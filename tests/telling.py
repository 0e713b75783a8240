"""An engine that notes what an error would call the items that it gets."""

from st_static.distill.engines import Processes


class Telling(Processes):
    """Notes the first item of each call, and each that a device gets."""

    def __init__(self) -> None:
        super().__init__(1)
        self.said: list[str] = []

    def map(self, function, items):
        items = list(items)
        self.said.append(str(items[0]))
        return super().map(function, items)

    def map_on_devices(self, function, items):
        items = list(items)
        self.said += dict.fromkeys(map(str, items))
        return super().map_on_devices(function, items)
