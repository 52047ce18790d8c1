"""A scripted engine with exact timing: in virtual time for studies, behind HTTP for clients.

```
clock = Clock()
engine = VirtualEngine(Rules(), clock=clock)
driver = VirtualDriver(clock, [engine])

with ScriptedServer(Script(slots=4)) as server:
    ...  # server.url
```
"""

from vivace.testing.driver import VirtualDriver
from vivace.testing.job import Job
from vivace.testing.judge import VirtualJudge
from vivace.testing.model import EngineModel
from vivace.testing.rules import Rules, Weights
from vivace.testing.script import Quirks, Script
from vivace.testing.serving import ScriptedServer
from vivace.testing.shape import NO_FILES, SMOL_SHAPE
from vivace.testing.virtual import Clock, VirtualEngine, VirtualRunning

__all__ = [
    "NO_FILES",
    "SMOL_SHAPE",
    "Clock",
    "EngineModel",
    "Job",
    "Quirks",
    "Rules",
    "Script",
    "ScriptedServer",
    "VirtualDriver",
    "VirtualEngine",
    "VirtualJudge",
    "VirtualRunning",
    "Weights",
]
